using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// What is received on one session is sent on another (contract 22). It takes part in the source's receiving, on the source's thread, and is
/// known to the target's connection as one of its feeds, on that one's loop: there it waits for room, and hears of the end.
/// </summary>
/// <remarks>
/// The two meet by <see cref="Session.DeliverAgain"/> of the source, from any thread: it brings what is unread again, and looks whether the pipe is over.
/// Nothing is kept in between: bytes are unread at the source, or queued at the target.
/// </remarks>
internal sealed class Pipe : Intake
{
    private const int Goes = 0;
    private const int Cancelled = 1;
    private const int TargetGone = 2;
    private const int Telling = 3; // the reason is being written

    private readonly Session _source;
    private readonly Session _target;
    private readonly Connection? _connection; // the target's
    private readonly uint _generation;
    private readonly Completion<PipeResult> _done;
    private CancellationTokenRegistration _registration;
    private CloseReason _targetReason; // written before _asked says so
    private int _asked; // what asks the source's thread to end it; the first wins

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

    // ---- of the target's connection, on its loop

    internal Pipe? NextFeed { get; set; }

    internal bool IsFeed { get; set; }

    internal bool WaitsForRoom { get; set; }

    internal Session Target => _target;

    // ------------------------------------------------------------------ the source's thread

    internal void Begin(CancellationToken cancellation)
    {
        AtTarget(waits: false);
        if (cancellation.CanBeCanceled) _registration = cancellation.UnsafeRegister(static pipe => ((Pipe)pipe!).Cancel(), this);
        _source.DeliverAgain();
    }

    internal override int Take(Session session, ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (taken < unread.Length && Volatile.Read(ref _asked) == Goes && _target.Connection is { } connection)
        {
            // Room for what the target's own session says stays free: four marks are the limit.
            long mark = connection.HoldMark;
            if (_target.PendingBytes > mark) break;
            int count = (int)Math.Min(unread.Length - taken, mark);
            if (connection.Feed(unread.Slice(taken, count), _generation) != SendResult.Queued) break;
            taken += count;
        }

        _bytes += taken;
        return taken;
    }

    /// <summary>
    /// The target's connection, when what comes next may go there inside the system: on the source's own loop, with nothing queued. Otherwise null.
    /// </summary>
    internal Connection? SpliceTarget =>
        _connection is { } connection && ReferenceEquals(connection.Loop, _source.Loop) && Volatile.Read(ref _asked) == Goes && connection.TakesSplice(_generation) ? connection : null;

    /// <summary>So many bytes have gone to the target inside the system.</summary>
    internal void Spliced(int count) => _bytes += count;

    /// <summary>What was left waits for room at the target, and the source's peer with it.</summary>
    internal override void Offered(Session session, int left)
    {
        if (left == 0) return;
        session.HoldForReader();
        // Behind the hold: it may end it at once.
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
                // What it has queued still leaves: an answer may be on its way, to a request that nobody takes any more.
                if (_targetReason.Cause != CloseCause.HandedOver) _source.Close();
                break;
        }
    }

    internal override bool TakesFinish(Session session)
    {
        // The target is gone, or nobody wants it any more: then it is no end that was passed on.
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
                // A stream that was cut off must not look whole; a stop of its server cuts it off, too.
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
            if (connection.Loop.IsCurrent) connection.RemoveFeed(this, _generation);
            else connection.Loop.PostControl(static (_, c, pipe, g) => ((Connection)c!).RemoveFeed((Pipe)pipe!, (uint)g), connection, this, _generation);
        }

        _done.SetResult(new PipeResult(_bytes, end, reason));
    }

    /// <summary>Makes it known to the target's connection; there it is woken when there is room, now or later, or told that the target is gone.</summary>
    private void AtTarget(bool waits)
    {
        if (_connection is not { } connection)
        {
            TargetEnded(_target.EndReason);
            return;
        }

        if (connection.Loop.IsCurrent) connection.AddFeed(this, waits, _generation);
        else if (!connection.Loop.PostControl(waits ? s_wait : s_add, connection, this, _generation)) TargetEnded(new CloseReason(CloseCause.EngineStopped));
    }

    private static readonly ControlAction s_add = static (_, c, pipe, g) => ((Connection)c!).AddFeed((Pipe)pipe!, waits: false, (uint)g);
    private static readonly ControlAction s_wait = static (_, c, pipe, g) => ((Connection)c!).AddFeed((Pipe)pipe!, waits: true, (uint)g);

    // ------------------------------------------------------------------ any thread

    /// <summary>There is room at the target.</summary>
    internal void Wake() => _source.DeliverAgain();

    internal void TargetEnded(CloseReason reason)
    {
        // The target's loop may tell it more than once, and the source's thread finds it out by itself: the first reason stays.
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
