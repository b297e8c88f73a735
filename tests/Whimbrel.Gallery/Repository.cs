namespace Whimbrel.Gallery;

/// <summary>Paths of the repository, found by walking up from the test program.</summary>
internal static class Repository
{
    public static string Root { get; } = FindRoot();

    public static string Programs => PathOf("examples/Gallery");

    public static string PathOf(string path) => Path.Combine(Root, path);

    private static string FindRoot()
    {
        for (DirectoryInfo? folder = new(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "Whimbrel.slnx"))) return folder.FullName;
        }

        throw new InvalidOperationException($"No Whimbrel.slnx above {AppContext.BaseDirectory}.");
    }
}
