using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// One thread, one kernel queue, and the connections that live on it. START READING HERE; then Connections/Connection.cs.
/// Posting is in Loop.Posting.cs, timers in Loop.Timers.cs, the life of the thread in Loop.Thread.cs.
/// </summary>
/// <remarks>
/// The contract between a loop and an engine, cut at completions (docs/design/0001):
/// <list type="number">
/// <item>Everything about a resident happens on its loop's thread. Only <see cref="Wake"/> may be called from elsewhere, and <see cref="SendForStrand"/>, as
/// <see cref="Strand"/> says.</item>
/// <item>The engine reports completions and holds no policy: it never decides to close, pause or retry for a session.</item>
/// <item>A received block is valid until the complete-call returns.</item>
/// <item>One send is in flight per connection.</item>
/// <item>After <see cref="Detach"/> has completed, the descriptor is closed and no completion follows.</item>
/// <item>No verb calls a session. What a verb finds out early (a send that fails) is noted and delivered from the
/// completion phase, never inside another callback.</item>
/// <item>A loop never waits for another loop: what it posts is taken or refused, and a session from whose callbacks it posts more than the other
/// loop has caught up with is not read until it has.</item>
/// <item>The order of a turn is written once, in <see cref="RunTurn"/>: mailbox, paced sends, continuations, timers, noted work, flush, TLS
/// handshakes, wait. On the Linux engines the continuations that a completion has woken run behind it, before the next one (<see cref="GoOn"/>).</item>
/// <item>A stale completion (other generation) releases resources only.</item>
/// <item>A loop may be started again after it ended, and stays the same object: <see cref="OpenQueue"/> and <see cref="CloseQueue"/>
/// come in pairs, with nothing attached before the one and after the other.</item>
/// </list>
/// </remarks>
public abstract partial class Loop
{
    private const int FlushEveryBytes = 64 * 1024;
    private const int FlushEveryBlocks = 64;

    // Of what other threads sent, what comes next may be for the same connections, a little for each of many: as many blocks as the pool keeps may wait for it.
    private const int FlushEveryBlocksDrained = BlockPool.MaxKept;
    private const int StartSlots = 64;

    [ThreadStatic]
    private static Loop? t_current;

    private readonly Stack<int> _freeSlots = new();
    private readonly Queue<Resident> _scheduled = new();
    private readonly Stack<Connection> _freeConnections = new();
    private Resident?[] _residents = new Resident?[StartSlots];
    private uint[] _slotGenerations = new uint[StartSlots];
    private List<(Action<object?> Continuation, object? State)> _ready = [];
    private List<(Action<object?> Continuation, object? State)> _readyRunning = [];
    private Connection[] _dirty = new Connection[StartSlots];
    private int _dirtyCount;
    private int _usedSlots;
    private int _receivedSinceFlush;
    private int _blocksSinceFlush;
    private bool _isFlushing;
    private PendingOperation? _firstUndertaking;
    private long _busySinceMs;
    private NoticePace _memoryNotices;
    private long _compiledAtStart; // ticks of the compiler on this thread when the turn began
    private long _reportedSinceMs = -1; // by the watchdog while the turn ran that began then
    private long _reportedAtMs;
    private string? _work; // user code that is no callback of a session or handler
    private object? _workSubject;
    private bool _isStopping;
    private int _strands;
    private TlsScratch? _tls;
    private bool _isStopped;
    private DatagramResident? _activeSocket; // whose handler is in a callback now

    private protected Loop(Engine engine, int index)
    {
        Engine = engine;
        Index = index;
        Mailbox = new Mailbox(this);
        SendPace = new SendPace(engine);
    }

    /// <summary>The loop whose thread this is, or null.</summary>
    public static Loop? Current => t_current;

    /// <summary>The engine that owns this loop.</summary>
    public Engine Engine { get; }

    /// <summary>Number of the loop in its engine, from 0.</summary>
    public int Index { get; }

