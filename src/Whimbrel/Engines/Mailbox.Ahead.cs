using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// What other threads have sent to one connection is taken ahead of its turn: the connection's own loop is about to send, and that goes behind it (contract 7,
/// docs/design/0065). It passes what was posted to the connection, which runs at its turn. Nothing else that concerns the connection is passed (a join, a broadcast to a
/// group that it is in): what stands behind such an item waits for its turn. The loop's thread.
/// </summary>
internal sealed partial class Mailbox
{
    private const int KeptAhead = 1024;

    /// <summary>A longer list of targets is looked through so often, and then it is worth to note who is in it.</summary>
    private const int LooksBeforeNoting = 8;
    private const int ShortList = 16;

    // Places number the items of all times. Those of one list begin here.
    private long _firstDraining;
    private long _firstWaiting;

    /// <summary>An item runs, or a posted action: whoever sends in the middle of it gets nothing from behind it.</summary>
    private bool _staysInPlace;

    // Of items with several targets: who has its message already.
    private readonly HashSet<(long Place, Connection Connection)> _servedAhead = [];
    private List<SendAhead>? _ahead;

    // Before which place all items were looked at for a connection, so that each of its sends looks at new ones only.
    private Dictionary<Connection, long> _lookedAt = [];

    // While it is looked for a group: which groups and members something stands for that their sends do not pass.
    private readonly List<GroupShard> _barringGroups = [];
    private readonly HashSet<Connection> _barred = [];
    private long _firstBarrier;

    private readonly ListNote[] _notes = [new(), new(), new(), new()];
    private int _notesUsed;

    /// <summary>
    /// Something posted runs now. An action does at its place: what other threads have sent behind it stays there. An async function may have parts on those threads, and goes on like a
    /// callback.
    /// </summary>
    internal void EnterPosted(bool isAsync) => _staysInPlace = !isAsync;

    internal void LeavePosted() => _staysInPlace = false;

    /// <summary>Queues what was sent to the connection, one of this loop's, and may be taken before its turn.</summary>
    internal void TakeAhead(Connection connection)
    {
        if (_staysInPlace) return;
        // Giving memory of the user's back may send, and come here again.
        List<SendAhead> found = _ahead ?? [];
        _ahead = null;
        ref long place = ref CollectionsMarshal.GetValueRefOrAddDefault(_lookedAt, connection, out _);
        if (FindAhead(_dataDraining, _arenaDraining, _targetsDraining, _firstDraining, _nextToDrain, connection, ref place, found))
        {
            lock (_gate) FindAhead(_data, _arena, _targets, _firstWaiting, 0, connection, ref place, found);
        }

        QueueAll(found);
    }

    /// <summary>
    /// The same for all members of a group on this loop, which is about to broadcast to them itself. One pass for all
    /// of them, of what was not looked at for this group before: with many members
    /// and many items a look for each of them would take the product of both.
    /// </summary>
    internal void TakeAhead(GroupShard shard)
    {
        if (_staysInPlace) return;
        List<SendAhead> found = _ahead ?? [];
        _ahead = null;
        _firstBarrier = long.MaxValue;
        if (FindAhead(_dataDraining, _arenaDraining, _targetsDraining, _firstDraining, _nextToDrain, shard, found))
        {
            lock (_gate)
            {
                FindAhead(_data, _arena, _targets, _firstWaiting, 0, shard, found);
                shard.LookedAheadTo = Math.Min(_firstBarrier, _firstWaiting + _data.Count);
            }
        }

        _barringGroups.Clear();
        _barred.Clear();
        QueueAll(found);
    }

    private void QueueAll(List<SendAhead> found)
    {
        foreach (ref readonly SendAhead send in CollectionsMarshal.AsSpan(found)) Queue(send);
        found.Clear();
        if (found.Capacity <= KeptAhead) _ahead = found;
    }

    /// <summary>Data waits here, or is being drained. Loop's thread.</summary>
    internal bool HasData => _any || _dataDraining.Count > 0;

