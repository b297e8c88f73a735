namespace Whimbrel.Diagnostics;

/// <summary>Allows one diagnostic event of a kind per minute. A field of its owner; any thread.</summary>
internal struct NoticePace
{
    private const int EveryMs = 60_000;

    private long _nextMs;

    /// <summary>Returns true if the caller may report a diagnostic event now.</summary>
    internal bool TryTake(long nowMs)
    {
        long next = Volatile.Read(ref _nextMs);
        return nowMs >= next && Interlocked.CompareExchange(ref _nextMs, nowMs + EveryMs, next) == next;
    }
}
