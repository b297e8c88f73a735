using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// All ways in which a connection ends (contracts 1, 11, 12). The first cause is kept; one method detaches.
/// </summary>
internal sealed partial class Connection
{
    private const int LingerMs = 5_000;

    internal void SetReason(CloseReason reason) => _life.Because(reason);

    /// <summary>Counts bytes that were accepted and are not sent.</summary>
    internal void Loses(long bytes) => _life.Loses(bytes);

    // ------------------------------------------------------------------ graceful

    /// <summary>
    /// Closes on the loop's thread: rejects sends at once, delivers nothing more, sends queued data, then FIN.
    /// </summary>
    internal void CloseWith(CloseReason reason)
    {
        switch (State)
        {
            case ConnectionState.Connecting:
                SetReason(reason);
                EndAttempt();
                return;
            case ConnectionState.Handshaking:
                // Not connected yet: nothing was accepted that could be sent.
                SetReason(reason);
                Pool?.EndInput();
                Detach();
                return;
            case ConnectionState.Open when !WasConnected && !HasTaken:
                // In OnTlsHandshakeCompleted without data: the same as before the handshake.
                goto case ConnectionState.Handshaking;
            case ConnectionState.Open:
                break;
            default:
                return;
        }

        Pool?.EndInput();
        Outbound.Refuse();
        Outbound.Queue.CloseFill();
        _timers.CancelAll();
        if (_tls is { IsShaking: true } tls && WaitsForHandshake)
        {
            Go(ConnectionState.Concluding);
            tls.Upgrade!.CloseAs = reason; // nothing is processed before a handshake that comes first
            // Also if the callback that requested the upgrade never returns.
            if (!tls.IsTimed) StartDeadline(tls.Profile.Options.HandshakeTimeout);
            return;
        }

        Drain(reason);
    }

    /// <summary>
    /// True if data was accepted after the request for the upgrade, or other threads have sends in progress.
    /// </summary>
    private bool WaitsForHandshake => !Outbound.Queue.Blocks.IsEmpty || Outbound.HasSendsUnderWay;

    /// <summary>True if data was accepted that the peer must still receive.</summary>
    private bool HasTaken => Outbound.BytesSent > 0 || Outbound.PendingHere > 0 || Outbound.HasSendsUnderWay;

    /// <summary>Sends queued data, then FIN. New sends are already rejected.</summary>
    private void Drain(CloseReason reason)
    {
        if (Outbound.Error != 0)
            SetReason(new CloseReason(ErrorText.CauseOf(Outbound.Error), Outbound.Error));
        else if (_life.PeerWasFirst && reason.Cause != CloseCause.ProtocolError)
            SetReason(new CloseReason(CloseCause.PeerClosed));
        else SetReason(reason);
        Go(ConnectionState.Draining);
        Outbound.ReleaseSends();
        // Inside a callback the session may still read the data (contract 13); then the code after the callback clears
        // it.
        if (!ReferenceEquals(Loop.Active, this)) _driver.ClearUnread();
        _driver.ForgetOffer();
        if ((_life.Peer != PeerHalf.Open || PeerSaidAll) && Outbound.IsEmpty
            && _tls is not { CanSend: true })
        {
            // Both sides are done: nothing to send, nothing to wait for.
            Detach();
            return;
        }

        _deadline.StartDrain(this, Shard.Options.CommonTimeouts.Drain, Shard.DrainLimit);
        UpdateReceiving();
        Loop.Schedule(this);
    }

    /// <summary>
    /// Ends draining if everything accepted is sent, including sends of other threads that were in progress.
    /// </summary>
    private void TryFinishDraining()
    {
        if (Outbound.Error != 0)
        {
            Detach();
            return;
        }

        if (!Outbound.IsEmpty || SaysGoodbye()) return;
        if (_life.Peer != PeerHalf.Open || PeerSaidAll)
        {
            Detach();
            return;
        }

        Go(ConnectionState.Lingering);
        if (_life.Own != OwnHalf.Finished)
        {
            _life.Finish();
            Loop.ShutdownSend(this);
        }

        StartDeadline(
            _tls is { Phase: TlsPhase.Over } || _received.AreAll ? s_alertTime : TimeSpan.FromMilliseconds(LingerMs));
        UpdateReceiving();
    }