    /// <summary>False: a broadcast to the group itself stands there, which nothing that its members are sent
    /// passes.</summary>
    private bool FindAhead(DataItems items, ByteArena arena, SendTarget[] targets, long first, int from, GroupShard shard, List<SendAhead> found)
    {
        for (int i = (int)Math.Max(from, shard.LookedAheadTo - first); i < items.Count; i++)
        {
            ref DataItem item = ref items[i];
            switch (item.Kind)
            {
                case DataKind.Send or DataKind.SendOwned or DataKind.SendFile:
                    if (item.Connection is not { } target || target.Generation != item.Generation || !MayPass(target, shard)) continue;
                    found.Add(new SendAhead(item, BytesOf(item, arena), target));
                    item = new DataItem { Kind = DataKind.Taken };
                    break;
                case DataKind.Shared:
                    FindShared(ref item, first + i, targets, BytesOf(item, arena), shard, found);
                    break;
                case DataKind.Broadcast or DataKind.FormedBroadcast or DataKind.SharedBroadcast or DataKind.LeaveAll:
                    _firstBarrier = Math.Min(_firstBarrier, first + i);
                    if (ReferenceEquals(item.Payload, shard)) return false;
                    _barringGroups.Add((GroupShard)item.Payload!);
                    break;
                case DataKind.Call or DataKind.Post or DataKind.Leave or DataKind.Mark or DataKind.Paced or DataKind.Taken:
                    break;
                default:
                    if (item.Connection is not { } barred || barred.Generation != item.Generation) continue;
                    _firstBarrier = Math.Min(_firstBarrier, first + i);
                    _barred.Add(barred);
                    break;
            }
        }

        return true;
    }

    private void FindShared(ref DataItem item, long place, SendTarget[] targets, ReadOnlySpan<byte> bytes, GroupShard shard, List<SendAhead> found)
    {
        int before = found.Count;
        foreach (SendTarget each in targets.AsSpan(item.FirstMessage, (int)item.Generation))
        {
            if (each.Generation != each.Connection.Generation || !MayPass(each.Connection, shard) || (item.IsSplit && _servedAhead.Contains((place, each.Connection)))) continue;
            found.Add(new SendAhead(item, bytes, each.Connection));
        }

        if (found.Count == before) return;
        item.IsSplit = true;
        for (int i = before; i < found.Count; i++) _servedAhead.Add((place, found[i].Item.Connection!));
    }

    private bool MayPass(Connection member, GroupShard shard)
    {
        if (!shard.Contains(member) || _barred.Contains(member)) return false;
        foreach (GroupShard barring in _barringGroups)
        {
            if (barring.Contains(member)) return false;
        }

        return true;
    }

    /// <summary>It is in another group now: broadcasts that did not concern it may.</summary>
    internal void LookAgain(Connection connection)
    {
        if (_lookedAt.Count > 0) _lookedAt.Remove(connection);
    }

    /// <summary>False: something stands there that nothing passes.</summary>
    private bool FindAhead(DataItems items, ByteArena arena, SendTarget[] targets, long first, int from, Connection connection, ref long place, List<SendAhead> found)
    {
        for (int i = (int)Math.Max(from, place - first); i < items.Count; i++)
        {
            place = first + i;
            ref DataItem item = ref items[i];
            int times = 1;
            switch (item.Kind)
            {
                case DataKind.Send or DataKind.SendOwned or DataKind.SendFile:
                    if (!IsOf(item, connection)) continue;
                    break;
                case DataKind.Shared:
                    times = TimesIn(targets, item.FirstMessage, (int)item.Generation, new SendTarget(connection, connection.Generation));
                    if (times == 0 || (item.IsSplit && _servedAhead.Contains((place, connection)))) continue;
                    break;
                case DataKind.Broadcast or DataKind.FormedBroadcast or DataKind.SharedBroadcast or DataKind.LeaveAll:
                    if (((GroupShard)item.Payload!).Contains(connection)) return false;
                    continue;
                case DataKind.Call or DataKind.Post or DataKind.Leave or DataKind.Mark or DataKind.Paced or DataKind.Taken:
                    continue;
                default:
                    if (IsOf(item, connection)) return false;
                    continue;
            }

            for (; times > 0; times--) found.Add(new SendAhead(item, BytesOf(item, arena), connection));
            if (item.Kind == DataKind.Shared)
            {
                // What comes later to the same sessions does not join it: it would be behind a place that was looked at.
                item.IsSplit = true;
                _servedAhead.Add((place, connection));
            }
            else
            {
                item = new DataItem { Kind = DataKind.Taken };
            }
        }

        place = Math.Max(place, first + items.Count);
        return true;
    }

