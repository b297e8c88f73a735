using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// A connection's session with callbacks on the thread pool (contract 14): what the loop passes to it, what runs on its
/// strand, and what it calls inside its callbacks. Received data goes to the driver, as on the loop
/// (<see cref="SessionDriver"/>). Its sends are in PoolSends.cs.
/// </summary>
/// <remarks>
/// Members run on the strand, except where noted. The connection may end meanwhile and serve another session, so
/// actions on the loop check the generation (<see cref="OnLoop"/>).
/// </remarks>
internal sealed class PoolSession : IReceiveBuffer, IStrandBlockHome
{
    private static readonly Action<PoolSession, object?, object?> s_call =
        static (pool, callback, argument) => pool.CallQueued((SessionCallback)callback!, argument);

    private static readonly Action<PoolSession, object?, object?> s_post =
        static (pool, action, state) => pool.RunPost((Delegate)action!, state);

    [ThreadStatic]
    private static PoolSession? t_current;

    private static readonly Waiting s_gone = new(null, null);

    private readonly Connection _connection;
    private readonly uint _generation;
    private readonly HostShard _shard;
    private SessionDriver _driver; // other threads change its holds, under the lock of the strand
    private PoolSends _sends;
    private OfferedBytes _offered;
    private Session? _next; // session that gets the connection: the loop was requested to switch
    private TlsUpgrade? _upgrade;
    private CloseReason _ownReason; // first cause by the session itself
    private bool _hasShutdown; // the session has ended its sending side
    private bool _isLast;
    private volatile bool _isEnded;
    private volatile bool _isOffering;
    private volatile string? _running; // name of the callback that runs

    // ---- written by the loop too
    private int _queuedOnce; // bits of callbacks that are queued once
    private long _sentUnreported; // bytes that OnSent has not reported
    private CloseReason _reason; // of the end
    private bool _wasConnected;
    private Waiting? _waiting; // callbacks that may block until the end

    // ---- memory for large receives: loop's thread, except for the return
    private StrandBlock? _incoming;
    private StrandBlock? _own;
    private volatile bool _isOwnOut;

    internal PoolSession(Connection connection, Session session)
    {
        _connection = connection;
        _generation = connection.Generation;
        _shard = connection.Shard;
        _driver.Begin(session, ReceiveGate.None);
        Strand = new Strand(this, Loop);
        _sends = new PoolSends(this, connection);
        Loop.PoolSessionStarted(this);
    }

    /// <summary>The session on the pool that runs a callback on this thread, or null.</summary>
    internal static PoolSession? Current => t_current;

    internal Strand Strand { get; }

    internal ref PoolSends Sends => ref _sends;

    internal ref SessionDriver Driver => ref _driver;

    internal ref OfferedBytes Offered => ref _offered;

    /// <summary>True if OnEndOfStream is, or was, called.</summary>
    internal bool IsPeerDone { get; private set; }

    private DriverHost Here => new(_connection, this);

    internal Loop Loop => _connection.Loop;

    internal ConnectionHost Host => _shard.Host;

    internal HostShard Shard => _shard;

    internal uint Generation => _generation;

    internal Session Session => _driver.Session;

    internal int UnreadCount => _driver.UnreadCount;

    /// <summary>True if the session has ended the connection: only the last callback follows. Any thread.</summary>
    internal bool IsEnded => _isEnded;

    /// <summary>True if sends are rejected because the session has ended its side.</summary>
    internal bool IsFinishing => _isEnded || _hasShutdown;

    /// <summary>True if received data is still needed, by the session or by an upgrade before its Close.</summary>
    private bool TakesInput => !_isEnded || _upgrade is not null;

    internal bool IsPaused => _driver.IsHeld(ReceiveGate.User);

    internal bool IsAboveHighWaterMark => _driver.IsHeld(ReceiveGate.BackPressure);

    /// <summary>True if the running callback has handed over.</summary>
    internal bool HasNext => _driver.Next is not null;

    /// <summary>True if a callback has handed over, and the next session has not been called yet.</summary>
    internal bool IsSwitching => _next is not null;

    internal bool IsAccepting => Host.IsAccepting;

