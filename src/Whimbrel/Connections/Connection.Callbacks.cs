using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Engines;
using Whimbrel.Linux;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// What the session is called for besides data: hooks with a cost (OnSent, OnDrained, OnSending), time limits, posted
/// work, and the return of callbacks that run on the pool (contract 14). Loop's thread, except for members documented
/// as "any thread".
/// </summary>
/// <remarks>
/// A session with OnSending gets no open fill block, so that each of its sends calls it. The timer of the connection's
/// deadlines checks the time limits periodically (<see cref="TimeLimits"/>); a handshake and the end have deadlines of
/// their own, on the same timer.
/// </remarks>
internal sealed partial class Connection
{
    // ------------------------------------------------------------------ OnSent, OnDrained and OnSending

    internal bool AsksFirst => _callbacks.Has(SessionHooks.Sending);

    /// <summary>True if the session overrides OnSent or OnDrained.</summary>
    internal bool ReportsSent => _callbacks.Has(SessionHooks.Sent | SessionHooks.Drained);

    internal bool IsDrainOwed => _callbacks.OwesDrained;

    private void ChangeHooks(Session next)
    {
        _callbacks.Begin(Shard.HooksOf(next));
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
        // The bytes are not subtracted from the pending ones yet.
        int mark = Session.LowWaterMarkBytes;
        _callbacks.Note(count, isAboveMark: mark == 0 || Outbound.PendingHere > mark);
        Loop.Schedule(this);
    }

    internal override void RoomAgain()
    {
        if (_callbacks.TryOweDrained()) Loop.Schedule(this);
    }

    /// <summary>
    /// Calls OnSent and OnDrained in the completion phase. OnDrained means that nothing is pending now (or no more than
    /// the low-water mark), including sends of other threads.
    /// </summary>
    private void TellSent()
    {
        if (!_callbacks.Has(SessionHooks.Sent))
        {
            _callbacks.TakeSent();
        }
        else if (_callbacks.HasSent && Pool is { } pool)
        {
            pool.TellSent(_callbacks.TakeSent());
        }
        else if (_callbacks.HasSent)
        {
            Call(SessionCallback.Sent);
            AfterCallback();
        }

        if (State != ConnectionState.Open || !IsDrainOwed || Outbound.PendingHere > Session.LowWaterMarkBytes
            || Outbound.HasOperations)
            return;
        if (_callbacks.TakeDrained() && Tell(SessionCallback.Drained)) AfterCallback();
    }

    /// <summary>Takes the number of bytes to report by OnSent.</summary>
    internal long TakeSent() => _callbacks.TakeSent();

    // ------------------------------------------------------------------ time limits (TimeLimits)

    /// <summary>Total time for which the connection was not read. Any thread; approximate.</summary>
    internal long HeldMs => _held.TotalMs;

    /// <summary>True if the timer serves the limits now: no handshake and no end is in progress.</summary>
    private bool IsLimited => State == ConnectionState.Open && WasConnected && _tls is not { IsTimed: true };

    /// <summary>
    /// Checks the limits in the next turn, after a hand-over or after a handshake that used the timer. Calls nothing.
    /// </summary>
    private void LookInNextTurn()
    {
        if (IsLimited && Session.LimitsOn(Shard) is not null) StartDeadline(TimeSpan.Zero);
    }

    /// <summary>
    /// Checks the limits after this time, because a limit was set that ends before the next check. May be inside a
    /// callback.
    /// </summary>
    internal void LookIn(uint generation, long ms)
    {
        if (generation != Generation || !IsLimited) return;
        Session.Limits?.LooksAt(Loop.Engine.NowMs + ms);
        StartDeadline(TimeSpan.FromMilliseconds(ms));
    }

    /// <summary>Checks the limits, and may call OnTimeout. Does nothing without limits.</summary>
    private void LookAtLimits()
    {
        if (!IsLimited || Session.LimitsOn(Shard) is not { } limits) return;
        bool isTaking = IsReading && Pool is not { IsTaking: true };
        // Queued data without a send in progress leaves with the next flush. Only a send that is in progress for long
        // indicates a slow peer.
        Traffic traffic = new(_received.Count, Outbound.BytesSent,
            isTaking && _life.Peer == PeerHalf.Open, _held.TotalMs, Outbound.IsSendInFlight);
        TimeLimit passed = limits.Look(Loop.Engine.NowMs, traffic);
        if (passed != TimeLimit.None) TellTimeout(limits, ReasonOf(passed, limits));
        // The callback may have ended the connection, handed it over, or started a handshake.
        if (!IsLimited || !ReferenceEquals(Session.Limits, limits) || limits.NextLookMs == long.MaxValue) return;
        StartDeadline(TimeSpan.FromMilliseconds(Math.Max(0, limits.NextLookMs - Loop.Engine.NowMs)));
    }

