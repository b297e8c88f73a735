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
    [InlineData("asio")]
    [InlineData("c-udp")]
    [InlineData("c-udp-gso")]
    [InlineData("socket-udp")]
    [InlineData("whimbrel-udp-epoll")]
    [InlineData("whimbrel-udp-uring")]
    [InlineData("whimbrel-udp-portable")]
    public async Task Every_byte_of_a_short_benchmark_is_right(string peer)
    {
        if (peer.Contains("uring", StringComparison.Ordinal)) NeedsUring();
        (int exitCode, string output) = await BenchAsync("--smoke", "--peers", peer, "--no-build");
        Assert.SkipWhen(exitCode == 2 && output.Contains("apt-get install", StringComparison.Ordinal), output);
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_wrong_byte_a_lost_byte_and_a_stall_each_fail_a_run()
    {
        (int exitCode, string output) = await BenchAsync("--self-test");
        Assert.True(exitCode == 0, output);
    }

    [Fact]
    public async Task A_profile_shows_where_the_server_spends_its_time()
    {
        (int exitCode, string output) = await BenchAsync("pingpong-100", "--profile", "c-epoll", "--cpus", "free", "--warmup", "0.1", "--seconds", "1", "--top", "200");
        Assert.SkipWhen(exitCode == 2 && output.Contains("apt-get install", StringComparison.Ordinal), output);
        Assert.SkipWhen(output.Contains("perf does not record", StringComparison.Ordinal), output);
        Assert.True(exitCode == 0, output);
        Assert.Matches(@"
\d+ samples, \d+ a second of CPU: \d+\.\d% kernel, \d+\.\d% user
", output);
        Assert.Matches(@"
 +\d+\.\d%  kernel  \S+", output);
    }

    [Theory]
    [InlineData("--profile takes one scenario", "pingpong-1", "bulk-1", "--profile", "c-epoll")]
    [InlineData("--profile takes one scenario, and not idle", "idle", "--profile", "c-epoll")]
    [InlineData("unknown peer nothing", "pingpong-1", "--profile", "nothing")]
    public async Task A_profile_that_cannot_be_taken_says_why(string expected, params string[] arguments)
    {
        (int exitCode, string output) = await BenchAsync(arguments);
        Assert.Equal(2, exitCode);
        Assert.Contains(expected, output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Ratios_are_given_to_each_base_that_was_named()
    {
        (int exitCode, string output) = await BenchAsync("pingpong-1", "--smoke", "--peers", "c-epoll,broken", "--peer", $"broken={Broken} --fault none --port 0", "--base", "c-epoll,broken");
        Assert.True(exitCode == 0, output);
        Assert.Contains("C/server  C/(server+client)  broken/server  broken/(server+client)", output, StringComparison.Ordinal);
    }

    private static string Broken => Path.Combine(Root, "bench", "peers", "c", "build", "broken");

    private static string Root
    {
        get
        {
            string root = AppContext.BaseDirectory;
            while (!File.Exists(Path.Combine(root, "Whimbrel.slnx"))) root = Path.GetDirectoryName(root)!;
            return root;
        }
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
        foreach (string needed in (string[])["python3", "gcc"])
        {
            string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
            Assert.SkipUnless(folders.Any(f => File.Exists(Path.Combine(f, needed))), $"the load program needs {needed}");
        }

        ProcessStartInfo start = new("python3", [Path.Combine(Root, "bench", "run"), .. arguments]) { RedirectStandardOutput = true, RedirectStandardError = true };
        using Process process = Process.Start(start)!;
        using CancellationTokenRegistration kill = TestContext.Current.CancellationToken.Register(() => process.Kill(entireProcessTree: true));
        Task<string> errors = process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        string output = await process.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken);
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        return (process.ExitCode, output + await errors);
    }
}
