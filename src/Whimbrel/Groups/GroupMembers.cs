using System.Buffers;
using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>
/// The members of a group on the current loop, for <c>foreach</c>, which allocates nothing. Sessions may join, leave and end meanwhile:
/// who leaves before its turn is passed by, who joins is not seen, and nobody is seen twice. On the loop only, within one call of the loop.
/// </summary>
public readonly ref struct GroupMembers
{
    private readonly GroupShard? _shard;

    internal GroupMembers(GroupShard? shard) => _shard = shard;

    /// <summary>How many there are now.</summary>
    public int Count => _shard?.Count ?? 0;

    /// <summary>Begins to enumerate the members of this moment.</summary>
    public Enumerator GetEnumerator() => new(_shard);

    /// <summary>Goes through a copy: a member that leaves makes another one take its place in the group.</summary>
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

        /// <summary>The member whose turn it is.</summary>
        public Session Current { get; private set; }

        /// <summary>On to the next that is still a member.</summary>
        public bool MoveNext()
        {
            while (_next < _count)
            {
                Connection connection = _copy[_next++];
                // The loop recycles connections outside of calls only: it is the same tenant.
                if (!_shard!.Contains(connection)) continue;
                Current = connection.Session;
                return true;
            }

            return false;
        }

        /// <summary>Gives the copy back. <c>foreach</c> does it.</summary>
        public readonly void Dispose()
        {
            if (_count == 0) return;
            _copy.AsSpan(0, _count).Clear(); // a pooled array keeps no session alive
            ArrayPool<Connection>.Shared.Return(_copy);
        }
    }
}