    /// <summary>True on this loop's own thread.</summary>
    public bool IsCurrent => ReferenceEquals(t_current, this);

    /// <summary>Monotonic milliseconds when the loop last stopped waiting, from a cheap clock that may be some milliseconds behind. The loop's thread only.</summary>
    public long TimeMs { get; private set; }

    /// <summary>Guards the Socket objects that user code has of residents.</summary>
    internal Lock SocketGate { get; } = new();

    internal Mailbox Mailbox { get; }

    internal Timers Timers { get; } = new();

    internal BlockPool Blocks { get; } = new();

    internal PipeSegments PipeSegments { get; } = new();

    internal StrandBlocks StrandBlocks { get; } = new();

    /// <summary>Entries of the inboxes of its connections.</summary>
    internal InboxItems InboxItems { get; } = new();

    /// <summary>Strands whose callbacks have sent something that has not come here yet.</summary>
    internal GatheringStrands GatheringStrands { get; } = new();

    /// <summary>What the TLS layers of this loop share. Made when the first one is.</summary>
    internal TlsScratch Tls => _tls ??= new TlsScratch();

    /// <summary>The part that TLS handshakes have of each turn.</summary>
    internal HandshakePace Handshakes { get; } = new();

    internal LoopTally Counters { get; } = new();

    internal Stack<SendOperation> FreeOperations { get; } = new();

    internal FreeSentMarks FreeMarks { get; } = new();

    internal Stack<PacedSend> FreePacedSends { get; } = new();

    /// <summary>The part that awaited sends and files have of each turn.</summary>
    internal SendPace SendPace { get; }

    /// <summary>Changes whenever a piece of user code begins or ends here: room that was lent under one number is not written into under another.</summary>
    internal long UserCalls { get; private set; } = 1;

    /// <summary>What the session that is in OnReceived now was given.</summary>
    internal OfferedBytes Offered;

    /// <summary>The connection whose session is in a callback now.</summary>
    internal Connection? ActiveConnection { get; private set; }

    internal string? ActiveCallback { get; private set; }

    /// <summary>Connections on their way to this loop. Any thread adds, by Interlocked; only least-loaded placement counts them.</summary>
    internal int OnTheWay;

    /// <summary>Connections that live here or are on their way. Any thread; true a moment ago.</summary>
    internal long Load => Volatile.Read(ref Counters.ConnectionsOpened) - Volatile.Read(ref Counters.ConnectionsClosed) + Volatile.Read(ref OnTheWay);

    /// <summary>What it has done so far, and has now. Any thread; cheap, and a moment old.</summary>
    public LoopCounters ReadCounters()
    {
        long closed = Volatile.Read(ref Counters.ConnectionsClosed);
        return new LoopCounters(
            (int)(Volatile.Read(ref Counters.ConnectionsOpened) - closed),
            Volatile.Read(ref Counters.Turns),
            Volatile.Read(ref Counters.EmptyTurns),
            Volatile.Read(ref Counters.BlockedTurns),
            Volatile.Read(ref Counters.Completions),
            Mailbox.Wakes,
            Volatile.Read(ref Counters.Receives),
            Volatile.Read(ref Counters.BytesReceived),
            Volatile.Read(ref Counters.ReceivesParked),
            Volatile.Read(ref Counters.Sends) + Volatile.Read(ref Counters.SendsOfStrands),
            Volatile.Read(ref Counters.BytesSent) + Volatile.Read(ref Counters.BytesSentOfStrands),
            Timers.Count);
    }

    /// <summary>
    /// Bytes that sends of all its connections have queued and the system has not taken yet, as <see cref="Server.BytesPending"/> has them of a server. Any thread;
    /// a moment old. Goes through the connections: not for every message.
    /// </summary>
    public long BytesPending
    {
        get
        {
            long sum = 0;
            // The array may be a moment old; a connection in it that has ended has nothing pending.
            foreach (Resident? resident in Volatile.Read(ref _residents))
            {
                if (resident is Connection connection) sum += connection.BytesPending;
            }

            return sum;
        }
    }

