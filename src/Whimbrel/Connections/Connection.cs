using System.Net;
using System.Net.Sockets;
using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// One stream socket: its state, its unread bytes, its send queue and the session on top. Lives on one loop and is
/// recycled by it; sessions are not. Follow one byte: <c>CompleteReceive</c> (Connection.Receive.cs) offers it to the
/// session, whose <c>Send</c> appends it to the fill block and marks the connection dirty (Connection.Send.cs); the
/// flush at the end of the turn sends it; <c>AdvanceSend</c> returns the block. Connection.Close.cs has all the ends.
/// </summary>
/// <remarks>
/// Loop's thread only, except for the members that say "any thread". Those go by <see cref="ForeignWord"/>, with
/// the generation, a closed bit and the bytes other threads have under way, so that a late caller can neither
/// reach the next tenant of this object nor pass the limit.
/// </remarks>
internal sealed partial class Connection : Resident
{
    private HostShard _shard = null!;
    private Session _session = null!;
    private Session? _next;
    private ConnectionState _state = ConnectionState.Free;
    private CloseReason _reason;
    private Strand? _strand;
    private LoopTimer? _deadline;
    private LoopTimer? _sessionTimers;
    private bool _wasConnected;
    private bool _peerFinished;
    private bool _finishRequested;
    private bool _finishedFirst;
    private bool _finishSent;
    private bool _holdsSocket;
    private bool _finishWasTold;
    private bool _saidServerStopping;
    private bool _saidDisconnecting;

    internal Connection(Loop loop)
        : base(loop)
    {
    }

    internal ConnectionState State => _state;

    internal Session Session => _session;

    internal ConnectionHost Host => _shard.Host;

    internal HostShard Shard => _shard;

    internal CloseReason Reason => _reason;

    /// <summary>Why it ends, also while the session was not told yet; cause None while it does not.</summary>
    internal CloseReason EndSoFar =>
        _reason.Cause != CloseCause.None || _sendError == 0 ? _reason : new CloseReason(Diagnostics.ErrorText.CauseOf(_sendError), _sendError);

    internal bool IsOpen => _wasConnected && _state == ConnectionState.Open && _strand is not { IsEnded: true };

    /// <summary>Its session has not heard of the connection yet. The last step of that is open already: OnHandshaked may send.</summary>
    internal bool IsBeginning => _state is ConnectionState.Connecting or ConnectionState.Handshaking || (_state == ConnectionState.Open && !_wasConnected);

    /// <summary>Runs the session's callbacks on the pool; null when they run here.</summary>
    internal Strand? Strand => _strand;

    /// <summary>Only user code that saw the descriptor can have made one.</summary>
    internal override bool MayHaveDuplicate => WasShared || _shard.Options.OnSocketCreated is not null;

    /// <summary>The Socket object of that tenant's connection, or null. Any thread.</summary>
    internal Socket? ShareSocket(uint generation)
    {
        // tidy: allowed because user code asked; no tenant changes while its socket is shared
        lock (Loop.SocketGate) return Generation == generation ? ShareSocket() : null;
    }

    /// <summary>Index in the group of all connections of its host on this loop.</summary>
    internal int HostMemberIndex { get; set; } = -1;

    /// <summary>The socket that the engine adopts in Attach; an accepted one already lies here during OnConnecting.</summary>
    internal RawSocket AdoptedSocket { get; private set; }

    // ------------------------------------------------------------------ birth

    /// <summary>Gives the object a new tenant. The session is made by the caller, with the factory fenced.</summary>
    internal void Begin(HostShard shard, Session session, long id, EndPoint? local, PeerAddress remote)
    {
        _shard = shard;
        _session = session;
        _state = ConnectionState.Connecting;
        _reason = default;
        _gate = ReceiveGate.NotOpen;
        _queue.Limit = shard.Options.SendLimitBytes;
        _queue.AllowsLarge = shard.Options.AllowLargeMessages;
        _hooks = shard.HooksOf(session);
        _queue.Foreign.Begin(Generation, isClosed: true);
        shard.Opened++;
        session.Attach(this, id, local, remote);
        GiveStrand(session);
        if (!IsNewcomer) Loop.Engine.SessionBegan(session);
    }

