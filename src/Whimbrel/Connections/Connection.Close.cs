using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>All the ends of a connection (contracts 1, 11, 12). The first cause wins; one place detaches.</summary>
internal sealed partial class Connection
{
    private const int LingerMs = 5_000;

    internal void SetReason(CloseReason reason) => _tenancy.Life.Because(reason);

    // ------------------------------------------------------------------ graceful

    /// <summary>Close on the loop's thread: refuses sends at once, delivers nothing more, sends what is queued, then FIN.</summary>
    internal void CloseWith(CloseReason reason)
    {
        switch (State)
        {
            case ConnectionState.Connecting:
                SetReason(reason);
                EndAttempt();
                return;
            case ConnectionState.Handshaking:
                // Not connected yet: nothing was taken that could leave.
                SetReason(reason);
                Strand?.EndInput();
                Detach();
                return;
            case ConnectionState.Open when !WasConnected && !HasTaken:
                // In OnTlsHandshakeCompleted, and nothing was said: as before the handshake.
                goto case ConnectionState.Handshaking;
            case ConnectionState.Open:
                break;
            default:
                return;
        }

        Strand?.EndInput();
        RefuseForeign();
        _queue.CloseFill();
        CancelSessionTimers();
        if (_tenancy.Tls is { IsShaking: true } tls && WaitsForHandshake)
        {
            Go(ConnectionState.Concluding);
            tls.Upgrade!.CloseAs = reason; // nothing is taken before a handshake that comes first
            // Also when the callback that asked for the upgrade never returns.
            if (!tls.IsTimed) StartDeadline(tls.Profile.Options.HandshakeTimeout);
            return;
        }

        Drain(reason);
    }

    /// <summary>Something was taken after the upgrade was asked for, or other threads have it under way.</summary>
    private bool WaitsForHandshake => !_queue.Blocks.IsEmpty || HasSendsUnderWay;

    /// <summary>Something was taken, and the peer shall get all of it.</summary>
    private bool HasTaken => _tenancy.BytesSent > 0 || PendingHere > 0 || HasSendsUnderWay;

    /// <summary>Sends are refused already: what is queued leaves, then FIN.</summary>
    private void Drain(CloseReason reason)
    {
        if (_tenancy.SendError != 0) SetReason(new CloseReason(ErrorText.CauseOf(_tenancy.SendError), _tenancy.SendError));
        else if (_tenancy.Life.PeerWasFirst && reason.Cause != CloseCause.ProtocolError) SetReason(new CloseReason(CloseCause.PeerClosed));
        else SetReason(reason);
        Go(ConnectionState.Draining);
        ReleaseSends();
        // Inside a callback the session may still be reading them (contract 13); then whoever lent them clears them.
        if (!ReferenceEquals(Loop.ActiveConnection, this)) _tenancy.Unread.Clear();
        _tenancy.OfferPending = false;
        if ((_tenancy.Life.Peer != PeerHalf.Open || PeerSaidAll) && SendQueueIsEmpty && _tenancy.Tls is not { CanSend: true })
        {
            // Both sides are done: nothing to drain, nothing to wait for.
            Detach();
            return;
        }

        _tenancy.DrainEndsMs = Loop.Engine.NowMs + Loop.WholeMs(Shard.DrainLimit);
        StartDeadline(Shard.Options.DrainTimeout);
        UpdateReceiving();
        Loop.Schedule(this);
    }

    /// <summary>Done draining: everything taken is sent, also what other threads had under way.</summary>
    private void TryFinishDraining()
    {
        if (_tenancy.SendError != 0)
        {
            Detach();
            return;
        }

        if (!SendQueueIsEmpty || SaysGoodbye()) return;
        if (_tenancy.Life.Peer != PeerHalf.Open || PeerSaidAll)
        {
            Detach();
            return;
        }

        Go(ConnectionState.Lingering);
        if (_tenancy.Life.Own != OwnHalf.Finished)
        {
            _tenancy.Life.Finish();
            Loop.ShutdownSend(this);
        }

        StartDeadline(_tenancy.Tls is { Phase: TlsPhase.Over } || WasSaidAll ? s_alertTime : TimeSpan.FromMilliseconds(LingerMs));
        UpdateReceiving();
    }

    /// <summary>
    /// Nothing will come that closing would answer with a reset, and the reset destroy what the peer has not read: the session said so, and
    /// nothing has come since. Not with TLS, whose peer owes its close_notify, nor while a fast open may be undone by a close.
    /// </summary>
    private bool PeerSaidAll => WasSaidAll && _tenancy.Tls is null && Shard.Options is not ClientOptions { FastOpen: true };

