using System.Diagnostics;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A one-shot or periodic timer of a <see cref="Loop"/> or a <see cref="Session"/>. Uses monotonic 64-bit milliseconds,
/// so clock changes and long up-times do not affect it. Fires on its loop's thread, never early, and late by at most
/// the current turn. A delayed periodic timer fires once and continues from there, without catching up.
/// </summary>
/// <remarks>
/// <para>Three forms, which can be combined: a callback
/// (<see cref="Loop.StartTimer(TimeSpan, Action{object?}, object?, TimeSpan)"/>), an override (derive from this class),
/// and waiting (<see cref="WaitAsync"/>, <see cref="Wait"/>).</para>
/// <para>Each start ends exactly once: a one-shot timer fires; or it is started again, without a callback; or it is
/// cancelled, by <see cref="Cancel"/> or a stop of the engine. Forms that ask for it are called for a cancellation. A
/// start on an engine that has ended counts as cancelled. A session's timers end with the session, without a
/// callback.</para>
/// </remarks>
public class LoopTimer
{
    internal const int NotQueued = -1;

    private readonly Delegate? _callback; // in one of the forms of Loop.StartTimer
    private readonly object? _state;
    private Task? _running; // task of an async callback
    private readonly ITimerOwner? _owner; // session of the timer
    private List<TimerWait>? _waits;
    private long _spanMs = -1; // of the last start; -1 for a start with a fixed time, or without a start
    private int _startsUnderWay; // posted by other threads and not processed yet
    private volatile bool _hasFired;

    /// <summary>
    /// Creates a timer for a class that overrides <see cref="OnFired"/>, or for waiting only. Not started yet.
    /// </summary>
    /// <param name="loop">Loop that fires it.</param>
    public LoopTimer(Loop loop)
    {
        ArgumentNullException.ThrowIfNull(loop);
        Loop = loop;
        WantsCancelled = true;
    }

    /// <summary>Creates a timer with a callback, in one of the forms of <see cref="Loop"/>.StartTimer.</summary>
    internal LoopTimer(Loop loop, Delegate callback, object? state)
    {
        ArgumentNullException.ThrowIfNull(callback);
        Debug.Assert(callback is Action<object?> or Action<object?, bool> or Func<object?, Task>
            or Func<object?, bool, Task>, "one of the forms");
        Loop = loop;
        _callback = callback;
        _state = state;
        WantsCancelled = callback is Action<object?, bool> or Func<object?, bool, Task>;
    }

    /// <summary>Creates a timer of a session.</summary>
    internal LoopTimer(Loop loop, ITimerOwner owner)
    {
        Loop = loop;
        _owner = owner;
    }

    /// <summary>The loop that runs the callback.</summary>
    public Loop Loop { get; }

    /// <summary>Interval between two calls; zero for a one-shot timer.</summary>
    public TimeSpan Period => TimeSpan.FromMilliseconds(PeriodMs);

    /// <summary>True until it was cancelled or, for a one-shot timer, has fired. Exact on the loop's thread.</summary>
    public bool IsActive => QueueIndex != NotQueued || IsHeld || Volatile.Read(ref _startsUnderWay) > 0;

    internal long PeriodMs { get; set; }

    /// <summary>
    /// Time at which it fires. In the queue it may have an earlier time, until it reaches the top (see
    /// <see cref="Timers"/>).
    /// </summary>
    internal long DueMs { get; set; }

    internal int QueueIndex { get; set; } = NotQueued;

    /// <summary>True if it was cancelled, by any thread, and not started since.</summary>
    internal bool IsCancelled { get; private set; }

    /// <summary>True if it has fired and its session on the pool was not called yet; a new start resets it.</summary>
    internal bool IsQueued { get; set; }

    /// <summary>True if it was due before its session was connected.</summary>
    internal bool IsHeld { get; set; }

    /// <summary>Next timer of the same session.</summary>
    internal LoopTimer? NextOfSession { get; set; }

    /// <summary>True if it is in the list of its session.</summary>
    internal bool IsListed { get; set; }

    private bool WantsCancelled { get; }

    // ------------------------------------------------------------------ start, restart, cancel: any thread

    /// <summary>
    /// Starts the timer, replacing an earlier start. On the loop's thread this costs little more than reading the
    /// clock, for any number of timers, if the new time is later. Any thread.
    /// </summary>
    /// <param name="due">Time until the first call; zero means the next turn. No upper limit.</param>
    /// <param name="period">Interval between calls; zero for a single call.</param>
    public void Start(TimeSpan due, TimeSpan period = default)
    {
        long spanMs = Loop.SpanMsOf(due);
        long periodMs = Loop.PeriodMsOf(period);
        Begin(DueAfter(spanMs), spanMs, periodMs);
    }