    private void GiveStrand(Session session)
    {
        if (_shard.Options.Scheduling == Scheduling.ThreadPool && !session.StaysOnLoop) _strand = new Strand(this, session);
    }

    /// <summary>
    /// OnConnecting; then the host goes on, unless that threw or closed. An accepted socket is held meanwhile: the
    /// attempt may end before it was adopted.
    /// </summary>
    internal void Connecting(RawSocket? accepted)
    {
        _holdsSocket = accepted is not null && _state == ConnectionState.Connecting;
        if (_holdsSocket)
        {
            AdoptedSocket = accepted.GetValueOrDefault();
            BeginSharing(AdoptedSocket);
        }
        else if (accepted is { } socket) Loop.Discard(socket); // ended before it began; it has both callbacks all the same
        if (IsNewcomer || SayConnecting()) ConnectingReturned();
    }

    /// <summary>Its session is made when the handshake is done.</summary>
    private bool IsNewcomer => _session is Newcomer;

    /// <summary>OnConnecting. False on the pool: <see cref="StrandConnecting"/> goes on when it has returned.</summary>
    private bool SayConnecting()
    {
        if (_strand is { } strand)
        {
            strand.PostConnecting();
            return false;
        }

        Call("OnConnecting", static session => session.CallConnecting());
        if (_state is ConnectionState.Connecting or ConnectionState.Handshaking) _shard.Host.SessionBegan(_session);
        AfterCallback();
        return true;
    }

    private void ConnectingReturned()
    {
        // A loop that stops has ended its residents already: who comes now ends here, or the loop would never be empty.
        if (Loop.IsStopping) AbortWith(new CloseReason(CloseCause.EngineStopped));
        if (_state == ConnectionState.Connecting) _shard.Host.SessionConnecting(this);
    }

    /// <summary>Takes over the socket that was accepted for it.</summary>
    internal void AdoptHeld()
    {
        _holdsSocket = false;
        Loop.Attach(this);
    }

    /// <summary>Takes over a connected socket, tells the session, starts to read.</summary>
    internal void Adopt(RawSocket socket)
    {
        AdoptedSocket = socket;
        BeginSharing(socket);
        Loop.Attach(this);
    }

    internal override void CompleteAttach(int error)
    {
        AdoptedSocket = default;
        if (error != 0)
        {
            SetReason(new CloseReason(Diagnostics.ErrorText.CauseOf(error), error));
            Detach();
            return;
        }

        if (_shard.Host.Tls is { } tls) BeginTls(tls);
        else Opened();
    }

    /// <summary>Sends are taken from here on.</summary>
    private void TakeSends()
    {
        _state = ConnectionState.Open;
        _queue.Foreign.Begin(Generation, isClosed: false);
    }

    /// <summary>The session hears that it is connected, and reading starts.</summary>
    private void Opened()
    {
        if (_state != ConnectionState.Open) TakeSends();
        _wasConnected = true;
        // Not None: a pause in OnConnecting stays (contract 10).
        _gate &= ~ReceiveGate.NotOpen;
        CountHeldTime(isShut: true);
        _shard.Members.Add(this);
        _session.SetConnectedAt(Loop.Engine.UtcNow);
        if (_strand is { } strand)
        {
            strand.DialledHost = DialledHost;
            strand.PostConnected(_session);
        }
        else
        {
            _session.StartPosts();
            Call("OnConnected", static session => session.CallConnected());
            _shard.Host.SessionConnected(_session);
        }

        if (_sessionTimers is not null) ReleaseHeldTimers();
        AfterCallback();
        LookAtLimits();
        UpdateReceiving();
    }

    // ------------------------------------------------------------------ callbacks

    /// <summary>Runs one override, fenced: what it throws goes to OnError and ends this connection only (contract 4).</summary>
    private void Call(string name, Action<Session> callback)
    {
        Loop.EnterCallback(this, name);
        try
        {
            callback(_session);
        }
        catch (Exception e)
        {
            Loop.LeaveCallback();
            FailWith(e, name);
            return;
        }

        Loop.LeaveCallback();
    }

    /// <summary>The session threw: tell it, then end the connection. The call to OnError is fenced as well.</summary>
    private void FailWith(Exception exception, string callback)
    {
        Loop.EnterCallback(this, "OnError");
        try
        {
            _session.CallError(exception, callback);
        }
        catch (Exception second)
        {
            Loop.Engine.NoteException("OnError", second);
        }

        Loop.LeaveCallback();
        AbortWith(new CloseReason(CloseCause.UserException, 0, exception));
    }

