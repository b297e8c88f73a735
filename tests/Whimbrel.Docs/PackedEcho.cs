namespace Whimbrel.Docs;

// Extracts the README's first program and builds it with the packages of this repository, offline, as a user's first
// steps do.
public sealed class PackedEcho(PackedFeed feed) : IAsyncLifetime
{
    private static readonly TimeSpan _buildLimit = TimeSpan.FromMinutes(5);

    public string Folder { get; } = feed.NewFolder("echo");

    /// Why nothing was built, if the repository does not contain what is needed.
    public string? Missing { get; private set; }

    /// The error, with the output of the failed step.
    public string? Failure { get; private set; }

    public string Program => Path.Combine(Folder, "out", "echo.dll");

    public async ValueTask InitializeAsync()
    {
        if (!File.Exists(Repository.PathOf("README.md"))) { Missing = "README.md does not exist yet."; return; }
        var program = Snippet.Of("README.md", await File.ReadAllTextAsync(Repository.PathOf("README.md")))
            .FirstOrDefault(s => s.IsProgram);
        if (program is null)
        {
            Failure = "README.md:1: no file-based program (a C# fence with a line '#:package Whimbrel@...')";
            return;
        }
        if (feed.Failure is not null) { Failure = feed.Failure; return; }

        await File.WriteAllTextAsync(Path.Combine(Folder, "echo.cs"), WithoutNative(program.Code) + "\n");
        var (code, output) = await Command.RunAsync(Folder, _buildLimit, "dotnet", "build", "echo.cs", "-o",
            Path.Combine(Folder, "out"));
        if (code != 0 || !File.Exists(Program))
            Failure = $"README.md:{program.Line}: the program does not build from the package:\n{output}";
    }

    public ValueTask DisposeAsync() => ValueTask.CompletedTask; // the folder belongs to the feed

    // By default the SDK publishes a file-based program with native AOT, which requires a compiler package.
    private static string WithoutNative(string code)
    {
        var lines = code.Split('\n').ToList();
        lines.Insert(lines.FindLastIndex(l => l.StartsWith("#:", StringComparison.Ordinal)) + 1,
            "#:property PublishAot=false");
        return string.Join('\n', lines);
    }
}
