namespace Whimbrel.Engines;

/// <summary>Somebody who waits for a timer: awaiting, or blocked. Ended on the timer's loop, once; only its token ends it by an exception.</summary>
internal sealed class TimerWait(LoopTimer timer, CancellationToken cancellation, ManualResetEventSlim? blocked = null) : Completion<bool>(timer.Loop.Engine)
{
    private CancellationTokenRegistration _registration;

    /// <summary>After it was given to the timer: then the way to the loop keeps it before its own cancellation.</summary>
    internal void WatchCancellation()
    {
        if (!cancellation.CanBeCanceled) return;
        TokenWatch.Store(ref _registration, cancellation.UnsafeRegister(static wait => ((TimerWait)wait!).GiveUp(), this));
        if (IsCompleted) _registration.Unregister();
    }

    /// <summary>Any thread. When the loop has ended, it has ended this wait too.</summary>
    internal void GiveUp() => timer.Loop.PostControl(static (_, t, w, _) => ((LoopTimer)t!).GiveUpWait((TimerWait)w!), timer, this);

    internal void End(bool fired)
    {
        SetResult(fired);
        blocked?.Set();
        _registration.Unregister();
    }

    internal void EndCancelled()
    {
        if (cancellation.IsCancellationRequested) SetException(new OperationCanceledException(cancellation));
        else SetResult(false);
        blocked?.Set();
        _registration.Unregister();
    }
}
