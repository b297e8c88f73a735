using System.Collections.Concurrent;
using System.Diagnostics.Metrics;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>Instruments of loops in the meter.</summary>
internal static class LoopMetrics
{
    // tidy: allowed because it changes at start and stop of engines, and is read by listeners
    private static readonly ConcurrentDictionary<Loop, KeyValuePair<string, object?>[]> s_loops = new();
    private static int s_isMade;

    internal static void EngineStarted(Engine engine)
    {
        foreach (Loop loop in engine.Loops)
            s_loops[loop] = [new("whimbrel.engine", engine.KindName), new("whimbrel.loop", loop.Index)];
        WhimbrelMeter.MakeOnce(ref s_isMade, Make);
    }

    internal static void EngineStopped(Engine engine)
    {
        foreach (Loop loop in engine.Loops) s_loops.TryRemove(loop, out _);
    }

    private static void Make()
    {
        Meter meter = WhimbrelMeter.Instance;
        meter.CreateObservableUpDownCounter("whimbrel.loop.connections", static () =>
            OfLoops(static c => Volatile.Read(ref c.ConnectionsOpened) - Volatile.Read(ref c.ConnectionsClosed)),
            "{connection}", "Connections of a loop.");
        meter.CreateObservableCounter("whimbrel.loop.turns",
            static () => OfLoops(static c => Volatile.Read(ref c.Turns)), "{turn}",
            "Turns of a loop: one wait and the delivery of its events.");
        meter.CreateObservableCounter("whimbrel.loop.empty_turns",
            static () => OfLoops(static c => Volatile.Read(ref c.EmptyTurns)), "{turn}",
            "Turns with a wait that returned no event.");
        meter.CreateObservableCounter("whimbrel.loop.completions",
            static () => OfLoops(static c => Volatile.Read(ref c.Completions)), "{completion}",
            "Events that the kernel has reported to a loop.");
        meter.CreateObservableCounter("whimbrel.loop.blocked_turns",
            static () => OfLoops(static c => Volatile.Read(ref c.BlockedTurns)), "{turn}",
            "Turns that a callback blocked for longer than BlockedLoopMs.");
        meter.CreateObservableUpDownCounter("whimbrel.loop.block_memory",
            static () => OfEach(static loop => loop.Blocks.HeldBytes), "By",
            "Native memory of a loop's blocks, in use or kept for reuse.");
        meter.CreateObservableUpDownCounter("whimbrel.loop.engine_memory",
            static () => OfLoops(static c => Volatile.Read(ref c.EngineBytes)), "By",
            "Native memory in which a loop receives, and the queues that it shares with the kernel.");
        meter.CreateObservableUpDownCounter("whimbrel.loop.tls_connections",
            static () => OfEach(static loop => loop.NativeTlsCount), "{connection}",
            "Connections with TLS state in the native memory of OpenSSL.");
        meter.CreateObservableUpDownCounter("whimbrel.native_heap.usage", OfHeap, "By",
            "Memory that the C allocator of the process has given out, or keeps for reuse.");
        BroadcastMetrics.Make();
    }

    private static IEnumerable<Measurement<long>> OfLoops(Func<LoopTally, long> number)
    {
        foreach ((Loop loop, KeyValuePair<string, object?>[] labels) in s_loops)
            yield return new Measurement<long>(number(loop.Counters), labels);
    }

    private static IEnumerable<Measurement<long>> OfHeap()
    {
        if (NativeHeap.Read() is not var (used, free)) yield break;
        yield return new Measurement<long>(used, new KeyValuePair<string, object?>("whimbrel.heap.state", "used"));
        yield return new Measurement<long>(free, new KeyValuePair<string, object?>("whimbrel.heap.state", "free"));
    }

    private static IEnumerable<Measurement<long>> OfEach(Func<Loop, long> number)
    {
        foreach ((Loop loop, KeyValuePair<string, object?>[] labels) in s_loops)
            yield return new Measurement<long>(number(loop), labels);
    }
}
