using System.Buffers;
using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Clusters;

/// <summary>
/// What waits for the bus, from any thread, within a limit. The sequence is given under the same gate that orders the queue; a broadcast that is dropped has
/// used its number, so that the other nodes find the gap. Broadcasts that wait for the same turn of the loop share an envelope for each group, whose first place in the queue
/// they take: the order of a group is kept, that of groups among each other is not. What the bus has taken lately is kept, and goes out once more when a lost broker is back.
/// </summary>
internal sealed class Outbox(int limitBytes, int repeatLimitBytes, QueuePolicy policy, EnvelopeForm form)
{
    // Behind the last broadcast of a group, so that lost marks do not hide a loss: where one envelope of twenty is lost, each alone, one loss of a billion stays unknown until the next broadcast.
    private const int MarksBehindLast = 6;

    /// <summary>So much of marks and questions waits beside the broadcasts. Others wait where they come from, which is a list of groups.</summary>
    internal const int ControlLimitBytes = 256 * 1024;

    /// <summary>For so long broadcasts that the bus took are kept: the longest time in which a silent broker is found, and some more.</summary>
    internal const long RepeatMs = 10_000;

    // Beside its bytes an envelope that is kept has an object and the unused part of its buffer.
    private const int MemoryAroundKept = 128;

    private readonly Lock _gate = new();
    private readonly WaitingLine _broadcasts = new(); // these alone count against the limit, and may be lost for others
    private readonly WaitingLine _control = new(); // marks, whose place among broadcasts matters
    private readonly WaitingLine _words = new(); // of this node to others: they overtake all else, and are not held
    private readonly WaitingLine _again = new();
    private readonly Queue<Outgoing> _sent = [];
    private long _sentBytes;
    private long _lastPlace;
    private readonly Queue<GroupState> _unmarked = [];
    private long _bytes;
    private long _controlBytes; // of these
    private int _marksDue; // so many of the unmarked have their turn now
    private bool _isScheduled;
    private bool _isClosed;

    // With the oldest envelope that a full queue loses go all broadcasts in it.
    private readonly int _mostJoinedBytes = Math.Min(Envelope.MostJoinedBytes, limitBytes / 16);
    private int _mostEnvelopeBytes;

    internal long Bytes => Interlocked.Read(ref _bytes);

    /// <summary>What the broker takes, from now on.</summary>
    internal void SetMostEnvelopeBytes(int bytes)
    {
        lock (_gate) _mostEnvelopeBytes = bytes;
    }