    /// <summary>
    /// Starts the timer for a wall-clock time, converted to the monotonic clock now: later changes of the wall clock do
    /// not move it. Any thread.
    /// </summary>
    /// <param name="due">Time of the first call; a time in the past means the next turn.</param>
    /// <param name="period">Interval between calls; zero for a single call.</param>
    public void Start(DateTimeOffset due, TimeSpan period = default)
    {
        long periodMs = Loop.PeriodMsOf(period);
        TimeSpan left = due - Loop.Engine.UtcNow;
        Begin(DueAfter(left > TimeSpan.Zero ? Loop.WholeMs(left) : 0), -1, periodMs);
    }

    internal LoopTimer Started(TimeSpan due, TimeSpan period)
    {
        Start(due, period);
        return this;
    }

    internal LoopTimer Started(DateTimeOffset due, TimeSpan period)
    {
        Start(due, period);
        return this;
    }

    /// <summary>
    /// Counts from now, not from the start of the turn, and from the next full millisecond: a timer never fires early.
    /// </summary>
    private long DueAfter(long spanMs) => spanMs == 0 ? Loop.Engine.NowMs : Loop.Engine.NextMs + spanMs;

    /// <summary>
    /// Starts it again with the time and period of the last start, for example as a timeout after activity. Any thread.
    /// </summary>
    /// <exception cref="InvalidOperationException">The timer was never started, or last started for a fixed time. Not
    /// thrown on other threads, where a start may be pending; the call then has no effect.</exception>
    public void Restart()
    {
        IsQueued = false;
        if (Loop.IsCurrent)
        {
            if (_spanMs < 0)
                Throw.State("Only a timer that was last started with a time from then can be restarted; one for a "
                    + "moment is started with a new moment.");
            IsCancelled = false;
            Arm(DueAfter(_spanMs), _spanMs, PeriodMs);
            return;
        }

        IsCancelled = false;
        Interlocked.Increment(ref _startsUnderWay);
        if (!Loop.PostControl(static (_, t, _, at) => ((LoopTimer)t!).TakeRestart(at), this, null, Loop.Engine.NextMs))
            Refused();
    }

    /// <summary>
    /// Cancels the timer. Any thread. On the loop's thread it does not fire any more. On other threads the call takes
    /// effect when the loop processes it, and the timer may fire before. The cancellation callback runs in a turn of
    /// its own, never inside this call.
    /// </summary>
    public void Cancel()
    {
        IsCancelled = true;
        if (Loop.IsCurrent) Leave();
        else Loop.PostControl(static (_, timer, _, _) => ((LoopTimer)timer!).Leave(), this);
    }

    // ------------------------------------------------------------------ waiting

    /// <summary>
    /// Waits for the next firing: completes with true, or at once if a one-shot timer has fired since it was started;
    /// with false if it is cancelled or was never started. A start during the wait continues it with the new time. Any
    /// thread, any number of waits.
    /// </summary>
    /// <param name="cancellationToken">Cancels this wait; the timer continues.</param>
    public ValueTask<bool> WaitAsync(CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<bool>(cancellationToken);
        TimerWait wait = new(this, cancellationToken);
        ValueTask<bool> task = wait.Task;
        Give(wait);
        wait.WatchCancellation();
        return task;
    }

    /// <summary>Blocks the calling thread as <see cref="WaitAsync"/> waits. Not on a loop's thread.</summary>
    /// <param name="timeout">Maximum time; <see cref="Timeout.InfiniteTimeSpan"/> has no limit.</param>
    /// <returns>True if it fired, false if it was cancelled or the timeout passed.</returns>
    /// <exception cref="InvalidOperationException">The current thread is a loop's thread, which would be
    /// blocked.</exception>
    public bool Wait(TimeSpan timeout)
    {
        if (timeout < TimeSpan.Zero && timeout != Timeout.InfiniteTimeSpan)
            Throw.OutOfRange(nameof(timeout), timeout, "zero, positive, or Timeout.InfiniteTimeSpan");
        if (Loop.Current is not null) Throw.WouldBlockLoop();
        if (_hasFired && !IsActive) return true;
        // Not disposed, because after a timeout the loop may be about to set it.
        ManualResetEventSlim ended = new();
        TimerWait wait = new(this, CancellationToken.None, ended);
        ValueTask<bool> task = wait.Task;
        Give(wait);
        if (!Loop.Engine.Block(ended, timeout)) wait.GiveUp();
        return wait.IsCompleted && task.GetAwaiter().GetResult();
    }

    // ------------------------------------------------------------------ the override