    /// <summary>What a callback asked for and must not happen inside it.</summary>
    private void AfterCallback()
    {
        while (_next is not null && (_state == ConnectionState.Open || IsBeginning) && MaySwitch()) SwitchSession();
        if (_upgrade is { IsReady: true }) StartUpgrade();
    }

    // ------------------------------------------------------------------ hand-over (contract 15)

    /// <summary>An earlier callback has handed over, and what was posted to its session runs first.</summary>
    internal bool IsHandingOver => (_gate & ReceiveGate.HandOver) != 0;

    internal void HandOver(Session next)
    {
        if (_state != ConnectionState.Open && !IsBeginning) return;
        _next = next;
        if (!ReferenceEquals(Loop.ActiveConnection, this)) Loop.Schedule(this);
    }

    private void SwitchSession()
    {
        Session old = _session;
        Session next = _next!;
        _next = null;
        CancelSessionTimers();
        _atLeast = 0;
        EndHoldsOfSession();
        // First, so that whatever the old session does in its last callback does not reach the connection any more: it
        // has its end, and must not get a second one (contract 1).
        old.DetachForHandOver();
        next.AttachByHandOver(this, old);
        _session = next;
        if (_wasConnected) next.StartPosts();
        ChangeHooks(next);
        _shard.Host.SessionReplaced(old, next);
        Exception? thrown = TellHandedOver(old);
        // Also when the connection has ended meanwhile: the next session hears of the end only after its beginning. Before the connection is
        // open that is still to come, and the next session gets it.
        if (_wasConnected) Call("OnConnected", static session => session.CallConnected());
        if (thrown is not null) AbortWith(new CloseReason(CloseCause.UserException, 0, thrown));
        if (!_wasConnected) return;
        LookInNextTurn();
        if (_saidServerStopping && _state == ConnectionState.Open) Call("OnServerStopping", static session => session.CallServerStopping());
        if (_state != ConnectionState.Open || _unread.Length == 0 || _upgrade is not null) return;
        if (_next is null && _gate is ReceiveGate.None or ReceiveGate.Finished) OfferUnread();
        else _offerPending = true;
    }

    private Exception? TellHandedOver(Session old)
    {
        Exception? thrown = null;
        Loop.EnterCallback(this, _wasConnected ? "OnDisconnected" : "OnConnectFailed");
        try
        {
            if (_wasConnected) old.CallDisconnecting(new CloseReason(CloseCause.HandedOver));
        }
        catch (Exception e)
        {
            thrown = e;
            TellErrorAfterEnd(old, e, "OnDisconnecting");
        }

        try
        {
            if (_wasConnected) old.CallDisconnected(new CloseReason(CloseCause.HandedOver));
            else old.CallConnectFailed(new CloseReason(CloseCause.HandedOver));
        }
        catch (Exception e)
        {
            thrown = e;
            TellErrorAfterEnd(old, e, _wasConnected ? "OnDisconnected" : "OnConnectFailed");
        }

        Loop.LeaveCallback();
        old.TellEnded(new CloseReason(CloseCause.HandedOver));
        return thrown;
    }

    // ------------------------------------------------------------------ timers of the session

    /// <summary>It ends with the session. False when the session is ending already, and a timer would outlive it.</summary>
    internal bool RememberSessionTimer(LoopTimer timer)
    {
        if (_state != ConnectionState.Open && !IsBeginning) return false;
        if (timer.IsListed) return true;
        timer.IsListed = true;
        timer.NextOfSession = _sessionTimers;
        _sessionTimers = timer;
        return true;
    }

    internal void FireSessionTimer(LoopTimer timer)
    {
        if (IsBeginning)
        {
            // Started in OnConnecting or OnHandshaked: nothing else comes before OnConnected (contract 1).
            timer.IsHeld = true;
            return;
        }

        if (timer.PeriodMs == 0) ForgetSessionTimer(timer);
        if (_state != ConnectionState.Open || timer.IsCancelled) return;
        if (_strand is { } strand)
        {
            strand.PostTimer(timer);
            return;
        }

        Loop.EnterCallback(this, "OnTimer");
        try
        {
            _session.CallTimer(timer);
        }
        catch (Exception e)
        {
            Loop.LeaveCallback();
            FailWith(e, "OnTimer");
            return;
        }

        Loop.LeaveCallback();
        AfterCallback();
    }

