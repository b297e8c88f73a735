namespace Whimbrel.Engines;

/// <summary>
/// A wait for space in a mailbox or a group. Completes with true when a loop has space, with false when the time has
/// passed, or as cancelled, whichever comes first. A list may keep it after that, because a second completion has no
/// effect.
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
        // Not a timer of the loop, because without space that loop may be the blocked one.
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
