using System.Diagnostics;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Lifecycle of the loop's thread, which is the engine's, the caller's (<see cref="Run"/>, <see cref="Turn"/>) or a
/// simulation's. Begin, turns, stop, finish. The same object begins again when the engine is started again.
/// </summary>
public abstract partial class Loop
{
    /// <summary>
    /// Rounds of continuations that an ending loop still runs itself. Each round can make the next one ready.
    /// </summary>
    private const int LastContinuations = 64;

    private long _idleSince;
    private NoticePace _idleNotices;
    private int _ownerThread; // managed id of the thread that runs an adopted loop; 0: none yet
    private bool _hasBegun;
    private bool _hooked;

    /// <summary>
    /// True if this loop has no thread of its own, and the user calls <see cref="Run"/> or <see cref="Turn"/>. See
    /// <see cref="EngineOptions.AdoptedLoops"/>.
    /// </summary>
    public bool IsAdopted { get; internal set; }

    /// <summary>
    /// True if no thread could be started for this loop: the thread that ends the failed start ends the loop too.
    /// </summary>
    internal bool IsAbandoned { get; set; }

    /// <summary>
    /// True if the calling thread runs this adopted loop. Its sends and broadcasts are not rejected between its turns,
    /// because only this thread empties the mailbox.
    /// </summary>
    internal bool IsOwnedHere => IsAdopted && Volatile.Read(ref _ownerThread) == Environment.CurrentManagedThreadId;

    private bool HasEnded => IsDone && _scheduled.Count == 0;

    // ------------------------------------------------------------------ the caller's thread

    /// <summary>
    /// Makes the calling thread the thread of an adopted loop, until the engine is stopped or the token is cancelled.
    /// Starts the engine if it was never started. Idles according to <see cref="EngineOptions.Idle"/>.
    /// </summary>
    /// <param name="cancellationToken">Token that ends this call. The engine continues, and its sessions on this loop
    /// wait for the next call.</param>
    /// <returns>True if the token ended the call; false if the engine was stopped and the loop has ended.</returns>
    /// <exception cref="InvalidOperationException">The loop has a thread of its own, another thread runs it, or the
    /// call is inside a callback.</exception>
    public bool Run(CancellationToken cancellationToken = default)
    {
        if (!TryEnter()) return false;
        using CancellationTokenRegistration wake = cancellationToken.UnsafeRegister(
            static loop => ((Loop)loop!).PostControl(static (_, _, _, _) => { }), this);
        try
        {
            BeginTurns();
            while (!HasEnded && !cancellationToken.IsCancellationRequested) IdleTurn();
            Submit();
            CheckBusyTime();
        }
        finally
        {
            Leave();
        }

        return !IsStopped;
    }

    /// <summary>
    /// Runs one turn of an adopted loop on the calling thread. Runs posts and due timers, or waits for at most
    /// <paramref name="maxWait"/>; then delivers what has arrived, and sends what the callbacks queued. Starts the
    /// engine if it was never started. Always called by the same thread. A stop of the engine is carried out inside
    /// these calls.
    /// </summary>
    /// <param name="maxWait">Time to wait if there is nothing to do, rounded up to whole milliseconds. Zero never
    /// waits; <see cref="Timeout.InfiniteTimeSpan"/> has no limit.</param>
    /// <returns>True while the loop runs; false if the engine was stopped: the loop has ended, and nothing was
    /// done.</returns>
    /// <exception cref="InvalidOperationException">The loop has a thread of its own, another thread runs it, or the
    /// call is inside a callback.</exception>
    public bool Turn(TimeSpan maxWait)
    {
        if (maxWait < TimeSpan.Zero && maxWait != Timeout.InfiniteTimeSpan)
            Throw.OutOfRange(nameof(maxWait), maxWait, "zero, positive, or Timeout.InfiniteTimeSpan");
        if (!TryEnter()) return false;
        try
        {
            BeginTurns();
            // Do not wait if there is work.
            bool hasWork = HasWork || Timers.NextDueMs <= Engine.NowMs;
            if (!HasEnded) RunTurn(hasWork ? 0 : maxWait < TimeSpan.Zero ? long.MaxValue : WholeMs(maxWait));
            // The caller may pause before the next turn, so queued messages are sent now.
            RunWork();
            Submit();
            CheckBusyTime();
        }
        finally
        {
            Leave();
        }

        return !IsStopped;
    }

