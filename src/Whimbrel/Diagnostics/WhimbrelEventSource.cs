using System.Diagnostics.Tracing;

namespace Whimbrel.Diagnostics;

/// <summary>
/// The event source "Whimbrel": diagnostic events, and started engines (shortly after their start). Disabled unless a
/// listener is active.
/// </summary>
[EventSource(Name = "Whimbrel")]
internal sealed class WhimbrelEventSource : EventSource
{
    internal static readonly WhimbrelEventSource Log = new();

    private WhimbrelEventSource() => Made.IsMade = true;

    /// <summary>
    /// False if the source exists and no listener is active. Creating it takes as long as starting an engine, and this
    /// property does not create it.
    /// </summary>
    internal static bool MayBeHeard => !Volatile.Read(ref Made.IsMade) || Log.IsEnabled();

    [Event(1, Level = EventLevel.Warning)]
    public void DiagnosticEvent(string kind, string message, string page) => WriteEvent(1, kind, message, page);

    [Event(2, Level = EventLevel.Informational)]
    public void EngineStarted(string engine, string reason, int loops) => WriteEvent(2, engine, reason, loops);

    /// <summary>A separate type, because reading a static field of the source would create the source.</summary>
    private static class Made
    {
        // tidy: allowed because it is set once
        internal static bool IsMade;
    }
}
