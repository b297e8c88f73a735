using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// One thread, one kernel queue, and the connections that belong to it. START READING HERE; then
/// Connections/Connection.cs. Posting is in Loop.Posting.cs, timers in Loop.Timers.cs, the lifecycle of the thread in
/// Loop.Thread.cs.
/// </summary>
/// <remarks>
/// The contract between a loop and an engine, cut at completions (docs/design/0001). Handles are connections,
/// listeners, connect attempts and datagram sockets (<see cref="Resident"/>).
/// <list type="number">
/// <item>All operations on a handle run on its loop's thread. Only <see cref="Wake"/> and <see cref="TrySend"/>
/// may be called from other threads, the latter under the rules of <see cref="Strand"/>.</item>
/// <item>The engine reports completions and holds no policy: it never decides to close, pause or retry for a
/// session.</item>
/// <item>A received block is valid until the complete-call returns.</item>
/// <item>At most one send is in flight per connection.</item>
/// <item>After <see cref="Detach"/> has completed, the descriptor is closed and no completion follows.</item>
/// <item>No verb calls a session. If a verb finds a result early (for example a failed send), the result is recorded
/// and delivered in the completion phase, never inside another callback.</item>
/// <item>A loop never waits for another loop: its posts are accepted or rejected. A session with callbacks that post
/// faster than the other loop can process is not read until that loop has caught up.</item>
/// <item>The order of a turn is defined in one place, <see cref="RunTurn"/>: mailbox, paced sends, continuations,
/// timers, recorded results, flush, TLS handshakes, wait. On the Linux engines, continuations made ready by a
/// completion run directly after it, before the next completion (<see cref="GoOn"/>).</item>
/// <item>A stale completion (of another generation) only releases resources.</item>
/// <item>A loop may be started again after it has ended, and stays the same object: <see cref="OpenQueue"/> and
/// <see cref="CloseQueue"/> come in pairs. Nothing is attached before the first or after the second.</item>
/// </list>
/// </remarks>
public abstract partial class Loop
{
    private const int FlushEveryBytes = 64 * 1024;
    private const int FlushEveryBlocks = 64;

    // Sends of other threads are often little data for each of many connections: more blocks may wait for the flush.
    private const int FlushEveryBlocksDrained = 256;
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
    private Resident[] _dirty = new Resident[StartSlots];
    private int _dirtyCount;
    private int _usedSlots;
    private int _receivedSinceFlush;
    private int _blocksSinceFlush;
    private bool _isFlushing;
    private PendingOperation? _firstUndertaking;
    private long _busySinceMs;
    private NoticePace _memoryNotices;
    private long _compiledAtStart; // JIT time of this thread when the turn began
    private long _reportedSinceMs = -1; // start time of the turn that the watchdog has reported while it ran
    private long _reportedAtMs;
    private string? _work; // user code that is not a callback of a session or handler
    private object? _workSubject;
    private bool _isStopping;
    private int _strands;
    private int _queuedStrands; // on the pool
    private TlsScratch? _tls;
    private bool _isStopped;

    private protected Loop(Engine engine, int index)
    {
        Engine = engine;
        Index = index;
        Mailbox = new Mailbox(this);
        SendPace = new SendPace(engine);
    }

    /// <summary>The loop that the calling thread belongs to; null on other threads.</summary>
    public static Loop? Current => t_current;

    /// <summary>The engine that owns this loop.</summary>
    public Engine Engine { get; }

    /// <summary>Number of the loop in its engine, from 0.</summary>
    public int Index { get; }

    /// <summary>True on this loop's own thread.</summary>
    public bool IsCurrent => ReferenceEquals(t_current, this);

    /// <summary>
    /// Monotonic milliseconds at the end of the loop's last wait, from a coarse clock that may be some milliseconds
    /// late. The loop's thread only.
    /// </summary>
    public long TimeMs { get; private set; }

    /// <summary>Lock for Socket objects of this loop's handles that user code has received.</summary>
    internal Lock SocketGate { get; } = new();

    internal Mailbox Mailbox { get; }

    internal Timers Timers { get; } = new();

    internal BlockPool Blocks { get; } = new();

    internal PipeSegments PipeSegments { get; } = new();

    internal StrandBlocks StrandBlocks { get; } = new();

