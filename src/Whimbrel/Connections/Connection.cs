using System.Net;
using System.Net.Sockets;
using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One stream socket: its state, unread data, send queue and session. Belongs to one loop, which reuses it; sessions
/// are not reused. The path of a byte: <c>CompleteReceive</c> (Connection.Receive.cs) passes it to the session, whose
/// <c>Send</c> appends it to the open block and marks the queue dirty (OutboundQueue.cs). The flush at the end of the
/// turn sends it, and <c>AdvanceSend</c> returns the block. Connection.Close.cs has all ways in which a connection
/// ends.
/// </summary>
/// <remarks>
/// Loop's thread only, except for members documented as "any thread". Those use <see cref="ForeignWord"/>, with the
/// generation, a closed bit and the bytes of sends that other threads have in progress. A late caller can therefore
/// neither reach the next session of this object nor exceed the limit.
/// </remarks>
internal sealed partial class Connection : Resident, IMailboxReceiver
{
    private OutboundQueue _outbound; // its word for other threads outlives a use
    private SessionTimers _timers;
    private ConnectionDeadline _deadline;

    // ---- of one use: the next one begins with their defaults (Recycle)
    private HostShard _shard = null!;
    private PoolSession? _pool;
    private TlsTransport? _tls;
    private Life _life;
    private SessionDriver _driver; // with a pool session, which has a driver of its own, this one only holds
    private SendCallbacks _callbacks;
    private ReceivedBytes _received;
    private HeldTime _held;
    private bool _holdsSocket; // accepted, and not adopted yet
    private bool _isReceiving; // the engine reads

    internal Connection(Loop loop)
        : base(loop) => _outbound = new OutboundQueue(this);

    /// <summary>The sending half.</summary>
    internal ref OutboundQueue Outbound => ref _outbound;

    internal ConnectionState State => _life.State;

    internal Session Session => _driver.Session;

    internal ConnectionHost Host => Shard.Host;

    internal HostShard Shard => _shard;

    internal CloseReason Reason => _life.Reason;

    /// <summary>
    /// Reason of the end, even if the session was not notified yet; cause None while the connection is not ending.
    /// </summary>
    internal CloseReason EndSoFar =>
        Reason.Cause != CloseCause.None || Outbound.Error == 0
            ? Reason
            : new CloseReason(Diagnostics.ErrorText.CauseOf(Outbound.Error), Outbound.Error);

    internal bool IsOpen => WasConnected && State == ConnectionState.Open && Pool is not { IsEnded: true };

    internal bool WasConnected => _life.WasConnected;

    /// <summary>True if the own half is being or was shut down: sends are rejected.</summary>
    internal bool IsFinishing => _life.Own != OwnHalf.Open;

    /// <summary>True before OnConnected is called. Sends are possible from OnTlsHandshakeCompleted on.</summary>
    internal bool IsBeginning => State is ConnectionState.Connecting or ConnectionState.Handshaking
        || (State == ConnectionState.Open && !WasConnected);

    /// <summary>The session's side on the pool; null if callbacks run on the loop.</summary>
    internal PoolSession? Pool => _pool;

    /// <summary>True if user code may have duplicated the descriptor, because it has seen it.</summary>
    internal override bool MayHaveDuplicate => WasShared || Shard.Options.CommonSocket.OnCreated is not null;

    /// <summary>Returns the Socket object of this session's connection, or null. Any thread.</summary>
    internal Socket? ShareSocket(uint generation)
    {
        // tidy: allowed because user code called it; the session does not change while its socket is shared
        lock (Loop.SocketGate) return Generation == generation ? ShareSocket() : null;
    }

    /// <summary>Index in the group of all connections of its host on this loop.</summary>
    internal int HostMemberIndex { get; set; } = -1;

    /// <summary>
    /// The socket that the engine adopts in Attach; an accepted socket is already set during OnConnecting.
    /// </summary>
    internal RawSocket AdoptedSocket => SharedSocket;

    private void Go(ConnectionState next)
    {
        ConnectionState last = State;
        if (!_life.TryGo(next)) Loop.IllegalStep(last, next);
    }

    // ------------------------------------------------------------------ birth

