using Whimbrel.Connections;
using Whimbrel.Engines.Uring;

namespace Whimbrel.Conformance;

/// <summary>The io_uring engine with one loop, on a ring of the running kernel, with socket calls that a test counts or
/// replaces.</summary>
internal sealed class UringOnCalls : Engine
{
    internal UringOnCalls(SocketCalls sockets)
        : base("uring", "by the test", new EngineOptions { Loops = 1, BlockedLoopMs = 60_000 }) =>
        Loops = [new UringLoop(this, 0, UringLoop.OpenRing, sockets)];

    internal static void NeedsUring() => Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);
}
