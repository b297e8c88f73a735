using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>Somebody awaits the end of a session. In a list of the session until then.</summary>
internal sealed class EndWait : Completion<CloseReason>
{
    private readonly Session? _session;
    private readonly CancellationToken _cancellation;
    private CancellationTokenRegistration _registration;

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

    /// <summary>Stands in the place of the list when the session has ended: nobody waits any more.</summary>
    internal static EndWait Over { get; } = new();

    internal EndWait? Next { get; set; }

    internal void Watch()
    {
        if (!_cancellation.CanBeCanceled) return;
        _registration = _cancellation.UnsafeRegister(static wait => ((EndWait)wait!)._session!.Abort(), this);
        if (IsCompleted) _registration.Unregister();
    }

    internal void End(CloseReason reason)
    {
        if (_cancellation.IsCancellationRequested) SetException(new OperationCanceledException(_cancellation));
        else SetResult(reason);
    }

    private protected override void Consumed() => _registration.Unregister();
}
