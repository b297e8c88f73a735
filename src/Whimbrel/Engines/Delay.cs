namespace Whimbrel.Engines;

/// <summary>Timer and result of one <see cref="Loop.DelayAsync"/>.</summary>
internal sealed class Delay(Loop loop, CancellationToken cancellation) : LoopTimer(loop)
{
    private readonly Completion<bool> _done = new(loop.Engine);
    private CancellationTokenRegistration _registration;

    internal ValueTask Task => _done.PlainTask;

    internal void WatchCancellation()
    {
        if (!cancellation.CanBeCanceled) return;
        // The loop may complete the delay at the same time and then needs the registration: the later of the two
        // releases it.
        TokenWatch.Store(ref _registration,
            cancellation.UnsafeRegister(static timer => ((Delay)timer!).Cancel(), this));
        if (_done.IsCompleted) _registration.Unregister();
    }

    protected override void OnFired(bool isCancelled)
    {
        if (isCancelled)
            _done.SetException(cancellation.IsCancellationRequested ? new OperationCanceledException(cancellation)
                : new OperationCanceledException("The engine was stopped."));
        else _done.SetResult(true);
        _registration.Unregister();
    }
}
