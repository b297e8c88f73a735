using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>One session's bytes to another (contract 22).</summary>
public abstract partial class Session
{
    private bool _wasHandedOver;

    /// <summary>
    /// From now on what this session receives, what is unread included, is sent on <paramref name="target"/>, and <see cref="OnData"/> gets nothing, until one
    /// of the two ends or the token is cancelled. One direction: for the other call it on the target. The session's thread only; the target may live on another loop.
    /// </summary>
    /// <remarks>
    /// When the target has more queued than its back-pressure mark, this session's peer has to wait; the target's peer is never judged slow by what comes so. The peer's
    /// FIN is passed on by the target's <see cref="ShutdownSend"/>, in place of <see cref="OnEndOfStream"/>. When this session ends otherwise the target is
    /// aborted, so that what was cut off does not look whole; after a Close of one's own it is closed. When the target ends this session is closed.
    /// A hand-over of either ends the pipe and nothing else. The target's OnSending is not asked.
    /// </remarks>
    /// <param name="target">A connected session; it may be this one.</param>
    /// <param name="cancellationToken">Ends the pipe: both sessions go on, and what is unread comes to <see cref="OnData"/>.</param>
    /// <returns>How it ended; it never throws.</returns>
    /// <exception cref="InvalidOperationException">A body or another pipe of this session is under way, the session is ending, or the target has no connection yet.</exception>
    protected ValueTask<PipeResult> PipeTo(Session target, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(target);
        CheckIntake(nameof(PipeTo));
        if (target._loop is null || (target._connection is { } connection && target.ConnectedAt is null && connection.Generation == target._generation))
        {
            Diagnostics.Throw.State("PipeTo wants a target that is connected: begin in its OnConnected, or when ConnectAsync has completed.");
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

    /// <summary>Of a session that has no connection any more. Cause None: it is ending, and its last callback is still to come. Any thread.</summary>
    internal CloseReason EndReason =>
        ReferenceEquals(Volatile.Read(ref _endWaits), EndWait.Over) ? _endReason : Volatile.Read(ref _wasHandedOver) ? new CloseReason(CloseCause.HandedOver) : default;
}
