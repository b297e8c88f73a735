namespace Whimbrel.Connections;

/// <summary>
/// Hooks with a cost, for sessions that override them: OnSent, OnDrained and OnSending. A session with OnSending gets
/// no open fill block, so that each of its sends calls it.
/// </summary>
internal sealed partial class Connection
{
    internal bool AsksFirst => (_tenancy.Hooks & SessionHooks.Sending) != 0;

    /// <summary>True if the session overrides OnSent or OnDrained.</summary>
    internal bool ReportsSent => (_tenancy.Hooks & (SessionHooks.Sent | SessionHooks.Drained)) != 0;

    internal bool IsDrainOwed => _tenancy.DrainOwed;

    private void ChangeHooks(Session next)
    {
        _tenancy.Hooks = Shard.HooksOf(next);
        _tenancy.SentUntold = 0; // data sent before belongs to the old session
        if (AsksFirst) Outbound.Queue.CloseFill();
    }

    /// <summary>
    /// Calls OnSending if the session overrides it, and returns true if it rejects the send. Any thread, the caller's.
    /// </summary>
    internal bool IsRefused(long length, uint generation)
    {
        if (!AsksFirst) return false;
        // Read once. A late caller may find the next session here, or none; its send is then rejected below.
        Session? session = Session;
        if (session is null || session.Generation != generation || !Outbound.IsOpenFor(generation)) return false;
        return !session.CallSending(length);
    }

    /// <summary>
    /// Records bytes that the system took. Does not call the session, because this may be inside a callback or a flush.
    /// </summary>
    internal void NoteSent(long count)
    {
        if (count == 0) return;
        _tenancy.SentUntold += count;
        // The bytes are not subtracted from the pending ones yet. A session that was not above its low-water mark
        // cannot fall to it.
        if (Session.LowWaterMarkBytes is var mark && (mark == 0 || Outbound.PendingHere > mark))
            _tenancy.DrainOwed = true;
        Loop.Schedule(this);
    }

    internal override void RoomAgain()
    {
        if ((_tenancy.Hooks & SessionHooks.Drained) == 0) return;
        _tenancy.DrainOwed = true;
        Loop.Schedule(this);
    }

    /// <summary>
    /// Calls OnSent and OnDrained in the completion phase. OnDrained means that nothing is pending now (or no more than
    /// the low-water mark), including sends of other threads.
    /// </summary>
    private void TellSent()
    {
        if ((_tenancy.Hooks & SessionHooks.Sent) == 0) _tenancy.SentUntold = 0;
        if (_tenancy.SentUntold > 0 && Pool is { } pool)
        {
            pool.TellSent(_tenancy.SentUntold);
            _tenancy.SentUntold = 0;
        }
        else if (_tenancy.SentUntold > 0)
        {
            Call(SessionCallback.Sent);
            AfterCallback();
        }

        if (State != ConnectionState.Open || !_tenancy.DrainOwed || Outbound.PendingHere > Session.LowWaterMarkBytes
            || Outbound.HasOperations)
            return;
        _tenancy.DrainOwed = false;
        if ((_tenancy.Hooks & SessionHooks.Drained) == 0) return;
        if (Tell(SessionCallback.Drained)) AfterCallback();
    }

    /// <summary>Takes the number of bytes to report by OnSent.</summary>
    internal long TakeSent()
    {
        long sent = _tenancy.SentUntold;
        _tenancy.SentUntold = 0;
        return sent;
    }
}