    internal int ResidentCount => _usedSlots - _freeSlots.Count;

    internal bool HasWork => _dirtyCount > 0 || _scheduled.Count > 0 || Handshakes.Any || SendPace.Any || _ready.Count > 0 || Mailbox.Any || IsDone;

    /// <summary>Stopped, and nobody is left who is owed a callback.</summary>
    private bool IsDone => _isStopping && ResidentCount == 0 && _strands == 0;

    /// <summary>Has ended, or its engine was disposed before it ran. False again when the engine is started again.</summary>
    internal bool IsStopped => Volatile.Read(ref _isStopped);

    /// <summary>The engine was stopped or disposed: all is being ended, and nothing new begins.</summary>
    internal bool IsStopping => _isStopping;

    // ------------------------------------------------------------------ the verbs, supplied by an engine

    /// <summary>Listen, dial, or adopt a connected socket. Ends in <c>CompleteAttach</c>, perhaps before it returns.</summary>
    private protected abstract void StartAttach(Resident resident);

    /// <summary>Accept (<c>Listener.CompleteAccept</c>) or receive (<c>Connection.CompleteReceive</c>) until stopped.</summary>
    internal abstract void StartReceive(Resident resident);

    /// <summary>Stop; what was already taken may still be delivered and is kept by the connection.</summary>
    internal abstract void StopReceive(Resident resident);

    /// <summary>Send the connection's queue: <c>AdvanceSend</c> for progress, <c>CompleteSend</c> when the next may start.</summary>
    internal abstract void StartSend(Connection connection);

    /// <summary><see cref="StartSend(Connection)"/> sends parts of files: <c>CompleteFile</c> for each. Otherwise the queue has none for it.</summary>
    internal bool SendsFiles { get; private protected init; }

    /// <summary>Try to send these bytes at once, with nothing queued. The number taken; 0 means queue them. At most <see cref="Pieces.MostInRow"/> pieces, none empty.</summary>
    internal virtual int TrySendNow(Connection connection, ReadOnlySpan<IoVector> pieces) => 0;

    /// <summary><see cref="SendForStrand"/> does something here.</summary>
    internal virtual bool StrandsSend => false;

    /// <summary>
    /// On a strand's thread, while the loop does not touch what the connection sends (<c>Strand.TrySendHere</c>): what the system takes at once. The number of bytes, 0 when the loop is to do it, or an error of the
    /// connection as a negative number. At most two pieces, none empty.
    /// </summary>
    // Safe: nothing is read here; engines that do read no longer than the call.
    internal virtual unsafe int SendForStrand(Connection connection, IoVector* pieces, int count, int length) => 0;

    /// <summary>An error of <see cref="SendForStrand"/>, on the loop.</summary>
    internal virtual void StrandSendFailed(Connection connection, int error) => connection.FailSend(error);

    /// <summary>
    /// Sends of the queue what the system takes at once, inside the call. With a send in flight it may do nothing: that one is an offer
    /// already, and the system takes it when it has room.
    /// </summary>
    internal virtual void OfferSend(Connection connection)
    {
        if (connection.IsSendInFlight) return;
        connection.BeginSending();
        StartSend(connection);
    }

    /// <summary>Send FIN.</summary>
    internal abstract void ShutdownSend(Connection connection);

    /// <summary>Cancel what runs and close the descriptor. Ends in <c>CompleteClose</c>, perhaps before it returns.</summary>
    private protected abstract void StartDetach(Resident resident);

    /// <summary>
    /// Lets nobody new in, and delivers every connection that the system has completed (<c>Listener.CompleteAccept</c>): closing
    /// the listener, which comes next, would reset them. An engine without it loses them.
    /// </summary>
    internal virtual void AcceptRest(Listener listener)
    {
    }

    /// <summary>Gives up a connected socket without closing it: from a connector to its connection.</summary>
    internal abstract RawSocket Release(Resident resident);

    /// <summary>Closes a socket that no resident owns yet.</summary>
    internal abstract void Discard(RawSocket socket);

