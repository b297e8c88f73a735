using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Forwards the data received on one session to another (contract 22). As receive handler of the source it runs on the
/// source's thread. On the loop of the target's connection it is registered as one of its inbound pipes, where it waits
/// for space and is notified of the end.
/// </summary>
/// <remarks>
/// Both sides use <see cref="Session.DeliverAgain"/> of the source, from any thread: it passes the unread data again
/// and checks whether the pipe has ended. The pipe buffers nothing: bytes are either unread at the source or queued at
/// the target.
/// </remarks>
internal sealed class Pipe : Intake
{
    private const int Goes = 0;
    private const int Cancelled = 1;
    private const int TargetGone = 2;
    private const int Telling = 3; // the reason is being written

    private readonly Session _source;
    private readonly Session _target;
    private readonly Connection? _connection; // of the target
    private readonly uint _generation;
    private readonly Completion<PipeResult> _done;
    private CancellationTokenRegistration _registration;
    private CloseReason _targetReason; // written before _asked is set to TargetGone
    private int _asked; // request to the source's thread to end the pipe; the first one counts

    // ---- the source's thread
    private long _bytes;
    private bool _isOver;

    internal Pipe(Session source, Session target)
    {
        _source = source;
        _target = target;
        _connection = target.Connection;
        _generation = target.Generation;
        _done = new Completion<PipeResult>(source.Loop.Engine);
        Task = _done.Task;
    }

    internal ValueTask<PipeResult> Task { get; }

    // ---- used by the target's connection, on its loop

    internal Pipe? NextFeed { get; set; }

    internal bool IsFeed { get; set; }

    internal bool WaitsForRoom { get; set; }

    internal Session Target => _target;

    // ------------------------------------------------------------------ the source's thread

    internal void Begin(CancellationToken cancellation)
    {
        AtTarget(waits: false);
        if (cancellation.CanBeCanceled)
            _registration = cancellation.UnsafeRegister(static pipe => ((Pipe)pipe!).Cancel(), this);
        _source.DeliverAgain();
    }

    internal override int Take(Session session, ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (taken < unread.Length && Volatile.Read(ref _asked) == Goes && _target.Connection is { } connection)
        {
            // The rest of the target's queue is left for its own messages: the limit is four times the mark.
            long mark = connection.HoldMark;
            if (_target.PendingBytes > mark) break;
            int count = (int)Math.Min(unread.Length - taken, mark);
            if (connection.Outbound.Feed(unread.Slice(taken, count), _generation) != SendResult.Queued) break;
            taken += count;
        }

        _bytes += taken;
        return taken;
    }

    /// <summary>
    /// Connection of the target, if the next data may be spliced to it in the kernel: it is on the source's own loop
    /// and has nothing queued. Otherwise null.
    /// </summary>
    internal Connection? SpliceTarget =>
        _connection is { } connection && ReferenceEquals(connection.Loop, _source.Loop)
        && Volatile.Read(ref _asked) == Goes && connection.TakesSplice(_generation) ? connection : null;

    /// <summary>Counts bytes that were spliced to the target in the kernel.</summary>
    internal void Spliced(int count) => _bytes += count;

    /// <summary>
    /// Called when the target had no space for the rest: the source is held, and its peer has to wait.
    /// </summary>
    internal override void Offered(Session session, int left)
    {
        if (left == 0) return;
        session.HoldFor(ReceiveGate.Reader);
        // Must run after the hold is set, because the call may release it immediately.
        AtTarget(waits: true);
    }

    internal override void OffersAgain()
    {
        switch (Volatile.Read(ref _asked))
        {
            case Cancelled:
                Conclude(PipeEnd.Cancelled, default);
                break;
            case TargetGone:
                Conclude(PipeEnd.TargetEnded, _targetReason);
                // The source closes gracefully, because its queue may contain an answer to a request that is no longer
                // forwarded.
                if (_targetReason.Cause != CloseCause.HandedOver) _source.Close();
                break;
        }
    }

    internal override bool TakesFinish(Session session)
    {
        // If the target has ended or the pipe was cancelled, the end of stream is not forwarded.
        OffersAgain();
        if (_isOver) return false;
        _target.ShutdownSend();
        Conclude(PipeEnd.Finished, default);
        return true;
    }

    internal override void End(CloseReason reason)
    {
        Conclude(PipeEnd.SourceEnded, reason);
        switch (reason.Cause)
        {
            case CloseCause.HandedOver:
                break;
            case CloseCause.LocalClose:
                _target.Close();
                break;
            default:
                // Truncated data must not look complete; a stop of the server truncates it, too.
                _target.Abort();
                break;
        }
    }

    private void Conclude(PipeEnd end, CloseReason reason)
    {
        if (_isOver) return;
        _isOver = true;
        _source.EndPipe(this);
        _registration.Dispose();
        if (_connection is { } connection)
        {
            if (connection.Loop.IsCurrent) connection.Outbound.RemoveFeed(this, _generation);
            else
                connection.Loop.PostControl(
                    static (_, c, pipe, g) => ((Connection)c!).Outbound.RemoveFeed((Pipe)pipe!, (uint)g),
                    connection, this, _generation);
        }

        _done.SetResult(new PipeResult(_bytes, end, reason));
    }

    /// <summary>
    /// Registers the pipe at the target's connection, which wakes it when there is space, or reports that the target
    /// has ended.
    /// </summary>
    private void AtTarget(bool waits)
    {
        if (_connection is not { } connection)
        {
            TargetEnded(_target.EndReason);
            return;
        }

        if (connection.Loop.IsCurrent) connection.Outbound.AddFeed(this, waits, _generation);
        else if (!connection.Loop.PostControl(waits ? s_wait : s_add, connection, this, _generation))
            TargetEnded(new CloseReason(CloseCause.EngineStopped));
    }

    private static readonly ControlAction s_add = static (_, c, pipe, g) =>
        ((Connection)c!).Outbound.AddFeed((Pipe)pipe!, waits: false, (uint)g);
    private static readonly ControlAction s_wait = static (_, c, pipe, g) =>
        ((Connection)c!).Outbound.AddFeed((Pipe)pipe!, waits: true, (uint)g);

    // ------------------------------------------------------------------ any thread

    /// <summary>Called when there is space at the target.</summary>
    internal void Wake() => _source.DeliverAgain();

    internal void TargetEnded(CloseReason reason)
    {
        // The target's loop may call this more than once, and the source's thread may find the end itself: the first
        // reason stays.
        if (Interlocked.CompareExchange(ref _asked, Telling, Goes) != Goes) return;
        _targetReason = reason;
        Volatile.Write(ref _asked, TargetGone);
        _source.DeliverAgain();
    }

    private void Cancel()
    {
        if (Interlocked.CompareExchange(ref _asked, Cancelled, Goes) == Goes) _source.DeliverAgain();
    }
}
