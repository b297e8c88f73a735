using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Awaitable result of a stop. It completes with the work or at its deadline, whichever comes first. The awaiter
/// continues even if the pool has no free thread.
/// </summary>
internal sealed class StopWait<T> : Completion<T>, IEndWait
{
    private readonly Action<StopWait<T>>? _overdue;
    private readonly Deadline? _deadline;
    private readonly Session? _session;
    private int _isAnswered;

    /// <summary>Creates a wait for an intermediate step, without a deadline of its own.</summary>
    internal StopWait(Engine engine)
        : base(engine)
    {
    }

    /// <summary>
    /// Creates a wait with a deadline, at which <paramref name="overdue"/> completes it, on a thread of its own. A wait
    /// for the end of one <paramref name="session"/> does not wait for its last callback if one of its own callbacks
    /// blocks on it.
    /// </summary>
    internal StopWait(Engine engine, TimeSpan due, Action<StopWait<T>> overdue, Session? session = null)
        : base(engine)
    {
        _session = session;
        _overdue = overdue;
        _deadline = engine.StartDeadline(due, static wait => ((StopWait<T>)wait!)._overdue!((StopWait<T>)wait), this);
    }

    /// <summary>True if it is not completed. The value may be outdated when it returns.</summary>
    internal bool IsOpen => Volatile.Read(ref _isAnswered) == 0;

    /// <summary>Completes the wait. Returns false if it was already completed.</summary>
    internal bool TryEnd(T result)
    {
        if (!TryAnswer()) return false;
        SetResult(result);
        return true;
    }

    /// <summary>Fails the wait. Returns false if it was already completed.</summary>
    internal bool TryFail(Exception exception)
    {
        if (!TryAnswer()) return false;
        SetException(exception);
        return true;
    }

    private bool TryAnswer()
    {
        if (Interlocked.Exchange(ref _isAnswered, 1) == 1) return false;
        if (_deadline is not null) Engine.CancelDeadline(_deadline);
        return true;
    }

    void IEndWait.ConnectionIsGone(CloseReason reason) => TryEnd(default!);

    private protected override void AwaitedApart(PoolSession pool)
    {
        if (_session is not null && pool.Runs(_session)) pool.BlocksOnEnd(this);
    }

    private protected override void Offload(Action<object?> continuation, object? state) =>
        Engine.OffloadSurely(continuation, state);
}
