namespace Whimbrel;

// The folder these tests were built in. Not by [CallerFilePath]: a build machine writes "/_/" there.
internal static class SourceTree
{
    internal static string Root { get; } = Find();

    private static string Find()
    {
        string directory = AppContext.BaseDirectory;
        while (!File.Exists(Path.Combine(directory, "Whimbrel.slnx"))) directory = Path.GetDirectoryName(directory)!;
        return directory;
    }
}
