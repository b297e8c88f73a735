using System.Diagnostics;

namespace Whimbrel.Tool.Tests;

/// <summary>The programs of bench, started as a user starts them.</summary>
internal static class Harness
{
    internal static string Root => SourceTree.Root;

    internal static void NeedsUring()
    {
        try
        {
            _ = new Engine(new EngineOptions { Kind = EngineKind.Uring });
        }
        catch (PlatformNotSupportedException e)
        {
            Assert.Skip(e.Message);
        }
    }

    /// <summary>Runs all scenarios of this peer, briefly.</summary>
    internal static async Task EveryByteIsRightAsync(string peer)
    {
        if (peer.Contains("uring", StringComparison.Ordinal)) NeedsUring();
        (int exitCode, string output) = await BenchAsync("--smoke", "--seconds", "0.1", "--peers", peer, "--no-build");
        Assert.SkipWhen(exitCode == 2 && output.Contains("apt-get install", StringComparison.Ordinal), output);
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    internal static Task<(int ExitCode, string Output)> BenchAsync(params string[] arguments) =>
        BenchInAsync(Root, "run", arguments);

    internal static async Task<(int ExitCode, string Output)> BenchInAsync(string root, string program,
        params string[] arguments)
    {
        foreach (string needed in (string[])["python3", "gcc"])
        {
            string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
            Assert.SkipUnless(folders.Any(f => File.Exists(Path.Combine(f, needed))),
                $"The load program needs {needed}.");
        }

        ProcessStartInfo start = new("python3", [Path.Combine(root, "bench", program), .. arguments])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true
        };
        if (arguments.Contains("--smoke"))
            start.Environment["WHIMBREL_BENCH_TOOL"] = BuiltProgram.PathOf("Whimbrel.Tool");
        using Process process = Process.Start(start)!;
        using CancellationTokenRegistration kill =
            TestContext.Current.CancellationToken.Register(() => process.Kill(entireProcessTree: true));
        Task<string> errors = process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        string output = await process.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken);
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        return (process.ExitCode, output + await errors);
    }
}
