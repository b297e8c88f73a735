using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// An awaited broadcast. Completes with the counts when every loop has processed it, or when it is cancelled.
/// </summary>
internal sealed class BroadcastOperation(Engine engine, Session? except, Func<Session, bool>? predicate)
    : Completion<BroadcastResult>(engine)
{
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;

    // One for the caller that is still posting, so that the operation cannot complete before all loops are counted.
    private int _loopsLeft = 1;
    private int _queued;
    private int _skipped;
    private int _isDone;

    internal Session? Except { get; } = except;

    internal Func<Session, bool>? Predicate { get; } = predicate;

    /// <summary>Start time, for a listener of the meter; zero without a listener.</summary>
    internal long TimedFrom { get; init; }

    internal void Expect() => Interlocked.Increment(ref _loopsLeft);

    internal void Count(BroadcastResult result)
    {
        Interlocked.Add(ref _queued, result.Queued);
        Interlocked.Add(ref _skipped, result.Skipped);
        if (Interlocked.Decrement(ref _loopsLeft) != 0) return;
        // Also if it is not awaited any more.
        if (TimedFrom != 0) TellTime();
        if (Interlocked.Exchange(ref _isDone, 1) == 0) SetResult(new BroadcastResult(_queued, _skipped));
    }

    private void TellTime()
    {
        try
        {
            BroadcastMetrics.Ended(TimedFrom, _queued);
        }
        catch (Exception e)
        {
            Engine.ReportException($"a listener of the meter \"{WhimbrelMeter.Name}\"", e);
        }
    }

    /// <summary>
    /// Starts to watch the token. A cancellation ends the wait for the counts; loops keep the broadcasts that they have
    /// accepted.
    /// </summary>
    internal void WatchCancellation(CancellationToken token)
    {
        if (!token.CanBeCanceled) return;
        _token = token;
        _registration = token.UnsafeRegister(static state => ((BroadcastOperation)state!).TryCancel(), this);
    }

    private void TryCancel()
    {
        if (Interlocked.Exchange(ref _isDone, 1) == 0) SetException(new OperationCanceledException(_token));
    }

    private protected override void Consumed() => _registration.Dispose();
}