    /// <summary>
    /// True if the peer sends nothing more, so that closing causes no reset that would destroy data which the peer has
    /// not read. The session has declared this, and nothing was received since. Never with TLS, where the peer's
    /// close_notify is expected, nor with a fast open, which a close could undo.
    /// </summary>
    private bool PeerSaidAll =>
        _received.AreAll && _tls is null && Shard.Options is not ClientOptions { Socket.FastOpen: true };

    /// <summary>Called when the session knows from its protocol that the peer sends nothing more.</summary>
    internal void NotePeerSaidAll()
    {
        // Too late after its close, because data received meanwhile would not be noticed.
        if (State == ConnectionState.Open) _received.DeclareAll();
    }

    internal void ShutdownSend()
    {
        if (State != ConnectionState.Open || IsFinishing) return;
        _life.BeginShutdown();
        Outbound.Refuse();
        Outbound.ReleaseSends();
        Outbound.Queue.CloseFill();
        Loop.Schedule(this);
    }

    private void TryShutdownSend()
    {
        if (_life.Own == OwnHalf.Finished || !Outbound.IsEmpty
            || Outbound.Error != 0 || _tls is { IsShaking: true } || SaysGoodbye())
            return;
        _life.Finish();
        Loop.ShutdownSend(this);
        // On the pool the session may not have been notified yet, nor have received the last bytes.
        if (_life.Peer == PeerHalf.Told) CloseWith(new CloseReason(CloseCause.PeerClosed));
    }

    /// <summary>Calls OnDisconnecting, once, after the end has begun, outside of callbacks.</summary>
    private void SayDisconnecting()
    {
        _life.Hears(Heard.Disconnecting);
        Tell(SessionCallback.Disconnecting, Pool is null ? null : Reason);
    }

    /// <summary>
    /// Calls OnServerStopping once, outside of any callback. A session that takes the connection over later is notified
    /// too.
    /// </summary>
    internal void ServerStopping()
    {
        if (State != ConnectionState.Open || _life.Heard != Heard.Connected) return;
        _life.Hears(Heard.ServerStopping);
        if (Tell(SessionCallback.ServerStopping)) AfterCallback();
    }

    // ------------------------------------------------------------------ at once

    /// <summary>Aborts on the loop's thread: discards queued data and resets.</summary>
    internal void AbortWith(CloseReason reason)
    {
        switch (State)
        {
            case ConnectionState.Free or ConnectionState.Detaching or ConnectionState.Closed:
                return;
            case ConnectionState.Connecting:
                SetReason(reason);
                EndAttempt();
                return;
        }

        // An earlier send error is the first cause, even if the session was not notified yet.
        if (Outbound.Error != 0)
            SetReason(new CloseReason(ErrorText.CauseOf(Outbound.Error), Outbound.Error));
        if (State == ConnectionState.Concluding) SetReason(_tls!.Upgrade!.CloseAs);
        SetReason(reason);
        Pool?.EndInput();
        ResetOnClose = true;
        Detach();
    }

    internal override void Abort() => AbortWith(new CloseReason(CloseCause.EngineStopped));

    internal override bool EndsByFault => true;

    internal override void EndByFault(Exception exception) =>
        AbortWith(new CloseReason(CloseCause.UserException, 0, exception));

    internal override string? TextOf(string callback) => Session?.TextOf(callback);

    /// <summary>Ends the connection because of an error, a limit or the peer.</summary>
    private void Fail(CloseReason reason)
    {
        SetReason(reason);
        ResetOnClose = true;
        Detach();
    }

    /// <summary>Releases the descriptor. The only place that does so.</summary>
    private void Detach()
    {
        if (State is ConnectionState.Detaching or ConnectionState.Closed) return;
        Outbound.SettleStrand();
        _life.IsReset(ResetOnClose && State != ConnectionState.Lingering);
        Go(ConnectionState.Detaching);
        if (_tls is { } tls) Shard.Silent.Remove(tls);
        Outbound.Refuse();
        Session.StopPosts();
        Outbound.Queue.CloseFill();
        _isReceiving = false;
        _timers.CancelAll();
        Loop.Detach(this);
    }

    internal override void CompleteClose()
    {
        Go(ConnectionState.Closed);
        Loop.Schedule(this);
    }