    /// <summary>Queues a broadcast of a group and gives it its number.</summary>
    /// <param name="group">Of which group.</param>
    /// <param name="message">Its bytes.</param>
    /// <param name="since">See <see cref="Outgoing.NoteSince"/>.</param>
    /// <param name="dropped">Filled with what was dropped for it, itself perhaps.</param>
    /// <returns>True when the caller has to see to it that the loop takes it.</returns>
    internal bool Add(GroupState group, ReadOnlySpan<byte> message, long since, ref List<(GroupState Group, int Count)>? dropped)
    {
        int alone = form.Length(group.NameBytes.Length, Envelope.MessageLength(message.Length));
        bool mayJoin = alone <= _mostJoinedBytes;
        // What is large is copied before the gate is taken.
        Outgoing? made = mayJoin ? null : form.Broadcast(group, message);
        lock (_gate)
        {
            if (_isClosed)
            {
                if (made is not null) Return(made);
                return false;
            }

            ulong sequence = ++group.Sequence;
            NeedsMarks(group);
            Outgoing? open = mayJoin && group.Open is { } waits && Fits(waits, message.Length) ? waits : null;
            int added = open is null ? alone : Envelope.MessageLength(message.Length);
            if (policy == QueuePolicy.DropNewest && BroadcastBytes + added > limitBytes)
            {
                (dropped ??= []).Add((group, 1));
                if (made is not null) Return(made);
                group.Open = null; // numbers in an envelope follow each other
                return false;
            }

            while (BroadcastBytes + added > limitBytes && _broadcasts.TryTake(out Outgoing? oldest))
            {
                Close(oldest);
                Leaves(oldest);
                Drop(oldest, ref dropped);
                if (oldest == open) (open, added) = (null, alone);
            }

            if (open is not null)
            {
                form.Join(open, message);
                open.NoteSince(since);
                _bytes += added;
                return MustSchedule();
            }

            made ??= form.Broadcast(group, message);
            made.Sequence = sequence;
            made.NoteSince(since);
            group.Open = mayJoin ? made : null;
            return Enqueue(made);
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

    /// <summary>Whether something that this node says of itself has not left yet.</summary>
    internal bool HasWords
    {
        get
        {
            lock (_gate) return !_words.IsEmpty;
        }
    }

    /// <summary>It is time for a mark of each group that needs one.</summary>
    internal void BeginMarks()
    {
        lock (_gate) _marksDue = _unmarked.Count;
    }

    /// <summary>Forgets what was sent too long ago to be lost with the broker.</summary>
    internal void TrimSent(long nowMs)
    {
        lock (_gate)
        {
            while (_sent.TryPeek(out Outgoing? oldest) && (_sentBytes > repeatLimitBytes || nowMs - oldest.SentAtMs > RepeatMs))
            {
                _sentBytes -= oldest.Length + MemoryAroundKept;
                Return(_sent.Dequeue());
            }
        }
    }

    /// <summary>A lost broker is back: what it was given last goes out again, before all other broadcasts.</summary>
    internal void Repeat()
    {
        lock (_gate)
        {
            // Younger than what was sent: the broker was lost again before all of it had left.
            List<Outgoing> rest = [];
            while (_again.TryTake(out Outgoing? item)) rest.Add(item);
            while (_sent.TryDequeue(out Outgoing? item))
            {
                item.IsRepeated = true;
                Envelope.MarkRepeated(item.Bytes.Span);
                if (item.Group is { } group) group.Waiting++;
                _again.Add(item);
            }

            foreach (Outgoing item in rest) _again.Add(item);
            _sentBytes = 0;
        }
    }

    /// <summary>Takes the next group that is to be marked now, with its sequence; none while too many marks wait.</summary>
    internal bool TryTakeUnmarked([NotNullWhen(true)] out GroupState? group, out ulong sequence)
    {
        (group, sequence) = (null, 0);
        if (_marksDue == 0) return false; // the loop's own
        lock (_gate)
        {
            if (_controlBytes >= ControlLimitBytes) return false;
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

    /// <summary>Moves what waits, so many at most, for the loop; while it is held, only what has no order. It counts as waiting until <see cref="Sent"/>.</summary>
    internal void Take(List<Outgoing> target, int most, bool isHeld)
    {
        lock (_gate)
        {
            while (target.Count < most && TryTake(isHeld, out Outgoing? item)) target.Add(item);
            if (target.Count < most) _isScheduled = false;
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
            for (int i = items.Count - 1; i >= 0; i--) LineOf(items[i]).GiveBack(items[i]);
            _isScheduled = true;
        }

        items.Clear();
    }

    /// <summary>The bus is away: whoever adds next says so again.</summary>
    internal void Unschedule()
    {
        lock (_gate) _isScheduled = false;
    }

    /// <summary>The bus has taken them. Broadcasts are kept for a while, since the broker may be lost with them.</summary>
    internal void Sent(ReadOnlySpan<Outgoing> items, long nowMs)
    {
        lock (_gate)
        {
            foreach (Outgoing item in items)
            {
                Leaves(item);
                if (item.Count == 0 || repeatLimitBytes == 0)
                {
                    Return(item);
                    continue;
                }

                item.SentAtMs = nowMs;
                _sent.Enqueue(item);
                _sentBytes += item.Length + MemoryAroundKept;
            }
        }

        TrimSent(nowMs);
    }

    /// <summary>The bus will never take it.</summary>
    internal void Discard(Outgoing item)
    {
        lock (_gate) Leaves(item);
        Return(item);
    }

    internal void Close()
    {
        lock (_gate)
        {
            _isClosed = true;
            while (TryTake(isHeld: false, out Outgoing? item) || _sent.TryDequeue(out item)) Return(item);
            _bytes = _controlBytes = _sentBytes = 0;
        }
    }

    private long BroadcastBytes => _bytes - _controlBytes;

    private WaitingLine LineOf(Outgoing item) => item.IsRepeated ? _again : item.Count > 0 ? _broadcasts : item.IsOrdered ? _control : _words;

    // In the order in which they came, so that a mark stays behind the broadcasts that it counts.
    private bool TryTake(bool isHeld, [NotNullWhen(true)] out Outgoing? oldest)
    {
        if (_words.TryTake(out oldest)) return true;
        if (isHeld) return false;
        if (_again.TryTake(out oldest)) return true;
        bool isBroadcast = _broadcasts.TryPeek(out Outgoing? broadcast) && !(_control.TryPeek(out Outgoing? control) && control.Place < broadcast.Place);
        if (!(isBroadcast ? _broadcasts : _control).TryTake(out oldest)) return false;
        Close(oldest);
        return true;
    }

    /// <summary>It takes nothing more.</summary>
    private static void Close(Outgoing item)
    {
        if (item.Group is { } group && group.Open == item) group.Open = null;
    }

    private bool Fits(Outgoing open, int message) => open.Length + Envelope.MessageLength(message) <= Math.Min(_mostJoinedBytes, _mostEnvelopeBytes);

    private bool Enqueue(Outgoing item)
    {
        item.Place = ++_lastPlace;
        LineOf(item).Add(item);
        _bytes += item.Length;
        if (item.Count == 0) _controlBytes += item.Length;
        if (item.Group is { } group) group.Waiting++;
        return MustSchedule();
    }

    private bool MustSchedule()
    {
        if (_isScheduled) return false;
        _isScheduled = true;
        return true;
    }

    private void Leaves(Outgoing item)
    {
        if (item.IsRepeated)
        {
            if (item.Group is { } of) of.Waiting--;
            return;
        }

        _bytes -= item.Length;
        if (item.Count == 0) _controlBytes -= item.Length;
        if (item.Group is { } group) group.Waiting--;
    }

    private void NeedsMarks(GroupState group)
    {
        if (group.MarksLeft == 0) _unmarked.Enqueue(group);
        group.MarksLeft = MarksBehindLast;
    }

    private static void Drop(Outgoing item, ref List<(GroupState Group, int Count)>? dropped)
    {
        (dropped ??= []).Add((item.Group!, item.Count));
        Return(item);
    }

    private static void Return(Outgoing item) => ArrayPool<byte>.Shared.Return(item.Buffer);
}
