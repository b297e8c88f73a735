using static Whimbrel.Tool.Tests.Harness;

namespace Whimbrel.Tool.Tests;

/// <summary>The benchmark harness works with the servers of UDP, on each engine.</summary>
/// <remarks>Quiet, because a load program without CPU time in its short window measures nothing.</remarks>
[Trait("Runs", "quiet")]
public sealed class BenchDatagramTests
{
    [Theory]
    [InlineData("c-udp")]
    [InlineData("c-udp-join")]
    [InlineData("c-udp-gso")]
    [InlineData("socket-udp")]
    [InlineData("whimbrel-udp-epoll")]
    [InlineData("whimbrel-udp-uring")]
    [InlineData("whimbrel-udp-portable")]
    public Task Every_byte_of_a_short_benchmark_over_UDP_is_right(string peer) => EveryByteIsRightAsync(peer);
}
