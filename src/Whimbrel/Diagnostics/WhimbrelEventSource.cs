using System.Diagnostics.Tracing;

namespace Whimbrel.Diagnostics;

/// <summary>The event source "Whimbrel": notices, engines that have started, a moment later, and counters. Off unless somebody listens.</summary>
[EventSource(Name = "Whimbrel")]
internal sealed class WhimbrelEventSource : EventSource
{
    internal static readonly WhimbrelEventSource Log = new();

    // tidy: allowed because it is set once, and read by listeners
    private static Func<int> s_countLoops = static () => 0;

    private PollingCounter? _loops;

    private WhimbrelEventSource() => Made.IsMade = true;

    /// <summary>False when there is one and nobody listens. Making it takes as long as starting an engine does, and this makes none.</summary>
    internal static bool MayBeHeard => !Volatile.Read(ref Made.IsMade) || Log.IsEnabled();

    [Event(1, Level = EventLevel.Warning)]
    public void DiagnosticEvent(string kind, string message, string page) => WriteEvent(1, kind, message, page);

    [Event(2, Level = EventLevel.Informational)]
    public void EngineStarted(string engine, string reason, int loops) => WriteEvent(2, engine, reason, loops);

    /// <summary>What layers above this one have.</summary>
    [NonEvent]
    internal static void CountLoopsBy(Func<int> count) => s_countLoops = count;

    /// <summary>The runtime tells the counters of a source of the commands that come once there is one, and calls this before it does: what is made later, for loops, joins them.</summary>
    protected override void OnEventCommand(EventCommandEventArgs command) =>
        _loops ??= new PollingCounter("loops", this, static () => s_countLoops()) { DisplayName = "loops" };

    /// <summary>Of a type of its own: who reads a static field of the source makes the source.</summary>
    private static class Made
    {
        // tidy: allowed because it is set once
        internal static bool IsMade;
    }
}
