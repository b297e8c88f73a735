using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One <see cref="SessionGroup.ForEachAsync(Action{Session})"/>. Each loop reports when it is done, and the last one
/// completes it.
/// </summary>
internal sealed class MemberVisit(Engine engine, Action<Session> action, int loops) : Completion<bool>(engine)
{
    private int _left = loops;
    private Exception? _firstThrown;

    /// <summary>Calls the action for each member. On the shard's loop, outside of callbacks.</summary>
    internal void Run(GroupShard shard)
    {
        foreach (Session session in new GroupMembers(shard))
        {
            try
            {
                action(session);
            }
            catch (Exception e)
            {
                Interlocked.CompareExchange(ref _firstThrown, e, null);
            }
        }

        LoopDone();
    }

    internal void LoopDone()
    {
        if (Interlocked.Decrement(ref _left) > 0) return;
        if (_firstThrown is { } thrown) SetException(thrown);
        else SetResult(true);
    }
}
