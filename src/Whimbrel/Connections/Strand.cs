using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// The callbacks of one connection's sessions on the thread pool, one after the other (contract 14). The loop puts in
/// what has happened; a pool thread takes it out in order and runs the session. Its sends go to the inbox of the
/// connection. Serves one tenancy of a connection and is not used again.
/// </summary>
/// <remarks>
/// Order: events (connected, timers, continuations) first, then received bytes, then the peer's FIN, then the end.
/// Bytes that wait when the peer resets are delivered before the end, unless the session paused or ended it.
/// Limit: with <see cref="HoldAboveBytes"/> undelivered the connection is not read; it is read again below half.
/// Threads: members say who calls them. What <c>_gate</c> guards is written by both sides; the rest belongs to the pool
/// thread that runs the strand now.
/// </remarks>
internal sealed partial class Strand : IThreadPoolWorkItem, IStrandBlockHome, IReceiveBuffer, IDriverHost
{
    internal const int HoldAboveBytes = 128 * 1024;

    /// <summary>The same while all strands of the loop hold much together.</summary>
    private const int HoldSoonerAboveBytes = 64 * 1024;

    private int HoldMark => _loop.StrandBlocks.IsMuchHeld ? HoldSoonerAboveBytes : HoldAboveBytes;

    /// <summary>Then others have a turn.</summary>
    private const int StepsPerRun = 64;

    [ThreadStatic]
    private static Strand? t_current;

    private readonly Connection _connection;
    private readonly uint _generation;
    private readonly ConnectionHost _host;
    private readonly HostShard _shard;
    private readonly Loop _loop;
    private readonly Lock _gate = new();

    // ---- guarded by _gate
    private StrandEvent[] _events = new StrandEvent[2];
    private int _firstEvent;
    private int _eventCount;
    private StrandBlock? _firstBlock;
    private StrandBlock? _lastBlock;
    private int _waitingBytes;
    private StrandBlock? _incoming; // what the engine receives into now; loop's thread
    private StrandBlock? _own; // what is received into the session's own memory
    private bool _ownIsOut;
    private bool _isScheduled;
    private bool _gateIsShut;
    private bool _finishPending;
    private bool _lastPending;
    private bool _isGone;
    private List<IEndWait>? _blockedOnEnd;
    private bool _wasConnected;
    private CloseReason _reason;
    private volatile bool _isEnded;
    private Session? _taker; // whom posts are taken for: behind everything that is queued

    // ---- the running pool thread's
    private SessionDriver _driver; // other threads change its holds, under the gate
    private OfferedBytes _offered;
    private bool _isPeerDone;
    private bool _isSwitching;
    private long _awaitedBytes; // of awaited sends in this run
    private CloseReason _firstEnd;
    private volatile string? _running;
    private volatile bool _isOffering;
    private int _untold; // the bits of callbacks that wait once; both sides, interlocked

    internal Strand(Connection connection, Session session)
    {
        _connection = connection;
        _generation = connection.Generation;
        _host = connection.Host;
        _shard = connection.Shard;
        _loop = connection.Loop;
        _dispatcher = _host.Options.Dispatcher;
        _driver.Begin(session, ReceiveGate.None);
        _loop.StrandStarted(this);
    }

    private enum Step : byte
    {
        None,
        Event,
        Block,
        Offer,
        Finish,
        Last,
    }

    /// <summary>The strand that runs on this thread, or null.</summary>
    internal static Strand? Current => t_current;

    /// <summary>Another strand, or none, is this thread's for a while; gives the one before. For threads that stand for several, and for who leaves the order (<see cref="SessionOrder"/>).</summary>
    internal static Strand? Exchange(Strand? strand)
    {
        Strand? outer = t_current;
        t_current = strand;
        return outer;
    }

    /// <summary>The session ended the connection: nothing but the last callback follows. Any thread.</summary>
    internal bool IsEnded => _isEnded;

    internal bool SaidDisconnecting { get; set; }

    internal int UnreadCount => _driver.UnreadCount;

    /// <summary>Of bytes that the running callback was given. The thread that runs it.</summary>
    internal Span<byte> Writable(ReadOnlySpan<byte> received) => _offered.Writable(received);

    internal Engine Engine => _loop.Engine;

    /// <summary>Nothing is there to run. Any thread; may have changed when it returns.</summary>
    internal bool IsIdle => !Volatile.Read(ref _isScheduled);

