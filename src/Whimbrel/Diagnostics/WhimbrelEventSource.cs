using System.Diagnostics.Tracing;
using Whimbrel.Engines;

namespace Whimbrel.Diagnostics;

/// <summary>The event source "Whimbrel": notices, engines that have started, a moment later, and counters of their loops. Off unless somebody listens.</summary>
[EventSource(Name = "Whimbrel")]
internal sealed class WhimbrelEventSource : EventSource
{
    internal static readonly WhimbrelEventSource Log = new();

    private readonly Lock _gate = new();
    private readonly Dictionary<Loop, LoopEventCounters> _counters = [];

    [Event(1, Level = EventLevel.Warning)]
    public void Notice(string kind, string message, string page) => WriteEvent(1, kind, message, page);

    [Event(2, Level = EventLevel.Informational)]
    public void EngineStarted(string engine, string reason, int loops) => WriteEvent(2, engine, reason, loops);

    /// <summary>Makes the counters that are missing and ends those of loops that are gone; all of them when nobody listens.</summary>
    [NonEvent]
    internal void UpdateCounters()
    {
        lock (_gate)
        {
            HashSet<Loop> wanted = IsEnabled() ? [.. LoopMetrics.Loops] : [];
            foreach (Loop gone in _counters.Keys.Except(wanted).ToArray())
            {
                _counters[gone].Dispose();
                _counters.Remove(gone);
            }

            foreach (Loop loop in wanted)
            {
                if (!_counters.ContainsKey(loop)) _counters.Add(loop, new LoopEventCounters(this, loop));
            }
        }
    }

    protected override void OnEventCommand(EventCommandEventArgs command) => UpdateCounters();
}
