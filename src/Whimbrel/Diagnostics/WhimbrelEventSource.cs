using System.Diagnostics.Tracing;

namespace Whimbrel.Diagnostics;

/// <summary>The event source "Whimbrel": notices, and engines that have started, a moment later. Off unless somebody listens.</summary>
[EventSource(Name = "Whimbrel")]
internal sealed class WhimbrelEventSource : EventSource
{
    internal static readonly WhimbrelEventSource Log = new();

    [Event(1, Level = EventLevel.Warning)]
    public void Notice(string kind, string message, string page) => WriteEvent(1, kind, message, page);

    [Event(2, Level = EventLevel.Informational)]
    public void EngineStarted(string engine, string reason, int loops) => WriteEvent(2, engine, reason, loops);
}
