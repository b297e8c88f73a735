using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Text.RegularExpressions;

namespace Whimbrel.TrimSmoke;

// Publishes two small programs trimmed, as one self-contained file, and runs them: trim annotations must also be true.
public sealed partial class TrimTests : IDisposable
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(8);

    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-trim-").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Fact]
    public async Task A_trimmed_single_file_program_is_published_without_warnings_echoes_and_serves_a_site()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The published program is for Linux.");
        string runtime = RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? "linux-arm64" : "linux-x64";
        string project = Path.Combine(Root(), "tests", "Whimbrel.TrimSmoke", "App", "TrimmedPrograms.csproj");
        (int code, string output) = await RunAsync(
            "dotnet",
            "publish", project, "-c", "Release", "-r", runtime, "--self-contained", "--nologo",
            "-p:PublishTrimmed=true", "-p:PublishSingleFile=true", "-p:EnableTrimAnalyzer=true",
            "-p:EnableSingleFileAnalyzer=true", "-p:EnableAotAnalyzer=true", "-p:LibrariesAreBuilt=true",
            // A separate folder for everything, so that the solution's output is not touched.
            $"--artifacts-path={Path.Combine(_folder, "artifacts")}", "-o", Path.Combine(_folder, "published"));
        if (code != 0 && Unavailable().IsMatch(output))
            Assert.Skip($"The runtime pack of {runtime} cannot be restored here: {LastLines(output)}");
        Assert.True(code == 0, output);
        string[] warnings = [.. output.Split('\n').Where(line => Warning().IsMatch(line))];
        Assert.True(warnings.Length == 0, string.Join('\n', warnings));

        string program = Path.Combine(_folder, "published", "TrimmedPrograms");
        string[] files = [.. Directory.EnumerateFiles(Path.Combine(_folder, "published"))
            .Select(f => Path.GetFileName(f)).Where(f => !f.EndsWith(".pdb", StringComparison.Ordinal)
                && !f.EndsWith(".xml", StringComparison.Ordinal))];
        Assert.Equal(["TrimmedPrograms"], files);
        (code, output) = await RunAsync(program, "echo");
        Assert.True(code == 0, output);
        // On a busy machine this diagnostic event may follow, and nothing else.
        Assert.Matches("^(uring|epoll|portable): whimbrel$", Assert.Single(output.Trim().Split('\n'),
            static line => !line.StartsWith("Whimbrel: A callback blocked loop", StringComparison.Ordinal)));
        (code, string site) = await RunAsync(program, "web");
        Assert.True(code == 0, site);
        Assert.Equal("Hello you; {\"text\":\"buy milk\"}; a file; said back; drained", site.Trim().Split('\n')[^1]);
        TestContext.Current.TestOutputHelper!.WriteLine(
            $"{new FileInfo(program).Length / 1024.0 / 1024.0:0.0} MiB, said '{output.Trim()}'");
    }

    [Theory]
    [InlineData("Program.cs(3,1): warning IL2026: Using member 'X' which has 'RequiresUnreferencedCodeAttribute'",
        true)]
    [InlineData("ILC : Trim analysis warning IL2072: Whimbrel.Engine: value", true)]
    [InlineData("  TrimmedPrograms -> /tmp/x/published/", false)]
    [InlineData("  Optimizing assemblies for size. This process might take a while.", false)]
    public void A_warning_of_the_trimmer_is_found(string line, bool expected) =>
        Assert.Equal(expected, Warning().IsMatch(line));

    [GeneratedRegex(@"\bwarning [A-Z]+\d+\b")]
    private static partial Regex Warning();

    [GeneratedRegex(@"\bNU110[0-9]\b|\bNU1301\b|\bNETSDK1112\b|\bNETSDK1082\b|Unable to load the service index")]
    private static partial Regex Unavailable();

    private static string LastLines(string output) =>
        string.Join(' ', output.Split('\n', StringSplitOptions.RemoveEmptyEntries).TakeLast(3)).Trim();

    private static string Root()
    {
        for (DirectoryInfo? folder = new(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "Whimbrel.slnx"))) return folder.FullName;
        }

        throw new InvalidOperationException(
            $"No Whimbrel.slnx above {AppContext.BaseDirectory}: run the tests from their place in the repository.");
    }

    private static async Task<(int ExitCode, string Output)> RunAsync(string program, params string[] arguments)
    {
        ProcessStartInfo start = new(program, arguments)
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true
        };
        // A test run started by the SDK inherits its settings.
        foreach (string name in start.Environment.Keys.Where(static k => k.StartsWith("MSBUILD",
            StringComparison.OrdinalIgnoreCase) || k.StartsWith("TESTINGPLATFORM", StringComparison.OrdinalIgnoreCase))
            .ToList())
            start.Environment.Remove(name);
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        start.Environment["UseSharedCompilation"] = "false";
        start.Environment.Remove("WHIMBREL_ENGINE");
        using Process process = Process.Start(start)!;
        process.StandardInput.Close();
        Task<string> output = process.StandardOutput.ReadToEndAsync();
        Task<string> errors = process.StandardError.ReadToEndAsync();
        using CancellationTokenSource limit =
            CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        limit.CancelAfter(s_patience);
        try
        {
            await process.WaitForExitAsync(limit.Token);
        }
        catch (OperationCanceledException)
        {
            process.Kill(entireProcessTree: true);
            throw new TimeoutException($"{program} did not end within {s_patience}.");
        }

        return (process.ExitCode, await output + await errors);
    }
}
