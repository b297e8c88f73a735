using System.Diagnostics;

namespace Whimbrel.Tool.Tests;

/// <summary>The benchmark harness works with the tool's servers on each engine, and its integrity checks can fail.</summary>
public sealed class BenchTests
{
    [Theory]
    [InlineData("whimbrel-epoll")]
    [InlineData("whimbrel-uring")]
    [InlineData("c-uring")]
    [InlineData("whimbrel-portable")]
    public async Task Every_byte_of_a_short_benchmark_is_right(string peer)
    {
        if (peer.Contains("uring", StringComparison.Ordinal)) NeedsUring();
        (int exitCode, string output) = await BenchAsync("--smoke", "--peers", peer, "--no-build");
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("c-tls")]
    [InlineData("whimbrel-tls-portable")]
    [InlineData("whimbrel-tls-openssl")]
    public async Task Every_byte_of_a_short_benchmark_over_TLS_is_right(string peer)
    {
        if (peer.Contains("-openssl", StringComparison.Ordinal)) await Tls.TrustTests.NeedsAsync(TlsProvider.OpenSsl);
        Assert.SkipUnless(File.Exists("/usr/include/openssl/ssl.h"), "the load program needs the headers of OpenSSL (libssl-dev)");
        OtherProgram.Needs("openssl");
        (int exitCode, string output) = await BenchAsync("tls", "--smoke", "--peers", peer, "--no-build");
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_wrong_byte_a_lost_byte_and_a_stall_each_fail_a_run()
    {
        (int exitCode, string output) = await BenchAsync("--self-test");
        Assert.True(exitCode == 0, output);
    }

    private static void NeedsUring()
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

    private static async Task<(int ExitCode, string Output)> BenchAsync(params string[] arguments)
    {
        string root = AppContext.BaseDirectory;
        while (!File.Exists(Path.Combine(root, "Whimbrel.slnx"))) root = Path.GetDirectoryName(root)!;
        foreach (string needed in (string[])["python3", "gcc"])
        {
            string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
            Assert.SkipUnless(folders.Any(f => File.Exists(Path.Combine(f, needed))), $"the load program needs {needed}");
        }

        ProcessStartInfo start = new("python3", [Path.Combine(root, "bench", "run"), .. arguments]) { RedirectStandardOutput = true, RedirectStandardError = true };
        using Process process = Process.Start(start)!;
        using CancellationTokenRegistration kill = TestContext.Current.CancellationToken.Register(() => process.Kill(entireProcessTree: true));
        Task<string> errors = process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        string output = await process.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken);
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        return (process.ExitCode, output + await errors);
    }
}