    /// <summary>
    /// Host name that was connected to. Set before OnConnected, because on the pool the connection may already serve
    /// another session when it is needed.
    /// </summary>
    internal string? ConnectedHost { get; set; }

    /// <summary>True if OnDisconnecting was called.</summary>
    internal bool SaidDisconnecting { get; set; }

    /// <summary>
    /// True if received data waits, is in a callback, or is held by a reader. Any thread; may be outdated.
    /// </summary>
    internal bool IsTaking => _isOffering || Strand.WaitingBytes > 0
        || _driver.IsHeld(ReceiveGate.Reader | ReceiveGate.Callback);

    /// <summary>
    /// Text for messages: the callback that runs, or that waits for a thread; null if there is none. Any thread.
    /// </summary>
    internal string? RunningText =>
        _running is { } callback ? Session.TextOf(callback)
        : Strand.IsIdle ? null
        : Session.TextOf(Host.Options.Dispatcher is null
            ? "What waits for a thread of the pool" : "What waits for the Dispatcher");

    internal bool Runs(Session session) => ReferenceEquals(Session, session);

    internal bool Serves(uint generation) => _generation == generation;

    internal bool Serves(Connection connection, uint generation) =>
        ReferenceEquals(_connection, connection) && _generation == generation;

    /// <summary>The same session, or null if it does not serve this use of the connection.</summary>
    internal static PoolSession? CurrentOf(Connection connection, uint generation) =>
        t_current is { } pool && pool.Serves(connection, generation) ? pool : null;

    /// <summary>
    /// Replaces the session of this thread, and returns the previous one: for threads that act as another one, and for
    /// code outside the order of the session (<see cref="SessionOrder"/>).
    /// </summary>
    internal static PoolSession? Exchange(PoolSession? pool)
    {
        PoolSession? outer = t_current;
        t_current = pool;
        return outer;
    }

    internal bool IsOf(ConnectionHost host) => ReferenceEquals(Host, host);

    // ------------------------------------------------------------------ from the loop

    /// <summary>Queues a callback. Loop's thread.</summary>
    internal void Tell(SessionCallback callback, object? argument = null)
    {
        if (callback.Bit == 0 || (Interlocked.Or(ref _queuedOnce, callback.Bit) & callback.Bit) == 0)
            Strand.Post(new StrandEvent(s_call, callback, argument));
    }

    /// <summary>Queues OnConnected. Posts to the session are accepted from here on. Loop's thread.</summary>
    internal void TellConnected(Session session) =>
        Strand.Post(new StrandEvent(s_call, SessionCallback.Connected, null), session);

    /// <summary>Queues the callbacks of a hand-over. Loop's thread.</summary>
    internal void TellHandedOver(Session next, bool wasConnected) => Strand.Post(
        new StrandEvent(static (pool, next, _) => pool.RunHandedOver((Session)next!), next, null),
        wasConnected ? next : null);

    /// <summary>Requests unread data: the loop treats received data as cipher text now. Loop's thread.</summary>
    internal void TellUpgrading() =>
        Strand.Post(new StrandEvent(static (pool, _, _) => pool.GiveUnread(), null, null));

    /// <summary>Queues OnSent. If the pool is slower than the loop, several become one. Loop's thread.</summary>
    internal void TellSent(long count)
    {
        if (Interlocked.Add(ref _sentUnreported, count) == count) Tell(SessionCallback.Sent);
    }

    /// <summary>
    /// Queues a copy of received data. Returns true if the connection must not be read any more. Loop's thread.
    /// </summary>
    internal bool Add(ReadOnlySpan<byte> data) => TakesInput && Strand.Add(data);

    /// <summary>Queues received data with its block, which belongs to the strand from here on. Loop's thread.</summary>
    internal bool Add(StrandBlock block)
    {
        if (TakesInput) return Strand.Add(block);
        block.Dispose();
        return false;
    }

    /// <summary>Queues the last callback, because the connection is gone. Loop's thread.</summary>
    internal void End(CloseReason reason, bool wasConnected)
    {
        _reason = reason;
        _wasConnected = wasConnected;
        Strand.End();
        for (Waiting? waiting = Interlocked.Exchange(ref _waiting, s_gone); waiting is not null; waiting = waiting.Next)
            waiting.Wait?.ConnectionIsGone(reason);
    }

