using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>All the ends of a connection (contracts 1, 11, 12). The first cause wins; one place detaches.</summary>
internal sealed partial class Connection
{
    private const int LingerMs = 5_000;

    private long _progressAtDeadline;
    private long _drainEndsMs;
    private CloseReason _closeAs; // while Concluding: the reason of the close, unless the handshake fails
    private long _saidAllAt = -1; // the bytes received when the session said that the peer sends no more

    private void SetReason(CloseReason reason)
    {
        if (_reason.Cause == CloseCause.None) _reason = reason;
    }

    // ------------------------------------------------------------------ graceful

    /// <summary>Close on the loop's thread: refuses sends at once, delivers nothing more, sends what is queued, then FIN.</summary>
    internal void CloseWith(CloseReason reason)
    {
        switch (_state)
        {
            case ConnectionState.Connecting:
                SetReason(reason);
                EndAttempt();
                return;
            case ConnectionState.Handshaking:
                // Not connected yet: nothing was taken that could leave.
                SetReason(reason);
                _strand?.EndInput();
                Detach();
                return;
            case ConnectionState.Open when !_wasConnected && !HasTaken:
                // In OnHandshaked, and nothing was said: as before the handshake.
                goto case ConnectionState.Handshaking;
            case ConnectionState.Open:
                break;
            default:
                return;
        }

        _strand?.EndInput();
        RefuseForeign();
        _queue.CloseFill();
        CancelSessionTimers();
        if (_tls is { IsShaking: true } tls && WaitsForHandshake)
        {
            _state = ConnectionState.Concluding;
            _closeAs = reason;
            // Also when the callback that asked for the upgrade never returns.
            if (!tls.HasBegun) StartDeadline(tls.Profile.Options.HandshakeTimeout);
            return;
        }

        Drain(reason);
    }

    /// <summary>Something was taken after the upgrade was asked for, or other threads have it under way.</summary>
    private bool WaitsForHandshake => !_queue.Blocks.IsEmpty || HasSendsUnderWay;

    /// <summary>Something was taken, and the peer shall get all of it.</summary>
    private bool HasTaken => _bytesSent > 0 || PendingHere > 0 || HasSendsUnderWay;

    /// <summary>Sends are refused already: what is queued leaves, then FIN.</summary>
    private void Drain(CloseReason reason)
    {
        if (_sendError != 0) SetReason(new CloseReason(ErrorText.CauseOf(_sendError), _sendError));
        else if (_peerFinished && !_finishedFirst) SetReason(new CloseReason(CloseCause.PeerClosed));
        else SetReason(reason);
        _state = ConnectionState.Draining;
        // Inside a callback the session may still be reading them (contract 13); then whoever lent them clears them.
        if (!ReferenceEquals(Loop.ActiveConnection, this)) _unread.Clear();
        _offerPending = false;
        if ((_peerFinished || _heldFinish || PeerSaidAll) && SendQueueIsEmpty && _tls is not { OwesGoodbye: true })
        {
            // Both sides are done: nothing to drain, nothing to wait for.
            Detach();
            return;
        }

        _drainEndsMs = Loop.Engine.NowMs + Loop.WholeMs(_shard.DrainLimit);
        StartDeadline(_shard.Options.DrainTimeout);
        UpdateReceiving();
        Loop.Schedule(this);
    }

    /// <summary>Done draining: everything taken is sent, also what other threads had under way.</summary>
    private void TryFinishDraining()
    {
        if (_sendError != 0)
        {
            Detach();
            return;
        }

        if (!SendQueueIsEmpty || SayGoodbye()) return;
        if (_peerFinished || _heldFinish || PeerSaidAll)
        {
            Detach();
            return;
        }

        _state = ConnectionState.Lingering;
        if (!_finishSent)
        {
            _finishSent = true;
            Loop.FinishSend(this);
        }

        StartDeadline(_tls is { Phase: TlsPhase.Over } ? s_alertTime : TimeSpan.FromMilliseconds(LingerMs));
        UpdateReceiving();
    }

