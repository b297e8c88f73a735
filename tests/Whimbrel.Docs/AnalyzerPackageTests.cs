namespace Whimbrel.Docs;

// The analyzers as a user receives them: with a package that depends on Whimbrel, in a project without settings for
// them, built by the SDK.
public class AnalyzerPackageTests(PackedFeed feed)
{
    private static readonly TimeSpan _limit = TimeSpan.FromMinutes(5);

    [Fact]
    public async Task An_empty_project_with_a_package_of_ours_shows_the_warnings_of_all_analyzers()
    {
        Assert.True(feed.Failure is null, feed.Failure);
        var folder = feed.NewFolder("analyzed");
        await File.WriteAllTextAsync(Path.Combine(folder, "analyzed.csproj"), """
            <Project Sdk="Microsoft.NET.Sdk">
              <PropertyGroup><TargetFramework>net10.0</TargetFramework><OutputType>Exe</OutputType><ImplicitUsings>enable</ImplicitUsings></PropertyGroup>
              <ItemGroup><PackageReference Include="Whimbrel.Http" Version="*" /></ItemGroup>
            </Project>
            """, TestContext.Current.CancellationToken);
        await File.WriteAllTextAsync(Path.Combine(folder, "Program.cs"), """
            using Whimbrel;
            using Whimbrel.Http;

            var options = new EngineOptions { OnDiagnosticEvent = async notice => await Console.Out.WriteLineAsync(notice.Message) };
            Console.WriteLine(options);

            class Room : WebSocketSession
            {
                protected override async void OnConnected() => await Task.Delay(1);

                protected override void OnDrained()
                {
                    Thread.Sleep(1);
                    for (int i = 0; i < 10; i++) Send("raw");
                }
            }
            """, TestContext.Current.CancellationToken);
        var (code, output) = await Command.RunAsync(folder, _limit, "dotnet", "build", "-v:quiet", "-nologo");
        Assert.True(code == 0, output);
        foreach (var expected in (string[])["Program.cs(4,55): warning WHIM0001", "Program.cs(9,35): warning WHIM0002",
            "Program.cs(14,38): warning WHIM0003", "Program.cs(13,9): warning WHIM0004",
            "Program.cs(14,38): warning WHIM0005"])
            Assert.Contains(expected, output, StringComparison.Ordinal);
        // Diagnostics of a compiler that cannot load an analyzer.
        Assert.DoesNotContain("CS8032", output, StringComparison.Ordinal);
        Assert.DoesNotContain("CS9057", output, StringComparison.Ordinal);
    }
}