    /// <summary>Submit, block for at most <paramref name="timeoutMs"/> (-1: no limit), deliver. How many completions were delivered; a wake-up is none.</summary>
    private protected abstract int Wait(long timeoutMs);

    /// <summary>Ends a wait. Any thread.</summary>
    private protected abstract void Wake();

    /// <summary>
    /// Makes the kernel queue, at each start of the engine. On the thread that starts the engine, before the loop's own runs.
    /// Throws <see cref="NetworkException"/> when the system refuses, and has then nothing open.
    /// </summary>
    private protected abstract void OpenQueue();

    /// <summary>Closes the kernel queue. Nothing is attached any more.</summary>
    private protected abstract void CloseQueue();

    /// <summary>Hands over what the verbs have queued, for an engine that does so in <see cref="Wait"/>. Nobody may wait for some time.</summary>
    private protected virtual void Submit()
    {
    }

    /// <summary>The flush under way ends the turn and has one connection only: what <see cref="StartSend(Connection)"/> queues goes alone.</summary>
    private protected bool IsLoneFlush { get; private set; }

    internal void WakeUp() => Wake();

    // ------------------------------------------------------------------ the turn

    /// <summary>One turn that waits for at most <paramref name="mostMs"/>. True when the wait brought something.</summary>
    private bool RunTurn(long mostMs = long.MaxValue)
    {
        Handshakes.TurnBegins();
        RunWork();
        CheckBusyTime();
        long timeoutMs = HasWork ? 0 : Math.Min(MsUntilNextTimer(), mostMs);
        int delivered = Wait(timeoutMs == long.MaxValue ? -1 : timeoutMs);
        Counters.Completions += delivered;
        if (delivered == 0) Counters.EmptyTurns++;
        if (_scheduled.Count > 0) RunScheduled();
        return delivered > 0;
    }

    /// <summary>All of a turn but the wait.</summary>
    private void RunWork()
    {
        SendPace.TurnBegins();
        if (Mailbox.Any) Mailbox.Drain();
        if (SendPace.Any || SendPace.DueMs != long.MaxValue) SendPace.Resume();
        if (_ready.Count > 0) RunReady();
        if (Timers.NextDueMs - TimeMs <= Engine.CoarseLagMs) FireTimers();
        if (_scheduled.Count > 0) RunScheduled();
        FlushDirty(isEndOfTurn: true);
        if (Handshakes.Any) RunHandshakes();
        if (Blocks.HasIdleRuns) Blocks.CloseIdleRuns();
    }

    private void FireTimers()
    {
        try
        {
            Timers.Fire(Engine.NowMs);
        }
        catch (Exception e) when (Outlives(e))
        {
            Outlive(e, ActiveConnection);
        }
    }

    private long MsUntilNextTimer()
    {
        long due = Math.Min(Timers.NextDueMs, SendPace.DueMs);
        return due == long.MaxValue ? long.MaxValue : Math.Max(0, due - Engine.NowMs);
    }

    /// <summary>The engine calls this right before it blocks. False: something was posted, do not block.</summary>
    private protected bool TrySleep() => Mailbox.TrySleep();

    /// <summary>The engine calls this when it stops blocking, before it delivers.</summary>
    private protected void Woke()
    {
        Mailbox.Woke();
        // What a strand has said before it looked at the flag is seen from here on (Strand.Sending.cs).
        if (_strands > 0) Interlocked.MemoryBarrier();
        Counters.Turns++;
        TurnBegins();
    }

    private void TurnBegins()
    {
        TimeMs = _busySinceMs = Engine.CoarseMs;
        _compiledAtStart = Engine.CompiledTicks;
        IsBusy = true;
    }

    /// <summary>
    /// Behind each completion, before the next one: what a receive has woken goes on while its bytes are in the nearer caches, and gives back the memory that they
    /// lie in before the next connection needs some. Never inside a callback.
    /// </summary>
    private protected void GoOn()
    {
        if (_ready.Count > 0) RunReady();
    }