    /// <summary>
    /// Called when the timer has fired or was cancelled. On the loop's thread, outside of session callbacks; after a
    /// stop of the engine, or if a start found the engine ended, possibly on another thread. Exceptions are reported as
    /// diagnostic events. The default calls the callback.
    /// </summary>
    /// <param name="isCancelled">False if it fired; true if the start ended without firing.</param>
    protected virtual void OnFired(bool isCancelled)
    {
        switch (_callback)
        {
            case Action<object?> action:
                action(_state);
                break;
            case Action<object?, bool> action:
                action(_state, isCancelled);
                break;
            // A firing while the last call still runs is skipped.
            case not null when !isCancelled && _running is { IsCompleted: false }:
                break;
            case Func<object?, Task> function:
                Follow(function(_state), isCancelled);
                break;
            case Func<object?, bool, Task> function:
                Follow(function(_state, isCancelled), isCancelled);
                break;
        }
    }

    private void Follow(Task running, bool isCancelled)
    {
        if (!isCancelled) _running = running;
        Loop.Watch(running, "a timer");
    }

    // ------------------------------------------------------------------ on the loop

    private void Begin(long dueMs, long spanMs, long periodMs)
    {
        IsCancelled = false;
        IsQueued = false;
        if (Loop.IsCurrent)
        {
            Arm(dueMs, spanMs, periodMs);
            return;
        }

        Interlocked.Increment(ref _startsUnderWay);
        if (!Loop.PostControl(static (_, t, spans, at) => ((LoopTimer)t!).TakeStart(at, ((long, long))spans!),
            this, (spanMs, periodMs), dueMs))
            Refused();
    }

    private void TakeStart(long dueMs, (long SpanMs, long PeriodMs) times)
    {
        Interlocked.Decrement(ref _startsUnderWay);
        Arm(dueMs, times.SpanMs, times.PeriodMs);
    }

    private void TakeRestart(long nowMs)
    {
        Interlocked.Decrement(ref _startsUnderWay);
        if (_spanMs >= 0) Arm(nowMs + _spanMs, _spanMs, PeriodMs);
    }

    /// <summary>Called when the engine has ended.</summary>
    private void Refused()
    {
        Interlocked.Decrement(ref _startsUnderWay);
        if (WantsCancelled) Loop.Engine.Offload(static t => ((LoopTimer)t!).CallFired(isCancelled: true), this);
    }

    private void Arm(long dueMs, long spanMs, long periodMs)
    {
        _spanMs = spanMs;
        PeriodMs = periodMs;
        _hasFired = false;
        IsHeld = false;
        if (_owner is not null && !JoinOwner()) return;
        if (!Loop.Timers.Set(this, dueMs)) TellCancelled();
    }

    /// <summary>
    /// Adds the timer to its session. Returns false if the session has no connection any more: its timers have ended
    /// with it.
    /// </summary>
    private bool JoinOwner()
    {
        if (_owner!.Add(this)) return true;
        IsCancelled = true;
        return false;
    }

    private void Leave()
    {
        bool wasActive = QueueIndex != NotQueued || IsHeld;
        IsHeld = false;
        Loop.Timers.Remove(this);
        if (IsListed) _owner!.Remove(this);
        if (wasActive) TellCancelled();
    }

    /// <summary>Called when the timer was removed from the queue without having fired.</summary>
    internal void TellCancelled()
    {
        if (_waits is not null) EndWaits(fired: false);
        // Posted, because it must not run inside the call of Cancel.
        if (WantsCancelled) Loop.PostContinuation(static t => ((LoopTimer)t!).CallFired(isCancelled: true), this);
    }

    /// <summary>Called when the timer is due and, unless it is periodic, removed from the queue.</summary>
    internal void Fire()
    {
        _hasFired = PeriodMs == 0;
        if (_waits is not null) EndWaits(fired: true);
        if (_owner is null) CallFired(isCancelled: false);
        else _owner.Fire(this);
    }

    private void CallFired(bool isCancelled)
    {
        // If the loop has ended, the cancellation runs on the pool.
        if (Loop.IsCurrent) Loop.EnterWork(UserCode.Timer, (object?)_callback ?? this);
        try
        {
            OnFired(isCancelled);
        }
        catch (Exception e)
        {
            Loop.Engine.ReportException(UserCode.Timer, e);
        }

        Loop.CountUserCall();
        if (Loop.IsCurrent) Loop.LeaveWork();
    }

    // ------------------------------------------------------------------ waits

    private void Give(TimerWait wait)
    {
        if (Loop.IsCurrent) AddWait(wait);
        else if (!Loop.PostControl(static (_, t, w, _) => ((LoopTimer)t!).AddWait((TimerWait)w!), this, wait))
            wait.End(_hasFired);
    }

    private void AddWait(TimerWait wait)
    {
        if (QueueIndex != NotQueued || IsHeld) (_waits ??= []).Add(wait);
        else wait.End(_hasFired);
    }

    internal void GiveUpWait(TimerWait wait)
    {
        if (_waits is not null && _waits.Remove(wait)) wait.EndCancelled();
    }

    private void EndWaits(bool fired)
    {
        List<TimerWait> waits = _waits!;
        _waits = null;
        foreach (TimerWait wait in waits) wait.End(fired);
    }
}