    private bool WasSaidAll => _tenancy.SaidAllAt == _tenancy.BytesReceived + 1;

    /// <summary>By its protocol the session knows that the peer sends nothing more.</summary>
    internal void NotePeerSaidAll()
    {
        // After its close it is too late: what came meanwhile would not be noticed.
        if (State == ConnectionState.Open) _tenancy.SaidAllAt = _tenancy.BytesReceived + 1;
    }

    internal void ShutdownSend()
    {
        if (State != ConnectionState.Open || IsFinishing) return;
        _tenancy.Life.BeginShutdown();
        RefuseForeign();
        ReleaseSends();
        _queue.CloseFill();
        Loop.Schedule(this);
    }

    private void TryShutdownSend()
    {
        if (_tenancy.Life.Own == OwnHalf.Finished || !SendQueueIsEmpty || _tenancy.SendError != 0 || _tenancy.Tls is { IsShaking: true } || SaysGoodbye()) return;
        _tenancy.Life.Finish();
        Loop.ShutdownSend(this);
        // On the pool the session may not have heard of it yet, nor got the last bytes.
        if (_tenancy.Life.Peer == PeerHalf.Told) CloseWith(new CloseReason(CloseCause.PeerClosed));
    }

    /// <summary>The end has begun and no callback runs: the session hears of it, once.</summary>
    private void SayDisconnecting()
    {
        _tenancy.Life.Hears(Heard.Disconnecting);
        Tell(SessionCallback.Disconnecting, Strand is null ? null : Reason);
    }

    /// <summary>The server stops; once. Outside of any callback. Who takes the connection over later hears of it as well.</summary>
    internal void ServerStopping()
    {
        if (State != ConnectionState.Open || _tenancy.Life.Heard != Heard.Connected) return;
        _tenancy.Life.Hears(Heard.ServerStopping);
        if (Tell(SessionCallback.ServerStopping)) AfterCallback();
    }

    // ------------------------------------------------------------------ at once

    /// <summary>Abort on the loop's thread: discards, resets.</summary>
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

