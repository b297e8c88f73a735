using Whimbrel.Schedules;

namespace System.Threading;

/// <summary>
/// Replaces the runtime's lock in this assembly: a controlled thread waits for it in the scheduler. The compiler finds
/// it by its name and calls <see cref="EnterScope"/> for the lock statement.
/// </summary>
internal sealed class Lock
{
    private readonly object _gate = new();
    private ControlledThread? _owner;
    private int _depth;

    public bool IsHeldByCurrentThread =>
        ControlledThread.Current is { } me ? ReferenceEquals(_owner, me) : Monitor.IsEntered(_gate);

    public Scope EnterScope()
    {
        if (ControlledThread.Current is not { } me)
        {
            Monitor.Enter(_gate);
            return new Scope(this);
        }

        if (!ReferenceEquals(_owner, me))
        {
            ControlledThread.Point();
            if (_owner is not null) me.BlockUntil(() => _owner is null, waitsFor: "a lock");
            _owner = me;
        }

        _depth++;
        return new Scope(this);
    }

    private void Exit()
    {
        if (ControlledThread.Current is null)
        {
            Monitor.Exit(_gate);
            return;
        }

        if (--_depth > 0) return;
        _owner = null;
        ControlledThread.Point();
    }

    public readonly ref struct Scope(Lock owner)
    {
        public void Dispose() => owner.Exit();
    }
}
