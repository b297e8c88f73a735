namespace Whimbrel.Tidy;

// The text of the repository may only become plainer: each ceiling is lowered when a folder has been rewritten.
public class WordTests
{
    private static readonly Lazy<(string Name, string Line, IReadOnlyList<string> Above)[]> s_found = new(static () =>
        [.. Texts().Select(static t => (t.Name, Words.Judge(t.Text, t.Ceilings)))
            .Select(static t => (t.Name, t.Item2.Line, t.Item2.Above))]);

    private static IEnumerable<(string Name, string Text, double[] Ceilings)> Texts()
    {
        yield return ("src", Words.CommentsOf(Repository.Sources("src/")), [3, 1.2, 1, 1.2, 0.9]);
        yield return ("tests", Words.CommentsOf(Repository.Sources("tests/")), [0.8, 0.5, 0.5, 0.6, 0.3]);
        yield return ("docs", Pages(static p => p.StartsWith("docs/", StringComparison.Ordinal) || p == "README.md"
            || p.EndsWith("PACKAGE.md", StringComparison.Ordinal)), [3, 0.6, 0.9, 1.2, 0.6]);
    }

    private static string Pages(Func<string, bool> picks) =>
        string.Join('\n', Repository.PathsEnding(".md").Where(picks).Select(Repository.Read));

    internal static IEnumerable<string> Lines => s_found.Value.Select(static t => $"tidy, {t.Name}: {t.Line}");

    [Fact]
    public void The_text_gets_no_less_plain()
    {
        var above = s_found.Value.SelectMany(static t => t.Above.Select(o => $"{t.Name}: {o}")).ToList();
        Assert.True(above.Count == 0,
            $"{string.Join('\n', above)}\nSay which thing does what (STYLE.md), in new text first.");
    }

    [Fact]
    public void Personifying_words_are_found()
    {
        const string Text = "Who waits is told; nobody goes on behind it.";
        Assert.Equal(5, Words.Judge(Text, 0, 0, 0, 0, 0).Above.Count);
        Assert.Empty(Words.Judge("The caller waits until the loop has sent the message.", 0, 0, 0, 0, 0).Above);
        Assert.Equal("// a comment\n/// <summary>More.</summary>\n", Words.CommentsOf([Judge.File("a.cs",
            "// a comment\nclass A\n{\n    /// <summary>More.</summary>\n    string B => \"who\";\n}")])
            .Replace("    ", "", StringComparison.Ordinal));
    }
}