    /// <summary>Pool of entries for the inboxes of this loop's connections.</summary>
    internal InboxItems InboxItems { get; } = new();

    /// <summary>Scratch memory shared by the TLS layers of this loop. Created with the first layer.</summary>
    internal TlsScratch Tls => _tls ??= new TlsScratch();

    /// <summary>Number of connections with TLS state in native memory. Any thread.</summary>
    internal int NativeTlsCount => Volatile.Read(ref _tls) is { } tls ? Volatile.Read(ref tls.NativeLayers) : 0;

    /// <summary>Limits the time of TLS handshakes in each turn.</summary>
    internal HandshakePace Handshakes { get; } = new();

    internal LoopTally Counters { get; } = new();

    internal Stack<SendOperation> FreeOperations { get; } = new();

    internal FreeSentMarks FreeMarks { get; } = new();

    internal Stack<PacedSend> FreePacedSends { get; } = new();

    /// <summary>Limits awaited sends and files in each turn.</summary>
    internal SendPace SendPace { get; }

    /// <summary>
    /// Number that changes whenever user code starts or ends on this loop. A send buffer reserved under one number is
    /// not written under another.
    /// </summary>
    internal long UserCalls { get; private set; } = 1;

    /// <summary>Data passed to the session that is in OnReceived now.</summary>
    internal OfferedBytes Offered;

    /// <summary>Memory lent by Reserve.</summary>
    internal LentRoom Lent;

    /// <summary>The connection or datagram socket with user code in a callback now.</summary>
    internal Resident? Active { get; private set; }

    internal string? ActiveCallback { get; private set; }

    /// <summary>
    /// Number of connections on their way to this loop. Any thread changes it, by Interlocked; only least-loaded
    /// placement counts them.
    /// </summary>
    internal int OnTheWay;

    /// <summary>
    /// Number of connections of this loop, including those on their way. Any thread; may be slightly outdated.
    /// </summary>
    internal long Load => Volatile.Read(ref Counters.ConnectionsOpened) - Volatile.Read(ref Counters.ConnectionsClosed)
        + Volatile.Read(ref OnTheWay);

    /// <summary>Returns the loop's counters. Any thread; cheap, slightly outdated.</summary>
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
    /// Number of bytes that all connections of this loop have queued and the system has not taken yet, like
    /// <see cref="Server.BytesPending"/>. Any thread; slightly outdated. Visits every connection, so do not read it per
    /// message.
    /// </summary>
    public long BytesPending
    {
        get
        {
            long sum = 0;
            foreach (Resident? resident in Residents)
            {
                if (resident is not null) sum += resident.BytesPending;
            }

            return sum;
        }
    }

    /// <summary>
    /// Handles by slot. Any thread; may be outdated: an ended connection in it has nothing pending and no session.
    /// </summary>
    internal ReadOnlySpan<Resident?> Residents => Volatile.Read(ref _residents);

    internal int ResidentCount => _usedSlots - _freeSlots.Count;

    internal bool HasWork => _dirtyCount > 0 || _scheduled.Count > 0 || Handshakes.Any || SendPace.Any
        || _ready.Count > 0 || Mailbox.Any || IsDone;

    /// <summary>True if the loop is stopping, no handle is left, and no callback is outstanding.</summary>
    private bool IsDone => _isStopping && ResidentCount == 0 && _strands == 0;

    /// <summary>
    /// True if the loop has ended, or its engine was disposed before it ran. False again when the engine is started
    /// again.
    /// </summary>
    internal bool IsStopped => Volatile.Read(ref _isStopped);

    /// <summary>True if the engine was stopped or disposed: all handles are being ended, and none is added.</summary>
    internal bool IsStopping => _isStopping;

    // ------------------------------------------------------------------ the verbs, supplied by an engine

    /// <summary>
    /// Listens, connects, or adopts a connected socket. Ends in <c>CompleteAttach</c>, possibly before it returns.
    /// </summary>
    private protected abstract void StartAttach(Resident resident);

    /// <summary>
    /// Accepts (<c>Listener.CompleteAccept</c>) or receives (<c>Connection.CompleteReceive</c>) until stopped.
    /// </summary>
    internal abstract void StartReceive(Resident resident);

