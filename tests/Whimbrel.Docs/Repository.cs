namespace Whimbrel.Docs;

// Paths of the documents and the sources, found by walking up from the test program to the folder with Whimbrel.slnx.
internal static class Repository
{
    public static string Root { get; } = FindRoot();

    public static bool HasCore => File.Exists(PathOf("src/Whimbrel/Whimbrel.csproj"));

    public static string PathOf(string path) => Path.Combine(Root, path);

    private static string FindRoot()
    {
        for (var folder = new DirectoryInfo(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "Whimbrel.slnx"))) return folder.FullName;
        }
        throw new InvalidOperationException(
            $"No Whimbrel.slnx above {AppContext.BaseDirectory}: run the tests from their place in the repository.");
    }
}
