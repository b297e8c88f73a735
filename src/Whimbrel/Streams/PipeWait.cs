using System.IO.Pipelines;
using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The one read or flush of a <see cref="ConnectionPipe"/> that may wait, used again for the next. Ends by its token, unless its owner ended it before. Goes on
/// where the pipe's scheduler says, without an allocation on the loop and on the pool. Owner: the reader or the writer, under whose gate it is.
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

    /// <summary>Under the gate. Who sets it to false by <see cref="End"/> has to complete it, outside of the gate.</summary>
    internal bool IsWaiting { get; private set; }

    // ------------------------------------------------------------------ the wait

    /// <summary>Under the gate; <see cref="Watch"/> follows outside of it.</summary>
    internal ValueTask<T> Begin(CancellationToken token)
    {
        _token = token;
        IsWaiting = true;
        return Task;
    }

    /// <summary>By who has begun it, before anybody awaits: if one waits, it is this one.</summary>
    internal void Watch(CancellationToken token)
    {
        if (!token.CanBeCanceled) return;
        CancellationTokenRegistration registration = token.UnsafeRegister(static wait => ((PipeWait<T>)wait!).CancelRequested(), this);
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

    /// <summary>Under the gate.</summary>
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
            // A call that comes late finds another wait, or none.
            if (!IsWaiting || !token.IsCancellationRequested) return;
            End();
        }

        SetException(new OperationCanceledException(token));
    }

    // ------------------------------------------------------------------ where it goes on

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
