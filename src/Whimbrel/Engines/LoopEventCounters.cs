using System.Diagnostics.Tracing;
using System.Globalization;
using Whimbrel.Diagnostics;

namespace Whimbrel.Engines;

/// <summary>
/// Counters of one loop in the event source "Whimbrel", at the interval that its listener requests: the numbers of
/// <see cref="LoopCounters"/>, and for counts the increase since the last interval. They are read on the listener's
/// thread, so a message costs the same with and without a listener.
/// </summary>
internal sealed class LoopEventCounters : IDisposable
{
    // tidy: allowed because it changes when engines start and stop, and when listeners come and go
    private static readonly Lock s_gate = new();
    private static readonly Dictionary<Loop, LoopEventCounters> s_ofLoops = [];
    private static bool s_isHeard;

    private readonly EventSource _source;
    private readonly Loop _loop;
    private readonly List<DiagnosticCounter> _all = [];

    private LoopEventCounters(EventSource source, Loop loop)
    {
        _source = source;
        _loop = loop;
        Count("loop-turns", "turns", static c => c.Turns);
        Count("loop-empty-turns", "turns without events", static c => c.EmptyTurns);
        Count("loop-blocked-turns", "turns that a callback blocked", static c => c.BlockedTurns);
        Count("loop-completions", "completions", static c => c.Completions);
        Ratio("loop-completions-per-turn", "completions per turn", "", static c => c.Completions, static c => c.Turns);
        Count("loop-wakes", "wakes", static c => c.Wakes);
        Count("loop-receives", "receives", static c => c.Receives);
        Count("loop-parked-receives", "receives that waited for a buffer", static c => c.ReceivesParked);
        Count("loop-sends", "sends", static c => c.Sends);
        Ratio("loop-bytes-per-send", "bytes per send", "By", static c => c.BytesSent, static c => c.Sends);
        Value("loop-connections", "connections", "", static loop => loop.ReadCounters().Connections);
        Value("loop-timers", "timers", "", static loop => loop.ReadCounters().Timers);
        Value("loop-queue-bytes", "bytes that wait to be sent", "By", static loop => loop.BytesPending);
    }

    /// <summary>
    /// Creates missing counters and disposes those of ended loops; all of them if there is no listener. Not called
    /// under locks, because it takes locks of the runtime under which listeners are called.
    /// </summary>
    internal static void Update()
    {
        WhimbrelEventSource source = WhimbrelEventSource.Log;
        // tidy: allowed because no loop runs this
        lock (s_gate)
        {
            if (!s_isHeard)
            {
                s_isHeard = true;
                WhimbrelEventSource.CountLoopsBy(static () => LoopMetrics.Loops.Count);
                source.EventCommandExecuted += static (_, _) => Update();
            }

            HashSet<Loop> wanted = source.IsEnabled() ? [.. LoopMetrics.Loops] : [];
            foreach ((Loop loop, LoopEventCounters counters) in s_ofLoops)
            {
                if (wanted.Contains(loop)) continue;
                counters.Dispose();
                s_ofLoops.Remove(loop);
            }

            foreach (Loop loop in wanted)
            {
                if (!s_ofLoops.ContainsKey(loop)) s_ofLoops.Add(loop, new LoopEventCounters(source, loop));
            }
        }
    }

    private void Count(string name, string shown, Func<LoopCounters, long> count) => Add(
        // tidy: allowed because no loop runs this
        new IncrementingPollingCounter(name, _source, () => count(_loop.ReadCounters()))
        {
            DisplayName = shown,
            DisplayRateTimeScale = TimeSpan.FromSeconds(1)
        });

    private void Value(string name, string shown, string unit, Func<Loop, double> value) =>
        // tidy: allowed because no loop runs this
        Add(new PollingCounter(name, _source, () => value(_loop)) { DisplayName = shown, DisplayUnits = unit });

    /// <summary>Adds a ratio of the increases since the last interval; 0 if there was none.</summary>
    private void Ratio(string name, string shown, string unit, Func<LoopCounters, long> of, Func<LoopCounters, long> by)
    {
        LoopCounters last = _loop.ReadCounters();
        Add(new PollingCounter(name, _source, Next) { DisplayName = shown, DisplayUnits = unit });

        double Next()
        {
            LoopCounters now = _loop.ReadCounters();
            long parts = by(now) - by(last);
            double mean = parts == 0 ? 0 : (double)(of(now) - of(last)) / parts;
            last = now;
            return mean;
        }
    }

    private void Add(DiagnosticCounter counter)
    {
        counter.AddMetadata("whimbrel.engine", _loop.Engine.KindName);
        counter.AddMetadata("whimbrel.loop", _loop.Index.ToString(CultureInfo.InvariantCulture));
        _all.Add(counter);
    }

    public void Dispose()
    {
        foreach (DiagnosticCounter each in _all) each.Dispose();
    }
}
