using System.Runtime.CompilerServices;
using Whimbrel.Diagnostics;

namespace Whimbrel.Http;

/// <summary>Counted events.</summary>
internal enum HttpCount
{
    Requests,
    Refused,
    TooLarge,
    HeadTimeouts,
    BodyTimeouts,
    IdleClosed,
    SendTimeouts,
    RequestLimits,
    PipelinePauses,
    SkipLimits,
    HandlerErrors,
}

/// <summary>Counters of many loops. Each loop uses its own row, to avoid contention on cache lines.</summary>
internal sealed class HttpTally
{
    private const int Rows = 16;
    private const int Width = 16;

    private readonly long[] _counts = new long[Rows * Width + Width];
    private NoticePace _proxyNotices;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Add(HttpCount what, int loop) =>
        Interlocked.Increment(ref _counts[(loop % Rows + 1) * Width + (int)what]);

    /// <summary>Whether to report a PROXY header in place of a request: at most once a minute. Any thread.</summary>
    internal bool TryNoteProxy(long nowMs) => _proxyNotices.TryTake(nowMs);

    internal HttpCounters Read() => new(
        Sum(HttpCount.Requests), Sum(HttpCount.Refused), Sum(HttpCount.TooLarge), Sum(HttpCount.HeadTimeouts),
        Sum(HttpCount.BodyTimeouts), Sum(HttpCount.IdleClosed),
        Sum(HttpCount.SendTimeouts), Sum(HttpCount.RequestLimits), Sum(HttpCount.PipelinePauses),
        Sum(HttpCount.SkipLimits), Sum(HttpCount.HandlerErrors));

    private long Sum(HttpCount what)
    {
        long sum = 0;
        for (int row = 1; row <= Rows; row++) sum += Volatile.Read(ref _counts[row * Width + (int)what]);
        return sum;
    }
}