    /// <summary>
    /// Nothing will come that closing would answer with a reset, and the reset destroy what the peer has not read: the session said so, and
    /// nothing has come since. Not with TLS, whose peer owes its close_notify, nor while a fast open may be undone by a close.
    /// </summary>
    private bool PeerSaidAll => _saidAllAt == _bytesReceived && _tls is null && _shard.Options is not ClientOptions { FastOpen: true };

    /// <summary>By its protocol the session knows that the peer sends nothing more.</summary>
    internal void NotePeerSaidAll()
    {
        // After its close it is too late: what came meanwhile would not be noticed.
        if (_state == ConnectionState.Open) _saidAllAt = _bytesReceived;
    }

    internal void FinishSending()
    {
        if (_state != ConnectionState.Open || _finishRequested) return;
        _finishRequested = true;
        _finishedFirst = !_peerFinished;
        RefuseForeign();
        _queue.CloseFill();
        Loop.Schedule(this);
    }

    private void TryFinishSending()
    {
        if (_finishSent || !SendQueueIsEmpty || _sendError != 0 || _tls is { IsShaking: true } || SayGoodbye()) return;
        _finishSent = true;
        Loop.FinishSend(this);
        // On the pool the session may not have heard of it yet, nor got the last bytes.
        if (_peerFinished && (_strand is null || _finishWasTold)) CloseWith(new CloseReason(CloseCause.PeerClosed));
    }

    /// <summary>The end has begun and no callback runs: the session hears of it, once.</summary>
    private void SayDisconnecting()
    {
        _saidDisconnecting = true;
        if (_strand is { } strand)
        {
            strand.PostDisconnecting(_reason);
            return;
        }

        Call("OnDisconnecting", static session => session.CallDisconnecting(session.Connection!.Reason));
        _shard.Host.SessionDisconnecting(_session, _reason);
    }

    /// <summary>The server stops; once. Outside of any callback. Who takes the connection over later hears of it as well.</summary>
    internal void ServerStopping()
    {
        if (_state != ConnectionState.Open || _saidServerStopping) return;
        _saidServerStopping = true;
        if (_strand is { } strand)
        {
            strand.PostServerStopping();
            return;
        }

        Call("OnServerStopping", static session => session.CallServerStopping());
        AfterCallback();
    }

    // ------------------------------------------------------------------ at once

    /// <summary>Abort on the loop's thread: discards, resets.</summary>
    internal void AbortWith(CloseReason reason)
    {
        switch (_state)
        {
            case ConnectionState.Free or ConnectionState.Detaching or ConnectionState.Closed:
                return;
            case ConnectionState.Connecting:
                SetReason(reason);
                EndAttempt();
                return;
        }

        // What failed before is the first cause, though the session was not told yet.
        if (_sendError != 0) SetReason(new CloseReason(ErrorText.CauseOf(_sendError), _sendError));
        if (_state == ConnectionState.Concluding) SetReason(_closeAs);
        SetReason(reason);
        _strand?.EndInput();
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
        if (_state is ConnectionState.Detaching or ConnectionState.Closed) return;
        _state = ConnectionState.Detaching;
        _shard.Silent.Remove(this);
        RefuseForeign();
        _session.StopPosts();
        _queue.CloseFill();
        _isReceiving = false;
        CancelSessionTimers();
        Loop.Detach(this);
    }

    internal override void CompleteClose()
    {
        _state = ConnectionState.Closed;
        Loop.Schedule(this);
    }

    /// <summary>A dial or accept that ends before it was connected: nothing is attached.</summary>
    private void EndAttempt()
    {
        if (_state != ConnectionState.Connecting) return;
        _state = ConnectionState.Closed;
        CancelSessionTimers();
        if (_holdsSocket)
        {
            EndSharing();
            Loop.Discard(AdoptedSocket);
        }

        _holdsSocket = false;
        AdoptedSocket = default;
        Dial? dial = Dial;
        Dial = null;
        dial?.GiveUp(_reason);
        Loop.Schedule(this);
    }

    /// <summary>What will bring the socket, while it is under way.</summary>
    internal Dial? Dial { get; set; }