    /// <summary>
    /// Stops receiving. Data that was already received may still be delivered; the connection keeps it.
    /// </summary>
    internal abstract void StopReceive(Resident resident);

    /// <summary>
    /// Sends the connection's queue: <c>BeginSending</c> first, then <c>AdvanceSend</c> for progress, and
    /// <c>CompleteSend</c> when the next send may start.
    /// </summary>
    /// <param name="connection">The connection.</param>
    /// <param name="isOffer">True to send what the system takes inside the call, possibly nothing. Only this form may
    /// be called while a send is in flight.</param>
    internal abstract void StartSend(Connection connection, bool isOffer);

    /// <summary>
    /// True if <see cref="StartSend"/> sends parts of files and calls <c>CompleteFile</c> for each.
    /// Otherwise the queue has no file for it.
    /// </summary>
    internal bool SendsFiles { get; private protected init; }

    /// <summary>
    /// Sends what the system takes of these bytes at once, with nothing queued and no send in flight. Returns the
    /// number of bytes, 0 if the caller has to queue them, or a negated error number. At most
    /// <see cref="Pieces.MostInRow"/> pieces, none empty. Calls no member of the connection: a strand calls it too, on
    /// a thread of the pool, while the loop does not touch the connection's send state (<c>Strand.TrySendHere</c>).
    /// </summary>
    internal virtual int TrySend(Connection connection, ReadOnlySpan<IoVector> pieces) => 0;

    /// <summary>True if strands may call <see cref="TrySend"/>.</summary>
    internal bool StrandsSend { get; private protected init; }

    /// <summary>Counts a system call of <see cref="TrySend"/>.</summary>
    private protected void CountDirectSend()
    {
        if (IsCurrent) Counters.Sends++;
        else Interlocked.Increment(ref Counters.SendsOfStrands);
    }

    /// <summary>Sends FIN.</summary>
    internal abstract void ShutdownSend(Connection connection);

    /// <summary>
    /// Cancels running operations and closes the descriptor. Ends in <c>CompleteClose</c>, possibly before it returns.
    /// A listener that drains first delivers every connection that the system has already accepted
    /// (<c>Listener.AcceptsRest</c>), because closing it would reset them.
    /// </summary>
    private protected abstract void StartDetach(Resident resident);

    /// <summary>Releases a connected socket without closing it: from a connect attempt to its connection.</summary>
    internal abstract RawSocket Release(Resident resident);

    /// <summary>Closes a socket that no handle owns yet.</summary>
    internal abstract void Discard(RawSocket socket);

    /// <summary>
    /// Submits, blocks for at most <paramref name="timeoutMs"/> (-1: no limit), and delivers. Returns the number of
    /// delivered completions; a wake-up is not counted.
    /// </summary>
    private protected abstract int Wait(long timeoutMs);

    /// <summary>Ends a wait. Any thread.</summary>
    private protected abstract void Wake();

    /// <summary>
    /// Creates the kernel queue, at each start of the engine. Called on the thread that starts the engine, before the
    /// loop's own thread runs. Throws <see cref="NetworkException"/> if the system refuses, with nothing left open.
    /// </summary>
    private protected abstract void OpenQueue();

    /// <summary>Closes the kernel queue. No handle is attached any more.</summary>
    private protected abstract void CloseQueue();

    /// <summary>
    /// Submits queued operations now, for an engine that otherwise does so in <see cref="Wait"/>, because the next wait
    /// may be some time away.
    /// </summary>
    private protected virtual void Submit()
    {
    }

    /// <summary>
    /// True if the current flush ends the turn and has one connection only, so that <see cref="StartSend"/>
    /// queues a single operation.
    /// </summary>
    private protected bool IsLoneFlush { get; private set; }

    internal void WakeUp() => Wake();

    // ------------------------------------------------------------------ the turn

    /// <summary>
    /// Runs one turn that waits for at most <paramref name="mostMs"/>. Returns true if the wait delivered a completion.
    /// </summary>
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