    /// <summary>Delivers nothing more except the last callback. Any thread.</summary>
    internal void EndInput() => _isEnded = true;

    /// <summary>Adds a post to the session (contract 18). Returns false if it is not accepted. Any thread.</summary>
    internal bool TryPost(Session session, Delegate action, object? state) =>
        Strand.TryPost(new StrandEvent(s_post, action, state), session);

    /// <summary>
    /// Returns memory for a large receive: the array of the session, or a block. The array is used only while nothing
    /// is unread and no step runs or waits.
    /// </summary>
    Span<byte> IReceiveBuffer.Get()
    {
        StrandBlocks blocks = Loop.StrandBlocks;
        _incoming = TryTakeOwn() ?? (blocks.IsMuchHeld ? null : blocks.TakeLarge());
        return _incoming is null ? default : _incoming.RoomToReceive;
    }

    void IReceiveBuffer.Done(Connection connection, Span<byte> received)
    {
        StrandBlock block = _incoming!;
        _incoming = null;
        block.Length = received.Length;
        if (received.IsEmpty) block.Dispose();
        else connection.CompleteReceive(block);
    }

    private StrandBlock? TryTakeOwn()
    {
        if (_isOwnOut || !Strand.IsEmpty || _driver.Gate != ReceiveGate.None || UnreadCount > 0 || !Session.LendsRoom
            || Session.OwnMemory is not { Length: >= StrandBlock.ReceivedFromBytes } memory)
            return null;
        _isOwnOut = true;
        if (_own is null || !ReferenceEquals(_own.Bytes, memory)) _own = StrandBlock.OfSession(this, memory);
        return _own;
    }

    void IStrandBlockHome.Return(StrandBlock block)
    {
        block.Length = 0;
        _isOwnOut = false;
    }

    // ------------------------------------------------------------------ steps of the strand

    internal void Run(in StrandStep step)
    {
        if (step.IsLow) OnLoop(static (connection, _) => connection.Open(ReceiveGate.Pool));
        switch (step.Kind)
        {
            case StrandStepKind.Event:
                step.Event.Run(this, step.Event.First, step.Event.Second);
                break;
            case StrandStepKind.OfferUnread:
                _driver.OfferUnread(Here);
                break;
            case StrandStepKind.Data:
                Deliver(step.Block!);
                break;
            case StrandStepKind.Finish:
                RunFinish();
                break;
            case StrandStepKind.Last:
                RunLast();
                break;
        }

        _running = null;
    }

    private void Deliver(StrandBlock block)
    {
        _driver.Deliver(Here, block.Written);
        if (!block.IsSessions) Loop.PoisonLent(block.Bytes.AsSpan(0, block.Length));
        block.Dispose();
    }

    private void CallQueued(SessionCallback callback, object? argument)
    {
        if (callback.Bit != 0) Interlocked.And(ref _queuedOnce, ~callback.Bit);
        Call(callback, argument);
    }

    private void Call(SessionCallback callback, object? argument = null)
    {
        if (callback.IsDue?.Invoke(this, argument) ?? !_isEnded)
        {
            _driver.Call(Here, callback, argument);
            AfterCallback();
        }

        callback.Returned?.Invoke(this, argument);
    }

    /// <summary>Sends now what the running callback has queued. Its thread.</summary>
    internal void Flush() => Sends.Flush();

    /// <summary>Queues the continuation of an await in a callback. Any thread.</summary>
    internal void PostContinuation(Action<object?> continuation, object? state) =>
        Strand.PostContinuation(continuation, state);

    /// <summary>Runs the continuation of an await.</summary>
    internal void Continue(Action<object?> continuation, object? state)
    {
        _running = UserCode.Continuation;
        try
        {
            continuation(state);
        }
        catch (Exception e)
        {
            Loop.Engine.ReportException(UserCode.Continuation, e);
        }

        Returned();
    }

    private void RunPost(Delegate action, object? state)
    {
        string name = ReferenceEquals(action, Session.RethrowReceived) ? "OnReceivedAsync" : UserCode.PostedAction;
        _running = name;
        if (Session.RunPosted(action, state) is { } fault) _driver.Fail(Here, fault, name);
        Returned();
    }