    internal void DialFailed(CloseReason reason)
    {
        Dial = null;
        SetReason(reason);
        EndAttempt();
    }

    // ------------------------------------------------------------------ the last callback

    private void End()
    {
        if (!_session.PostsAreOver) return; // the last of them comes back here (contract 18)
        if (_wasConnected && !_saidDisconnecting && _strand is null) SayDisconnecting();
        FreeTls();
        DiscardQueue();
        EndOperations();
        LeaveGroups();
        Session session = _session;
        ConnectionHost host = _shard.Host;
        CloseReason reason = _reason;
        // Only a connection that was announced is said to have ended (contract 1).
        bool wasConnected = _wasConnected;
        _shard.Closed++;
        if (_strand is { } strand)
        {
            // The last callback may come much later; this object serves others then.
            _strand = null;
            session.DetachForGood(_bytesReceived, _bytesSent);
            Recycle();
            strand.End(reason, wasConnected);
            return;
        }

        host.SessionEnding(session);
        CallLast(session, reason, wasConnected);
        session.DetachForGood(_bytesReceived, _bytesSent);
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
            Loop.Engine.NoteException("OnError", second);
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
        _state = ConnectionState.Free;
        _session = null!;
        _next = null;
        _shard = null!;
        _reason = default;
        _closeAs = default;
        _unread.Clear();
        _atLeast = 0;
        _bytesReceived = 0;
        _bytesSent = 0;
        _discarded = 0;
        _offerPending = false;
        _heldFinish = false;
        _wasConnected = false;
        DialledHost = null;
        _saidServerStopping = false;
        _saidDisconnecting = false;
        _peerFinished = false;
        _finishRequested = false;
        _finishSent = false;
        _finishedFirst = false;
        _drainOwed = false;
        _sentUntold = 0;
        _hooks = SessionHooks.None;
        _finishWasTold = false;
        _sendError = 0;
        _queueFault = default;
        _offerOwed = false;
        _goesOnAt = 0;
        _knowsOfQueue = false;
        _sendInFlight = false;
        _heldMs = _heldFromMs = 0;
        _drainEndsMs = 0;
        _saidAllAt = -1;
        ForgetShare();
        _broadcastGate = BroadcastGate.Open;
        ResetOnClose = false;
        if (_deadline is not null) Loop.Timers.Remove(_deadline);
        Loop.ReturnConnection(this);
    }

    // ------------------------------------------------------------------ deadlines

    private void StartDeadline(TimeSpan due) => StartDeadline(due, _bytesSent);

    private void StartDeadline(TimeSpan due, long progress)
    {
        // One timer for all deadlines of all tenants: short connections are many.
        _deadline ??= new LoopTimer(Loop, static state => ((Connection)state!).DeadlinePassed(), this);
        _progressAtDeadline = progress;
        _deadline.Start(due);
    }

    private void DeadlinePassed()
    {
        bool isShaking = _state is ConnectionState.Handshaking or ConnectionState.Concluding || (_state == ConnectionState.Open && _tls is { IsShaking: true, HasBegun: true });
        if (isShaking && _tls is { } tls)
        {
            FailTls(new TlsFault(TlsFailure.TimedOut, $"not done within {tls.Profile.Options.HandshakeTimeout.TotalSeconds:0.###} s (TlsOptions.HandshakeTimeout)"), atOnce: true);
            return;
        }

        if (_state == ConnectionState.Open)
        {
            LookAtLimits();
            return;
        }

        if (_state == ConnectionState.Draining && _bytesSent > _progressAtDeadline && _drainEndsMs - Loop.Engine.NowMs is > 0 and var leftMs)
        {
            // The peer is slow, not gone: as long as it takes bytes it may have them. But one that takes a byte now and then must not hold us for ever.
            StartDeadline(TimeSpan.FromMilliseconds(Math.Min(leftMs, Loop.WholeMs(_shard.Options.DrainTimeout))));
            return;
        }

        if (_state is not (ConnectionState.Draining or ConnectionState.Lingering)) return;
        ResetOnClose = true;
        Detach();
    }
}