    /// <summary>
    /// Starts a new use of the object. The caller creates the session and catches exceptions of the factory.
    /// </summary>
    internal void Begin(HostShard shard, Session session, long id, EndPoint? local, PeerAddress remote)
    {
        _shard = shard;
        _driver.Begin(session, ReceiveGate.NotOpen);
        Go(ConnectionState.Connecting);
        _callbacks.Begin(shard.HooksOf(session));
        Outbound.Begin(shard.Options.CommonLimits);
        shard.Opened++;
        session.Attach(this, id, local, remote);
        GivePool(session);
        if (!IsNewcomer) Loop.Engine.SessionBegan(session);
    }

    private void GivePool(Session session)
    {
        if (Shard.Options.Scheduling == Scheduling.ThreadPool && !session.StaysOnLoop)
            _pool = new PoolSession(this, session);
    }

    /// <summary>
    /// Calls OnConnecting; then the host continues, unless that callback threw or closed. An accepted socket is kept
    /// meanwhile, because the attempt may end before it was adopted.
    /// </summary>
    internal void Connecting(RawSocket? accepted)
    {
        _holdsSocket = accepted is not null && State == ConnectionState.Connecting;
        if (_holdsSocket)
        {
            BeginSharing(accepted.GetValueOrDefault());
        }
        // ended before it began; both callbacks are called nevertheless
        else if (accepted is { } socket) Loop.Discard(socket);
        if (IsNewcomer || SayConnecting()) ConnectingReturned();
    }

    /// <summary>True if the session is created after the handshake.</summary>
    private bool IsNewcomer => Session is Newcomer;

    /// <summary>
    /// Calls OnConnecting. Returns false on the pool, where <see cref="StrandConnecting"/> continues after it.
    /// </summary>
    private bool SayConnecting()
    {
        if (!Tell(SessionCallback.Connecting)) return false;
        AfterCallback();
        return true;
    }

    private void ConnectingReturned()
    {
        // A stopping loop has already ended its handles. A new one ends here; otherwise the loop would never be empty.
        if (Loop.IsStopping) AbortWith(new CloseReason(CloseCause.EngineStopped));
        if (State == ConnectionState.Connecting) Shard.Host.SessionConnecting(this);
    }

    /// <summary>Attaches the accepted socket of this connection.</summary>
    internal void AdoptHeld()
    {
        _holdsSocket = false;
        Loop.Attach(this);
    }

