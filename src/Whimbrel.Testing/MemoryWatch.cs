using System.Diagnostics;
using Whimbrel.Diagnostics;

namespace Whimbrel.Testing;

/// <summary>
/// Checks a <see cref="MemoryEngine"/> every 5 s of real time, and writes once to the standard error stream why nothing
/// happens on it. Does not keep the engine alive. Disabled under a debugger, which suspends everything.
/// </summary>
internal static class MemoryWatch
{
    private static readonly TimeSpan s_every = TimeSpan.FromSeconds(5);

    internal static void Begin(MemoryEngine engine)
    {
        WeakReference<MemoryEngine> weak = new(engine);
        Timer? timer = null;
        // The callback holds the timer, so that it is not collected before its last call.
        timer = new Timer(_ => Look(weak, timer!), null, Timeout.InfiniteTimeSpan, s_every);
        timer.Change(s_every, s_every);
    }

    private static void Look(WeakReference<MemoryEngine> weak, Timer timer)
    {
        if (Debugger.IsAttached) return;
        string? why = null;
        if (weak.TryGetTarget(out MemoryEngine? engine) && (why = engine.FindStandstill()) is null) return;
        timer.Dispose();
        if (why is not null) StandardError.Write($"Whimbrel.Testing: {why}");
    }
}
