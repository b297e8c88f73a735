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
    private Tenancy _tenancy;
    private LoopTimer? _deadline;

    internal Connection(Loop loop)
        : base(loop)
    {
    }

    internal ConnectionState State => _tenancy.Life.State;

    internal Session Session => _tenancy.Session;

    internal ConnectionHost Host => Shard.Host;

    internal HostShard Shard => _tenancy.Shard;

    internal CloseReason Reason => _tenancy.Life.Reason;

    /// <summary>Why it ends, also while the session was not told yet; cause None while it does not.</summary>
    internal CloseReason EndSoFar =>
        Reason.Cause != CloseCause.None || _tenancy.SendError == 0 ? Reason : new CloseReason(Diagnostics.ErrorText.CauseOf(_tenancy.SendError), _tenancy.SendError);

    internal bool IsOpen => WasConnected && State == ConnectionState.Open && Strand is not { IsEnded: true };

    private bool WasConnected => _tenancy.Life.WasConnected;

    /// <summary>Its half is being ended, or was: no sends are taken.</summary>
    internal bool IsFinishing => _tenancy.Life.Own != OwnHalf.Open;

    /// <summary>OnConnected has not been called yet. Sends are possible from OnTlsHandshakeCompleted on.</summary>
    internal bool IsBeginning => State is ConnectionState.Connecting or ConnectionState.Handshaking || (State == ConnectionState.Open && !WasConnected);

    /// <summary>Runs the session's callbacks on the pool; null when they run here.</summary>
    internal Strand? Strand => _tenancy.Strand;

    /// <summary>Only user code that saw the descriptor can have made one.</summary>
    internal override bool MayHaveDuplicate => WasShared || Shard.Options.OnSocketCreated is not null;

    /// <summary>The Socket object of that tenant's connection, or null. Any thread.</summary>
    internal Socket? ShareSocket(uint generation)
    {
        // tidy: allowed because user code asked; no tenant changes while its socket is shared
        lock (Loop.SocketGate) return Generation == generation ? ShareSocket() : null;
    }

    /// <summary>Index in the group of all connections of its host on this loop.</summary>
    internal int HostMemberIndex { get; set; } = -1;

    /// <summary>The socket that the engine adopts in Attach; an accepted one already lies here during OnConnecting.</summary>
    internal RawSocket AdoptedSocket => SharedSocket;

    private void Go(ConnectionState next)
    {
        ConnectionState last = State;
        if (!_tenancy.Life.TryGo(next)) Loop.IllegalStep(last, next);
    }

    // ------------------------------------------------------------------ birth

    /// <summary>Gives the object a new tenant. The session is made by the caller, with the factory fenced.</summary>
    internal void Begin(HostShard shard, Session session, long id, EndPoint? local, PeerAddress remote)
    {
        _tenancy.Shard = shard;
        _tenancy.Session = session;
        Go(ConnectionState.Connecting);
        _tenancy.Gate = ReceiveGate.NotOpen;
        _queue.Limit = shard.Options.SendLimitBytes;
        _queue.AllowsLarge = shard.Options.AllowLargeMessages;
        _tenancy.Hooks = shard.HooksOf(session);
        _queue.Foreign.Begin(Generation, isClosed: true);
        shard.Opened++;
        session.Attach(this, id, local, remote);
        GiveStrand(session);
        if (!IsNewcomer) Loop.Engine.SessionBegan(session);
    }

    private void GiveStrand(Session session)
    {
        if (Shard.Options.Scheduling == Scheduling.ThreadPool && !session.StaysOnLoop) _tenancy.Strand = new Strand(this, session);
    }

    /// <summary>
    /// OnConnecting; then the host goes on, unless that threw or closed. An accepted socket is held meanwhile: the
    /// attempt may end before it was adopted.
    /// </summary>
    internal void Connecting(RawSocket? accepted)
    {
        _tenancy.HoldsSocket = accepted is not null && State == ConnectionState.Connecting;
        if (_tenancy.HoldsSocket)
        {
            BeginSharing(accepted.GetValueOrDefault());
        }
        else if (accepted is { } socket) Loop.Discard(socket); // ended before it began; it has both callbacks all the same
        if (IsNewcomer || SayConnecting()) ConnectingReturned();
    }

    /// <summary>Its session is made when the handshake is done.</summary>
    private bool IsNewcomer => Session is Newcomer;

    /// <summary>OnConnecting. False on the pool: <see cref="StrandConnecting"/> goes on when it has returned.</summary>
    private bool SayConnecting()
    {
        if (!Tell(SessionCallback.Connecting)) return false;
        AfterCallback();
        return true;
    }

    private void ConnectingReturned()
    {
        // A loop that stops has ended its residents already: who comes now ends here, or the loop would never be empty.
        if (Loop.IsStopping) AbortWith(new CloseReason(CloseCause.EngineStopped));
        if (State == ConnectionState.Connecting) Shard.Host.SessionConnecting(this);
    }

    /// <summary>Takes over the socket that was accepted for it.</summary>
    internal void AdoptHeld()
    {
        _tenancy.HoldsSocket = false;
        Loop.Attach(this);
    }

    /// <summary>Takes over a connected socket, tells the session, starts to read.</summary>
    internal void Adopt(RawSocket socket)
    {
        BeginSharing(socket);
        Loop.Attach(this);
    }

    internal override void CompleteAttach(int error)
    {
        if (error != 0)
        {
            SetReason(new CloseReason(Diagnostics.ErrorText.CauseOf(error), error));
            Detach();
            return;
        }

        if (Shard.Host.Tls is { } tls) BeginTls(tls);
        else Opened();
    }

    /// <summary>Sends are taken from here on.</summary>
    private void TakeSends()
    {
        Go(ConnectionState.Open);
        _queue.Foreign.Begin(Generation, isClosed: false);
    }

    /// <summary>The session hears that it is connected, and reading starts.</summary>
    private void Opened()
    {
        if (State != ConnectionState.Open) TakeSends();
        _tenancy.Life.Hears(Heard.Connected);
        // Not None: a pause in OnConnecting stays (contract 10).
        _tenancy.Gate &= ~ReceiveGate.NotOpen;
        CountHeldTime(isShut: true);
        Shard.Members.Add(this);
        Session.SetConnectedAt(Loop.Engine.UtcNow);
        if (Strand is { } strand)
        {
            strand.ConnectedHost = ConnectedHost;
            strand.PostConnected(Session);
        }
        else
        {
            Session.StartPosts();
            Call(SessionCallback.Connected);
        }

        if (_tenancy.Timers is not null) ReleaseHeldTimers();
        AfterCallback();
        LookAtLimits();
        UpdateReceiving();
    }

    // ------------------------------------------------------------------ callbacks

    /// <summary>Calls the session here, and is true when it has returned; or gives the callback to its strand.</summary>
    internal bool Tell(SessionCallback callback, object? argument = null)
    {
        if (Strand is { } strand)
        {
            strand.Tell(callback, argument);
            return false;
        }

        Call(callback, argument);
        return true;
    }

    /// <summary>Runs one override, fenced: what it throws goes to OnError and ends this connection only (contract 4).</summary>
    private void Call(SessionCallback callback, object? argument = null)
    {
        Exception? thrown = null;
        Loop.EnterCallback(this, callback.Name);
        try
        {
            callback.Call(Session, argument);
        }
        catch (Exception e)
        {
            thrown = e;
        }

        Loop.LeaveCallback();
        if (thrown is not null) FailWith(thrown, callback.Name);
        callback.Behind?.Invoke(Host, Session, argument, State > ConnectionState.Open);
    }

    /// <summary>The session threw: tell it, then end the connection. The call to OnError is fenced as well.</summary>
    private void FailWith(Exception exception, string callback)
    {
        Loop.EnterCallback(this, "OnError");
        try
        {
            Session.CallError(exception, callback);
        }
        catch (Exception second)
        {
            Loop.Engine.ReportOnErrorThrew(Session, callback, exception, second);
        }

        _tenancy.Next = null;
        try
        {
            Session.CallEndAfterException(exception);
        }
        catch (Exception second)
        {
            Loop.Engine.ReportException("EndAfterException", second);
            AbortWith(new CloseReason(CloseCause.UserException, 0, exception));
        }

        Loop.LeaveCallback();
    }

    /// <summary>What a callback asked for and must not happen inside it.</summary>
    private void AfterCallback()
    {
        while (_tenancy.Next is not null && (State == ConnectionState.Open || IsBeginning) && MaySwitch()) SwitchSession();
        if (_tenancy.Tls is { Phase: TlsPhase.Due } tls) StartUpgrade(tls);
    }

    // ------------------------------------------------------------------ hand-over (contract 15)

    /// <summary>An earlier callback has handed over, and what was posted to its session runs first.</summary>
    internal bool IsHandingOver => (_tenancy.Gate & ReceiveGate.HandOver) != 0;

    /// <summary>The running callback has handed over.</summary>
    internal bool HasNext => _tenancy.Next is not null;

    internal void HandOver(Session next, bool holdsSends)
    {
        if (State != ConnectionState.Open && !IsBeginning) return;
        _tenancy.Next = next;
        if (holdsSends) HoldSends();
        if (!ReferenceEquals(Loop.ActiveConnection, this)) Loop.Schedule(this);
    }

    private void SwitchSession()
    {
        Session old = Session;
        Session next = _tenancy.Next!;
        _tenancy.Next = null;
        CancelSessionTimers();
        _tenancy.AtLeast = 0;
        EndHoldsOfSession();
        // First, so that whatever the old session does in its last callback does not reach the connection any more: it
        // has its end, and must not get a second one (contract 1).
        old.DetachForHandOver();
        EndFeeds(new CloseReason(CloseCause.HandedOver));
        next.AttachByHandOver(this, old);
        _tenancy.Session = next;
        if (WasConnected) next.StartPosts();
        ChangeHooks(next);
        Shard.Host.SessionReplaced(old, next);
        Exception? thrown = TellHandedOver(old);
        // Also when the connection has ended meanwhile: the next session hears of the end only after its beginning. Before the connection is
        // open that is still to come, and the next session gets it.
        if (WasConnected) Call(SessionCallback.ConnectedByHandOver);
        if (_tenancy.Next is null) ReleaseSends();
        if (thrown is not null) AbortWith(new CloseReason(CloseCause.UserException, 0, thrown));
        if (!WasConnected) return;
        LookInNextTurn();
        if (_tenancy.Life.Heard == Heard.ServerStopping && State == ConnectionState.Open) Call(SessionCallback.ServerStopping);
        if (State != ConnectionState.Open || _tenancy.Unread.Length == 0 || IsUpgrading) return;
        if (_tenancy.Next is null && _tenancy.Gate is ReceiveGate.None or ReceiveGate.Finished) OfferUnread();
        else _tenancy.OfferPending = true;
    }

    private Exception? TellHandedOver(Session old)
    {
        Exception? thrown = null;
        Loop.EnterCallback(this, WasConnected ? "OnDisconnected" : "OnConnectFailed");
        try
        {
            if (WasConnected) old.CallDisconnecting(new CloseReason(CloseCause.HandedOver));
        }
        catch (Exception e)
        {
            thrown = e;
            TellErrorAfterEnd(old, e, "OnDisconnecting");
        }

        try
        {
            if (WasConnected) old.CallDisconnected(new CloseReason(CloseCause.HandedOver));
            else old.CallConnectFailed(new CloseReason(CloseCause.HandedOver));
        }
        catch (Exception e)
        {
            thrown = e;
            TellErrorAfterEnd(old, e, WasConnected ? "OnDisconnected" : "OnConnectFailed");
        }

        Loop.LeaveCallback();
        old.TellEnded(new CloseReason(CloseCause.HandedOver));
        return thrown;
    }

    // ------------------------------------------------------------------ timers of the session

    /// <summary>It ends with the session. False when the session is ending already, and a timer would outlive it.</summary>
    internal bool RememberSessionTimer(LoopTimer timer)
    {
        if (State != ConnectionState.Open && !IsBeginning) return false;
        if (timer.IsListed) return true;
        timer.IsListed = true;
        timer.NextOfSession = _tenancy.Timers;
        _tenancy.Timers = timer;
        return true;
    }

    internal void FireSessionTimer(LoopTimer timer)
    {
        if (IsBeginning)
        {
            // Started in OnConnecting or OnTlsHandshakeCompleted: nothing else comes before OnConnected (contract 1).
            timer.IsHeld = true;
            return;
        }

        if (timer.PeriodMs == 0) ForgetSessionTimer(timer);
        if (State != ConnectionState.Open || timer.IsCancelled) return;
        if (timer.IsQueued) return; // its last firing waits on the pool
        timer.IsQueued = Strand is not null;
        if (Tell(SessionCallback.Timer, timer)) AfterCallback();
    }

    internal void ForgetSessionTimer(LoopTimer timer)
    {
        timer.IsListed = false;
        if (ReferenceEquals(_tenancy.Timers, timer))
        {
            _tenancy.Timers = timer.NextOfSession;
            return;
        }

        for (LoopTimer? t = _tenancy.Timers; t is not null; t = t.NextOfSession)
        {
            if (!ReferenceEquals(t.NextOfSession, timer)) continue;
            t.NextOfSession = timer.NextOfSession;
            return;
        }
    }

    /// <summary>Timers that were due before the connection was open fire in the next turn.</summary>
    private void ReleaseHeldTimers()
    {
        for (LoopTimer? t = _tenancy.Timers; t is not null; t = t.NextOfSession)
        {
            if (!t.IsHeld) continue;
            t.IsHeld = false;
            if (t.PeriodMs == 0) Loop.Timers.Set(t, Loop.TimeMs);
        }
    }

    private void CancelSessionTimers()
    {
        LoopTimer? timers = _tenancy.Timers;
        _tenancy.Timers = null; // each is out of the list before it is cancelled: there is none to search
        for (LoopTimer? t = timers; t is not null; t = t.NextOfSession)
        {
            t.IsListed = false;
            t.Cancel();
        }
    }

    // ------------------------------------------------------------------ noted work

    internal override void RunScheduled()
    {
        switch (State)
        {
            case ConnectionState.Connecting:
                AfterCallback();
                break;
            case ConnectionState.Open:
                RunScheduledOpen();
                break;
            case ConnectionState.Handshaking:
                AfterCallback();
                if (State == ConnectionState.Handshaking) _tenancy.Tls!.RunScheduled();
                break;
            case ConnectionState.Concluding:
                RunScheduledConcluding();
                break;
            case ConnectionState.Draining:
                if (WasConnected && _tenancy.Life.Heard != Heard.Disconnecting) SayDisconnecting();
                if (_tenancy.FileFailed) AbortWith(QueueFault);
                if (State != ConnectionState.Draining) break;
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
        if (_tenancy.FileFailed) AbortWith(QueueFault);
        else if (_tenancy.SendError != 0) Fail(new CloseReason(Diagnostics.ErrorText.CauseOf(_tenancy.SendError), _tenancy.SendError));
        else if (_tenancy.Tls is { Phase: TlsPhase.Due } tls) StartUpgrade(tls);
        else _tenancy.Tls!.RunScheduled();
    }

    private void RunScheduledOpen()
    {
        if (_tenancy.QueueFault is not null)
        {
            AbortWith(QueueFault);
            return;
        }

        UseRoom();
        if (_tenancy.Next is not null || IsUpgrading)
        {
            AfterCallback();
            if (State != ConnectionState.Open) return;
        }

        if ((_tenancy.DrainOwed || _tenancy.SentUntold > 0) && WasConnected)
        {
            TellSent();
            if (State != ConnectionState.Open) return;
        }

        if (_tenancy.SendError != 0 && _tenancy.Gate != ReceiveGate.None)
        {
            // Nobody will read the rest: the end is noticed now (contract 10).
            Fail(new CloseReason(Diagnostics.ErrorText.CauseOf(_tenancy.SendError), _tenancy.SendError));
            return;
        }

        if (_tenancy.OfferPending && !IsUpgrading && _tenancy.Gate is ReceiveGate.None or ReceiveGate.Finished)
        {
            _tenancy.OfferPending = false;
            OfferUnread();
            if (State != ConnectionState.Open) return;
        }

        if (_tenancy.Tls is { } tls)
        {
            tls.RunScheduled();
            if (State != ConnectionState.Open) return;
        }

        if (_tenancy.Life.HoldsPeersEnd && !IsUpgrading && _tenancy.Gate == ReceiveGate.None && !OffersFirst)
        {
            PeerFinished();
            if (State != ConnectionState.Open) return;
        }

        if (IsFinishing) TryShutdownSend();
        if (State == ConnectionState.Open) UpdateReceiving();
    }
}