    /// <summary>
    /// Makes the calling thread the loop's thread until <see cref="Leave"/>. Returns false if the loop has ended.
    /// </summary>
    private bool TryEnter()
    {
        if (!IsAdopted)
            Throw.State(
                $"{this} has a thread of its own: only a loop of EngineOptions.AdoptedLoops is run by its user.");
        if (t_current is { } outer)
            Throw.State(ReferenceEquals(outer, this)
                ? $"{this} is running: it cannot be run from inside one of its own callbacks."
                : $"This is a callback of {outer}: running {this} here would hold that loop up.");
        if (IsStopped || !Engine.TryStart()) return false;
        int me = Environment.CurrentManagedThreadId;
        int owner = Interlocked.CompareExchange(ref _ownerThread, me, 0);
        if (owner != 0 && owner != me)
        {
            // No thread ran the loop, and the thread that stops the engine is ending it.
            if (Engine.IsStopping) return false;
            Throw.State($"{this} belongs to thread {owner}, which ran it first; this is thread {me}. Until the engine "
                + $"is stopped it stays with that thread.");
        }

        if (IsStopped) return false;
        t_current = this;
        try
        {
            Begin();
        }
        catch
        {
            t_current = null;
            throw;
        }

        return true;
    }

    private void Leave()
    {
        bool ended = HasEnded && !IsStopped;
        if (ended) Finish();
        t_current = null;
        if (ended) Engine.LoopEnded(this);
    }

    /// <summary>
    /// Ends an adopted loop after a stop of the engine if this thread may do so: no thread ever ran the loop, or this
    /// thread did and is not inside a turn. Otherwise the thread that runs the loop ends it, in its next turns.
    /// </summary>
    internal void EndAdopted()
    {
        int me = Environment.CurrentManagedThreadId;
        int owner = Interlocked.CompareExchange(ref _ownerThread, me, 0);
        if (owner != 0 && (owner != me || t_current is not null)) return;
        // The hooks are for a thread that runs the loop, not for one that only ends it.
        if (owner == 0) _hasBegun = true;
        while (!IsStopped && !Engine.IsOverdue) RunTurnHere();
    }

    // ------------------------------------------------------------------ a thread of the engine's

    /// <summary>Runs turns until the engine stops the loop. The loop's own thread.</summary>
    internal void RunThread()
    {
        t_current = this;
        try
        {
            BeginOwnThread();
            BeginTurns();
            while (!HasEnded) IdleTurn();
        }
        finally
        {
            Finish();
            t_current = null;
            Engine.LoopEnded(this);
        }
    }

    private void BeginOwnThread()
    {
        Exception? failure = null;
        try
        {
            Engine.PlaceThread(Index);
            Begin();
        }
        catch (Exception e)
        {
            // The exception fails the start, which then stops every loop, including this one.
            failure = e;
        }

        Engine.LoopBegan(failure);
    }

    /// <summary>
    /// Calls the user's hook, once for each start, on the loop's thread. Its exception is thrown to the code that
    /// starts or runs the loop.
    /// </summary>
    private void Begin()
    {
        if (_hasBegun) return;
        _hasBegun = true;
        if (Engine.HasWatchdog) _threadId = Linux.CurrentThread.Id;
        using CallbackScope scope = new(Engine);
        Engine.Options.OnLoopStarted?.Invoke(this);
        _hooked = true;
    }

    /// <summary>Restarts the clock of the turn, because time outside the turns is not the loop's.</summary>
    private void BeginTurns()
    {
        TurnBegins();
    }

    // ------------------------------------------------------------------ idling

    /// <summary>Runs one turn, and applies the idle strategy if it found nothing.</summary>
    private void IdleTurn()
    {
        if (Engine.Options.Idle == IdleStrategy.Block)
        {
            RunTurn();
            return;
        }

        // Checked before the turn: a turn that found work was not idle, even if its wait returned nothing.
        bool hadWork = HasWork || Timers.NextDueMs <= TimeMs;
        bool isSpinning = Engine.Options.Idle == IdleStrategy.Spin || _idleSince == 0
            || Stopwatch.GetElapsedTime(_idleSince) < Engine.Options.SpinTime;
        if (RunTurn(isSpinning ? 0 : long.MaxValue) || hadWork || !isSpinning || HasWork)
        {
            _idleSince = 0;
            return;
        }

        if (_idleSince == 0) _idleSince = Stopwatch.GetTimestamp();
        CallIdle();
        // With a cpu of its own, the loop returns at once. Otherwise other threads, including the runtime's, must run,
        // or nothing would ever arrive.
        Thread.Yield();
    }

