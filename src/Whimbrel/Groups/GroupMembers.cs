using System.Buffers;
using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>
/// The members of a group on the current loop, for <c>foreach</c>, without allocation. Sessions may join, leave and end
/// in the meantime: a member that has left is skipped, a new one is not included, and no member appears twice. On the
/// loop only, within one call of the loop.
/// </summary>
public readonly ref struct GroupMembers
{
    private readonly GroupShard? _shard;

    internal GroupMembers(GroupShard? shard) => _shard = shard;

    /// <summary>Current number of members.</summary>
    public int Count => _shard?.Count ?? 0;

    /// <summary>Starts to enumerate the current members.</summary>
    public Enumerator GetEnumerator() => new(_shard);

    /// <summary>Enumerates a copy, because a leaving member is replaced by another one in the group.</summary>
    public ref struct Enumerator
    {
        private readonly GroupShard? _shard;
        private readonly Connection[] _copy;
        private readonly int _count;
        private int _next;

        internal Enumerator(GroupShard? shard)
        {
            _shard = shard;
            _count = shard?.Count ?? 0;
            _copy = _count == 0 ? [] : ArrayPool<Connection>.Shared.Rent(_count);
            shard?.Members.CopyTo(_copy);
            Current = null!;
        }

        /// <summary>The current member.</summary>
        public Session Current { get; private set; }

        /// <summary>Moves to the next session that is still a member.</summary>
        public bool MoveNext()
        {
            while (_next < _count)
            {
                Connection connection = _copy[_next++];
                // The loop recycles connections outside of calls only, so it is the same connection.
                if (!_shard!.Contains(connection)) continue;
                Current = connection.Session;
                return true;
            }

            return false;
        }

        /// <summary>Returns the copy to the pool. <c>foreach</c> calls it.</summary>
        public readonly void Dispose()
        {
            if (_count == 0) return;
            _copy.AsSpan(0, _count).Clear(); // so that the pooled array keeps no session alive
            ArrayPool<Connection>.Shared.Return(_copy);
        }
    }
}
