namespace Whimbrel.Tidy;

// How a test reports its result: one line per finding, with path and line number.
internal static class Judge
{
    public static void None(IEnumerable<Finding> findings)
    {
        var all = findings.Select(f => f.ToString()).Distinct().Order(StringComparer.Ordinal).ToList();
        if (all.Count > 0) Assert.Fail($"{all.Count} finding(s):\n{string.Join('\n', all)}");
    }

    /// Proves a rule: it finds something, and the first finding contains the given text.
    public static void Finds(string expected, IEnumerable<Finding> findings)
    {
        var all = findings.ToList();
        Assert.True(all.Count > 0, "The rule found nothing in the bad example.");
        Assert.Contains(expected, all[0].ToString(), StringComparison.Ordinal);
    }

    public static CodeModel Model(params (string Path, string Text)[] files) =>
        new(files.Select(f => new SourceFile(f.Path, f.Text)));

    public static SourceFile File(string path, string text) => new(path, text);
}
