using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>Forwarding received data to another session (contract 22).</summary>
public abstract partial class Session
{
    private bool _wasHandedOver;

    /// <summary>
    /// Forwards everything that this session receives, unread bytes included, to <paramref name="target"/>, instead of
    /// passing it to <see cref="OnData"/>, until one of the two ends or the token is cancelled. One direction: for
    /// the other one call it on the target. The session's thread only; the target may run on another loop.
    /// </summary>
    /// <remarks>
    /// While the target has more queued than its high-water mark, this session is not read; the target's slow-consumer
    /// policy does not apply to forwarded data. The peer's FIN is forwarded with the target's
    /// <see cref="ShutdownSend"/>, instead of calling <see cref="OnEndOfStream"/>. If this session is closed locally,
    /// the target is closed; any other end of it aborts the target, so that truncated data does not look complete. If
    /// the target ends, this session is closed. A hand-over of either one ends only the pipe. The target's OnSending is
    /// not called.
    /// </remarks>
    /// <param name="target">Connected session that receives the data; it may be this one.</param>
    /// <param name="cancellationToken">Ends the pipe: both sessions continue, and unread data is passed to
    /// <see cref="OnData"/> again.</param>
    /// <returns>The side that ended and the reason; the task never fails.</returns>
    /// <exception cref="InvalidOperationException">A body or another pipe of this session is in progress, the session
    /// is ending, or the target has no connection yet.</exception>
    protected ValueTask<PipeResult> PipeTo(Session target, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(target);
        CheckIntake(nameof(PipeTo));
        if (target._loop is null || (target._connection is { } connection && target.ConnectedAt is null
            && connection.Generation == target._generation))
        {
            Diagnostics.Throw.State("PipeTo wants a target that is connected: begin in its OnConnected, or when "
                + "ConnectAsync has completed.");
        }

        Pipe pipe = new(this, target);
        _intake = pipe;
        pipe.Begin(cancellationToken);
        return pipe.Task;
    }

    internal void EndPipe(Pipe pipe)
    {
        if (ReferenceEquals(_intake, pipe)) _intake = null;
    }

    /// <summary>
    /// Reason of the end, for a session without a connection. Cause None: it is ending, and its last callback is still
    /// to come. Any thread.
    /// </summary>
    internal CloseReason EndReason =>
        ReferenceEquals(Volatile.Read(ref _endWaits), EndWait.Over) ? _endReason
            : Volatile.Read(ref _wasHandedOver) ? new CloseReason(CloseCause.HandedOver) : default;
}