    /// <summary>Ends a connect or accept before it was connected: nothing is attached.</summary>
    private void EndAttempt()
    {
        if (State != ConnectionState.Connecting) return;
        Go(ConnectionState.Closed);
        _timers.CancelAll();
        if (_holdsSocket)
        {
            RawSocket held = AdoptedSocket;
            EndSharing();
            Loop.Discard(held);
        }

        _holdsSocket = false;
        ConnectOperation? operation = ConnectOperation;
        ConnectOperation = null;
        operation?.GiveUp(Reason);
        Loop.Schedule(this);
    }

    /// <summary>The connect that will provide the socket, while it is in progress.</summary>
    internal ConnectOperation? ConnectOperation { get; set; }

    internal void ConnectFailed(CloseReason reason)
    {
        ConnectOperation = null;
        SetReason(reason);
        EndAttempt();
    }

    // ------------------------------------------------------------------ the last callback

    private void End()
    {
        if (!Session.PostsAreOver) return; // the last post returns here (contract 18)
        CloseInbox();
        // Without reserved bytes: what was accepted of them is counted by now.
        _life.Loses(Outbound.Queued);
        if (WasConnected && _life.Heard != Heard.Disconnecting && Pool is null) SayDisconnecting();
        FreeTls();
        Outbound.End();
        Outbound.EndFeeds(Reason);
        LeaveGroups();
        Session session = Session;
        ConnectionHost host = Shard.Host;
        CloseReason reason = Reason;
        // Only a connection that was announced is reported as ended (contract 1).
        bool wasConnected = WasConnected;
        Shard.Closed++;
        if (Pool is { } pool)
        {
            // The last callback may come much later; this object serves other connections then.
            _pool = null;
            session.DetachForGood(_received.Count, Outbound.BytesSent);
            Recycle();
            pool.End(reason, wasConnected);
            return;
        }

        host.SessionEnding(session);
        SessionDriver.CallLast(Here, session, reason, wasConnected);
        session.DetachForGood(_received.Count, Outbound.BytesSent);
        Recycle();
        if (session is not Newcomer) Loop.Engine.SessionEnded(session, reason);
        host.SessionEnded(session, reason, wasConnected);
        session.TellEnded(reason);
    }

    /// <summary>
    /// Returns the connection to the pool. If it is still on the dirty list, it stays there once, for its next use. The
    /// generation changes first, so that late callers do not find the next session.
    /// </summary>
    private void Recycle()
    {
        Generation = (Generation + 1) & ForeignWord.GenerationMask;
        OpenInbox();
        Outbound.Recycle();
        _driver.ClearUnread();
        Go(ConnectionState.Free);
        Debug.Assert(_timers.IsEmpty, "timers outlive their session");
        _life = default;
        _driver = default;
        _callbacks = default;
        _received = default;
        _held = default;
        (_shard, _pool, _tls) = (null!, null, null);
        (ConnectedHost, ConnectOperation) = (null, null);
        _holdsSocket = _isReceiving = ResetOnClose = false;
        _deadline.Recycle(Loop);
        ForgetShare();
        Loop.ReturnConnection(this);
    }

    // ------------------------------------------------------------------ deadlines

    internal void StartDeadline(TimeSpan due) => _deadline.Start(this, due);

    internal void DeadlinePassed()
    {
        bool isShaking = State is ConnectionState.Handshaking or ConnectionState.Concluding
            || (State == ConnectionState.Open && _tls is { IsTimed: true });
        if (isShaking && _tls is { } tls)
        {
            tls.Fail(new TlsFault(TlsFailure.TimedOut,
                $"not done within {tls.Profile.Options.HandshakeTimeout.TotalSeconds:0.###} s "
                + $"(TlsOptions.HandshakeTimeout"
                + $"{(tls.Profile.IsServer ? "" : "; a server that speaks no TLS at this port may wait in silence")})"),
                atOnce: true);
            return;
        }

        if (State == ConnectionState.Open)
        {
            LookAtLimits();
            return;
        }

        if (State is not (ConnectionState.Draining or ConnectionState.Lingering)) return;
        if (State == ConnectionState.Draining && _deadline.TryProlong(this, Shard.Options.CommonTimeouts.Drain)) return;
        ResetOnClose = true;
        Detach();
    }
}