    private void Returned()
    {
        Sends.FlushAtEnd();
        AfterCallback();
    }

    private void RunFinish()
    {
        IsPeerDone = true;
        if (_driver.DeliverLast(Here))
        {
            Call(SessionCallback.PeerFinished);
            return;
        }

        // The FIN waits, or nothing more is delivered.
        IsPeerDone = false;
        Strand.Finish();
    }

    /// <summary>Hands over if the callback has requested it: the strand waits until the loop has switched.</summary>
    internal void AfterCallback()
    {
        if (!HasNext || _isEnded) return;
        Debug.Assert(_next is null, "one hand-over at a time");
        Strand.Hold(ReceiveGate.HandOver);
        _next = _driver.TakeNext();
        Loop.PostControl(static (_, c, n, g) => ((Connection)c!).SwitchForStrand((Session)n!, (uint)g), _connection,
            _next, _generation);
    }

    private void RunHandedOver(Session next)
    {
        Session old = Session;
        _driver.Replace(next);
        _next = null;
        // Before OnConnected, the beginning is still to come, and the next session gets it.
        bool wasConnected = old.ConnectedAt is not null;
        Exception? thrown = SessionDriver.CallHandedOver(Here, old, wasConnected);
        if (wasConnected) Call(SessionCallback.ConnectedByHandOver);
        // OnConnected may have handed over.
        if (!IsSwitching) Sends.ReleaseSends();
        if (thrown is not null) AbortWith(new CloseReason(CloseCause.UserException, 0, thrown));
        if (!IsSwitching) Strand.Release(ReceiveGate.HandOver | ReceiveGate.Reader | ReceiveGate.Callback);
    }

    private void RunLast()
    {
        _isEnded = true;
        _isLast = true;
        if (_wasConnected && !SaidDisconnecting) _driver.Call(Here, SessionCallback.Disconnecting, _reason);
        Session session = Session;
        _upgrade?.Failed(_reason);
        Host.SessionEnding(session);
        SessionDriver.CallLast(Here, session, _reason, _wasConnected);
        TakeRest(out _).Clear();
        Loop.Engine.SessionEnded(session, _reason);
        Host.SessionEnded(session, _reason, _wasConnected);
        session.TellEnded(_reason);
        // The loop waits for this before it ends: no callback comes after its engine was disposed.
        Loop.PostControl(static (loop, pool, _, _) => loop.PoolSessionEnded((PoolSession)pool!), this);
    }

    /// <summary>Returns all received data that was not consumed, also if no callback has seen it.</summary>
    private UnreadStore TakeRest(out bool wasFull)
    {
        UnreadStore rest = _driver.TakeUnread();
        StrandBlock? block = Strand.TakeBlocks(out wasFull);
        while (block is not null)
        {
            StrandBlock? next = block.Next;
            rest.Append(block.Written);
            block.Dispose();
            block = next;
        }

        return rest;
    }

    /// <summary>
    /// Runs a step on the loop, unless the connection serves another session then. Its last argument is true if the
    /// session has ended the connection, whichever way its Close takes.
    /// </summary>
    internal bool OnLoop(Action<Connection, bool> step) =>
        Loop.PostControl(
            static (_, c, s, n) =>
            {
                Connection connection = (Connection)c!;
                if (connection.Generation == (uint)n) ((Action<Connection, bool>)s!)(connection, n >> 32 != 0);
            },
            _connection,
            step,
            _generation | (_isEnded ? 1L << 32 : 0));

    // ------------------------------------------------------------------ for the driver

    internal long BeginOffer(out bool hasPending)
    {
        _isOffering = true;
        Sends.BeginOffer();
        Interlocked.Increment(ref _shard.MessagesReceived); // several threads count here
        hasPending = _connection.BytesPending > 0;
        return 0;
    }

    internal void EndOffer() => _isOffering = false;

    internal void Enter(string callback) => _running = callback;

    internal void HoldBack(bool untilEmpty)
    {
        Strand.Hold(ReceiveGate.BackPressure);
        OnLoop(untilEmpty
            ? static (connection, _) => connection.HoldForStrand(untilEmpty: true)
            : static (connection, _) => connection.HoldForStrand(untilEmpty: false));
    }