    private void RunReady()
    {
        (_ready, _readyRunning) = (_readyRunning, _ready);
        foreach ((Action<object?> continuation, object? state) in _readyRunning)
        {
            EnterWork(UserCode.Continuation, state ?? continuation);
            try
            {
                continuation(state);
            }
            catch (Exception e)
            {
                Engine.ReportException(UserCode.Continuation, e);
            }

            UserCalls++;
        }

        LeaveWork();
        _readyRunning.Clear();
    }

    internal void RunControl(ControlAction action, object? first, object? second, long value)
    {
        EnterWork(UserCode.PostedAction, first);
        try
        {
            action(this, first, second, value);
        }
        catch (Exception e)
        {
            Engine.ReportException(UserCode.PostedAction, e);
        }

        UserCalls++;
        LeaveWork();
    }

    internal void RunItem(Mailbox mailbox, in DataItem item)
    {
        try
        {
            mailbox.Run(item);
        }
        catch (Exception e) when (Outlives(e))
        {
            Outlive(e, item.Connection is { } connection && connection.Generation == item.Generation ? connection : null);
        }
    }

    /// <summary>A timer's callback has returned.</summary>
    internal void CountUserCall() => UserCalls++;

    /// <summary>Asks for <see cref="Resident.RunScheduled"/> in the completion phase.</summary>
    internal void Schedule(Resident resident)
    {
        if (resident.IsScheduled) return;
        resident.IsScheduled = true;
        _scheduled.Enqueue(resident);
    }

    private protected void RunScheduled()
    {
        // Bounded: what schedules itself again waits for the next round of the turn.
        for (int budget = _scheduled.Count; budget > 0; budget--)
        {
            Resident resident = _scheduled.Dequeue();
            resident.IsScheduled = false;
            try
            {
                resident.RunScheduled();
            }
            catch (Exception e) when (Outlives(e))
            {
                Outlive(e, resident);
            }
        }
    }

    // ------------------------------------------------------------------ the last resort

    /// <summary>False for what must end the run: what an engine that checks the contract throws.</summary>
    internal bool Outlives(Exception exception) => !Engine.EndsRun(exception);

    /// <summary>
    /// Something came out of an item of this loop, though all user code has a fence of its own. The connection concerned ends, and the
    /// loop goes on: an exception that left here would end the process, and with it everybody else's connections.
    /// </summary>
    internal void Outlive(Exception exception, Resident? concerned)
    {
        LeaveCallback();
        _activeSocket = null;
        Connection? connection = concerned as Connection;
        try
        {
            Engine.ReportException($"a step of {this}", exception, connection is null ? "Nothing was ended; the loop goes on." : "Its connection was ended; the loop goes on.");
            connection?.AbortWith(new CloseReason(CloseCause.UserException, 0, exception));
        }
        catch (Exception) when (Outlives(exception))
        {
            // It is in no state to be ended. The notice has said so; what is left of it goes with the engine.
        }
    }

    /// <summary>Memory that a session gave away threw; its connection tells who it was by its reason. At most once a minute.</summary>
    internal void NoteMemory(Exception exception)
    {
        const string outcome = "Its connection, if it was open, was ended; the loop goes on.";
        if (_memoryNotices.TryTake(Engine.NowMs)) Engine.ReportException("memory that a session sent", exception, outcome);
        else Engine.UserCodeThrew(exception);
    }

    private void RunHandshakes()
    {
        // The answers of this turn do not wait for handshakes.
        Submit();
        Handshakes.Run(this);
        FlushDirty(isEndOfTurn: true);
    }

    // ------------------------------------------------------------------ callbacks

    /// <summary>A session's callback begins. The memory engine throws when one is running already.</summary>
    internal void EnterCallback(Connection connection, string name)
    {
        if (ActiveCallback is not null) Engine.Violated($"{name} began inside {ActiveCallback}");
        ActiveConnection = connection;
        ActiveCallback = name;
        UserCalls++;
    }

