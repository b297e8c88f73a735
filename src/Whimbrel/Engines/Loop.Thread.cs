using System.Diagnostics;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// The life of the thread: a thread of the engine's, the caller's (<see cref="Run"/>, <see cref="Turn"/>), or that of a
/// simulation. Begin, turns, stop, finish; the same object begins again when the engine is started again.
/// </summary>
public abstract partial class Loop
{
    /// <summary>Rounds of continuations that a loop at its end still runs itself, each made ready by the one before.</summary>
    private const int LastContinuations = 64;

    private long _idleSince;
    private NoticePace _idleNotices;
    private int _ownerThread; // managed thread id of who runs an adopted loop; 0: nobody yet
    private bool _hasBegun;
    private bool _hooked;

    /// <summary>True when this loop has no thread of its own: somebody calls <see cref="Run"/> or <see cref="Turn"/>. See <see cref="EngineOptions.AdoptedLoops"/>.</summary>
    public bool IsAdopted { get; internal set; }

    /// <summary>No thread could be started for it: who ends the failed start ends it.</summary>
    internal bool IsAbandoned { get; set; }

    /// <summary>The caller is the thread that runs this adopted loop; between its turns it counts as the loop for what would be refused.</summary>
    internal bool IsOwnedHere => IsAdopted && Volatile.Read(ref _ownerThread) == Environment.CurrentManagedThreadId;

    private bool HasEnded => IsDone && _scheduled.Count == 0;

    // ------------------------------------------------------------------ the caller's thread