    internal void AbortWith(CloseReason reason) => _connection.Outbound.AbortForeign(EndHere(reason), _generation);

    // ------------------------------------------------------------------ from the session, inside a callback

    /// <summary>
    /// Records that the session ends the connection: no callback except the last one follows. Returns the first cause,
    /// although an abort is faster than a close.
    /// </summary>
    internal CloseReason EndHere(CloseReason reason)
    {
        EndInput();
        if (_ownReason.Cause == CloseCause.None) _ownReason = reason;
        return _ownReason;
    }

    /// <summary>Records that the session has ended its sending side: an upgrade or a Commit is invalid.</summary>
    internal void FinishHere() => _hasShutdown = true;

    /// <summary>Returns a part of the data of the running callback as writable memory.</summary>
    internal Span<byte> Writable(ReadOnlySpan<byte> received) => _offered.Writable(received);

    internal void SetMinimumBytes(int count) => _driver.SetMinimumBytes(count, _shard.Options);

    internal void KnowsOfQueue() => _driver.SeesQueue();

    internal void HandOver(Session next, bool holdsSends)
    {
        _driver.HandOver(next);
        if (holdsSends) Sends.HoldSends();
    }

    /// <summary>Returns the number of sent bytes that OnSent has not reported yet, and resets it.</summary>
    internal long TakeSent() => Interlocked.Exchange(ref _sentUnreported, 0);

    /// <summary>
    /// Completes the wait when the connection is gone, because the last callback waits until this one has returned.
    /// </summary>
    internal void BlocksOnEnd(IEndWait wait)
    {
        while (true)
        {
            Waiting? seen = Volatile.Read(ref _waiting);
            if (ReferenceEquals(seen, s_gone))
            {
                wait.ConnectionIsGone(_reason);
                return;
            }

            if (ReferenceEquals(Interlocked.CompareExchange(ref _waiting, new Waiting(wait, seen), seen), seen)) return;
        }
    }

    // ------------------------------------------------------------------ upgrade to TLS (contract 16)

    /// <summary>
    /// Requests the upgrade. It is an entry of the inbox, after the sends of the callback. When the loop processes it,
    /// the bytes that it receives later are cipher text. An event then returns the plain bytes that the session has not
    /// consumed. Mistakes of the session throw. If the connection ends, the last callback completes the waiting call.
    /// </summary>
    internal void UpgradeToTls(TlsUpgrade upgrade)
    {
        if (_ownReason.Cause != CloseCause.None || _hasShutdown || _isLast || Session.ConnectedAt is null)
            Connection.UpgradeWhileEnding();
        if (_upgrade is not null || Host.Tls is not null) Connection.UpgradeTwice();
        if (_connection.Outbound.HasCallersOf(_generation)) Connection.UpgradeInsideSend();
        _upgrade = upgrade;
        Strand.Hold(ReceiveGate.Upgrade);
        Loop.Mailbox.PostInOrder(InboxKind.Upgrade, _connection, _generation, upgrade);
    }

    private void GiveUnread()
    {
        TlsUpgrade upgrade = _upgrade!;
        upgrade.Rest = TakeRest(out bool wasFull);
        if (wasFull) OnLoop(static (connection, _) => connection.Open(ReceiveGate.Pool));
        if (!Loop.PostControl(static (_, c, u, g) => ((Connection)c!).StrandUpgrading((uint)g, (TlsUpgrade)u!),
            _connection, upgrade, _generation))
            upgrade.Rest.Clear();
    }

    /// <summary>OnTlsHandshakeCompleted has returned.</summary>
    internal void HandshakedReturned(TlsInfo info)
    {
        if (_upgrade is not { } upgrade)
        {
            // TLS from the start: the session may have rejected the peer. The control lane is faster than its Close.
            OnLoop(static (connection, hasEnded) => connection.StrandHandshaked(hasEnded));
            return;
        }

        Strand.Release(ReceiveGate.Upgrade);
        upgrade.Done(info);
    }

    private sealed record Waiting(IEndWait? Wait, Waiting? Next);
}
