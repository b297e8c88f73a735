namespace Whimbrel.Engines;

/// <summary>
/// A wait for a timer by an awaiting or blocked caller. Completed once, on the timer's loop; only its token ends it
/// with an exception.
/// </summary>
internal sealed class TimerWait(LoopTimer timer, CancellationToken cancellation, ManualResetEventSlim? blocked = null)
    : Completion<bool>(timer.Loop.Engine)
{
    private CancellationTokenRegistration _registration;

    /// <summary>
    /// Called after the wait was posted to the timer, so that the loop processes the wait before its cancellation.
    /// </summary>
    internal void WatchCancellation()
    {
        if (!cancellation.CanBeCanceled) return;
        TokenWatch.Store(ref _registration,
            cancellation.UnsafeRegister(static wait => ((TimerWait)wait!).GiveUp(), this));
        if (IsCompleted) _registration.Unregister();
    }

    /// <summary>Cancels the wait. Any thread. A loop that has ended has already completed it.</summary>
    internal void GiveUp() =>
        timer.Loop.PostControl(static (_, t, w, _) => ((LoopTimer)t!).GiveUpWait((TimerWait)w!), timer, this);

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
