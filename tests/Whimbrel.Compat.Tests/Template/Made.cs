namespace Whimbrel.Compat.Tests.Template;

/// <summary>Generated files of the tree. WHIMBREL_ACCEPT_TEMPLATE=1 writes them.</summary>
internal static class Made
{
    internal static string Root { get; } = FindRoot();

    internal static void Check(IEnumerable<(string Path, string Text)> files)
    {
        List<string> different = [];
        foreach ((string path, string text) in files)
        {
            if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_TEMPLATE") == "1") File.WriteAllText(path, text);
            if (!File.Exists(path) || File.ReadAllText(path) != text) different.Add(Path.GetFileName(path));
        }

        Assert.Equal([], different);
    }

    private static string FindRoot()
    {
        for (DirectoryInfo? folder = new(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "Whimbrel.slnx"))) return folder.FullName;
        }

        throw new InvalidOperationException("The tests run from their place in the repository.");
    }
}
