using static Whimbrel.Tool.Tests.Harness;

namespace Whimbrel.Tool.Tests;

/// <summary>The benchmark harness works with the servers of TCP and UDP, on each engine.</summary>
/// <remarks>Quiet, because a load program that does not get the cpu in a short window has nothing to show.</remarks>
[Trait("Runs", "quiet")]
public sealed class BenchBytesTests
{
    [Theory]
    [InlineData("whimbrel-epoll")]
    [InlineData("whimbrel-uring")]
    [InlineData("c-uring")]
    [InlineData("whimbrel-portable")]
    [InlineData("asio")]
    [InlineData("c-udp")]
    [InlineData("c-udp-join")]
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
}