    /// <summary>The same for a handler of datagrams.</summary>
    internal void EnterCallback(DatagramResident socket, string name)
    {
        if (ActiveCallback is not null) Engine.Violated($"{name} began inside {ActiveCallback}");
        _activeSocket = socket;
        ActiveCallback = name;
        UserCalls++;
    }

    internal void LeaveCallback()
    {
        ActiveConnection = null;
        ActiveCallback = null;
        UserCalls++;
    }

    /// <summary>The end of a handler's callback.</summary>
    internal void LeaveHandler()
    {
        _activeSocket = null;
        ActiveCallback = null;
        UserCalls++;
    }

    /// <summary>A connection took a step that its life has not (<see cref="Life"/>), or its TLS.</summary>
    internal void IllegalStep(Enum from, Enum to) => Engine.Violated($"a connection went from {from} to {to}");

    /// <summary>Poisons a block after the callback it was lent to. Debug builds, and always in the memory engine.</summary>
    [Conditional("DEBUG")]
    private protected static void Poison(Span<byte> block) => block.Fill(0xDD);

    /// <summary>The same for a received datagram.</summary>
    [Conditional("DEBUG")]
    internal static void PoisonReceived(Span<byte> datagram) => Poison(datagram);

    /// <summary>The same for a block that a strand lent. The pool's thread.</summary>
    internal void PoisonLent(Span<byte> block)
    {
        if (Engine.PoisonsLent) block.Fill(0xDD);
        else Poison(block);
    }

    /// <summary>The session in a callback posted more than another loop can take: it is not read until that loop caught up.</summary>
    internal void HoldActiveSession() => ActiveConnection?.HoldForMailbox();

    // ------------------------------------------------------------------ flush

    /// <summary>Puts a connection on the dirty list once; at the latest at the end of the turn its queue is sent.</summary>
    internal void AddDirty(Connection connection)
    {
        if (_dirtyCount == _dirty.Length) Array.Resize(ref _dirty, _dirtyCount * 2);
        _dirty[_dirtyCount++] = connection;
    }

    internal Block TakeBlock()
    {
        _blocksSinceFlush++;
        return Blocks.Take();
    }

    /// <summary>
    /// A run of a group, counted like the two blocks it is as large as: a turn with broadcasts of many groups is flushed
    /// in between, and goes round with the runs that the pool keeps.
    /// </summary>
    internal Run TakeOpenRun(int length)
    {
        _blocksSinceFlush += Buffers.Run.FixedCapacity / BlockPool.BlockBytes;
        return Blocks.TakeOpenRun(length);
    }

    internal void CountReceived(int bytes)
    {
        Counters.BytesReceived += bytes;
        Counters.Receives++;
        _receivedSinceFlush += bytes;
    }

    /// <summary>Bulk traffic and wide broadcasts must not fall out of the cache before they are sent (docs/design/0002).</summary>
    internal void FlushIfMany()
    {
        if (_receivedSinceFlush >= FlushEveryBytes || _blocksSinceFlush >= FlushEveryBlocks) FlushDirty(isEndOfTurn: false);
    }

    /// <summary>The same while sends of other threads are drained.</summary>
    internal void FlushIfManyDrained()
    {
        if (_receivedSinceFlush >= FlushEveryBytes || _blocksSinceFlush >= FlushEveryBlocksDrained) FlushDirty(isEndOfTurn: false);
    }

    private void FlushDirty(bool isEndOfTurn)
    {
        _receivedSinceFlush = 0;
        _blocksSinceFlush = 0;
        if (_dirtyCount == 0 || _isFlushing) return;
        _isFlushing = true;
        // What gets dirty again meanwhile (a send that took only a part) waits for the next flush.
        int count = _dirtyCount;
        IsLoneFlush = isEndOfTurn && count == 1;
        for (int i = 0; i < count; i++)
        {
            try
            {
                _dirty[i].Flush(isEndOfTurn);
            }
            catch (Exception e) when (Outlives(e))
            {
                Outlive(e, _dirty[i]);
            }
        }

        IsLoneFlush = false;
        int rest = _dirtyCount - count;
        Array.Copy(_dirty, count, _dirty, 0, rest);
        Array.Clear(_dirty, rest, count);
        _dirtyCount = rest;
        _isFlushing = false;
        if (Blocks.HasIdleRuns) Blocks.CloseIdleRuns();
    }