    /// <summary>Attaches the socket of an attempt, notifies the session, and starts to read.</summary>
    internal void Adopt(RawSocket socket, ConnectAttempt attempt)
    {
        Session.SetLocalEndPoint(attempt.LocalEndPoint);
        Session.SetRemoteEndPoint(attempt.Target);
        ConnectedHost = attempt.HostName;
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

    /// <summary>Opens the connection for sends.</summary>
    private void TakeSends()
    {
        Go(ConnectionState.Open);
        Outbound.Open();
    }

    /// <summary>Calls OnConnected, and starts to read.</summary>
    private void Opened()
    {
        if (State != ConnectionState.Open) TakeSends();
        _life.Hears(Heard.Connected);
        // Other bits stay set: a pause in OnConnecting continues (contract 10).
        _driver.Release(ReceiveGate.NotOpen);
        _held.Begin(Loop.TimeMs);
        Shard.Members.Add(this);
        Session.SetConnectedAt(Loop.Engine.UtcNow);
        if (Pool is { } pool)
        {
            pool.ConnectedHost = ConnectedHost;
            pool.TellConnected(Session);
        }
        else
        {
            Session.StartPosts();
            Call(SessionCallback.Connected);
        }

        _timers.ReleaseHeld(Loop);
        AfterCallback();
        LookAtLimits();
        UpdateReceiving();
    }

    // ------------------------------------------------------------------ callbacks

    /// <summary>
    /// Calls the session here and returns true, or passes the callback to its strand and returns false.
    /// </summary>
    internal bool Tell(SessionCallback callback, object? argument = null)
    {
        if (Pool is { } pool)
        {
            pool.Tell(callback, argument);
            return false;
        }

        Call(callback, argument);
        return true;
    }

    private void Call(SessionCallback callback, object? argument = null) =>
        _driver.Call(Here, callback, argument);

    /// <summary>Carries out requests of a callback that must not take effect inside it.</summary>
    internal void AfterCallback()
    {
        while (HasNext && (State == ConnectionState.Open || IsBeginning) && MaySwitch())
            SwitchSession();
        if (_tls is { Phase: TlsPhase.Due } tls) StartUpgrade(tls);
    }

    // ------------------------------------------------------------------ hand-over (contract 15)

    /// <summary>True if an earlier callback has handed over, and posts to its session run first.</summary>
    internal bool IsHandingOver => _driver.IsHeld(ReceiveGate.HandOver);

    /// <summary>True if the running callback has handed over.</summary>
    internal bool HasNext => _driver.Next is not null;

    internal void HandOver(Session next, bool holdsSends)
    {
        if (State != ConnectionState.Open && !IsBeginning) return;
        _driver.HandOver(next);
        if (holdsSends) Outbound.HoldSends();
        if (!ReferenceEquals(Loop.Active, this)) Loop.Schedule(this);
    }

    private void SwitchSession()
    {
        Session old = ReplaceSession(_driver.TakeNext());
        if (_driver.IsHeld(ReceiveGate.Reader | ReceiveGate.Callback))
        {
            // The next session is not held by the reader of this one.
            Open(ReceiveGate.Reader | ReceiveGate.Callback);
            _driver.ForgetOffer();
        }

        if (WasConnected) Session.StartPosts();
        Exception? thrown = SessionDriver.CallHandedOver(Here, old, WasConnected);
        // Also if the connection has ended meanwhile, because the next session must begin before it ends. Before the
        // connection is open, OnConnected is still to come, and the next session gets it.
        if (WasConnected) Call(SessionCallback.ConnectedByHandOver);
        if (!HasNext) Outbound.ReleaseSends();
        if (thrown is not null) AbortWith(new CloseReason(CloseCause.UserException, 0, thrown));
        if (!WasConnected) return;
        LookInNextTurn();
        if (_life.Heard == Heard.ServerStopping && State == ConnectionState.Open)
            Call(SessionCallback.ServerStopping);
        if (State != ConnectionState.Open || UnreadCount == 0 || IsUpgrading) return;
        if (!HasNext && MayOffer) _driver.OfferUnread(Here);
        else _driver.OfferAgain();
    }

    /// <summary>Gives the connection to the next session. Returns the old one, which is not notified yet.</summary>
    private Session ReplaceSession(Session next)
    {
        Session old = Session;
        _timers.CancelAll();
        // Detached first, so that actions of the old session in its last callback do not reach the connection. It has
        // ended and must not end twice (contract 1).
        old.DetachForHandOver();
        Outbound.EndFeeds(new CloseReason(CloseCause.HandedOver));
        next.AttachByHandOver(this, old);
        _driver.Replace(next);
        ChangeHooks(next);
        Shard.Host.SessionReplaced(old, next);
        return old;
    }

    // ------------------------------------------------------------------ timers of the session

    /// <summary>Adds a timer to the session, with which it ends. Returns false if the session is ending.</summary>
    internal bool AddTimer(LoopTimer timer)
    {
        if (State != ConnectionState.Open && !IsBeginning) return false;
        _timers.Add(timer);
        return true;
    }

    internal void RemoveTimer(LoopTimer timer) => _timers.Remove(timer);

    internal void FireTimer(LoopTimer timer)
    {
        if (IsBeginning)
        {
            // Started in OnConnecting or OnTlsHandshakeCompleted: no other callback comes before OnConnected (contract
            // 1).
            timer.IsHeld = true;
            return;
        }

        if (timer.PeriodMs == 0) _timers.Remove(timer);
        if (State != ConnectionState.Open || timer.IsCancelled) return;
        if (timer.IsQueued) return; // its last firing is queued for the pool
        timer.IsQueued = Pool is not null;
        if (Tell(SessionCallback.Timer, timer)) AfterCallback();
    }

    // ------------------------------------------------------------------ memberships

    private List<(GroupShard Shard, int Index)>? _memberships;

    internal List<(GroupShard Shard, int Index)> Memberships => _memberships ??= new(2);

    internal List<(GroupShard Shard, int Index)>? MembershipsIfAny => _memberships;

    /// <summary>Groups that this connection is in now, without the group of all connections.</summary>
    internal SessionGroup[] Groups
    {
        get
        {
            if (_memberships is not { Count: > 0 } memberships) return [];
            SessionGroup[] groups = new SessionGroup[memberships.Count];
            for (int i = 0; i < groups.Length; i++) groups[i] = memberships[i].Shard.Group;
            return groups;
        }
    }

    private void LeaveGroups()
    {
        if (Shard.Members.Contains(this)) Shard.Members.Remove(this);
        while (_memberships is { Count: > 0 } memberships) memberships[^1].Shard.Remove(this);
    }

    /// <summary>
    /// Adds the connected sessions of clients on a loop to a list. Any thread; sessions that begin or end in the
    /// meantime may or may not be included. Visits every connection of the loop.
    /// </summary>
    internal static void AddClientSessions(Loop loop, List<Session> target)
    {
        foreach (Resident? resident in loop.Residents)
        {
            if (resident is Connection { _driver.Session: { Server: null, IsConnected: true } session })
                target.Add(session);
        }
    }

    // ------------------------------------------------------------------ for the loop

    internal override long BytesPending => Outbound.BytesPending;

    internal override void Flush() => Outbound.Flush();

    internal override int RunEntry(InboxItem entry) => Outbound.RunEntry(entry);

    void IMailboxReceiver.RunItem(in DataItem item, ReadOnlySpan<byte> bytes, ReadOnlySpan<int> lengths)
    {
        Outbound.SettleForeign();
        DrainCall(item.Generation, (Delegate)item.Payload!, item.Extra);
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
                if (State == ConnectionState.Handshaking) _tls!.RunScheduled();
                break;
            case ConnectionState.Concluding:
                RunScheduledConcluding();
                break;
            case ConnectionState.Draining:
                if (WasConnected && _life.Heard != Heard.Disconnecting) SayDisconnecting();
                if (Outbound.IsFileFault) AbortWith(Outbound.FaultReason);
                if (State != ConnectionState.Draining) break;
                Outbound.UseRoom();
                TryFinishDraining();
                break;
            case ConnectionState.Closed:
                End();
                break;
        }
    }