    /// <summary>
    /// Makes the calling thread the thread of an adopted loop, until the engine is stopped or the token is cancelled. Starts the
    /// engine if it was never started. Idles as <see cref="EngineOptions.Idle"/> says.
    /// </summary>
    /// <param name="cancellationToken">Ends this call; the engine goes on, and its sessions on this loop wait for the next one.</param>
    /// <returns>True when the token ended it, false when the engine was stopped: the loop has ended.</returns>
    /// <exception cref="InvalidOperationException">The loop has a thread of its own, another thread runs it, or this is inside a callback.</exception>
    public bool Run(CancellationToken cancellationToken = default)
    {
        if (!TryEnter()) return false;
        using CancellationTokenRegistration wake = cancellationToken.UnsafeRegister(static loop => ((Loop)loop!).PostControl(static (_, _, _, _) => { }), this);
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
    /// One turn of an adopted loop on the calling thread: runs what was posted and is due, or else waits for at most
    /// <paramref name="maxWait"/>; then delivers what has come, and sends what the callbacks queued. Starts the engine if it was never started.
    /// Always the same thread calls it. A stop of the engine is carried out inside of these calls.
    /// </summary>
    /// <param name="maxWait">How long to wait when there was nothing to do, rounded up to whole milliseconds. Zero never waits; <see cref="Timeout.InfiniteTimeSpan"/> has no limit.</param>
    /// <returns>True while the loop lives; false when the engine was stopped: the loop has ended, and nothing was done.</returns>
    /// <exception cref="InvalidOperationException">The loop has a thread of its own, another thread runs it, or this is inside a callback.</exception>
    public bool Turn(TimeSpan maxWait)
    {
        if (maxWait < TimeSpan.Zero && maxWait != Timeout.InfiniteTimeSpan) Throw.OutOfRange(nameof(maxWait), maxWait, "zero, positive, or Timeout.InfiniteTimeSpan");
        if (!TryEnter()) return false;
        try
        {
            BeginTurns();
            // With something to do there is nothing to wait for.
            bool hasWork = HasWork || Timers.NextDueMs <= Engine.NowMs;
            if (!HasEnded) RunTurn(hasWork ? 0 : maxWait < TimeSpan.Zero ? long.MaxValue : WholeMs(maxWait));
            // The caller may take its time before the next turn: what was queued leaves now.
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

    /// <summary>The calling thread takes the loop over for a while. False when the loop has ended.</summary>
    private bool TryEnter()
    {
        if (!IsAdopted) Throw.State($"{this} has a thread of its own: only a loop of EngineOptions.AdoptedLoops is run by its user.");
        if (t_current is { } outer) Throw.State(ReferenceEquals(outer, this) ? $"{this} is running: it cannot be run from inside one of its own callbacks." : $"This is a callback of {outer}: running {this} here would hold that loop up.");
        if (IsStopped || !Engine.TryStart()) return false;
        int me = Environment.CurrentManagedThreadId;
        int owner = Interlocked.CompareExchange(ref _ownerThread, me, 0);
        if (owner != 0 && owner != me)
        {
            // A loop that nobody had run is being ended by who stops the engine.
            if (Engine.IsStopping) return false;
            Throw.State($"{this} belongs to thread {owner}, which ran it first; this is thread {me}. Until the engine is stopped it stays with that thread.");
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
    /// The engine was stopped, and this thread can end the loop: nobody ever ran it, or this thread did and is not inside a turn.
    /// Else who runs it ends it, in the turns to come.
    /// </summary>
    internal void EndAdopted()
    {
        int me = Environment.CurrentManagedThreadId;
        int owner = Interlocked.CompareExchange(ref _ownerThread, me, 0);
        if (owner != 0 && (owner != me || t_current is not null)) return;
        // The hooks are for a thread that runs the loop, not for one that buries it.
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
            // The start fails with it, and then stops every loop, this one too.
            failure = e;
        }

        Engine.LoopBegan(failure);
    }

    /// <summary>The hook of the user, once for each start. The loop's thread; what it throws goes to who starts or runs the loop.</summary>
    private void Begin()
    {
        if (_hasBegun) return;
        _hasBegun = true;
        if (Engine.HasWatchdog) _threadId = Linux.CurrentThread.Id;
        using CallbackScope scope = new(Engine);
        Engine.Options.OnLoopStarted?.Invoke(this);
        _hooked = true;
    }

    /// <summary>What happened outside of the turns was not this loop's doing.</summary>
    private void BeginTurns()
    {
        TurnBegins();
    }

    // ------------------------------------------------------------------ idling

    /// <summary>One turn, and what the idle strategy does when it found nothing.</summary>
    private void IdleTurn()
    {
        if (Engine.Options.Idle == IdleStrategy.Block)
        {
            RunTurn();
            return;
        }

        // Looked at before: a turn that found something to do was not idle, though its wait brought nothing.
        bool hadWork = HasWork || Timers.NextDueMs <= TimeMs;
        bool isSpinning = Engine.Options.Idle == IdleStrategy.Spin || _idleSince == 0 || Stopwatch.GetElapsedTime(_idleSince) < Engine.Options.SpinTime;
        if (RunTurn(isSpinning ? 0 : long.MaxValue) || hadWork || !isSpinning || HasWork)
        {
            _idleSince = 0;
            return;
        }

        if (_idleSince == 0) _idleSince = Stopwatch.GetTimestamp();
        CallIdle();
        // With a cpu of its own this returns at once; with less, others must get on: the runtime's threads, or nothing ever arrives.
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
            // It would be told of millions of times a second.
            if (_idleNotices.TryTake(TimeMs)) Engine.ReportException("OnIdle", e);
        }

        LeaveWork();
    }

    // ------------------------------------------------------------------ a simulation's thread

    /// <summary>One turn on the caller's thread (the memory engine, and the end of an adopted loop).</summary>
    internal void RunTurnHere()
    {
        Loop? outer = t_current;
        t_current = this;
        bool ended = false;
        try
        {
            if (!_hasBegun) BeginHere();
            // Other loops moved the clock meanwhile: that was not this one's doing.
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

    /// <summary>Runs what was posted, as this loop's thread (the memory engine, for a callback on the pool that waits).</summary>
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
    /// Runs <paramref name="action"/> as the thread of no loop and of no session (the memory engine's foreign callers). Also in the middle of a
    /// callback: as another thread that gets to run while the callback does.
    /// </summary>
    internal static void RunOffLoop(Action<object?> action, object? state)
    {
        Loop? outer = t_current;
        t_current = null;
        Strand? running = Strand.Exchange(null);
        try
        {
            action(state);
        }
        finally
        {
            Strand.Exchange(running);
            t_current = outer;
        }
    }

    // ------------------------------------------------------------------ the end, and a new beginning

    /// <summary>Ends everything on this loop: aborts all, reaps to zero, then the thread returns. Loop's thread.</summary>
    internal void Stop()
    {
        _isStopping = true;
        // Before the residents: a dial must not go on with the next address when its connectors end.
        for (PendingOperation? one = _firstUndertaking, next; one is not null; one = next)
        {
            next = one.NextOfLoop;
            one.Stop();
        }

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
            case ConnectAttempt connector:
                connector.Cancel(new CloseReason(CloseCause.EngineStopped));
                break;
            case Listener listener:
                listener.Stop();
                break;
            case DatagramResident socket:
                socket.Abort();
                break;
        }
    }

    private void Finish()
    {
        if (_hooked) CallStopping();
        Mailbox.Close();
        // Attempts that were still in the mailbox have failed, and are owed their last callback.
        while (_scheduled.Count > 0) RunScheduled();
        Timers.Close();
        SendPace.End();
        for (int i = 0; i < LastContinuations && _ready.Count > 0; i++) RunReady();
        Volatile.Write(ref _isStopped, true);
        foreach ((Action<object?> continuation, object? state) in _ready) Engine.Offload(continuation, state);
        _ready.Clear();
        CloseQueue();
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

    /// <summary>Ready for a thread. The thread that starts the engine; nothing of an earlier life is left.</summary>
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

    /// <summary>The start failed before this loop had a thread: what was posted stays for the next one.</summary>
    internal void CloseUnstarted() => CloseQueue();

    /// <summary>For a loop that never ran, when its engine is disposed: what was posted runs here.</summary>
    internal void CloseUnused()
    {
        if (IsStopped) return;
        Mailbox.Close();
        Volatile.Write(ref _isStopped, true);
    }
}
