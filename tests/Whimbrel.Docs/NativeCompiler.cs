using System.Runtime.InteropServices;
using System.Text.RegularExpressions;

namespace Whimbrel.Docs;

// What a publish with PublishAot needs beside the SDK: a linker, and packages of the SDK's own version. The packages
// are brought into the machine's cache, from which the projects of these tests restore.
internal static partial class NativeCompiler
{
    private static readonly TimeSpan _limit = TimeSpan.FromMinutes(5);

    public static string Runtime => RuntimeInformation.RuntimeIdentifier;

    /// Skips the test with the reason if something is missing.
    public static async Task CheckAsync()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The published program is stopped by a signal of Linux.");
        Assert.SkipUnless(Command.Exists("clang") || Command.Exists("gcc"),
            "The linker of native programs is missing: apt-get install clang zlib1g-dev");
        var folder = Directory.CreateTempSubdirectory("whimbrel-native-").FullName;
        try
        {
            await File.WriteAllTextAsync(Path.Combine(folder, "compiler.csproj"), $"""
                <Project Sdk="Microsoft.NET.Sdk">
                  <PropertyGroup>
                    <OutputType>Exe</OutputType>
                    <TargetFramework>net10.0</TargetFramework>
                    <RuntimeIdentifier>{Runtime}</RuntimeIdentifier>
                    <PublishAot>true</PublishAot>
                  </PropertyGroup>
                </Project>
                """);
            var (code, output) = await Command.RunAsync(folder, _limit, "dotnet", "restore");
            Assert.SkipWhen(code != 0 && Unavailable().IsMatch(output),
                $"The compiler of native programs does not restore here: {LastLines(output)}");
            Assert.True(code == 0, output);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    private static string LastLines(string output) =>
        string.Join(' ', output.Split('\n', StringSplitOptions.RemoveEmptyEntries).TakeLast(3)).Trim();

    [GeneratedRegex(@"\bNU110[0-9]\b|\bNU1301\b|\bNETSDK1203\b|Unable to load the service index")]
    private static partial Regex Unavailable();
}
