using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A one-shot or periodic timer of a <see cref="Loop"/> or a <see cref="Session"/>. Monotonic 64-bit milliseconds, so
/// neither clock changes nor long up-times move it. Fires on its loop's thread, never early, late by at most the turn
/// that is running. A periodic timer that was held up fires once and goes on from there: it does not catch up.
/// </summary>
/// <remarks>
/// <para>Three forms: a callback (<see cref="Loop.StartTimer(TimeSpan, Action{object?}, object?, TimeSpan)"/>), an override (derive
/// from this class), and waiting (<see cref="WaitAsync"/>, <see cref="Wait"/>), also all together.</para>
/// <para>Each start has exactly one end: a one-shot timer fires; or it is started again, which is silent; or it is cancelled
/// (by <see cref="Cancel"/> or because the engine stopped), which the forms that want it are told of. A start on an engine that
/// has ended counts as cancelled. A session's timers end with the session, silently.</para>
/// </remarks>
public class LoopTimer
{
    internal const int NotQueued = -1;

    private readonly Action<object?>? _callback;
    private readonly Action<object?, bool>? _noticeCallback;
    private readonly Func<object?, bool, Task>? _function;
    private readonly object? _state;
    private Task? _running; // of the function
    private readonly Session? _session;
    private List<TimerWait>? _waits;
    private long _spanMs = -1; // of the last start; -1 when that was for a moment, or there was none
    private int _startsUnderWay; // posted by other threads, not yet taken
    private volatile bool _hasFired;

    /// <summary>For a class that overrides <see cref="OnFired"/>, or a timer that is only waited for. Not started yet.</summary>
    /// <param name="loop">The loop whose thread fires it.</param>
    public LoopTimer(Loop loop)
    {
        ArgumentNullException.ThrowIfNull(loop);
        Loop = loop;
        WantsCancelled = true;
    }

    internal LoopTimer(Loop loop, Action<object?> callback, object? state)
    {
        Loop = loop;
        _callback = callback;
        _state = state;
    }

    internal LoopTimer(Loop loop, Action<object?, bool> callback, object? state)
    {
        Loop = loop;
        _noticeCallback = callback;
        _state = state;
        WantsCancelled = true;
    }

    internal LoopTimer(Loop loop, Func<object?, bool, Task> function, object? state, bool wantsCancelled)
    {
        Loop = loop;
        _function = function;
        _state = state;
        WantsCancelled = wantsCancelled;
    }

    /// <summary>A timer of a session.</summary>
    internal LoopTimer(Loop loop, Session session)
    {
        Loop = loop;
        _session = session;
    }

    /// <summary>The loop whose thread runs the callback.</summary>
    public Loop Loop { get; }

    /// <summary>The distance between two firings; zero for a one-shot timer.</summary>
    public TimeSpan Period => TimeSpan.FromMilliseconds(PeriodMs);

    /// <summary>True until it was cancelled or, for a one-shot timer, has fired. Exact on the loop's thread.</summary>
    public bool IsActive => QueueIndex != NotQueued || IsHeld || Volatile.Read(ref _startsUnderWay) > 0;

    internal long PeriodMs { get; set; }

    /// <summary>When it is to fire. In the queue it may stand at an earlier time, until it comes to the top (see <see cref="Timers"/>).</summary>
    internal long DueMs { get; set; }

    internal int QueueIndex { get; set; } = NotQueued;

    /// <summary>Cancelled, by whatever thread, and not started since.</summary>
    internal bool IsCancelled { get; private set; }

    /// <summary>Fired, and its session on the pool was not told yet; a new start forgets that.</summary>
    internal bool IsQueued { get; set; }

    /// <summary>Was due before its session was connected.</summary>
    internal bool IsHeld { get; set; }

    /// <summary>The other timers of the same session.</summary>
    internal LoopTimer? NextOfSession { get; set; }

    /// <summary>Is in the list of its session.</summary>
    internal bool IsListed { get; set; }

    private bool WantsCancelled { get; }

    // ------------------------------------------------------------------ start, start again, cancel: any thread

    /// <summary>
    /// Starts it, or starts it again: then what was left of the earlier start is forgotten. On the loop's thread that costs little
    /// more than reading the clock, however many timers there are, as long as it moves to a later time. Any thread.
    /// </summary>
    /// <param name="due">Time until the first firing; zero means the next turn. There is no longest time.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    public void Start(TimeSpan due, TimeSpan period = default)
    {
        long spanMs = Loop.SpanMsOf(due);
        long periodMs = Loop.PeriodMsOf(period);
        Begin(DueAfter(spanMs), spanMs, periodMs);
    }

    /// <summary>Starts it for a moment of the wall clock, converted to the monotonic clock now: later changes of the wall clock do not move it. Any thread.</summary>
    /// <param name="due">When to fire first; a moment that has passed means the next turn.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    public void Start(DateTimeOffset due, TimeSpan period = default)
    {
        long periodMs = Loop.PeriodMsOf(period);
        TimeSpan left = due - Loop.Engine.UtcNow;
        Begin(DueAfter(left > TimeSpan.Zero ? Loop.WholeMs(left) : 0), -1, periodMs);
    }

    /// <summary>From now, not from the start of the turn, and from the millisecond that has not begun: a timer never fires early.</summary>
    private long DueAfter(long spanMs) => spanMs == 0 ? Loop.Engine.NowMs : Loop.Engine.NextMs + spanMs;