    /// <summary>Runs everything in a turn except the wait.</summary>
    private void RunWork()
    {
        SendPace.TurnBegins();
        if (Mailbox.Any) Mailbox.Drain();
        if (SendPace.Any || SendPace.DueMs != long.MaxValue) SendPace.Resume();
        if (_ready.Count > 0) RunReady();
        if (Timers.NextDueMs - TimeMs <= Engine.CoarseLagMs) FireTimers();
        if (_scheduled.Count > 0) RunScheduled();
        FlushDirty(isEndOfTurn: true);
        Lent.Release(this);
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
            Outlive(e, Active);
        }
    }

    private long MsUntilNextTimer()
    {
        long due = Math.Min(Timers.NextDueMs, SendPace.DueMs);
        return due == long.MaxValue ? long.MaxValue : Math.Max(0, due - Engine.NowMs);
    }

    /// <summary>
    /// Called by the engine directly before it blocks. Returns false if something was posted, so that the engine must
    /// not block.
    /// </summary>
    private protected bool TrySleep() => Mailbox.TrySleep();

    /// <summary>Called by the engine after it blocked, before it delivers.</summary>
    private protected void Woke()
    {
        Mailbox.Woke();
        // Everything that a strand wrote before it checked the flag is visible from here on (DirectSend.cs).
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
    /// Runs ready continuations after each completion, before the next one, and never inside a callback. The data of a
    /// receive is then still in the cpu cache, and its memory is released before the next connection needs some.
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
            Outlive(e, item.Concerned);
        }
    }

    /// <summary>Called when a timer's callback has returned.</summary>
    internal void CountUserCall() => UserCalls++;

    /// <summary>Requests a call of <see cref="Resident.RunScheduled"/> in the completion phase.</summary>
    internal void Schedule(Resident resident)
    {
        if (resident.IsScheduled) return;
        resident.IsScheduled = true;
        _scheduled.Enqueue(resident);
    }

    private protected void RunScheduled()
    {
        // Bounded: a handle that schedules itself again waits for the next round of the turn.
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

    /// <summary>
    /// False for an exception that must end the test run: one that a contract-checking engine has thrown.
    /// </summary>
    internal bool Outlives(Exception exception) => !Engine.EndsRun(exception);

    /// <summary>
    /// Handles an exception of a work item of this loop, although all user code is called in try blocks of its own. The
    /// connection concerned is closed, and the loop continues. Otherwise the exception would end the process with all
    /// its connections.
    /// </summary>
    internal void Outlive(Exception exception, Resident? concerned)
    {
        LeaveCallback();
        try
        {
            Engine.ReportException($"a step of {this}", exception, concerned is { EndsByFault: true }
                ? "Its connection was ended; the loop continues." : "Nothing was ended; the loop continues.");
            concerned?.EndByFault(exception);
        }
        catch (Exception) when (Outlives(exception))
        {
            // The connection cannot be ended in this state. The exception has been reported, and the engine releases
            // the rest at its end.
        }
    }

    /// <summary>
    /// Reports an exception of memory that a session passed as owned. The close reason of its connection identifies the
    /// session. At most once a minute.
    /// </summary>
    internal void NoteMemory(Exception exception)
    {
        const string outcome = "Its connection, if it was open, was ended; the loop continues.";
        if (_memoryNotices.TryTake(Engine.NowMs))
            Engine.ReportException("memory that a session sent", exception, outcome);
        else Engine.UserCodeThrew(exception);
    }

    private void RunHandshakes()
    {
        // Responses of this turn must not wait for handshakes.
        Submit();
        Handshakes.Run(this);
        FlushDirty(isEndOfTurn: true);
    }

    // ------------------------------------------------------------------ callbacks

    /// <summary>
    /// Called when a callback of a session or handler begins. The memory engine throws if one is already running.
    /// </summary>
    internal void EnterCallback(Resident resident, string name)
    {
        if (ActiveCallback is not null) Engine.Violated($"{name} began inside {ActiveCallback}");
        Active = resident;
        ActiveCallback = name;
        UserCalls++;
    }

    internal void LeaveCallback()
    {
        Active = null;
        ActiveCallback = null;
        UserCalls++;
    }

    /// <summary>
    /// Called when a connection, or its TLS state, makes a transition that <see cref="Life"/> does not allow.
    /// </summary>
    internal void IllegalStep(Enum from, Enum to) => Engine.Violated($"a connection went from {from} to {to}");

    /// <summary>
    /// Overwrites a block after the callback that could read it. Debug builds, and always in the memory engine.
    /// </summary>
    [Conditional("DEBUG")]
    private protected static void Poison(Span<byte> block) => block.Fill(0xDD);

    /// <summary>Overwrites a received datagram after its callback.</summary>
    [Conditional("DEBUG")]
    internal static void PoisonReceived(Span<byte> datagram) => Poison(datagram);

    /// <summary>Overwrites a block that a strand passed to a callback. The pool's thread.</summary>
    internal void PoisonLent(Span<byte> block)
    {
        if (Engine.PoisonsLent) block.Fill(0xDD);
        else Poison(block);
    }

    /// <summary>
    /// Called when the session in a callback has posted more than another loop accepts: it is not read until that loop
    /// has caught up.
    /// </summary>
    internal void HoldActiveSession() => Active?.HoldFor(ReceiveGate.Mailbox);

    // ------------------------------------------------------------------ flush

    /// <summary>
    /// Puts a connection on the dirty list once. Its queue is sent at the end of the turn at the latest.
    /// </summary>
    internal void AddDirty(Resident resident)
    {
        if (_dirtyCount == _dirty.Length) Array.Resize(ref _dirty, _dirtyCount * 2);
        _dirty[_dirtyCount++] = resident;
    }

    internal Block TakeBlock()
    {
        _blocksSinceFlush++;
        return Blocks.Take();
    }

    /// <summary>
    /// Takes a run for a group, and counts it as two blocks, because it has their size. A turn with broadcasts of many
    /// groups is therefore flushed in between, and needs no more runs than the pool keeps.
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

    /// <summary>
    /// Flushes early, because bulk traffic and wide broadcasts must be sent while they are in the cpu cache
    /// (docs/design/0002).
    /// </summary>
    internal void FlushIfMany()
    {
        if (_receivedSinceFlush >= FlushEveryBytes || _blocksSinceFlush >= FlushEveryBlocks)
            FlushDirty(isEndOfTurn: false);
    }

    /// <summary>The same while sends of other threads are processed.</summary>
    internal void FlushIfManyDrained()
    {
        if (_receivedSinceFlush >= FlushEveryBytes || _blocksSinceFlush >= FlushEveryBlocksDrained)
            FlushDirty(isEndOfTurn: false);
    }

    private void FlushDirty(bool isEndOfTurn)
    {
        _receivedSinceFlush = 0;
        _blocksSinceFlush = 0;
        if (_dirtyCount == 0 || _isFlushing) return;
        _isFlushing = true;
        // Connections that become dirty during the flush (a partial send) wait for the next one.
        int count = _dirtyCount;
        IsLoneFlush = isEndOfTurn && count == 1;
        for (int i = 0; i < count; i++)
        {
            try
            {
                _dirty[i].Flush();
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

    /// <summary>Returns the handle of a slot, or null if the slot has a new owner since.</summary>
    private protected Resident? ResidentAt(int slot, uint generation) =>
        ResidentAt(slot) is { } resident && resident.SlotGeneration == generation ? resident : null;

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
        // The handle was on its way to this loop when the stop began.
        if (_isStopping && resident.Slot == slot) resident.Abort();
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

    /// <summary>Ends an attach with a descriptor, or with a negated error number and nothing open.</summary>
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

    /// <summary>True if callbacks of this loop wait for a thread of the pool. Any thread.</summary>
    internal bool HasQueuedStrands => Volatile.Read(ref _queuedStrands) > 0;

    internal void StrandQueued() => Interlocked.Increment(ref _queuedStrands);

    internal void StrandRuns() => Interlocked.Decrement(ref _queuedStrands);

    /// <summary>
    /// Called when a session on the pool begins: the loop does not end before its last callback has returned.
    /// </summary>
    internal void PoolSessionStarted(PoolSession pool)
    {
        _strands++;
        // tidy: allowed because it runs once for each session on the pool; a stop that passed its deadline reads it
        lock (_poolSessions) _poolSessions.Add(pool);
    }

    internal void PoolSessionEnded(PoolSession pool)
    {
        _strands--;
        // tidy: allowed because it runs once for each session on the pool; a stop that passed its deadline reads it
        lock (_poolSessions) _poolSessions.Remove(pool);
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

    /// <summary>Returns name and number, as in messages.</summary>
    public override string ToString() => $"loop {Index} ({Engine.KindName})";
}
