using static Whimbrel.Tool.Tests.Harness;

namespace Whimbrel.Tool.Tests;

/// <summary>The benchmark harness works with the servers of TCP, on each engine.</summary>
/// <remarks>Quiet, because a load program without CPU time in its short window measures nothing.</remarks>
[Trait("Runs", "quiet")]
public sealed class BenchBytesTests
{
    [Theory]
    [InlineData("whimbrel-epoll")]
    [InlineData("whimbrel-uring")]
    [InlineData("c-uring")]
    [InlineData("whimbrel-portable")]
    [InlineData("asio")]
    public Task Every_byte_of_a_short_benchmark_is_right(string peer) => EveryByteIsRightAsync(peer);
}