    // ------------------------------------------------------------------ residents

    internal Resident? ResidentAt(int slot) => (uint)slot < (uint)_residents.Length ? _residents[slot] : null;

    /// <summary>The same, unless it was given to another since.</summary>
    private protected Resident? ResidentAt(int slot, uint generation) => ResidentAt(slot) is { } resident && resident.SlotGeneration == generation ? resident : null;

    internal void Attach(Resident resident)
    {
        int slot = _freeSlots.Count > 0 ? _freeSlots.Pop() : _usedSlots++;
        if (slot >= _residents.Length)
        {
            Array.Resize(ref _residents, _residents.Length * 2);
            Array.Resize(ref _slotGenerations, _residents.Length);
        }

        _residents[slot] = resident;
        resident.Slot = slot;
        resident.SlotGeneration = _slotGenerations[slot];
        StartAttach(resident);
        // Arrived on its way here while the loop was told to stop.
        if (_isStopping && resident.Slot == slot) Stop(resident);
    }

    internal void Detach(Resident resident)
    {
        resident.EndSharing();
        StartDetach(resident);
    }

    /// <summary>Called by the engine as the last step of a detach or release: the slot may be reused.</summary>
    private protected void FreeSlot(Resident resident)
    {
        _residents[resident.Slot] = null;
        _slotGenerations[resident.Slot]++;
        _freeSlots.Push(resident.Slot);
        resident.Slot = -1;
    }

    /// <summary>An attach ends: with a descriptor, or with minus the error number and nothing that is open.</summary>
    private protected void Opened(Resident resident, int fd)
    {
        if (fd < 0) FreeSlot(resident);
        resident.CompleteAttach(Math.Max(0, -fd));
    }

    internal Connection TakeConnection()
    {
        Counters.ConnectionsOpened++;
        return _freeConnections.Count > 0 ? _freeConnections.Pop() : new Connection(this);
    }

    /// <summary>A session on the pool began: the loop does not end before its last callback has returned.</summary>
    internal void StrandStarted(Strand strand)
    {
        _strands++;
        // tidy: allowed because it runs once for each session on the pool; a stop that passed its deadline reads it
        lock (_liveStrands) _liveStrands.Add(strand);
    }

    internal void StrandEnded(Strand strand)
    {
        _strands--;
        // tidy: allowed because it runs once for each session on the pool; a stop that passed its deadline reads it
        lock (_liveStrands) _liveStrands.Remove(strand);
    }

    internal void ReturnConnection(Connection connection)
    {
        Counters.ConnectionsClosed++;
        if (_freeConnections.Count < 1024) _freeConnections.Push(connection);
    }

    internal void Add(PendingOperation undertaking)
    {
        undertaking.NextOfLoop = _firstUndertaking;
        if (_firstUndertaking is not null) _firstUndertaking.PreviousOfLoop = undertaking;
        _firstUndertaking = undertaking;
    }

    internal void Remove(PendingOperation undertaking)
    {
        if (undertaking.PreviousOfLoop is { } previous) previous.NextOfLoop = undertaking.NextOfLoop;
        else if (ReferenceEquals(_firstUndertaking, undertaking)) _firstUndertaking = undertaking.NextOfLoop;
        if (undertaking.NextOfLoop is { } next) next.PreviousOfLoop = undertaking.PreviousOfLoop;
        undertaking.NextOfLoop = undertaking.PreviousOfLoop = null;
    }

    /// <summary>Name and number, as in messages.</summary>
    public override string ToString() => $"loop {Index} ({Engine.KindName})";
}
