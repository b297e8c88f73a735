namespace Whimbrel.Connections;

/// <summary>
/// Total time for which a connection was not read because something was held. Time limits exclude it (contract 19).
/// </summary>
internal struct HeldTime
{
    private long _totalMs;
    private long _fromMs;

    /// <summary>Total of the holds that have ended. Any thread; approximate.</summary>
    internal readonly long TotalMs => Volatile.Read(in _totalMs);

    internal void Begin(long nowMs) => _fromMs = nowMs;

    /// <summary>Adds at least 1 ms, because a peer that was not read gets its full time again.</summary>
    internal void End(long nowMs) => _totalMs += Math.Max(1, nowMs - _fromMs);
}
