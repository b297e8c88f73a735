using System.Runtime.CompilerServices;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>Timers of the loop, from any thread. See <see cref="LoopTimer"/> for the rules of all forms.</summary>
public abstract partial class Loop
{
    /// <summary>Starts a timer with a callback on this loop. Any thread.</summary>
    /// <param name="due">Time until the first firing; zero for the next turn. There is no maximum.</param>
    /// <param name="callback">Callback of each firing. Its exceptions are reported as diagnostic events.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(TimeSpan due, Action<object?> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>
    /// Starts a timer for a time of the wall clock. The time is converted to the monotonic clock now: later changes of
    /// the wall clock do not move it.
    /// </summary>
    /// <param name="due">Time of the first firing; a time in the past means the next turn.</param>
    /// <param name="callback">Callback of each firing. Its exceptions are reported as diagnostic events.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(DateTimeOffset due, Action<object?> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>Starts a timer with a callback that is also called when it is cancelled.</summary>
    /// <param name="due">Time until the first firing; zero for the next turn.</param>
    /// <param name="callback">Callback with <paramref name="state"/>, and true if the timer was cancelled instead of
    /// fired. See <see cref="LoopTimer.OnFired"/>.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    public LoopTimer StartTimer(TimeSpan due, Action<object?, bool> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>
    /// Starts a timer for a time of the wall clock. Its callback is also called when it is cancelled.
    /// </summary>
    /// <param name="due">Time of the first firing; a time in the past means the next turn.</param>
    /// <param name="callback">Callback with <paramref name="state"/>, and true if the timer was cancelled instead of
    /// fired. See <see cref="LoopTimer.OnFired"/>.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    public LoopTimer StartTimer(DateTimeOffset due, Action<object?, bool> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>
    /// Starts a timer with an async callback. Only one call is active at a time: a firing is skipped while the task of
    /// the previous one has not ended. The callback starts on the loop; awaits of this library inside it continue
    /// there. Its exceptions, also after an await, are reported as diagnostic events.
    /// </summary>
    /// <param name="due">Time until the first firing; zero for the next turn.</param>
    /// <param name="callback">Callback of each firing.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(TimeSpan due, Func<object?, Task> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>
    /// Starts a timer with an async callback for a time of the wall clock. As
    /// <see cref="StartTimer(TimeSpan, Func{object?, Task}, object?, TimeSpan)"/>.
    /// </summary>
    /// <param name="due">Time of the first firing; a time in the past means the next turn.</param>
    /// <param name="callback">Callback of each firing.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    [OverloadResolutionPriority(1)]
    public LoopTimer StartTimer(DateTimeOffset due, Func<object?, Task> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>
    /// Starts a timer with an async callback, which is also called when it is cancelled. As
    /// <see cref="StartTimer(TimeSpan, Func{object?, Task}, object?, TimeSpan)"/>.
    /// </summary>
    /// <param name="due">Time until the first firing; zero for the next turn.</param>
    /// <param name="callback">Callback with <paramref name="state"/>, and true if the timer was cancelled instead of
    /// fired; then it is called even while an earlier call has not ended.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    public LoopTimer StartTimer(TimeSpan due, Func<object?, bool, Task> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>
    /// Starts a timer with an async callback for a time of the wall clock, which is also called when it is cancelled.
    /// As <see cref="StartTimer(DateTimeOffset, Func{object?, Task}, object?, TimeSpan)"/>.
    /// </summary>
    /// <param name="due">Time of the first firing; a time in the past means the next turn.</param>
    /// <param name="callback">Callback with <paramref name="state"/>, and true if the timer was cancelled instead of
    /// fired; then it is called even while an earlier call has not ended.</param>
    /// <param name="state">Argument of the callback.</param>
    /// <param name="period">Time between firings; zero for one firing.</param>
    public LoopTimer StartTimer(DateTimeOffset due, Func<object?, bool, Task> callback, object? state = null,
        TimeSpan period = default) =>
        new LoopTimer(this, callback, state).Started(due, period);

    /// <summary>
    /// Completes after a time, by this loop's timers. An awaiter on the loop continues on the loop; elsewhere on the
    /// thread pool.
    /// </summary>
    /// <param name="due">Time to wait; zero for the next turn.</param>
    /// <param name="cancellationToken">Token that ends the wait early.</param>
    /// <exception cref="OperationCanceledException">(Passed to the awaiter.) The token was cancelled, or the engine was
    /// stopped.</exception>
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

    /// <summary>Returns whole milliseconds, rounded up so that nothing fires early; exact for every TimeSpan.</summary>
    internal static long WholeMs(TimeSpan time)
    {
        (long ms, long rest) = Math.DivRem(time.Ticks, TimeSpan.TicksPerMillisecond);
        return rest > 0 ? ms + 1 : ms;
    }
}
