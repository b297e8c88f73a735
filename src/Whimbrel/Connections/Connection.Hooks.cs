namespace Whimbrel.Connections;

/// <summary>
/// The hooks that cost something, for sessions that override them only: told what was sent and when all is sent, asked
/// before a send is queued. A session that wants to be asked gets no open room, so that each of its sends goes the slow way.
/// </summary>
internal sealed partial class Connection
{
    private SessionHooks _hooks;
    private long _sentUntold;
    private bool _drainOwed;

    private bool AsksFirst => (_hooks & SessionHooks.Sending) != 0;

    private void ChangeHooks(Session next)
    {
        _hooks = _shard.HooksOf(next);
        _sentUntold = 0; // what went before was the old session's
        if (AsksFirst) _queue.CloseFill();
    }

    /// <summary>Asks the session, if it wants to be asked. Any thread, the caller's.</summary>
    internal bool IsRefused(long length, uint generation)
    {
        if (!AsksFirst) return false;
        // Read once. A caller that comes late may find the next tenant's session here, or none: the send is refused below.
        Session? session = _session;
        if (session is null || session.Generation != generation || !_queue.Foreign.IsOpenFor(generation)) return false;
        return !session.CallSending(length);
    }

    /// <summary>The system took bytes. Noted only: this may be inside a callback, or a flush.</summary>
    private void NoteSent(long count)
    {
        if (count == 0) return;
        _sentUntold += count;
        // It is not off what is pending yet: whoever was not above its mark does not fall to it.
        if (_session.DrainMarkBytes is var mark && (mark == 0 || PendingHere > mark)) _drainOwed = true;
        Loop.Schedule(this);
    }

    internal override void RoomAgain()
    {
        if ((_hooks & SessionHooks.Drained) == 0) return;
        _drainOwed = true;
        Loop.Schedule(this);
    }

    /// <summary>In the completion phase. Drained means that nothing is pending now (or no more than the session's mark), also not of other threads.</summary>
    private void TellSent()
    {
        if ((_hooks & SessionHooks.Sent) == 0) _sentUntold = 0;
        if (_sentUntold > 0 && _strand is { } strand)
        {
            strand.PostSent(_sentUntold);
            _sentUntold = 0;
        }
        else if (_sentUntold > 0)
        {
            Call("OnSent", static session => session.Connection!.CallSent(session));
            AfterCallback();
        }

        if (_state != ConnectionState.Open || !_drainOwed || PendingHere > _session.DrainMarkBytes || _firstOperation is not null) return;
        _drainOwed = false;
        if ((_hooks & SessionHooks.Drained) == 0) return;
        if (_strand is { } pool)
        {
            pool.PostDrained();
            return;
        }

        Call("OnDrained", static session => session.CallDrained());
        AfterCallback();
    }

    private void CallSent(Session session)
    {
        long sent = _sentUntold;
        _sentUntold = 0;
        session.CallSent(sent, PendingHere);
    }
}
