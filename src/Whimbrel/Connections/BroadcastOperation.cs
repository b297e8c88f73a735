using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>A broadcast that somebody awaits: completes when every loop has drained it, with the counts, or when it is cancelled.</summary>
internal sealed class BroadcastOperation(Engine engine, Session? except, Func<Session, bool>? predicate) : Completion<BroadcastResult>(engine)
{
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;

    // One for the caller that is still posting, so that it cannot complete in between.
    private int _loopsLeft = 1;
    private int _queued;
    private int _skipped;
    private int _isDone;

    internal Session? Except { get; } = except;

    internal Func<Session, bool>? Predicate { get; } = predicate;

    /// <summary>When it began, for a listener of the meter; zero when there was none.</summary>
    internal long TimedFrom { get; init; }

    internal void Expect() => Interlocked.Increment(ref _loopsLeft);

    internal void Count(BroadcastResult result)
    {
        Interlocked.Add(ref _queued, result.Queued);
        Interlocked.Add(ref _skipped, result.Skipped);
        if (Interlocked.Decrement(ref _loopsLeft) != 0) return;
        // Also when nobody awaits it any more.
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

    /// <summary>From here on a cancel ends the wait for the counts. What the loops have taken they keep.</summary>
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
