using System.Diagnostics;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// One thread, one kernel queue, and the connections that live on it. START READING HERE; then Connections/Connection.cs.
/// </summary>
/// <remarks>
/// The contract between a loop and an engine, cut at completions (docs/design/0001):
/// <list type="number">
/// <item>Everything about a resident happens on its loop's thread. Only <see cref="Wake"/> may be called from elsewhere.</item>
/// <item>The engine reports completions and holds no policy: it never decides to close, pause or retry for a session.</item>
/// <item>A received block is valid until the complete-call returns.</item>
/// <item>One send is in flight per connection.</item>
/// <item>After <see cref="Detach"/> has completed, the descriptor is closed and no completion follows.</item>
/// <item>No verb calls a session. What a verb finds out early (a send that fails) is noted and delivered from the
/// completion phase, never inside another callback.</item>
/// <item>A loop never waits for another loop: posts are taken above the limit up to four times it, then refused.</item>
/// <item>The order of a turn is written once, in <see cref="Turn"/>: mailbox, continuations, timers, noted work, flush, wait.</item>
/// <item>A stale completion (other generation) releases resources only.</item>
/// </list>
/// </remarks>
public abstract class Loop
{
    private const int FlushEveryBytes = 64 * 1024;
    private const int FlushEveryBlocks = 64;
    private const int StartSlots = 64;

    /// <summary>Rounds of continuations that a loop at its end still runs itself, each made ready by the one before.</summary>
    private const int LastContinuations = 64;

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
    private long _busySinceMs;
    private long _lastBlockedNoticeMs = long.MinValue / 2;
    private bool _isStopping;
    private int _strands;

    private protected Loop(Engine engine, int index)
    {
        Engine = engine;
        Index = index;
        Mailbox = new Mailbox(this);
    }

    /// <summary>The loop whose thread this is, or null.</summary>
    public static Loop? Current => t_current;

    /// <summary>The engine that owns this loop.</summary>
    public Engine Engine { get; }

    /// <summary>Number of the loop in its engine, from 0.</summary>
    public int Index { get; }

    /// <summary>True on this loop's own thread.</summary>
    public bool IsCurrent => ReferenceEquals(t_current, this);

    /// <summary>Monotonic milliseconds when the loop last stopped waiting. The loop's thread only.</summary>
    public long TimeMs { get; private set; }

    internal Mailbox Mailbox { get; }

    internal Timers Timers { get; } = new();

    internal BlockPool Blocks { get; } = new();

    internal StrandBlocks StrandBlocks { get; } = new();

    internal LoopCounters Counters { get; } = new();

    internal Stack<SendOperation> FreeOperations { get; } = new();

    /// <summary>The connection whose session is in a callback now.</summary>
    internal Connection? ActiveConnection { get; private set; }

    internal string? ActiveCallback { get; private set; }

    internal int ResidentCount => _usedSlots - _freeSlots.Count;

    internal bool HasWork => _dirtyCount > 0 || _scheduled.Count > 0 || _ready.Count > 0 || Mailbox.Any || IsDone;

    /// <summary>Stopped, and nobody is left who is owed a callback.</summary>
    private bool IsDone => _isStopping && ResidentCount == 0 && _strands == 0;

    internal bool IsStopped { get; private set; }

    /// <summary>The engine was disposed: all is being ended, and nothing new begins.</summary>
    internal bool IsStopping => _isStopping;

    // ------------------------------------------------------------------ public: posting and timers, any thread

    /// <summary>Runs <paramref name="action"/> on the loop's thread in a later turn; never inside the caller's stack. Any thread.</summary>
    /// <param name="action">What to run. If it throws, the engine gives a notice and the loop goes on.</param>
    /// <returns>False when the engine is disposed: it will not run.</returns>
    public bool Post(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostControl(static (loop, a, _, _) => ((Action)a!)(), action);
    }

    /// <summary>Runs <paramref name="action"/> with <paramref name="state"/> on the loop's thread in a later turn, without a closure. Any thread.</summary>
    /// <param name="action">What to run.</param>
    /// <param name="state">Its argument.</param>
    /// <returns>False when the engine is disposed: it will not run.</returns>
    public bool Post(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostControl(static (_, a, s, _) => ((Action<object?>)a!)(s), action, state);
    }

    /// <summary>Runs <paramref name="action"/> at once when this is the loop's thread, else posts it.</summary>
    /// <param name="action">What to run.</param>
    /// <returns>False when the engine is disposed: it will not run.</returns>
    public bool Dispatch(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        if (!IsCurrent) return Post(action);
        action();
        return true;
    }

