using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>
/// One thread of the process that samples every loop periodically. It identifies a callback that takes too long, and
/// reports one that does not return while it blocks. A loop also measures and reports by itself when its turn ends.
/// </summary>
internal static class Watchdog
{
    private const int LookMs = 5;
    private const int IdleLookMs = 50;

    private static readonly Lock s_gate = new();
    private static readonly Standstills s_standstills = new();
    private static Engine[] s_engines = [];
    private static bool s_isRunning;

    internal static void Watch(Engine engine)
    {
        // tidy: allowed because it is the watchdog's own thread, or start and stop of an engine
        lock (s_gate)
        {
            s_engines = [.. s_engines, engine];
            if (s_isRunning) return;
            s_isRunning = true;
        }

        new Thread(Run) { IsBackground = true, Name = "whimbrel-watchdog" }.UnsafeStart();
    }

    internal static void Forget(Engine engine)
    {
        // tidy: allowed because it is the watchdog's own thread, or start and stop of an engine
        lock (s_gate) s_engines = Array.FindAll(s_engines, e => !ReferenceEquals(e, engine));
    }

    /// <summary>Returns the part of this interval in which the whole process did not run. Any thread.</summary>
    internal static long StoodStillMs(long fromMs, long toMs) => s_standstills.Within(fromMs, toMs);

    private static void Run()
    {
        int quiet = 0;
        while (true)
        {
            // The only place that sleeps. It samples more rarely after nothing was busy for a while.
            int restMs = quiet > 20 ? IdleLookMs : LookMs;
            s_standstills.Rests(Engine.CoarseClockMs, restMs);
            Thread.Sleep(restMs);
            s_standstills.Looks(Engine.CoarseClockMs);
            Engine[] engines;
            // tidy: allowed because it is the watchdog's own thread, or start and stop of an engine
            lock (s_gate)
            {
                if (s_engines.Length == 0)
                {
                    s_isRunning = false;
                    NativeHeap.TrimIfWorth();
                    return;
                }

                // Replaced as a whole when it changes, so that sampling allocates nothing.
                engines = s_engines;
            }

            bool isSecondOver = NativeHeap.Look(Engine.CoarseClockMs);
            bool anyBusy = false;
            foreach (Engine engine in engines)
            {
                foreach (Loop loop in engine.Loops)
                {
                    anyBusy |= loop.LookFromOutside(engine.CoarseMs);
                    if (isSecondOver) loop.LookForIdleBlocks();
                }
            }

            quiet = anyBusy ? 0 : quiet + 1;
        }
    }
}
