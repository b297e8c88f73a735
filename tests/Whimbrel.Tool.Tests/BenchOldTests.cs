using static Whimbrel.Tool.Tests.Harness;

namespace Whimbrel.Tool.Tests;

/// <summary>
/// The benchmark harness works with the servers of the old APIs, and with their own performance programs.
/// </summary>
/// <remarks>Quiet, because a load program without CPU time in its short window measures nothing.</remarks>
[Trait("Runs", "quiet")]
public sealed class BenchOldTests
{
    // Each kind of server written for the old APIs; all rows in deep runs.
    [Theory]
    [InlineData("netcoreserver-epoll", "pingpong-100 unix-pingpong-100 tls-pingpong-100 udp-echo-32 http-pipelined-100 "
        + "https-100 ws-64k ws-room-100 ws-oneway-64k", "0.1")]
    [InlineData("netcoreserver-epoll-loop", "pingpong-100 http-100 ws-32-100", "0.1")]
    [InlineData("csharpserver", "pingpong-100 tls-pingpong-100 udp-echo-32", "0.1")]
    [InlineData("csharpserver-loop", "bulk-1", "0.1")]
    // These programs send a million messages and sleep for the rest of the second: a shorter window may fall into the
    // sleep.
    [InlineData("netcoreserver-epoll", "push-100", "1.2")]
    [InlineData("csharpserver", "push-100", "1.2")]
    public async Task Every_byte_of_a_short_benchmark_of_the_old_APIs_is_right(string peer, string scenarios,
        string seconds)
    {
        Assert.SkipUnless(File.Exists("/usr/include/openssl/ssl.h"),
            "The load program needs the headers of OpenSSL (libssl-dev).");
        OtherProgram.Needs("openssl");
        (int exitCode, string output) = await BenchAsync([.. scenarios.Split(' '), "--smoke", "--seconds", seconds,
            "--peers", peer, "--no-build"]);
        Assert.True(exitCode == 0, output);
        Assert.DoesNotContain("FAILED", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Old_programs_are_measured_in_pairs_and_what_their_clients_complain_of_fails_a_run()
    {
        (int exitCode, string output) = await BenchInAsync(Root, "old", "tcp-echo", "udp-echo", "uds-multicast",
            "https-trace", "proto", "--clients", "3", "--seconds", "1", "--rate", "1000", "--no-build");
        Assert.True(exitCode == 0, output);
        foreach (string row in (ReadOnlySpan<string>)["tcp-echo +W1",
            "udp-echo +W2", "uds-multicast +W3", "https-trace +W5", "proto +W6"])
            Assert.Matches(row + @" +[\d.]+ ?[kM]? +[\d.]+ [num]s", output);
        (exitCode, output) = await BenchInAsync(Root, "old", "--self-test");
        Assert.True(exitCode == 0, output);
        (exitCode, output) = await BenchInAsync(Root, "old", "nothing");
        Assert.Equal((2, true), (exitCode, output.Contains("there is no nothing", StringComparison.Ordinal)));
    }
}