    /// <summary>Received bytes wait for their callback, are in one, or with who reads for the session. Any thread; may have changed when it returns.</summary>
    internal bool IsTaking =>
        _isOffering || Volatile.Read(ref _waitingBytes) > 0 || _driver.IsHeld(ReceiveGate.Reader | ReceiveGate.Callback);

    /// <summary>The running strand, if it is the one of this tenancy.</summary>
    internal static Strand? CurrentOf(Connection connection, uint generation) =>
        t_current is { _isHome: false } strand && ReferenceEquals(strand._connection, connection)
        && strand._generation == generation ? strand : null;

    /// <summary>Whose callbacks it runs now. Its own thread.</summary>
    internal Session Session => _driver.Session;

    internal bool Runs(Session session) => ReferenceEquals(_driver.Session, session) && !_isHome;

    internal bool Serves(uint generation) => _generation == generation;

    internal bool IsOf(ConnectionHost host) => ReferenceEquals(_host, host);

    /// <summary>The callback that runs now, or that nobody has begun to run, as in messages; null when there is none. Any thread; true a moment ago.</summary>
    internal string? RunningText =>
        _isHome ? null
        : _running is { } callback ? _driver.Session.TextOf(callback)
        : IsIdle ? null
        : _driver.Session.TextOf(
            _dispatcher is null ? "What waits for a thread of the pool" : "What waits for the Dispatcher");

    // ------------------------------------------------------------------ what the loop puts in

    /// <summary>A callback takes its turn. Loop's thread.</summary>
    internal void Tell(SessionCallback callback, object? argument = null)
    {
        if (callback.Bit == 0 || (Interlocked.Or(ref _untold, callback.Bit) & callback.Bit) == 0)
            Post(new StrandEvent(StrandEventKind.Callback, callback, argument));
    }

    internal void PostConnected(Session session) =>
        Post(new StrandEvent(StrandEventKind.Callback, SessionCallback.Connected, null), session);

    /// <summary>The loop takes what it receives for cipher text from now on.</summary>
    internal void PostUpgrading(TlsUpgrade upgrade) => Post(new StrandEvent(StrandEventKind.Upgrading, upgrade, null));

    internal void PostHandedOver(Session next, bool wasConnected) =>
        Post(new StrandEvent(StrandEventKind.HandedOver, next, null), wasConnected ? next : null);

    /// <summary>Something awaited in a callback goes on. Any thread.</summary>
    internal void PostContinuation(Action<object?> continuation, object? state)
    {
        StrandEvent item = new(StrandEventKind.Continuation, continuation, state);
        bool isLate;
        bool start;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            isLate = _isHome;
            if (!isLate) AddEvent(item);
            start = isLate ? AddLate(item) : TrySchedule();
        }

