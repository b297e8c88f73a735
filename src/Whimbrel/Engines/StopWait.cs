using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// What somebody awaits who stops something. It ends with the work or at its deadline, whatever comes first, and who awaits goes on
/// also when the pool has no thread for that.
/// </summary>
internal sealed class StopWait<T> : Completion<T>, IEndWait
{
    private readonly Action<StopWait<T>>? _overdue;
    private readonly Deadline? _deadline;
    private readonly Session? _session;
    private int _isAnswered;

    /// <summary>A step on the way, without a deadline of its own.</summary>
    internal StopWait(Engine engine)
        : base(engine)
    {
    }

    /// <summary>
    /// With one: <paramref name="overdue"/> says then how it ends. On a thread of its own. What waits for the end of one
    /// <paramref name="session"/> does not wait for its last callback when one of its own callbacks blocks on it.
    /// </summary>
    internal StopWait(Engine engine, TimeSpan due, Action<StopWait<T>> overdue, Session? session = null)
        : base(engine)
    {
        _session = session;
        _overdue = overdue;
        _deadline = engine.StartDeadline(due, static wait => ((StopWait<T>)wait!)._overdue!((StopWait<T>)wait), this);
    }

    /// <summary>Nobody has answered yet. May have changed when it returns.</summary>
    internal bool IsOpen => Volatile.Read(ref _isAnswered) == 0;

    /// <summary>False when it had ended before.</summary>
    internal bool TryEnd(T result)
    {
        if (!TryAnswer()) return false;
        SetResult(result);
        return true;
    }

    /// <summary>False when it had ended before.</summary>
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

    private protected override void AwaitedApart(Strand strand)
    {
        if (_session is not null && strand.Runs(_session)) strand.BlocksOnEnd(this);
    }

    private protected override void Offload(Action<object?> continuation, object? state) => Engine.OffloadSurely(continuation, state);
}
