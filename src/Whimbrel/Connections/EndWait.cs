using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Awaitable end of a session. In a list of the session until then, and also in a list of its strand if one of the
/// session's own callbacks may block on it. The first of the two completes it.
/// </summary>
internal sealed class EndWait : Completion<CloseReason>, IEndWait
{
    private readonly Session? _session;
    private readonly CancellationToken _cancellation;
    private CancellationTokenRegistration _registration;
    private int _isDone;

    internal EndWait(Session session, CancellationToken cancellation)
        : base(session.Loop.Engine)
    {
        _session = session;
        _cancellation = cancellation;
    }

    private EndWait()
        : base(null!)
    {
    }

    /// <summary>Marks the list of an ended session: nothing is added any more.</summary>
    internal static EndWait Over { get; } = new();

    internal EndWait? Next { get; set; }

    internal void Watch()
    {
        if (!_cancellation.CanBeCanceled) return;
        TokenWatch.Store(ref _registration,
            _cancellation.UnsafeRegister(static wait => ((EndWait)wait!)._session!.Abort(), this));
        if (IsCompleted) _registration.Unregister();
    }

    internal void End(CloseReason reason)
    {
        if (Interlocked.Exchange(ref _isDone, 1) == 1) return;
        if (_cancellation.IsCancellationRequested) SetException(new OperationCanceledException(_cancellation));
        else SetResult(reason);
        _registration.Unregister();
    }

    void IEndWait.ConnectionIsGone(CloseReason reason) => End(reason);

    private protected override void AwaitedApart(PoolSession pool)
    {
        if (_session is not null && pool.Runs(_session)) pool.BlocksOnEnd(this);
    }
}
