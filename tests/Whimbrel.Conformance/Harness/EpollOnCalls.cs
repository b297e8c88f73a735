using Whimbrel.Connections;
using Whimbrel.Engines.Epoll;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>The epoll engine with one loop, with system calls that a test counts or replaces.</summary>
internal sealed class EpollOnCalls : Engine
{
    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    internal EpollOnCalls(SocketCalls sockets, EpollCalls? set = null)
        : base("epoll", "by the test", new EngineOptions { Loops = 1, BlockedLoopMs = 60_000 }) =>
        Loops = [new EpollLoop(this, 0, set ?? EpollCalls.System, sockets)];

    internal static void NeedsEpoll() =>
        Assert.SkipUnless(KernelProbe.HasEpoll, "The epoll engine needs Linux on x64 or arm64.");

    internal static async Task UntilAsync(Func<bool> condition)
    {
        long start = Environment.TickCount64;
        while (!condition())
        {
            Assert.True(Environment.TickCount64 - start < Patience.TotalMilliseconds, "It did not happen.");
            await Task.Yield();
        }
    }
}
