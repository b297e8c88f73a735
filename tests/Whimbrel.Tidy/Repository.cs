using System.Diagnostics;

namespace Whimbrel.Tidy;

// The repository as the rules see it: tracked (or new and not ignored) text files by relative path with '/'. The root
// is found by walking up from the test program to the folder with Whimbrel.slnx. Files are read once and never written.
internal static class Repository
{
    private static readonly Lazy<string[]> _paths = new(ListPaths);
    private static readonly Lazy<SourceFile[]> _sources = new(() =>
        [.. Paths.Where(p => p.EndsWith(".cs", StringComparison.Ordinal)).Select(p => new SourceFile(p, Read(p)))]);

    public static string Root { get; } = FindRoot();
    public static IReadOnlyList<string> Paths => _paths.Value;

    public static IEnumerable<SourceFile> Sources(params string[] folders) =>
        _sources.Value.Where(f => folders.Any(folder => f.Path.StartsWith(folder, StringComparison.Ordinal)));

    public static IEnumerable<string> PathsEnding(string ending) =>
        Paths.Where(p => p.EndsWith(ending, StringComparison.Ordinal));

    public static string Read(string path) => File.ReadAllText(Path.Combine(Root, path));

    private static string FindRoot()
    {
        for (var folder = new DirectoryInfo(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "Whimbrel.slnx"))) return folder.FullName;
        }
        throw new InvalidOperationException(
            $"No Whimbrel.slnx above {AppContext.BaseDirectory}: run the tests from their place in the repository.");
    }

    private static string[] ListPaths()
    {
        try
        {
            var start = new ProcessStartInfo("git", ["ls-files", "--cached", "--others", "--exclude-standard"])
            {
                WorkingDirectory = Root,
                RedirectStandardOutput = true,
                RedirectStandardError = true
            };
            using var git = Process.Start(start)!;
            var lines = git.StandardOutput.ReadToEnd().Split('\n', StringSplitOptions.RemoveEmptyEntries);
            git.WaitForExit();
            if (git.ExitCode == 0 && lines.Length > 0)
                return [.. lines.Where(p => File.Exists(Path.Combine(Root, p))).Order(StringComparer.Ordinal)];
        }
        catch (System.ComponentModel.Win32Exception)
        {
            // Without git, for example in a source archive, the folders are listed.
        }

        string[] skip = [".git", "bin", "obj", "artifacts", "TestResults"];
        return [.. Directory.EnumerateFiles(Root, "*", SearchOption.AllDirectories)
            .Select(p => Path.GetRelativePath(Root, p).Replace('\\', '/'))
            .Where(p => !p.Split('/').Any(skip.Contains))
            .Order(StringComparer.Ordinal)];
    }
}