        if (!start) return;
        if (isLate) StartOnPool();
        else Start();
    }

    /// <summary>Something posted to the session (contract 18). False when its last callback is queued already, or was. Any thread.</summary>
    internal bool TryPostCall(Session session, Delegate action, object? state)
    {
        bool start;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            if (!ReferenceEquals(_taker, session)) return false;
            AddEvent(new StrandEvent(StrandEventKind.Call, action, state));
            start = TrySchedule();
        }

        if (start) Start();
        return true;
    }

    private void Post(StrandEvent item, Session? taker = null)
    {
        bool start;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            AddEvent(item);
            if (taker is not null) _taker = taker;
            start = TrySchedule();
        }

        if (start) Start();
    }

    private void AddEvent(StrandEvent item)
    {
        if (_eventCount == _events.Length) GrowEvents();
        _events[(_firstEvent + _eventCount++) % _events.Length] = item;
    }

    private void GrowEvents()
    {
        StrandEvent[] larger = new StrandEvent[_events.Length * 2];
        for (int i = 0; i < _eventCount; i++) larger[i] = _events[(_firstEvent + i) % _events.Length];
        _events = larger;
        _firstEvent = 0;
    }

    /// <summary>The same with the block that it was received into, which is the strand's from now on. Loop's thread.</summary>
    internal bool Add(StrandBlock block)
    {
        bool start = false;
        bool shut = false;
        bool isTaken;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            isTaken = !_isEnded || _upgrade is not null;
            if (isTaken)
            {
                _waitingBytes += block.Length;
                Append(block);
                shut = ShutIfMuch();
                start = (_driver.Gate == ReceiveGate.None) && TrySchedule();
            }
        }

        if (!isTaken) block.Dispose();
        if (start) Start();
        return shut;
    }

    /// <summary>
    /// The session's own memory for the next receive, when nobody looks at it: no callback runs or waits to, and nothing is unread. Until it is back nothing else is received. Null without any.
    /// Loop's thread.
    /// </summary>
    private StrandBlock? TryTakeOwn()
    {
        // Looked at once more: this may be the moment in which the session sets it.
        if (!_driver.Session.LendsRoom) return null;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            bool isIdle = !_isScheduled && !_isHome && _firstBlock is null && _eventCount == 0
                && _driver.Gate == ReceiveGate.None && _driver.UnreadCount == 0;
            if (!isIdle || _ownIsOut || _driver.Session.OwnMemory is not { Length: >= StrandBlock.ReceivedFromBytes } memory)
                return null;
            _ownIsOut = true;
            if (_own is null || !ReferenceEquals(_own.Bytes, memory)) _own = StrandBlock.OfSession(this, memory);
            return _own;
        }
    }

    /// <summary>The session's own memory, if it has some that nobody looks at now, or a block.</summary>
    Span<byte> IReceiveBuffer.Get()
    {
        _incoming = TryTakeOwn() ?? (_loop.StrandBlocks.IsMuchHeld ? null : _loop.StrandBlocks.TakeLarge());
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

    /// <summary>The session's own memory is back: its bytes were looked at, or dropped. Any thread.</summary>
    void IStrandBlockHome.Return(StrandBlock block)
    {
        block.Length = 0;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate) _ownIsOut = false;
    }

    /// <summary>Copies what was received. True when so much waits that the connection must not be read; <c>ReleaseStrandHold</c> ends that. Loop's thread.</summary>
    internal bool Add(ReadOnlySpan<byte> data)
    {
        bool start;
        bool shut;
        // tidy: allowed because this is where a loop and the pool meet; a copy of one receive at most, never nested
        lock (_gate)
        {
            // An upgrade that is on its way to the loop asks for them, also when a Close has followed it.
            if (_isEnded && _upgrade is null) return false;
            _waitingBytes += data.Length;
            while (!data.IsEmpty)
            {
                if (_lastBlock is null || _lastBlock.Room.IsEmpty) AddBlock();
                int count = Math.Min(data.Length, _lastBlock!.Room.Length);
                data[..count].CopyTo(_lastBlock.Room);
                _lastBlock.Length += count;
                data = data[count..];
            }

            shut = ShutIfMuch();
            start = (_driver.Gate == ReceiveGate.None) && TrySchedule();
        }

        if (start) Start();
        return shut;
    }

    private bool ShutIfMuch()
    {
        if (_waitingBytes < HoldMark || _gateIsShut) return false;
        _gateIsShut = true;
        return true;
    }

    private void AddBlock() => Append(_loop.StrandBlocks.Take());

    private void Append(StrandBlock block)
    {
        if (_lastBlock is null) _firstBlock = block;
        else _lastBlock.Next = block;
        _lastBlock = block;
    }

    /// <summary>The peer's FIN, after all bytes. Loop's thread.</summary>
    internal void Finish()
    {
        bool start;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            _finishPending = true;
            start = TrySchedule();
        }

        if (start) Start();
    }

    /// <summary>The connection is gone: the last callback. Loop's thread.</summary>
    internal void End(CloseReason reason, bool wasConnected)
    {
        bool start;
        List<IEndWait>? blocked;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            _reason = reason;
            _wasConnected = wasConnected;
            _lastPending = true;
            _taker = null;
            _isGone = true;
            blocked = _blockedOnEnd;
            _blockedOnEnd = null;
            // The hold of a hand-over stays: it came too late, and who wanted to give the connection away is offered nothing any more.
            start = TrySchedule();
        }

        if (start) Start();
        if (blocked is null) return;
        foreach (IEndWait wait in blocked) wait.ConnectionIsGone(reason);
    }

    /// <summary>A callback of this strand may block until the end: it is told when the connection is gone, because the last callback waits for its return.</summary>
    internal void BlocksOnEnd(IEndWait wait)
    {
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            if (!_isGone)
            {
                (_blockedOnEnd ??= []).Add(wait);
                return;
            }
        }

        wait.ConnectionIsGone(_reason);
    }

    /// <summary>Nothing is delivered any more but the last callback. Any thread.</summary>
    internal void EndInput() => _isEnded = true;

    /// <summary>
    /// The session ends the connection in a callback: what it sent goes first, or is discarded by an abort, and no other
    /// callback but the last one comes after it. The first cause is kept, although an abort passes a close.
    /// </summary>
    internal CloseReason EndHere(CloseReason reason)
    {
        EndInput();
        if (_firstEnd.Cause == CloseCause.None) _firstEnd = reason;
        return _firstEnd;
    }

    // ------------------------------------------------------------------ pause and back-pressure

    internal bool IsPaused => _driver.IsHeld(ReceiveGate.User);

    /// <summary>The send queue has drained. Loop's thread.</summary>
    internal void ReleaseBackPressure() => Release(ReceiveGate.BackPressure);

    /// <summary>Passes unread data again, also data that the running callback leaves. On the strand.</summary>
    internal void DeliverAgain()
    {
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            _driver.Release(ReceiveGate.Reader);
            _driver.OfferAgain();
        }
    }

    /// <summary>Stops deliveries. Any thread.</summary>
    internal void Hold(ReceiveGate reason)
    {
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate) _driver.Hold(reason);
    }

    /// <summary>Continues deliveries: unread data is passed again. Any thread.</summary>
    internal void Release(ReceiveGate reasons)
    {
        bool start;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            if (!_driver.Release(reasons)) return;
            _driver.OfferAgain();
            start = TrySchedule();
        }

        if (start) Start();
    }

    private bool TrySchedule()
    {
        if (_isScheduled) return false;
        _isScheduled = true;
        return true;
    }

    // ------------------------------------------------------------------ the pool's side

    void IThreadPoolWorkItem.Execute()
    {
        if (!MayRun()) return;
        Strand? outer = t_current;
        t_current = this;
        _awaitedBytes = 0;
        try
        {
            if (_isHome)
            {
                RunLate();
                return;
            }

            for (int i = 0; i < StepsPerRun && !_isHome; i++)
            {
                if (!RunNext()) return;
            }
        }
        finally
        {
            t_current = outer;
        }

        Start();
    }

    private bool RunNext()
    {
        Step step;
        StrandEvent item = default;
        StrandBlock? block = null;
        bool open = false;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            step = Next();
            switch (step)
            {
                case Step.None:
                    _isScheduled = false;
                    return false;
                case Step.Event:
                    item = TakeEvent();
                    break;
                case Step.Block:
                    block = TakeBlock(out open);
                    break;
                case Step.Offer:
                    _driver.ForgetOffer();
                    break;
                case Step.Finish:
                    _finishPending = false;
                    break;
                case Step.Last:
                    _lastPending = false;
                    break;
            }
        }

        if (open)
            _loop.PostControl(static (_, c, _, g) => ((Connection)c!).Release(ReceiveGate.Pool, (uint)g), _connection, null,
                _generation);
        _running = NameOf(step, item);
        Run(step, item, block);
        _running = null;
        return true;
    }

    /// <summary>The callback that a step runs, for messages.</summary>
    private string NameOf(Step step, in StrandEvent item) => step switch
    {
        Step.Finish => "OnEndOfStream",
        Step.Last => _wasConnected ? "OnDisconnected" : "OnConnectFailed",
        Step.Event => item.Kind switch
        {
            StrandEventKind.Callback => ((SessionCallback)item.First!).Name,
            StrandEventKind.HandedOver => "OnConnected",
            StrandEventKind.Call => UserCode.PostedAction,
            _ => UserCode.Continuation,
        },
        _ => "OnReceived",
    };

    private Step Next()
    {
        if (_eventCount > 0) return Step.Event;
        if (!_isEnded && _driver.Gate == ReceiveGate.None)
        {
            if (_driver.OffersAgain && _driver.UnreadCount > 0) return Step.Offer;
            _driver.ForgetOffer();
            if (_firstBlock is not null) return Step.Block;
            if (_finishPending) return Step.Finish;
        }

        return _lastPending ? Step.Last : Step.None;
    }

    private StrandEvent TakeEvent()
    {
        StrandEvent item = _events[_firstEvent];
        _events[_firstEvent] = default;
        _firstEvent = (_firstEvent + 1) % _events.Length;
        _eventCount--;
        return item;
    }

    private StrandBlock TakeBlock(out bool open)
    {
        StrandBlock block = _firstBlock!;
        _firstBlock = block.Next;
        if (_firstBlock is null) _lastBlock = null;
        block.Next = null;
        _waitingBytes -= block.Length;
        open = _gateIsShut && _waitingBytes <= HoldMark / 2;
        if (open) _gateIsShut = false;
        return block;
    }

    private void Run(Step step, StrandEvent item, StrandBlock? block)
    {
        switch (step)
        {
            case Step.Event:
                Run(item);
                break;
            case Step.Block:
                Deliver(block!);
                break;
            case Step.Offer:
                _driver.OfferUnread(this);
                break;
            case Step.Finish:
                RunFinish();
                break;
            case Step.Last:
                RunLast();
                break;
        }
    }

    private void Run(StrandEvent item)
    {
        switch (item.Kind)
        {
            case StrandEventKind.Callback:
                SessionCallback callback = (SessionCallback)item.First!;
                if (callback.Bit != 0) Interlocked.And(ref _untold, ~callback.Bit);
                Call(callback, item.Second);
                break;
            case StrandEventKind.Upgrading:
                GiveUnread((TlsUpgrade)item.First!);
                break;
            case StrandEventKind.HandedOver:
                RunHandedOver((Session)item.First!);
                break;
            case StrandEventKind.Continuation:
                RunContinuation(item);
                FlushAtEnd();
                AfterCallback();
                break;
            case StrandEventKind.Call:
                if (ReferenceEquals(item.First, Session.RethrowReceived)) _running = "OnReceivedAsync";
                string name = _running!;
                if (Session.RunPosted((Delegate)item.First!, item.Second) is { } fault) _driver.Fail(this, fault, name);
                else FlushAtEnd();
                AfterCallback();
                break;
        }
    }

    private void RunContinuation(in StrandEvent item)
    {
        try
        {
            ((Action<object?>)item.First!)(item.Second);
        }
        catch (Exception e)
        {
            _loop.Engine.ReportException(UserCode.Continuation, e);
        }
    }

    // ------------------------------------------------------------------ callbacks

    private void Call(SessionCallback callback, object? argument = null)
    {
        if (callback.IsDue?.Invoke(this, argument) ?? !_isEnded)
        {
            _driver.Call(this, callback, argument);
            AfterCallback();
        }

        callback.Returned?.Invoke(this, argument);
    }

    /// <summary>The callback has returned, and the loop goes on: it learns whether the session has ended the connection, whatever lane its Close is in.</summary>
    internal void GoOn(Action<Connection, bool> step) =>
        _loop.PostControl(
            static (_, c, s, n) =>
            {
                Connection connection = (Connection)c!;
                if (connection.Generation == (uint)n) ((Action<Connection, bool>)s!)(connection, n >> 32 != 0);
            },
            _connection,
            step,
            _generation | (_isEnded ? 1L << 32 : 0));

    /// <summary>Hands over if the callback has requested it, outside of the callback.</summary>
    private void AfterCallback()
    {
        if (_driver.Next is null || _isEnded) return;
        Hold(ReceiveGate.HandOver);
        _isSwitching = true;
        _loop.PostControl(static (_, c, n, g) => ((Connection)c!).SwitchForStrand((Session)n!, (uint)g), _connection,
            _driver.TakeNext(), _generation);
    }

    private void AbortWith(CloseReason reason) => _connection.Outbound.AbortForeign(EndHere(reason), _generation);

    // ------------------------------------------------------------------ received bytes (contract 3)

    private void Deliver(StrandBlock block)
    {
        _driver.Deliver(this, block.Written);
        if (!block.IsSessions) _loop.PoisonLent(block.Bytes.AsSpan(0, block.Length));
        block.Dispose();
    }

    // ------------------------------------------------------------------ for the driver

    Loop IDriverHost.Loop => _loop;

    HostShard IDriverHost.Shard => _shard;

    ref OfferedBytes IDriverHost.Offered => ref _offered;

    bool IDriverHost.IsOver => _isEnded;

    /// <summary>Always: also after the end an upgrade may still request unread data.</summary>
    bool IDriverHost.KeepsUnread => true;

    bool IDriverHost.IsPeerDone => _isPeerDone;

    void IDriverHost.Enter(string callback) => _running = callback;

    void IDriverHost.Leave() => _isOffering = false;

    void IDriverHost.Flush() => FlushAtEnd();

    void IDriverHost.AfterCallback() => AfterCallback();

    void IDriverHost.AbortWith(CloseReason reason) => AbortWith(reason);

    long IDriverHost.BeginOffer(out bool hasPending)
    {
        _isOffering = true;
        _sentBytes = 0;
        Interlocked.Increment(ref _shard.MessagesReceived); // several threads count here
        hasPending = _connection.BytesPending > 0;
        return 0;
    }

    // Before a file has reached the loop, only its charge is pending. The loop continues at once if that is too little.
    bool IDriverHost.HasFilledQueue(long mark) => _sentBytes > 0 && _host.BackPressure
        && Math.Max(_sentBytes, _connection.BytesPending) > _connection.HoldMark;

    void IDriverHost.HoldBack(bool untilEmpty) => HoldBack(untilEmpty);

    /// <summary>Nothing is delivered until the loop says that what is pending has left.</summary>
    private void HoldBack(bool untilEmpty)
    {
        Hold(ReceiveGate.BackPressure);
        _loop.PostControl(static (_, c, empty, g) => ((Connection)c!).HoldForStrand((uint)g, empty is not null),
            _connection, untilEmpty ? this : null, _generation);
    }

    /// <summary>The running callback has seen that something is pending: what it leaves unread, it leaves because of that.</summary>
    internal void KnowsOfQueue() => _driver.SeesQueue();

    internal bool IsAboveHighWaterMark => _driver.IsHeld(ReceiveGate.BackPressure);

    /// <summary>
    /// A send of the running callback does not fit: waits until the loop has offered to the system what was sent before it. A
    /// callback on the pool may block; the loop needs a turn for it, and when it takes longer the send is judged without.
    /// </summary>
    internal void OfferQueue(long length)
    {
        _driver.SeesQueue();
        if (_host.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect) return;
        ManualResetEventSlim offered = new();
        if (_loop.Mailbox.PostOffer(_connection, _generation, length, offered))
            _loop.Engine.AwaitOffer(_loop, offered, s_offerTime);
    }

    private static readonly TimeSpan s_offerTime = TimeSpan.FromSeconds(1);

    private void RunFinish()
    {
        _isPeerDone = true;
        if (_driver.DeliverLast(this))
        {
            Call(SessionCallback.PeerFinished);
            return;
        }

        // The FIN waits, or nothing more is delivered.
        _isPeerDone = false;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate) _finishPending = true;
    }

    // ------------------------------------------------------------------ hand-over and end

    private void RunHandedOver(Session next)
    {
        Session old = _driver.Session;
        _driver.Replace(next);
        _isSwitching = false;
        // Before OnConnected, the beginning is still to come, and the next session gets it.
        bool wasConnected = old.ConnectedAt is not null;
        Exception? thrown = SessionDriver.CallHandedOver(this, old, wasConnected);
        if (next.StaysOnLoop) GoHome(wasConnected, thrown);
        else BeginNext(wasConnected, thrown);
    }

    private void BeginNext(bool wasConnected, Exception? thrown)
    {
        if (wasConnected) Call(SessionCallback.ConnectedByHandOver);
        if (!_isSwitching) ReleaseSends();
        if (thrown is not null) AbortWith(new CloseReason(CloseCause.UserException, 0, thrown));
        // It may have handed over at once.
        if (!_isSwitching) Release(ReceiveGate.HandOver | ReceiveGate.Reader | ReceiveGate.Callback);
    }

    private void RunLast()
    {
        _isEnded = true;
        _isLast = true;
        if (_wasConnected && !SaidDisconnecting) _driver.Call(this, SessionCallback.Disconnecting, _reason);
        Session session = _driver.Session;
        _upgrade?.Failed(_reason);
        _host.SessionEnding(session);
        SessionDriver.CallLast(this, session, _reason, _wasConnected);
        TakeRest().Clear();
        _loop.Engine.SessionEnded(session, _reason);
        _host.SessionEnded(session, _reason, _wasConnected);
        session.TellEnded(_reason);
        // The loop waits for this before it ends: no callback comes after its engine was disposed.
        _loop.PostControl(static (loop, s, _, _) => loop.StrandEnded((Strand)s!), this);
    }

    /// <summary>All that was received and not taken, also what no callback has seen.</summary>
    private UnreadStore TakeRest()
    {
        UnreadStore rest = _driver.TakeUnread();
        StrandBlock? block;
        bool open;
        // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
        lock (_gate)
        {
            block = _firstBlock;
            _firstBlock = null;
            _lastBlock = null;
            _waitingBytes = 0;
            open = _gateIsShut;
            _gateIsShut = false;
        }

        while (block is not null)
        {
            StrandBlock? next = block.Next;
            rest.Append(block.Written);
            block.Dispose();
            block = next;
        }

        if (open && !_isLast)
            _loop.PostControl(static (_, c, _, g) => ((Connection)c!).Release(ReceiveGate.Pool, (uint)g), _connection, null,
                _generation);
        return rest;
    }
}
