namespace Whimbrel.Connections;

/// <summary>
/// The hooks that cost something, for sessions that override them only: told what was sent and when all is sent, asked
/// before a send is queued. A session that wants to be asked gets no open room, so that each of its sends goes the slow way.
/// </summary>
internal sealed partial class Connection
{
    private bool AsksFirst => (_tenancy.Hooks & SessionHooks.Sending) != 0;

    private void ChangeHooks(Session next)
    {
        _tenancy.Hooks = Shard.HooksOf(next);
        _tenancy.SentUntold = 0; // what went before was the old session's
        if (AsksFirst) _queue.CloseFill();
    }

    /// <summary>Asks the session, if it wants to be asked. Any thread, the caller's.</summary>
    internal bool IsRefused(long length, uint generation)
    {
        if (!AsksFirst) return false;
        // Read once. A caller that comes late may find the next tenant's session here, or none: the send is refused below.
        Session? session = Session;
        if (session is null || session.Generation != generation || !_queue.Foreign.IsOpenFor(generation)) return false;
        return !session.CallSending(length);
    }

    /// <summary>The system took bytes. Noted only: this may be inside a callback, or a flush.</summary>
    private void NoteSent(long count)
    {
        if (count == 0) return;
        _tenancy.SentUntold += count;
        // It is not off what is pending yet: whoever was not above its mark does not fall to it.
        if (Session.LowWaterMarkBytes is var mark && (mark == 0 || PendingHere > mark)) _tenancy.DrainOwed = true;
        Loop.Schedule(this);
    }

    internal override void RoomAgain()
    {
        if ((_tenancy.Hooks & SessionHooks.Drained) == 0) return;
        _tenancy.DrainOwed = true;
        Loop.Schedule(this);
    }

    /// <summary>In the completion phase. Drained means that nothing is pending now (or no more than the session's mark), also not of other threads.</summary>
    private void TellSent()
    {
        if ((_tenancy.Hooks & SessionHooks.Sent) == 0) _tenancy.SentUntold = 0;
        if (_tenancy.SentUntold > 0 && Strand is { } strand)
        {
            strand.PostSent(_tenancy.SentUntold);
            _tenancy.SentUntold = 0;
        }
        else if (_tenancy.SentUntold > 0)
        {
            Call(SessionCallback.Sent);
            AfterCallback();
        }

        if (State != ConnectionState.Open || !_tenancy.DrainOwed || PendingHere > Session.LowWaterMarkBytes || _tenancy.FirstOperation is not null) return;
        _tenancy.DrainOwed = false;
        if ((_tenancy.Hooks & SessionHooks.Drained) == 0) return;
        if (Tell(SessionCallback.Drained)) AfterCallback();
    }

    /// <summary>What OnSent tells now.</summary>
    internal long TakeSent()
    {
        long sent = _tenancy.SentUntold;
        _tenancy.SentUntold = 0;
        return sent;
    }
}