    internal void ForgetSessionTimer(LoopTimer timer)
    {
        timer.IsListed = false;
        if (ReferenceEquals(_sessionTimers, timer))
        {
            _sessionTimers = timer.NextOfSession;
            return;
        }

        for (LoopTimer? t = _sessionTimers; t is not null; t = t.NextOfSession)
        {
            if (!ReferenceEquals(t.NextOfSession, timer)) continue;
            t.NextOfSession = timer.NextOfSession;
            return;
        }
    }

    /// <summary>Timers that were due before the connection was open fire in the next turn.</summary>
    private void ReleaseHeldTimers()
    {
        for (LoopTimer? t = _sessionTimers; t is not null; t = t.NextOfSession)
        {
            if (!t.IsHeld) continue;
            t.IsHeld = false;
            if (t.PeriodMs == 0) Loop.Timers.Set(t, Loop.TimeMs);
        }
    }

    private void CancelSessionTimers()
    {
        LoopTimer? timers = _sessionTimers;
        _sessionTimers = null; // each is out of the list before it is cancelled: there is none to search
        for (LoopTimer? t = timers; t is not null; t = t.NextOfSession)
        {
            t.IsListed = false;
            t.Cancel();
        }
    }

    // ------------------------------------------------------------------ noted work

    internal override void RunScheduled()
    {
        switch (_state)
        {
            case ConnectionState.Connecting:
                AfterCallback();
                break;
            case ConnectionState.Open:
                RunScheduledOpen();
                break;
            case ConnectionState.Handshaking:
                AfterCallback();
                if (_state == ConnectionState.Handshaking) RunScheduledTls(_tls!);
                break;
            case ConnectionState.Concluding:
                RunScheduledConcluding();
                break;
            case ConnectionState.Draining:
                if (!_saidDisconnecting && _wasConnected) SayDisconnecting();
                if (_queueFault.Cause == CloseCause.FileFailed) AbortWith(_queueFault);
                if (_state != ConnectionState.Draining) break;
                UseRoom();
                TryFinishDraining();
                break;
            case ConnectionState.Closed:
                End();
                break;
        }
    }

    private void RunScheduledConcluding()
    {
        UseRoom();
        if (_queueFault.Cause == CloseCause.FileFailed) AbortWith(_queueFault);
        else if (_sendError != 0) Fail(new CloseReason(Diagnostics.ErrorText.CauseOf(_sendError), _sendError));
        else if (_upgrade is { IsReady: true, Link.HasBegun: false }) StartUpgrade();
        else RunScheduledTls(_tls!);
    }

    private void RunScheduledOpen()
    {
        if (_queueFault.Cause != CloseCause.None)
        {
            AbortWith(_queueFault);
            return;
        }

        UseRoom();
        if (_next is not null || _upgrade is not null)
        {
            AfterCallback();
            if (_state != ConnectionState.Open) return;
        }

        if ((_drainOwed || _sentUntold > 0) && _wasConnected)
        {
            TellSent();
            if (_state != ConnectionState.Open) return;
        }

        if (_sendError != 0 && _gate != ReceiveGate.None)
        {
            // Nobody will read the rest: the end is noticed now (contract 10).
            Fail(new CloseReason(Diagnostics.ErrorText.CauseOf(_sendError), _sendError));
            return;
        }

        if (_offerPending && _upgrade is null && _gate is ReceiveGate.None or ReceiveGate.Finished)
        {
            _offerPending = false;
            OfferUnread();
            if (_state != ConnectionState.Open) return;
        }

        if (_tls is { } tls)
        {
            RunScheduledTls(tls);
            if (_state != ConnectionState.Open) return;
        }

        if (_heldFinish && _upgrade is null && _gate == ReceiveGate.None && !_offerOwed)
        {
            _heldFinish = false;
            PeerFinished();
            if (_state != ConnectionState.Open) return;
        }

        if (_finishRequested) TryFinishSending();
        if (_state == ConnectionState.Open) UpdateReceiving();
    }
}
