using System.Reflection;
using Whimbrel.Docs;

[assembly: AssemblyFixture(typeof(PackedFeed))]

namespace Whimbrel.Docs;

// All packages of this repository, packed once for all tests from the existing build, in a folder that serves as
// package source. Restored packages go into a separate cache: the machine's own cache is read only.
public sealed class PackedFeed : IAsyncLifetime
{
    private static readonly TimeSpan _limit = TimeSpan.FromMinutes(5);

    public string Folder { get; } = Directory.CreateTempSubdirectory("whimbrel-feed-").FullName;

    public string Feed => Path.Combine(Folder, "feed");

    /// The error, with the output of the failed step.
    public string? Failure { get; private set; }

    /// Configuration of this build, which the packages use as well.
    public static string Configuration { get; } = Metadata("Configuration");

    public async ValueTask InitializeAsync()
    {
        var project = Path.Combine(Folder, "all.proj");
        await File.WriteAllTextAsync(project, $"""
            <Project>
              <ItemGroup><Packed Include="{Repository.PathOf("src")}/*/*.csproj;{Repository.PathOf("templates")}/*.csproj" /></ItemGroup>
              <Target Name="Pack">
                <MSBuild Projects="@(Packed)" Targets="Pack" BuildInParallel="true" Properties="Configuration={Configuration};NoBuild=true;PackageOutputPath={Feed}" />
              </Target>
            </Project>
            """);
        var (code, output) = await Command.RunAsync(Folder, _limit, "dotnet", "msbuild", project, "-t:Pack", "-m:2",
            "-nologo", "-v:quiet", "-clp:NoSummary");
        if (code != 0) { Failure = $"The packages could not be made:\n{output}"; return; }
        if (output.Contains("warning", StringComparison.Ordinal)) Failure = $"Packing warns:\n{output}";

        // Applies to every project in a folder below. The machine's cache contains what the build has restored, so no
        // network is needed.
        await File.WriteAllTextAsync(Path.Combine(Folder, "NuGet.config"), $"""
            <configuration>
              <config><add key="globalPackagesFolder" value="packages" /></config>
              <packageSources><clear /><add key="feed" value="feed" /><add key="machine" value="{Metadata("PackageRoot")}" /></packageSources>
              <packageSourceMapping>
                <packageSource key="feed"><package pattern="Whimbrel*" /></packageSource>
                <packageSource key="machine"><package pattern="*" /></packageSource>
              </packageSourceMapping>
              <fallbackPackageFolders><clear /></fallbackPackageFolders>
            </configuration>
            """);
    }

    /// A new folder; its projects restore from this feed.
    public string NewFolder(string name) => Directory.CreateDirectory(Path.Combine(Folder, name)).FullName;

    public ValueTask DisposeAsync()
    {
        try
        {
            Directory.Delete(Folder, recursive: true);
        }
        catch (IOException)
        {
            // A file in use is left in the temporary folder.
        }
        return ValueTask.CompletedTask;
    }

    private static string Metadata(string key) =>
        typeof(PackedFeed).Assembly.GetCustomAttributes<AssemblyMetadataAttribute>().First(a => a.Key == key).Value!;
}