    private static CloseReason ReasonOf(TimeLimit passed, TimeLimits limits) => passed switch
    {
        TimeLimit.Idle => new CloseReason(CloseCause.IdleTimeout),
        TimeLimit.Receive => new CloseReason(CloseCause.ReceiveTimeout),
        TimeLimit.Send => new CloseReason(CloseCause.SendTimeout),
        _ => new CloseReason(CloseCause.PhaseTimeout, 0, new TimeoutException(limits.PassedPhase!.TimeoutText)),
    };

    private void TellTimeout(TimeLimits limits, CloseReason reason)
    {
        if (Tell(SessionCallback.TimeoutOf(reason.Cause), new PassedLimit(limits, reason))) AfterCallback();
    }

    // ------------------------------------------------------------------ posted work (contract 18)

    /// <summary>Runs a post, even while the connection is ending, because an accepted post always runs.</summary>
    internal void DrainCall(uint generation, Delegate action, object? state)
    {
        string name = ReferenceEquals(action, Session.RethrowReceived) ? "OnReceivedAsync" : UserCode.PostedAction;
        Debug.Assert(generation == Generation, "a connection does not end while a post to its session is pending");
        Loop.EnterCallback(this, name);
        Loop.Mailbox.EnterPosted(isAsync: action is Func<Task>);
        Exception? thrown = Session.RunPosted(action, state);
        Loop.Mailbox.LeavePosted();
        Loop.LeaveCallback();
        bool wasAwaited = Session.EndPost();
        if (thrown is not null) _driver.Fail(Here, thrown, name);
        AfterCallback();
        if (wasAwaited && State == ConnectionState.Closed) Loop.Schedule(this);
    }

    /// <summary>
    /// True if the hand-over may take place. Posts to the session run before it; nothing else is delivered until then.
    /// </summary>
    private bool MaySwitch()
    {
        if (!Session.StopPosts())
        {
            _timers.CancelAll();
            Shut(ReceiveGate.HandOver);
            return false;
        }

        if (!_driver.Release(ReceiveGate.HandOver)) return true;
        _driver.ForgetOffer(); // the switch delivers the unread data
        Loop.Schedule(this);
        return true;
    }

    // ------------------------------------------------------------------ callbacks on the pool that have returned

    /// <summary>OnConnecting has returned.</summary>
    internal void StrandConnecting(bool hasEnded)
    {
        if (State is not (ConnectionState.Connecting or ConnectionState.Handshaking)) return;
        bool isShaken = State == ConnectionState.Handshaking; // its session was made after the handshake
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (!isShaken) ConnectingReturned();
        else if (State == ConnectionState.Handshaking) Greet();
    }

    /// <summary>OnTlsHandshakeStarting has returned.</summary>
    internal void StrandHandshaking(bool hasEnded)
    {
        if (_tls is not { Phase: TlsPhase.Greeting } tls) return;
        // During UpgradeToTls its Close follows the data that it has sent.
        if (hasEnded && State == ConnectionState.Handshaking) CloseWith(new CloseReason(CloseCause.LocalClose));
        tls.Begin();
    }

    /// <summary>
    /// OnTlsHandshakeCompleted has returned. The session is connected now, unless it rejected the peer.
    /// </summary>
    internal void StrandHandshaked(bool hasEnded)
    {
        if (State != ConnectionState.Open || WasConnected) return;
        if (hasEnded) CloseWith(new CloseReason(CloseCause.LocalClose));
        if (State != ConnectionState.Open) return;
        _tls!.LeaveHandshake();
        Opened();
        // Cipher text has waited.
        Loop.Schedule(this);
    }

    /// <summary>OnEndOfStream has returned, and all bytes before it were delivered.</summary>
    internal void StrandFinished()
    {
        _life.PeersEndWasTold();
        if (State == ConnectionState.Open && _life.Own == OwnHalf.Finished && Outbound.IsEmpty)
            CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>A callback filled the queue: nothing is read until it has drained (contract 9).</summary>
    internal void HoldForStrand(bool untilEmpty)
    {
        if (State != ConnectionState.Open) return;
        HoldBack(untilEmpty);
        // It may have drained already.
        Loop.Schedule(this);
    }

    /// <summary>
    /// The next session takes over; its strand waits for that. When the connection is ending, it ends with the old one.
    /// </summary>
    internal void SwitchForStrand(Session next, uint generation)
    {
        if (generation != Generation || (State != ConnectionState.Open && !IsBeginning)) return;
        ReplaceSession(next);
        Pool!.TellHandedOver(next, WasConnected);
        LookInNextTurn();
        if (_life.Heard == Heard.ServerStopping) Pool.Tell(SessionCallback.ServerStopping);
    }
}
