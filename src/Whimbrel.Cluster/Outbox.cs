using System.Buffers;
using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Clusters;

/// <summary>
/// What waits for the bus, from any thread, within a limit. The sequence is given under the same gate that orders the queue; a broadcast that is dropped has
/// used its number, so that the other nodes find the gap.
/// </summary>
internal sealed class Outbox(int limitBytes, QueuePolicy policy)
{
    // Behind the last broadcast of a group, so that lost marks do not hide a loss: where one envelope of twenty is lost, each alone, one loss of a billion stays unknown until the next broadcast.
    private const int MarksBehindLast = 6;

    /// <summary>So much of marks and questions waits beside the broadcasts. Others wait where they come from, which is a list of groups.</summary>
    internal const int ControlLimitBytes = 256 * 1024;

    private readonly Lock _gate = new();
    private readonly Stack<Outgoing> _given = []; // given back by the loop: before the queue, the oldest on top
    private readonly Queue<Outgoing> _queue = [];
    private readonly Queue<GroupState> _unmarked = [];
    private long _bytes;
    private long _controlBytes; // of these
    private int _marksDue; // so many of the unmarked have their turn now
    private bool _isScheduled;
    private bool _isClosed;

    internal long Bytes => Interlocked.Read(ref _bytes);

    /// <summary>Queues a broadcast of a group and gives it its number.</summary>
    /// <param name="item">Without a number yet.</param>
    /// <param name="group">Of which group.</param>
    /// <param name="dropped">Filled with what was dropped for it, itself perhaps.</param>
    /// <returns>True when the caller has to see to it that the loop takes it.</returns>
    internal bool Add(Outgoing item, GroupState group, ref List<(GroupState Group, int Count)>? dropped)
    {
        lock (_gate)
        {
            if (_isClosed)
            {
                Return(item);
                return false;
            }

            item = item with { Sequence = ++group.Sequence, Group = group, Count = 1 };
            NeedsMarks(group);
            if (policy == QueuePolicy.DropNewest && _bytes + item.Length > limitBytes)
            {
                Drop(item, ref dropped);
                return false;
            }

            while (_bytes + item.Length > limitBytes && TryTake(out Outgoing oldest))
            {
                Leaves(oldest);
                Drop(oldest, ref dropped);
            }

            return Enqueue(item);
        }
    }

    /// <summary>Queues a mark or a question, unless too many wait.</summary>
    /// <returns>False when it was not taken.</returns>
    internal bool TryAddControl(Outgoing item, out bool mustSchedule)
    {
        lock (_gate)
        {
            mustSchedule = false;
            bool hasRoom = !_isClosed && _controlBytes < ControlLimitBytes;
            if (hasRoom) mustSchedule = Enqueue(item);
            else Return(item);
            return hasRoom;
        }
    }

    /// <summary>Queues what its caller keeps within limits: reports of presence, which are nothing when a part of them is missing.</summary>
    internal bool AddControl(Outgoing item)
    {
        lock (_gate)
        {
            if (!_isClosed) return Enqueue(item);
            Return(item);
            return false;
        }
    }

    /// <summary>It is time for a mark of each group that needs one.</summary>
    internal void BeginMarks()
    {
        lock (_gate) _marksDue = _unmarked.Count;
    }

    /// <summary>Takes the next group that is to be marked now, with its sequence; none while too many marks wait.</summary>
    internal bool TryTakeUnmarked([NotNullWhen(true)] out GroupState? group, out ulong sequence)
    {
        lock (_gate)
        {
            (group, sequence) = (null, 0);
            if (_marksDue == 0 || _controlBytes >= ControlLimitBytes) return false;
            _marksDue--;
            group = _unmarked.Dequeue();
            sequence = group.Sequence;
            if (--group.MarksLeft > 0) _unmarked.Enqueue(group);
            return true;
        }
    }

    /// <summary>All that was ever published to the group is told again: the broker was away, or somebody asks.</summary>
    internal void MarkAgain(GroupState group)
    {
        lock (_gate)
        {
            if (group.Sequence > 0) NeedsMarks(group);
        }
    }

    /// <summary>Whether the other nodes have been told all about the group that this one could tell.</summary>
    internal bool IsSettled(GroupState group, bool isConnected)
    {
        lock (_gate) return group.Waiting == 0 && group.MarksLeft == 0 && (isConnected || group.Sequence == 0);
    }

    internal ulong SequenceOf(GroupState group)
    {
        lock (_gate) return group.Sequence;
    }

    /// <summary>Moves what waits, so many at most, for the loop. It counts as waiting until <see cref="Sent"/>.</summary>
    internal void Take(List<Outgoing> target, int most)
    {
        lock (_gate)
        {
            while (target.Count < most && TryTake(out Outgoing item)) target.Add(item);
            if (_queue.Count + _given.Count == 0) _isScheduled = false;
        }
    }

    /// <summary>
    /// Takes back what the bus has no room for, so that the policy decides about it again: with the loop it would count, and nothing could be dropped for what comes.
    /// The loop looks again by itself when there is room.
    /// </summary>
    internal void GiveBack(List<Outgoing> items)
    {
        lock (_gate)
        {
            for (int i = items.Count - 1; i >= 0; i--) _given.Push(items[i]);
            _isScheduled = true;
        }

        items.Clear();
    }

    /// <summary>The bus is away: whoever adds next says so again.</summary>
    internal void Unschedule()
    {
        lock (_gate) _isScheduled = false;
    }

    /// <summary>The bus has taken them, or nobody ever will.</summary>
    internal void Sent(ReadOnlySpan<Outgoing> items)
    {
        lock (_gate)
        {
            foreach (ref readonly Outgoing item in items) Leaves(item);
        }

        foreach (ref readonly Outgoing item in items) Return(item);
    }

    internal void Close()
    {
        lock (_gate)
        {
            _isClosed = true;
            while (TryTake(out Outgoing item)) Return(item);
            _bytes = _controlBytes = 0;
        }
    }

    private bool TryTake(out Outgoing oldest) => _given.TryPop(out oldest) || _queue.TryDequeue(out oldest);

    private bool Enqueue(in Outgoing item)
    {
        _queue.Enqueue(item);
        _bytes += item.Length;
        if (item.Count == 0) _controlBytes += item.Length;
        if (item.Group is { } group) group.Waiting++;
        if (_isScheduled) return false;
        _isScheduled = true;
        return true;
    }

    private void Leaves(in Outgoing item)
    {
        _bytes -= item.Length;
        if (item.Count == 0) _controlBytes -= item.Length;
        if (item.Group is { } group) group.Waiting--;
    }

    private void NeedsMarks(GroupState group)
    {
        if (group.MarksLeft == 0) _unmarked.Enqueue(group);
        group.MarksLeft = MarksBehindLast;
    }

    // Only broadcasts are losses: what a mark says a later one says again.
    private static void Drop(in Outgoing item, ref List<(GroupState Group, int Count)>? dropped)
    {
        if (item is { Group: { } group, Count: > 0 }) (dropped ??= []).Add((group, item.Count));
        Return(item);
    }

    private static void Return(in Outgoing item) => ArrayPool<byte>.Shared.Return(item.Buffer);
}