    private static bool IsOf(in DataItem item, Connection connection) => ReferenceEquals(item.Connection, connection) && item.Generation == connection.Generation;

    /// <summary>How often it is in a list: of a thousand that others send to, each may send as well.</summary>
    private int TimesIn(SendTarget[] targets, int first, int count, SendTarget wanted)
    {
        ReadOnlySpan<SendTarget> list = targets.AsSpan(first, count);
        if (count <= ShortList) return list.Count(wanted);
        int i = 0;
        while (i < _notes.Length && !_notes[i].IsOf(targets, first)) i++;
        if (i == _notes.Length)
        {
            i = _notesUsed++ % _notes.Length;
            _notes[i].Begin(targets, first);
        }

        return _notes[i].TimesIn(list, wanted);
    }

    private void Queue(in SendAhead send)
    {
        try
        {
            RunSend(send.Item, send.Bytes);
        }
        catch (Exception e) when (_loop.Outlives(e))
        {
            // As in Loop.Outlive, but inside a callback, which goes on.
            _loop.Engine.ReportException($"a step of {_loop}", e, "Its connection was ended; the loop goes on.");
            send.Item.Connection!.AbortWith(new CloseReason(CloseCause.UserException, 0, e));
        }
    }

    /// <summary>This target of an item has its message. Whoever is in the list more than once has got it as often.</summary>
    private bool WasServedAhead(in DataItem item, Connection connection) => item.IsSplit && _servedAhead.Contains((_firstDraining + _nextToDrain - 1, connection));

    /// <summary>One list is drained: all items before what waits now.</summary>
    private void ForgetAhead()
    {
        if (_notesUsed > 0)
        {
            foreach (ListNote note in _notes) note.Forget();
            _notesUsed = 0;
        }

        if (_lookedAt.Count == 0 && _servedAhead.Count == 0) return;
        if (_lookedAt.Count > KeptAhead) _lookedAt = [];
        else _lookedAt.Clear();
        foreach ((long Place, Connection Connection) served in _servedAhead)
        {
            if (served.Place < _firstWaiting) _servedAhead.Remove(served);
        }

        if (_servedAhead.Count == 0 && _servedAhead.Capacity > KeptAhead) _servedAhead.TrimExcess();
    }

    // Safe: the arena's memory stays where it is until its items are drained, which is not before the callback that sends has returned.
    private readonly unsafe struct SendAhead
    {
        private readonly byte* _bytes;
        private readonly int _length;

        internal SendAhead(in DataItem item, ReadOnlySpan<byte> bytes, Connection connection)
        {
            Item = item.Kind == DataKind.Shared ? item with { Kind = DataKind.Send, Connection = connection, Generation = connection.Generation } : item;
            _length = bytes.Length;
            _bytes = bytes.IsEmpty ? null : (byte*)Unsafe.AsPointer(ref MemoryMarshal.GetReference(bytes));
        }

        internal DataItem Item { get; }

        internal ReadOnlySpan<byte> Bytes => new(_bytes, _length);
    }

    /// <summary>Who is in one list of targets, and how often.</summary>
    private sealed class ListNote
    {
        private readonly Dictionary<SendTarget, int> _times = [];
        private SendTarget[]? _targets;
        private int _first;
        private int _looks;

        internal bool IsOf(SendTarget[] targets, int first) => ReferenceEquals(_targets, targets) && _first == first;

        internal void Begin(SendTarget[] targets, int first)
        {
            Forget();
            _targets = targets;
            _first = first;
        }

        internal int TimesIn(ReadOnlySpan<SendTarget> list, SendTarget wanted)
        {
            if (++_looks <= LooksBeforeNoting) return list.Count(wanted);
            if (_looks == LooksBeforeNoting + 1)
            {
                foreach (SendTarget each in list) CollectionsMarshal.GetValueRefOrAddDefault(_times, each, out _)++;
            }

            return _times.GetValueOrDefault(wanted);
        }

        internal void Forget()
        {
            _targets = null;
            _looks = 0;
            _times.Clear();
            if (_times.Capacity > TargetsKept) _times.TrimExcess();
        }
    }
}
