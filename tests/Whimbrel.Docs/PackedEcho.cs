namespace Whimbrel.Docs;

// Packs the core into a folder of its own, takes the README's first program from the page, and builds it there with that
// folder as the only package source and a private package cache: what a reader's first five minutes do, without a network.
public sealed class PackedEcho : IAsyncLifetime
{
    private static readonly TimeSpan _buildLimit = TimeSpan.FromMinutes(5);

    public string Folder { get; } = Directory.CreateTempSubdirectory("whimbrel-docs-").FullName;

    /// Why nothing was built, when the repository does not hold what it takes yet.
    public string? Missing { get; private set; }

    /// What went wrong, with the output of the failed step.
    public string? Failure { get; private set; }

    public string Program => Path.Combine(Folder, "out", "echo.dll");

    public async ValueTask InitializeAsync()
    {
        if (!Repository.HasCore) { Missing = "src/Whimbrel is not there yet"; return; }
        if (!File.Exists(Repository.PathOf("README.md"))) { Missing = "README.md is not there yet"; return; }
        var program = Snippet.Of("README.md", await File.ReadAllTextAsync(Repository.PathOf("README.md"))).FirstOrDefault(s => s.IsProgram);
        if (program is null) { Failure = "README.md:1: no file-based program (a C# fence with a line '#:package Whimbrel@...')"; return; }

        Directory.CreateDirectory(Path.Combine(Folder, "feed"));
        var (code, output) = await Command.RunAsync(Repository.Root, _buildLimit, "dotnet", "pack", "src/Whimbrel/Whimbrel.csproj", "-c", "Release", "-o", Path.Combine(Folder, "feed"), "--nologo");
        if (code != 0) { Failure = $"dotnet pack failed:\n{output}"; return; }

        await File.WriteAllTextAsync(Path.Combine(Folder, "NuGet.config"), """
            <configuration>
              <config><add key="globalPackagesFolder" value="packages" /></config>
              <packageSources><clear /><add key="feed" value="feed" /></packageSources>
              <fallbackPackageFolders><clear /></fallbackPackageFolders>
            </configuration>
            """);
        await File.WriteAllTextAsync(Path.Combine(Folder, "echo.cs"), WithoutNative(program.Code) + "\n");
        (code, output) = await Command.RunAsync(Folder, _buildLimit, "dotnet", "build", "echo.cs", "-o", Path.Combine(Folder, "out"));
        if (code != 0 || !File.Exists(Program)) Failure = $"README.md:{program.Line}: the program does not build from the package:\n{output}";
    }

    public ValueTask DisposeAsync()
    {
        try
        {
            Directory.Delete(Folder, recursive: true);
        }
        catch (IOException)
        {
            // A file still in use stays in the temporary folder.
        }
        return ValueTask.CompletedTask;
    }

    // The SDK takes a file-based program for a native one by default and would ask for a compiler package.
    private static string WithoutNative(string code)
    {
        var lines = code.Split('\n').ToList();
        lines.Insert(lines.FindLastIndex(l => l.StartsWith("#:", StringComparison.Ordinal)) + 1, "#:property PublishAot=false");
        return string.Join('\n', lines);
    }
}