    private void CallIdle()
    {
        EnterWork("OnIdle");
        try
        {
            using CallbackScope scope = new(Engine);
            Engine.Options.OnIdle?.Invoke(this);
        }
        catch (Exception e)
        {
            // Limited, because it could be reported millions of times a second.
            if (_idleNotices.TryTake(TimeMs)) Engine.ReportException("OnIdle", e);
        }

        LeaveWork();
    }

    // ------------------------------------------------------------------ a simulation's thread

    /// <summary>Runs one turn on the caller's thread (the memory engine, and the end of an adopted loop).</summary>
    internal void RunTurnHere()
    {
        Loop? outer = t_current;
        t_current = this;
        bool ended = false;
        try
        {
            if (!_hasBegun) BeginHere();
            // Other loops may have moved the clock meanwhile, which is not this loop's time.
            BeginTurns();
            if (!HasEnded) RunTurn();
            CheckBusyTime();
            ended = HasEnded && !IsStopped;
            if (ended) Finish();
        }
        finally
        {
            t_current = outer;
        }

        if (ended) Engine.LoopEnded(this);
    }

    /// <summary>
    /// Runs posted work as this loop's thread (the memory engine, for a waiting callback on the pool).
    /// </summary>
    internal void DrainHere()
    {
        Loop? outer = t_current;
        t_current = this;
        try
        {
            Mailbox.Drain();
            SendPace.TurnBegins();
            SendPace.Resume();
        }
        finally
        {
            t_current = outer;
        }
    }

    private void BeginHere()
    {
        try
        {
            Begin();
        }
        catch (Exception e)
        {
            Engine.ReportException("OnLoopStarted", e);
        }
    }

    /// <summary>
    /// Runs <paramref name="action"/> as a thread of no loop and no session (callers of the memory engine from
    /// outside). Inside a callback it acts as another thread that runs at the same time.
    /// </summary>
    internal static void RunOffLoop(Action<object?> action, object? state)
    {
        Loop? outer = t_current;
        t_current = null;
        PoolSession? running = PoolSession.Exchange(null);
        try
        {
            action(state);
        }
        finally
        {
            PoolSession.Exchange(running);
            t_current = outer;
        }
    }

    // ------------------------------------------------------------------ the end, and a new beginning

    /// <summary>
    /// Ends everything on this loop: aborts all handles and waits until none is left; then the thread returns. Loop's
    /// thread.
    /// </summary>
    internal void Stop()
    {
        _isStopping = true;
        // Before the handles: a connect must not try its next address when its attempts end.
        for (PendingOperation? one = _firstUndertaking, next; one is not null; one = next)
        {
            next = one.NextOfLoop;
            one.Stop();
        }

        for (int i = 0; i < _usedSlots; i++)
        {
            _residents[i]?.Abort();
        }
    }

    private void Finish()
    {
        if (_hooked) CallStopping();
        Mailbox.Close();
        // Connects that were still in the mailbox have failed and need their last callback.
        while (_scheduled.Count > 0) RunScheduled();
        Timers.Close();
        SendPace.End();
        for (int i = 0; i < LastContinuations && _ready.Count > 0; i++) RunReady();
        Volatile.Write(ref _isStopped, true);
        foreach ((Action<object?> continuation, object? state) in _ready) Engine.Offload(continuation, state);
        _ready.Clear();
        CloseQueue();
        Lent.Release(this);
        Blocks.Clear();
        InboxItems.Clear();
    }

    private void CallStopping()
    {
        EnterWork("OnLoopStopping");
        try
        {
            using CallbackScope scope = new(Engine);
            Engine.Options.OnLoopStopping?.Invoke(this);
        }
        catch (Exception e)
        {
            Engine.ReportException("OnLoopStopping", e);
        }

        LeaveWork();
    }

    /// <summary>
    /// Opens the loop for a thread. Called by the thread that starts the engine; resets all state of an earlier start.
    /// </summary>
    internal void Open()
    {
        OpenQueue();
        _isStopping = false;
        _hasBegun = false;
        _hooked = false;
        _idleSince = 0;
        _ownerThread = 0;
        IsAbandoned = false;
        Timers.Open();
        Mailbox.Open();
        Volatile.Write(ref _isStopped, false);
    }

    /// <summary>Called if the start failed before this loop had a thread: its posts wait for the next start.</summary>
    internal void CloseUnstarted() => CloseQueue();

    /// <summary>Called for a loop that never ran, when its engine is disposed: its posts run here.</summary>
    internal void CloseUnused()
    {
        if (IsStopped) return;
        Mailbox.Close();
        Volatile.Write(ref _isStopped, true);
    }
}