    private void RunScheduledConcluding()
    {
        Outbound.UseRoom();
        if (Outbound.IsFileFault) AbortWith(Outbound.FaultReason);
        else if (Outbound.Error != 0)
            Fail(new CloseReason(Diagnostics.ErrorText.CauseOf(Outbound.Error), Outbound.Error));
        else if (_tls is { Phase: TlsPhase.Due } tls) StartUpgrade(tls);
        else _tls!.RunScheduled();
    }

    private void RunScheduledOpen()
    {
        if (Outbound.HasFault)
        {
            AbortWith(Outbound.FaultReason);
            return;
        }

        Outbound.UseRoom();
        if (HasNext || IsUpgrading)
        {
            AfterCallback();
            if (State != ConnectionState.Open) return;
        }

        if (_callbacks.AreDue && WasConnected)
        {
            TellSent();
            if (State != ConnectionState.Open) return;
        }

        if (Outbound.Error != 0 && !IsReading)
        {
            // The remaining data will not be read, so the connection ends now (contract 10).
            Fail(new CloseReason(Diagnostics.ErrorText.CauseOf(Outbound.Error), Outbound.Error));
            return;
        }

        if (_driver.OffersAgain && !IsUpgrading && MayOffer)
        {
            _driver.ForgetOffer();
            _driver.OfferUnread(Here);
            if (State != ConnectionState.Open) return;
        }

        if (_tls is { } tls)
        {
            tls.RunScheduled();
            if (State != ConnectionState.Open) return;
        }

        if (_life.HoldsPeersEnd && !IsUpgrading && IsReading && !OffersFirst)
        {
            PeerFinished();
            if (State != ConnectionState.Open) return;
        }

        if (IsFinishing) TryShutdownSend();
        if (State == ConnectionState.Open) UpdateReceiving();
    }
}