    /// <summary>Starts it again with the time and period that it was last started with: the timeout of something that has just shown life. Any thread.</summary>
    /// <exception cref="InvalidOperationException">It was never started, or last started for a moment. Not thrown off-loop, where a start may be under way: then nothing happens.</exception>
    public void Restart()
    {
        IsQueued = false;
        if (Loop.IsCurrent)
        {
            if (_spanMs < 0) Throw.State("Only a timer that was last started with a time from then can be restarted; one for a moment is started with a new moment.");
            IsCancelled = false;
            Arm(DueAfter(_spanMs), _spanMs, PeriodMs);
            return;
        }

        IsCancelled = false;
        Interlocked.Increment(ref _startsUnderWay);
        if (!Loop.PostControl(static (_, t, _, at) => ((LoopTimer)t!).TakeRestart(at), this, null, Loop.Engine.NextMs)) Refused();
    }

    /// <summary>
    /// Stops it. Any thread. On the loop's thread no firing follows; from elsewhere it takes effect when the loop takes it from its
    /// mailbox, and a firing before that still comes. The cancelled notice comes in a turn of its own, never inside this call.
    /// </summary>
    public void Cancel()
    {
        IsCancelled = true;
        if (Loop.IsCurrent) Leave();
        else Loop.PostControl(static (_, timer, _, _) => ((LoopTimer)timer!).Leave(), this);
    }

    // ------------------------------------------------------------------ waiting

    /// <summary>
    /// Completes with true at the next firing, or at once when a one-shot timer has fired since it was started; with false when it is
    /// cancelled, or was never started. A start while it waits goes on with the new time. Any thread, any number at once.
    /// </summary>
    /// <param name="cancellationToken">Gives up this wait; the timer goes on.</param>
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
    /// <param name="timeout">For at most so long; <see cref="Timeout.InfiniteTimeSpan"/> has no limit.</param>
    /// <returns>True when it fired, false when it was cancelled or the timeout passed.</returns>
    /// <exception cref="InvalidOperationException">This is a loop's thread: it would stop everything on that loop.</exception>
    public bool Wait(TimeSpan timeout)
    {
        if (timeout < TimeSpan.Zero && timeout != Timeout.InfiniteTimeSpan) Throw.OutOfRange(nameof(timeout), timeout, "zero, positive, or Timeout.InfiniteTimeSpan");
        if (Loop.Current is not null) Throw.WouldBlockLoop();
        if (_hasFired && !IsActive) return true;
        // Not disposed: when the timeout passes, the loop may be just about to set it.
        ManualResetEventSlim ended = new();
        TimerWait wait = new(this, CancellationToken.None, ended);
        ValueTask<bool> task = wait.Task;
        Give(wait);
        if (!Loop.Engine.Block(ended, timeout)) wait.GiveUp();
        return wait.IsCompleted && task.GetAwaiter().GetResult();
    }

    // ------------------------------------------------------------------ the override

    /// <summary>
    /// It fired, or was cancelled. On the loop's thread, outside of any session's callback; after a stop of the engine, or when a
    /// start found the engine ended, possibly elsewhere. What it throws is given as a notice. The default calls the callback.
    /// </summary>
    /// <param name="isCancelled">False for a firing. True when the start ended without one.</param>
    protected virtual void OnFired(bool isCancelled)
    {
        if (_function is not null)
        {
            Start(_function, isCancelled);
            return;
        }

        if (_noticeCallback is not null) _noticeCallback(_state, isCancelled);
        else _callback?.Invoke(_state);
    }

    /// <summary>One at a time: a firing while the function still runs is left out.</summary>
    private void Start(Func<object?, bool, Task> function, bool isCancelled)
    {
        if (!isCancelled && _running is { IsCompleted: false }) return;
        Task running = function(_state, isCancelled);
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
        if (!Loop.PostControl(static (_, t, spans, at) => ((LoopTimer)t!).TakeStart(at, ((long, long))spans!), this, (spanMs, periodMs), dueMs)) Refused();
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

    /// <summary>The engine has ended.</summary>
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
        if (_session is not null && !JoinSession()) return;
        if (!Loop.Timers.Set(this, dueMs)) TellCancelled();
    }

    /// <summary>False when the session has no connection any more: its timers have ended with it.</summary>
    private bool JoinSession()
    {
        if (_session!.Connection?.RememberSessionTimer(this) == true) return true;
        IsCancelled = true;
        return false;
    }

    private void Leave()
    {
        bool wasActive = QueueIndex != NotQueued || IsHeld;
        IsHeld = false;
        Loop.Timers.Remove(this);
        if (IsListed) _session!.Connection?.ForgetSessionTimer(this);
        if (wasActive) TellCancelled();
    }

    /// <summary>It is out of the queue without having fired.</summary>
    internal void TellCancelled()
    {
        if (_waits is not null) EndWaits(fired: false);
        // Never inside the stack of who cancelled.
        if (WantsCancelled) Loop.PostContinuation(static t => ((LoopTimer)t!).CallFired(isCancelled: true), this);
    }

    /// <summary>It is due, and out of the queue unless it is periodic.</summary>
    internal void Fire()
    {
        _hasFired = PeriodMs == 0;
        if (_waits is not null) EndWaits(fired: true);
        if (_session is null) CallFired(isCancelled: false);
        else _session.Connection?.FireSessionTimer(this);
    }

    private void CallFired(bool isCancelled)
    {
        // One that was cancelled when its loop had ended is told on the pool.
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

    // ------------------------------------------------------------------ who waits

    private void Give(TimerWait wait)
    {
        if (Loop.IsCurrent) AddWait(wait);
        else if (!Loop.PostControl(static (_, t, w, _) => ((LoopTimer)t!).AddWait((TimerWait)w!), this, wait)) wait.End(_hasFired);
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