        // What failed before is the first cause, though the session was not told yet.
        if (_tenancy.SendError != 0) SetReason(new CloseReason(ErrorText.CauseOf(_tenancy.SendError), _tenancy.SendError));
        if (State == ConnectionState.Concluding) SetReason(_tenancy.Tls!.Upgrade!.CloseAs);
        SetReason(reason);
        Strand?.EndInput();
        ResetOnClose = true;
        Detach();
    }

    /// <summary>The connection ended by an error, a limit or the peer.</summary>
    private void Fail(CloseReason reason)
    {
        SetReason(reason);
        ResetOnClose = true;
        Detach();
    }

    /// <summary>The one place that gives the descriptor back.</summary>
    private void Detach()
    {
        if (State is ConnectionState.Detaching or ConnectionState.Closed) return;
        SettleStrand();
        _tenancy.Life.IsReset(ResetOnClose && State != ConnectionState.Lingering);
        Go(ConnectionState.Detaching);
        if (_tenancy.Tls is { } tls) Shard.Silent.Remove(tls);
        RefuseForeign();
        Session.StopPosts();
        _queue.CloseFill();
        _tenancy.IsReceiving = false;
        CancelSessionTimers();
        Loop.Detach(this);
    }

    internal override void CompleteClose()
    {
        Go(ConnectionState.Closed);
        Loop.Schedule(this);
    }

    /// <summary>A dial or accept that ends before it was connected: nothing is attached.</summary>
    private void EndAttempt()
    {
        if (State != ConnectionState.Connecting) return;
        Go(ConnectionState.Closed);
        CancelSessionTimers();
        if (_tenancy.HoldsSocket)
        {
            RawSocket held = AdoptedSocket;
            EndSharing();
            Loop.Discard(held);
        }

        _tenancy.HoldsSocket = false;
        ConnectOperation? dial = ConnectOperation;
        ConnectOperation = null;
        dial?.GiveUp(Reason);
        Loop.Schedule(this);
    }

    /// <summary>What will bring the socket, while it is under way.</summary>
    internal ConnectOperation? ConnectOperation
    {
        get => _tenancy.ConnectOperation;
        set => _tenancy.ConnectOperation = value;
    }

    internal void ConnectFailed(CloseReason reason)
    {
        ConnectOperation = null;
        SetReason(reason);
        EndAttempt();
    }

    // ------------------------------------------------------------------ the last callback

    private void End()
    {
        if (!Session.PostsAreOver) return; // the last of them comes back here (contract 18)
        _tenancy.Life.Loses(PendingHere);
        if (WasConnected && _tenancy.Life.Heard != Heard.Disconnecting && Strand is null) SayDisconnecting();
        FreeTls();
        DiscardQueue();
        EndOperations();
        EndFeeds(Reason);
        LeaveGroups();
        Session session = Session;
        ConnectionHost host = Shard.Host;
        CloseReason reason = Reason;
        // Only a connection that was announced is said to have ended (contract 1).
        bool wasConnected = WasConnected;
        Shard.Closed++;
        if (Strand is { } strand)
        {
            // The last callback may come much later; this object serves others then.
            _tenancy.Strand = null;
            session.DetachForGood(_tenancy.BytesReceived, _tenancy.BytesSent);
            Recycle();
            strand.End(reason, wasConnected);
            return;
        }

        host.SessionEnding(session);
        CallLast(session, reason, wasConnected);
        session.DetachForGood(_tenancy.BytesReceived, _tenancy.BytesSent);
        Recycle();
        if (session is not Newcomer) Loop.Engine.SessionEnded(session, reason);
        host.SessionEnded(session, reason, wasConnected);
        session.TellEnded(reason);
    }

    private void CallLast(Session session, CloseReason reason, bool wasConnected)
    {
        Loop.EnterCallback(this, wasConnected ? "OnDisconnected" : "OnConnectFailed");
        try
        {
            if (wasConnected) session.CallDisconnected(reason);
            else session.CallConnectFailed(reason);
        }
        catch (Exception e)
        {
            TellErrorAfterEnd(session, e, wasConnected ? "OnDisconnected" : "OnConnectFailed");
        }

        Loop.LeaveCallback();
    }

    private void TellErrorAfterEnd(Session session, Exception exception, string callback)
    {
        try
        {
            session.CallError(exception, callback);
        }
        catch (Exception second)
        {
            Loop.Engine.ReportOnErrorThrew(session, callback, exception, second);
        }
    }

    /// <summary>
    /// Back to the pool. If it is still on the dirty list, it stays there once, for whoever comes next. The generation changes first, so nobody who comes late
    /// finds the next tenant.
    /// </summary>
    private void Recycle()
    {
        Generation = (Generation + 1) & ForeignWord.GenerationMask;
        _queue.Recycle(Generation);
        _tenancy.Unread.Clear();
        Go(ConnectionState.Free);
        _tenancy = default;
        ForgetShare();
        ResetOnClose = false;
        if (_deadline is not null) Loop.Timers.Remove(_deadline);
        Loop.ReturnConnection(this);
    }

    // ------------------------------------------------------------------ deadlines

    internal void StartDeadline(TimeSpan due) => StartDeadline(due, _tenancy.BytesSent);

    private void StartDeadline(TimeSpan due, long progress)
    {
        // One timer for all deadlines of all tenants: short connections are many.
        _deadline ??= new LoopTimer(Loop, static state => ((Connection)state!).DeadlinePassed(), this);
        _tenancy.ProgressAtDeadline = progress;
        _deadline.Start(due);
    }

    private void DeadlinePassed()
    {
        bool isShaking = State is ConnectionState.Handshaking or ConnectionState.Concluding || (State == ConnectionState.Open && _tenancy.Tls is { IsTimed: true });
        if (isShaking && _tenancy.Tls is { } tls)
        {
            tls.Fail(new TlsFault(TlsFailure.TimedOut, $"not done within {tls.Profile.Options.HandshakeTimeout.TotalSeconds:0.###} s (TlsOptions.HandshakeTimeout{(tls.Profile.IsServer ? "" : "; a server that speaks no TLS at this port may wait in silence")})"), atOnce: true);
            return;
        }

        if (State == ConnectionState.Open)
        {
            LookAtLimits();
            return;
        }

        if (State == ConnectionState.Draining && _tenancy.BytesSent > _tenancy.ProgressAtDeadline && _tenancy.DrainEndsMs - Loop.Engine.NowMs is > 0 and var leftMs)
        {
            // The peer is slow, not gone: as long as it takes bytes it may have them. But one that takes a byte now and then must not hold us for ever.
            StartDeadline(TimeSpan.FromMilliseconds(Math.Min(leftMs, Loop.WholeMs(Shard.Options.DrainTimeout))));
            return;
        }

        if (State is not (ConnectionState.Draining or ConnectionState.Lingering)) return;
        ResetOnClose = true;
        Detach();
    }
}
