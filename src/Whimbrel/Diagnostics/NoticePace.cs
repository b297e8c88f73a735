namespace Whimbrel.Diagnostics;

/// <summary>Lets one notice of a kind through in a minute: what happens often is told once. A field of its owner; any thread.</summary>
internal struct NoticePace
{
    private const int EveryMs = 60_000;

    private long _nextMs;

    /// <summary>True for the caller that may tell now.</summary>
    internal bool TryTake(long nowMs)
    {
        long next = Volatile.Read(ref _nextMs);
        return nowMs >= next && Interlocked.CompareExchange(ref _nextMs, nowMs + EveryMs, next) == next;
    }
}
