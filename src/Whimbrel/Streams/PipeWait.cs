using System.IO.Pipelines;
using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The pending read or flush of a <see cref="ConnectionPipe"/>; reused for the next one. Ends by its token, unless its
/// owner ended it before. Resumes as the pipe's scheduler determines, without an allocation on the loop and on the
/// pool. Owner: the reader or the writer, under its lock.
/// </summary>
internal sealed class PipeWait<T> : Completion<T>
{
    private readonly Lock _gate;
    private readonly Loop _loop;
    private readonly PipeScheduler? _scheduler;
    private CancellationToken _token;
    private CancellationTokenRegistration _registration;

    internal PipeWait(Lock gate, Loop loop, PipeScheduler? scheduler)
        : base(loop.Engine) => (_gate, _loop, _scheduler) = (gate, loop, scheduler);

    /// <summary>
    /// True while the operation is pending. Under the lock. The thread that ends it with <see cref="End"/> must
    /// complete it, outside of the lock.
    /// </summary>
    internal bool IsWaiting { get; private set; }

    // ------------------------------------------------------------------ the wait

    /// <summary>Begins a wait. Under the lock; <see cref="Watch"/> follows outside of it.</summary>
    internal ValueTask<T> Begin(CancellationToken token)
    {
        _token = token;
        IsWaiting = true;
        return Task;
    }

    /// <summary>
    /// Registers the cancellation. Called by the thread that has begun the wait, before the task is awaited: a pending
    /// wait is therefore this one.
    /// </summary>
    internal void Watch(CancellationToken token)
    {
        if (!token.CanBeCanceled) return;
        CancellationTokenRegistration registration =
            token.UnsafeRegister(static wait => ((PipeWait<T>)wait!).CancelRequested(), this);
        lock (_gate)
        {
            if (IsWaiting)
            {
                _registration = registration;
                return;
            }
        }

        registration.Unregister();
    }

    /// <summary>Ends the wait. Under the lock.</summary>
    internal void End()
    {
        IsWaiting = false;
        _registration.Unregister();
        _registration = default;
        _token = default;
    }

    private void CancelRequested()
    {
        CancellationToken token;
        lock (_gate)
        {
            token = _token;
            // A late call finds another wait, or none.
            if (!IsWaiting || !token.IsCancellationRequested) return;
            End();
        }

        SetException(new OperationCanceledException(token));
    }

    // ------------------------------------------------------------------ scheduling

    /// <summary>Also for the task of a <see cref="StreamRead"/>, whose result is a number.</summary>
    private protected override bool IsOfAsTask(Action<object?> continuation) =>
        base.IsOfAsTask(continuation) || AsTaskContinuation.Is<int>(continuation);

    private protected override bool TryPlace(Action<object?> continuation, object? state)
    {
        if (_scheduler is null) return false;
        if (ReferenceEquals(_scheduler, PipeScheduler.Inline)) _loop.PostContinuation(continuation, state);
        else if (ReferenceEquals(_scheduler, PipeScheduler.ThreadPool)) Offload(continuation, state);
        else _scheduler.Schedule(continuation, state);
        return true;
    }

    private protected override void Consumed() => Reset();
}
