namespace Whimbrel.Docs;

// Projects of all templates: installed from the packed feed into a separate hive, created as a user does, and built
// together. Three names are those of the README: a template's class must not have the name of its own namespace.
public sealed class MadeProjects(PackedFeed feed) : IAsyncLifetime
{
    public static readonly TimeSpan Limit = TimeSpan.FromMinutes(5);

    public static IReadOnlyList<(string Template, string Name)> Projects { get; } =
        [("whimbrel-echo", "Echo"), ("whimbrel-chat", "Chat"), ("whimbrel-web", "Notes"), ("whimbrel-web", "My-Site")];

    private string? _failure;

    public string FolderOf(string name) => Path.Combine(feed.Folder, "made", name.Split('.')[0]);

    public string ProgramOf(string name) => Path.Combine(FolderOf(name), name.Contains('.',
        StringComparison.Ordinal) ? "tests/bin/Release/net10.0" : "bin/Release/net10.0", name + ".dll");

    private string Hive => Path.Combine(feed.Folder, "hive");

    public void Check() => Assert.True(_failure is null, _failure);

    public async ValueTask InitializeAsync()
    {
        _failure = feed.Failure;
        if (_failure is not null) return;
        var folder = feed.NewFolder("made");
        var package = Directory.EnumerateFiles(feed.Feed, "Whimbrel.Templates.*.nupkg").Single();
        await RunAsync(folder, "new", "install", package, "--debug:custom-hive", Hive);
        foreach (var (template, name) in Projects)
            await RunAsync(folder, "new", template, "-o", name, "--debug:custom-hive", Hive, "--no-update-check");

        var all = Path.Combine(folder, "all.proj");
        await File.WriteAllTextAsync(all, """
            <Project>
              <ItemGroup><Made Include="*/*.csproj;*/tests/*.csproj" /></ItemGroup>
              <Target Name="Restore"><MSBuild Projects="@(Made)" Targets="Restore" Properties="Configuration=Release" /></Target>
              <Target Name="Build"><MSBuild Projects="@(Made)" Targets="Build" Properties="Configuration=Release;TreatWarningsAsErrors=true" BuildInParallel="true" /></Target>
            </Project>
            """);
        await RunAsync(folder, "msbuild", all, "-restore", "-t:Build", "-m:2", "-nologo", "-v:quiet", "-clp:NoSummary");
    }

    /// Makes one more project, which is not built.
    public async Task MakeAsync(string template, string name, params string[] options)
    {
        await RunAsync(feed.Folder, ["new", template, "-o", FolderOf(name), "--debug:custom-hive", Hive,
            "--no-update-check", .. options]);
        Check();
    }

    public ValueTask DisposeAsync() => ValueTask.CompletedTask; // the folder belongs to the feed

    private async Task RunAsync(string folder, params string[] arguments)
    {
        if (_failure is not null) return;
        var (code, output) = await Command.RunAsync(folder, Limit, "dotnet", arguments);
        if (code != 0) _failure = $"dotnet {string.Join(' ', arguments)}:\n{output}";
    }
}
