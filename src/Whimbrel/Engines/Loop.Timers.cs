using System.Runtime.CompilerServices;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>Timers of the loop, from any thread. See <see cref="LoopTimer"/> for what all forms have in common.</summary>
public abstract partial class Loop
{
    /// <summary>Starts a timer whose callback runs on this loop. Any thread.</summary>
    /// <param name="due">Time until the first firing; zero means the next turn. There is no longest time.</param>
    /// <param name="callback">What to run at each firing. What it throws is given as a notice.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(TimeSpan due, Action<object?> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        LoopTimer timer = new(this, callback, state);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>Starts a timer for a moment of the wall clock. It is converted to the monotonic clock now: later changes of the wall clock do not move it.</summary>
    /// <param name="due">When to fire first; a moment that has passed means the next turn.</param>
    /// <param name="callback">What to run at each firing. What it throws is given as a notice.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(DateTimeOffset due, Action<object?> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        LoopTimer timer = new(this, callback, state);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>Starts a timer whose callback is also told when it is cancelled.</summary>
    /// <param name="due">Time until the first firing; zero means the next turn.</param>
    /// <param name="callback">Gets <paramref name="state"/>, and true when the timer was cancelled instead of fired. See <see cref="LoopTimer.OnFired"/>.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    public LoopTimer StartTimer(TimeSpan due, Action<object?, bool> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        LoopTimer timer = new(this, callback, state);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>Starts a timer for a moment, whose callback is also told when it is cancelled.</summary>
    /// <param name="due">When to fire first; a moment that has passed means the next turn.</param>
    /// <param name="callback">Gets <paramref name="state"/>, and true when the timer was cancelled instead of fired. See <see cref="LoopTimer.OnFired"/>.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    public LoopTimer StartTimer(DateTimeOffset due, Action<object?, bool> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        LoopTimer timer = new(this, callback, state);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>
    /// Starts a timer with an async callback. One call at a time: a firing while the task of the last one has not ended is left out. It begins on the loop;
    /// awaits of this library inside of it continue there. What it throws, also after an await, is given as a notice.
    /// </summary>
    /// <param name="due">Time until the first firing; zero means the next turn.</param>
    /// <param name="callback">What to start at each firing.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(TimeSpan due, Func<object?, Task> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        // tidy: allowed because it runs once for each timer that is made
        LoopTimer timer = new(this, (s, _) => callback(s), state, wantsCancelled: false);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>
    /// Starts a timer with an async callback. One call at a time: a firing while the task of the last one has not ended is left out. It begins on the loop;
    /// awaits of this library inside of it continue there. What it throws, also after an await, is given as a notice.
    /// </summary>
    /// <param name="due">When to fire first; a moment that has passed means the next turn.</param>
    /// <param name="callback">What to start at each firing.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(DateTimeOffset due, Func<object?, Task> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        // tidy: allowed because it runs once for each timer that is made
        LoopTimer timer = new(this, (s, _) => callback(s), state, wantsCancelled: false);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>Starts a timer with an async callback, which is also called when it is cancelled. As <see cref="StartTimer(TimeSpan, Func{object?, Task}, object?, TimeSpan)"/>.</summary>
    /// <param name="due">Time until the first firing; zero means the next turn.</param>
    /// <param name="callback">Gets <paramref name="state"/>, and true when the timer was cancelled instead of fired: then also while an earlier call has not ended.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    public LoopTimer StartTimer(TimeSpan due, Func<object?, bool, Task> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        LoopTimer timer = new(this, callback, state, wantsCancelled: true);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>Starts a timer with an async callback, which is also called when it is cancelled. As <see cref="StartTimer(DateTimeOffset, Func{object?, Task}, object?, TimeSpan)"/>.</summary>
    /// <param name="due">When to fire first; a moment that has passed means the next turn.</param>
    /// <param name="callback">Gets <paramref name="state"/>, and true when the timer was cancelled instead of fired: then also while an earlier call has not ended.</param>
    /// <param name="state">Its argument.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    public LoopTimer StartTimer(DateTimeOffset due, Func<object?, bool, Task> callback, object? state = null, TimeSpan period = default)
    {
        ArgumentNullException.ThrowIfNull(callback);
        LoopTimer timer = new(this, callback, state, wantsCancelled: true);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>Completes after a time, by this loop's timers. Awaited on the loop, the code goes on there; elsewhere on the thread pool.</summary>
    /// <param name="due">How long; zero means the next turn.</param>
    /// <param name="cancellationToken">Ends the wait early.</param>
    /// <exception cref="OperationCanceledException">(To who awaits.) The token was cancelled, or the engine was stopped.</exception>
    public ValueTask DelayAsync(TimeSpan due, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled(cancellationToken);
        Delay delay = new(this, cancellationToken);
        ValueTask task = delay.Task;
        delay.Start(due);
        delay.WatchCancellation();
        return task;
    }

    internal static long PeriodMsOf(TimeSpan period)
    {
        if (period < TimeSpan.Zero) Throw.OutOfRange(nameof(period), period, "zero or positive");
        return WholeMs(period);
    }

    internal static long SpanMsOf(TimeSpan due)
    {
        if (due < TimeSpan.Zero) Throw.OutOfRange(nameof(due), due, "zero or positive");
        return WholeMs(due);
    }

    /// <summary>Rounded up, for nothing may come early; exact up to the longest time there is.</summary>
    internal static long WholeMs(TimeSpan time)
    {
        (long ms, long rest) = Math.DivRem(time.Ticks, TimeSpan.TicksPerMillisecond);
        return rest > 0 ? ms + 1 : ms;
    }
}
