namespace Whimbrel.Engines;

/// <summary>
/// Somebody who waits for room, in a mailbox or in a group, until a loop says so or the wait is cancelled: whichever is
/// first. Whoever keeps it in a list may keep it after that: the second completion does nothing.
/// </summary>
internal sealed class RoomWait(Engine engine) : Completion<bool>(engine)
{
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;
    private int _isDone;

    internal void TryComplete()
    {
        if (Interlocked.Exchange(ref _isDone, 1) == 0) SetResult(true);
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

    private protected override void Consumed() => _registration.Dispose();
}
