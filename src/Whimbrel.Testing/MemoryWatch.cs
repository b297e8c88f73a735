using System.Diagnostics;
using Whimbrel.Diagnostics;

namespace Whimbrel.Testing;

/// <summary>
/// Looks at a <see cref="MemoryEngine"/> every 5 s of real time, and writes to the standard error stream, once, why nothing happens on it. It does not keep
/// the engine alive. Quiet under a debugger, where everything stands still.
/// </summary>
internal static class MemoryWatch
{
    private static readonly TimeSpan s_every = TimeSpan.FromSeconds(5);

    internal static void Begin(MemoryEngine engine)
    {
        WeakReference<MemoryEngine> weak = new(engine);
        Timer? timer = null;
        // The callback holds the timer, so that it is not collected before its last look.
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
