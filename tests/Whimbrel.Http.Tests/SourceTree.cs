namespace Whimbrel;

// The source folder of these tests. [CallerFilePath] cannot be used, because a deterministic build replaces it by
// "/_/".
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