    /// <summary>Starts a timer whose callback runs on this loop. Any thread.</summary>
    /// <param name="due">Time until the first firing; zero means the next turn.</param>
    /// <param name="callback">What to run.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    public LoopTimer StartTimer(TimeSpan due, Action<object?> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        LoopTimer timer = new(this, callback, state, PeriodMsOf(period));
        StartTimer(timer, due);
        return timer;
    }

    internal static long PeriodMsOf(TimeSpan period)
    {
        if (period < TimeSpan.Zero) Throw.OutOfRange(nameof(period), period, "zero or positive");
        return period == TimeSpan.Zero ? 0 : Math.Max(1, (long)Math.Ceiling(period.TotalMilliseconds));
    }

    internal void StartTimer(LoopTimer timer, TimeSpan due)
    {
        if (due < TimeSpan.Zero) Throw.OutOfRange(nameof(due), due, "zero or positive");
        // From now, not from the start of the turn: a timer never fires early.
        long dueMs = Engine.NowMs + (long)Math.Ceiling(due.TotalMilliseconds);
        if (IsCurrent)
        {
            Timers.Add(timer, dueMs);
            return;
        }

        timer.IsStarting = true;
        PostControl(static (loop, t, _, at) => loop.Timers.Add((LoopTimer)t!, at), timer, null, dueMs);
    }

    internal bool PostControl(ControlAction action, object? first = null, object? second = null, long value = 0) =>
        Mailbox.PostControl(action, first, second, value);

    internal void PostContinuation(Action<object?> continuation, object? state)
    {
        if (IsCurrent && !IsStopped)
        {
            _ready.Add((continuation, state));
            return;
        }

        // A loop that has ended runs nothing: the awaiting code goes on wherever the engine offloads to.
        if (!PostControl(static (loop, c, s, _) => ((Action<object?>)c!)(s), continuation, state)) Engine.Offload(continuation, state);
    }

    // ------------------------------------------------------------------ the verbs, supplied by an engine

    /// <summary>Listen, dial, or adopt a connected socket. Ends in <c>CompleteAttach</c>, perhaps before it returns.</summary>
    private protected abstract void StartAttach(Resident resident);

    /// <summary>Accept (<c>Listener.CompleteAccept</c>) or receive (<c>Connection.CompleteReceive</c>) until stopped.</summary>
    internal abstract void StartReceive(Resident resident);

    /// <summary>Stop; what was already taken may still be delivered and is kept by the connection.</summary>
    internal abstract void StopReceive(Resident resident);

    /// <summary>Send the connection's queue: <c>AdvanceSend</c> for progress, <c>CompleteSend</c> when the next may start.</summary>
    internal abstract void StartSend(Connection connection);

    /// <summary>Try to send these bytes at once, with nothing queued. The number taken; 0 means queue them.</summary>
    internal virtual int TrySendNow(Connection connection, ReadOnlySpan<byte> data) => 0;

    /// <summary>Send FIN.</summary>
    internal abstract void FinishSend(Connection connection);

    /// <summary>Cancel what runs and close the descriptor. Ends in <c>CompleteClose</c>, perhaps before it returns.</summary>
    private protected abstract void StartDetach(Resident resident);

    /// <summary>Gives up a connected socket without closing it: from a connector to its connection.</summary>
    internal abstract RawSocket Release(Resident resident);

    /// <summary>Closes a socket that no resident owns yet.</summary>
    internal abstract void Discard(RawSocket socket);

    /// <summary>Submit, block for at most <paramref name="timeoutMs"/> (-1: no limit), deliver.</summary>
    private protected abstract void Wait(long timeoutMs);

    /// <summary>Ends a wait. Any thread.</summary>
    private protected abstract void Wake();

    /// <summary>Makes room for engine data of slots below <paramref name="capacity"/>.</summary>
    private protected abstract void GrowSlots(int capacity);

    /// <summary>Closes the kernel queue. Nothing is attached any more.</summary>
    private protected abstract void CloseQueue();

    internal void WakeUp() => Wake();

    // ------------------------------------------------------------------ the turn

    internal void Turn()
    {
        if (Mailbox.Any) Mailbox.Drain();
        if (_ready.Count > 0) RunReady();
        if (Timers.NextDueMs <= TimeMs) Timers.Fire(TimeMs, this);
        if (_scheduled.Count > 0) RunScheduled();
        FlushDirty(isEndOfTurn: true);
        CheckBusyTime();
        Wait(HasWork ? 0 : MsUntilNextTimer());
        if (_scheduled.Count > 0) RunScheduled();
    }

    private long MsUntilNextTimer()
    {
        long due = Timers.NextDueMs;
        return due == long.MaxValue ? -1 : Math.Max(0, due - Engine.NowMs);
    }

    /// <summary>The engine calls this right before it blocks. False: something was posted, do not block.</summary>
    private protected bool TrySleep() => Mailbox.TrySleep();

    /// <summary>The engine calls this when it stops blocking, before it delivers.</summary>
    private protected void Woke()
    {
        Mailbox.Woke();
        TimeMs = _busySinceMs = Engine.NowMs;
        IsBusy = true;
    }

    /// <summary>When the loop last stopped blocking, while it has not blocked again. Read by the watchdog.</summary>
    internal long BusySinceMs => _busySinceMs;

    internal bool IsBusy { get; private set; }

    /// <summary>What the watchdog saw running when the turn was already too long.</summary>
    internal string? Suspect { get; set; }

    /// <summary>Remembers which callback runs now. The watchdog's thread; a wrong guess names the wrong session, no more.</summary>
    internal void NoteSuspect()
    {
        string? callback = ActiveCallback;
        if (ActiveConnection?.Session is { } session && callback is not null) Suspect = $"{callback} (session {session.Id:x})";
    }

    private void CheckBusyTime()
    {
        IsBusy = false;
        long busyMs = Engine.NowMs - _busySinceMs;
        if (busyMs > Engine.BlockedLoopMs && _busySinceMs != 0) NoteBlocked(busyMs);
        Suspect = null;
    }

    private void NoteBlocked(long busyMs)
    {
        Counters.BlockedTurns++;
        if (TimeMs - _lastBlockedNoticeMs < 60_000) return;
        _lastBlockedNoticeMs = TimeMs;
        Engine.Note(new Notice(
            NoticeKind.BlockedLoop,
            $"{Suspect ?? "A callback"} blocked loop {Index} for {busyMs} ms. Other sessions on this loop waited. Move the work to Task.Run, or post it in smaller pieces.",
            "blocked-loop.md"));
    }

    private void RunReady()
    {
        (_ready, _readyRunning) = (_readyRunning, _ready);
        foreach ((Action<object?> continuation, object? state) in _readyRunning)
        {
            try
            {
                continuation(state);
            }
            catch (Exception e)
            {
                Engine.NoteException("a continuation", e);
            }
        }

        _readyRunning.Clear();
    }

    internal void RunControl(ControlAction action, object? first, object? second, long value)
    {
        try
        {
            action(this, first, second, value);
        }
        catch (Exception e)
        {
            Engine.NoteException("a posted action", e);
        }
    }

    internal void RunTimer(LoopTimer timer)
    {
        try
        {
            timer.Run();
        }
        catch (Exception e)
        {
            Engine.NoteException("a timer", e);
        }
    }

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
            resident.RunScheduled();
        }
    }

    // ------------------------------------------------------------------ callbacks

    /// <summary>A session's callback begins. The memory engine throws when one is running already.</summary>
    internal void EnterCallback(Connection connection, string name)
    {
        if (ActiveConnection is not null) NestedCallback(ActiveCallback!, name);
        ActiveConnection = connection;
        ActiveCallback = name;
    }

    internal void LeaveCallback()
    {
        ActiveConnection = null;
        ActiveCallback = null;
    }

    private protected virtual void NestedCallback(string running, string starting) =>
        Debug.Fail($"{starting} began inside {running}");

    /// <summary>Poisons a block after the callback it was lent to. Debug builds, and always in the memory engine.</summary>
    [Conditional("DEBUG")]
    private protected static void Poison(Span<byte> block) => block.Fill(0xDD);

    /// <summary>The same for a block that a strand lent. The pool's thread.</summary>
    internal virtual void PoisonLent(Span<byte> block) => Poison(block);

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

    private void FlushDirty(bool isEndOfTurn)
    {
        _receivedSinceFlush = 0;
        _blocksSinceFlush = 0;
        if (_dirtyCount == 0 || _isFlushing) return;
        _isFlushing = true;
        // What gets dirty again meanwhile (a send that took only a part) waits for the next flush.
        int count = _dirtyCount;
        for (int i = 0; i < count; i++) _dirty[i].Flush(isEndOfTurn);
        int rest = _dirtyCount - count;
        Array.Copy(_dirty, count, _dirty, 0, rest);
        Array.Clear(_dirty, rest, count);
        _dirtyCount = rest;
        _isFlushing = false;
    }

    // ------------------------------------------------------------------ residents

    internal Resident? ResidentAt(int slot) => (uint)slot < (uint)_residents.Length ? _residents[slot] : null;

    internal void Attach(Resident resident)
    {
        int slot = _freeSlots.Count > 0 ? _freeSlots.Pop() : _usedSlots++;
        if (slot >= _residents.Length)
        {
            Array.Resize(ref _residents, _residents.Length * 2);
            Array.Resize(ref _slotGenerations, _residents.Length);
            GrowSlots(_residents.Length);
        }

        _residents[slot] = resident;
        resident.Slot = slot;
        resident.SlotGeneration = _slotGenerations[slot];
        StartAttach(resident);
        // Arrived on its way here while the loop was told to stop.
        if (_isStopping && resident.Slot == slot) Stop(resident);
    }

    internal void Detach(Resident resident) => StartDetach(resident);

    /// <summary>Called by the engine as the last step of a detach or release: the slot may be reused.</summary>
    private protected void FreeSlot(Resident resident)
    {
        _residents[resident.Slot] = null;
        _slotGenerations[resident.Slot]++;
        _freeSlots.Push(resident.Slot);
        resident.Slot = -1;
    }

    internal Connection TakeConnection()
    {
        Counters.ConnectionsOpened++;
        return _freeConnections.Count > 0 ? _freeConnections.Pop() : new Connection(this);
    }

    /// <summary>A session on the pool began: the loop does not end before its last callback has returned.</summary>
    internal void StrandStarted() => _strands++;

    internal void StrandEnded() => _strands--;

    internal void ReturnConnection(Connection connection)
    {
        Counters.ConnectionsClosed++;
        if (_freeConnections.Count < 1024) _freeConnections.Push(connection);
    }

    // ------------------------------------------------------------------ life of the thread

    /// <summary>Runs turns until the engine stops the loop. The loop's own thread.</summary>
    internal void RunThread()
    {
        t_current = this;
        TimeMs = Engine.NowMs;
        try
        {
            while (!(IsDone && _scheduled.Count == 0)) Turn();
        }
        finally
        {
            Finish();
            t_current = null;
        }
    }

    /// <summary>One turn on the caller's thread (the memory engine).</summary>
    internal void RunTurnHere()
    {
        Loop? outer = t_current;
        t_current = this;
        // Other loops moved the clock meanwhile: that was not this one's doing.
        TimeMs = _busySinceMs = Engine.NowMs;
        try
        {
            Turn();
            CheckBusyTime();
            if (IsDone && _scheduled.Count == 0 && !IsStopped) Finish();
        }
        finally
        {
            t_current = outer;
        }
    }

    /// <summary>Runs <paramref name="action"/> as no loop's thread (the memory engine's foreign callers).</summary>
    internal static void RunOffLoop(Action<object?> action, object? state)
    {
        Loop? outer = t_current;
        t_current = null;
        try
        {
            action(state);
        }
        finally
        {
            t_current = outer;
        }
    }

    private void Finish()
    {
        Mailbox.Close();
        // Attempts that were still in the mailbox have failed, and are owed their last callback.
        while (_scheduled.Count > 0) RunScheduled();
        for (int i = 0; i < LastContinuations && _ready.Count > 0; i++) RunReady();
        foreach ((Action<object?> continuation, object? state) in _ready) Engine.Offload(continuation, state);
        _ready.Clear();
        CloseQueue();
        Blocks.Clear();
        IsStopped = true;
        Engine.LoopEnded(this);
    }

    /// <summary>For a loop whose thread was never started.</summary>
    internal void CloseUnused()
    {
        Mailbox.Close();
        CloseQueue();
        IsStopped = true;
    }

    /// <summary>Ends everything on this loop: aborts all, reaps to zero, then the thread returns. Loop's thread.</summary>
    internal void Stop()
    {
        _isStopping = true;
        for (int i = 0; i < _usedSlots; i++)
        {
            if (_residents[i] is { } resident) Stop(resident);
        }
    }

    private static void Stop(Resident resident)
    {
        switch (resident)
        {
            case Connection connection:
                connection.AbortWith(new CloseReason(CloseCause.EngineStopped));
                break;
            case Connector connector:
                connector.Cancel(new CloseReason(CloseCause.EngineStopped));
                break;
            case Listener listener:
                listener.Stop();
                break;
        }
    }

    /// <summary>Name and number, as in messages.</summary>
    public override string ToString() => $"loop {Index} ({Engine.KindName})";
}
