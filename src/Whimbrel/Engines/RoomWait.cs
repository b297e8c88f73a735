namespace Whimbrel.Engines;

/// <summary>
/// Somebody who waits for room, in a mailbox or in a group, until a loop says so (true), the time has passed (false) or the wait is
/// cancelled: whichever is first. Whoever keeps it in a list may keep it after that: the second completion does nothing.
/// </summary>
internal sealed class RoomWait(Engine engine) : Completion<bool>(engine)
{
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;
    private IDisposable? _timeLimit;
    private int _isDone;

    internal void TryComplete()
    {
        if (Interlocked.Exchange(ref _isDone, 1) == 0) SetResult(true);
    }

    internal void WatchTime(TimeSpan timeout)
    {
        if (timeout == Timeout.InfiniteTimeSpan) return;
        // Not by a timer of the loop: when there is no room, it may be the one that is blocked.
        _timeLimit = Engine.StartTimeLimit(timeout, static state => ((RoomWait)state!).TimeOut(), this);
    }

    private void TimeOut()
    {
        if (Interlocked.Exchange(ref _isDone, 1) == 0) SetResult(false);
    }

    internal void WatchCancellation(CancellationToken token)
    {
        if (!token.CanBeCanceled) return;
        _token = token;
        _registration = token.UnsafeRegister(static state => ((RoomWait)state!).TryCancel(), this);
    }

    private void TryCancel()
    {
        if (Interlocked.Exchange(ref _isDone, 1) == 0) SetException(new OperationCanceledException(_token));
    }

    private protected override void Consumed()
    {
        _registration.Dispose();
        _timeLimit?.Dispose();
    }
}
