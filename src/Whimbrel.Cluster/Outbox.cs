using System.Buffers;
using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Clusters;

/// <summary>
/// Bounded queue of envelopes for the bus, for any thread. Sequences are assigned under the gate that orders the queue.
/// A dropped broadcast uses its number, so that the other nodes detect the gap. Queued broadcasts of one group share an
/// envelope: the order within a group is kept, the order between groups is not. Recently published broadcasts are kept
/// and published again after a reconnect.
/// </summary>
internal sealed class Outbox(int limitBytes, int repeatLimitBytes, QueuePolicy policy, EnvelopeForm form)
{
    // Marks after the last broadcast of a group, so that lost marks do not hide a loss. With independent losses of one
    // envelope in twenty, one loss in a billion is not detected before the next broadcast.
    private const int MarksBehindLast = 6;

    /// <summary>
    /// Maximum bytes of queued marks and questions. Further ones wait in the list of groups that they come from.
    /// </summary>
    internal const int ControlLimitBytes = 256 * 1024;

    /// <summary>
    /// Time for which published broadcasts are kept: more than the longest time until a silent broker is detected.
    /// </summary>
    internal const long RepeatMs = 10_000;

    // A kept envelope also takes an object and the unused part of its buffer.
    private const int MemoryAroundKept = 128;

    private readonly Lock _gate = new();
    private readonly WaitingLine _broadcasts = new(); // only these count against the limit and can be dropped
    private readonly WaitingLine _control = new(); // marks; they keep their position among broadcasts
    private readonly WaitingLine _words = new(); // of this node itself: they overtake all others and are not held
    private readonly WaitingLine _again = new();
    private readonly Queue<Outgoing> _sent = [];
    private long _sentBytes;
    private long _lastPlace;
    private readonly Queue<GroupState> _unmarked = [];
    private long _bytes;
    private long _controlBytes; // of these
    private int _marksDue; // number of unmarked groups to be marked now
    private bool _isScheduled;
    private bool _isClosed;

    // Small, because a full queue drops whole envelopes with all their broadcasts.
    private readonly int _mostJoinedBytes = Math.Min(Envelope.MostJoinedBytes, limitBytes / 16);
    private int _mostEnvelopeBytes;

    internal long Bytes => Interlocked.Read(ref _bytes);

    /// <summary>Sets the largest envelope that the broker accepts.</summary>
    internal void SetMostEnvelopeBytes(int bytes)
    {
        lock (_gate) _mostEnvelopeBytes = bytes;
    }

    /// <summary>Queues a broadcast and assigns its sequence.</summary>
    /// <param name="group">Group of the broadcast.</param>
    /// <param name="message">Bytes of the message.</param>
    /// <param name="since">See <see cref="Outgoing.NoteSince"/>.</param>
    /// <param name="dropped">List of the dropped broadcasts, perhaps including this one.</param>
    /// <returns>True if the caller must schedule the loop.</returns>
    internal bool Add(GroupState group, ReadOnlySpan<byte> message, long since,
        ref List<(GroupState Group, int Count)>? dropped)
    {
        int alone = form.Length(group.NameBytes.Length, Envelope.MessageLength(message.Length));
        bool mayJoin = alone <= _mostJoinedBytes;
        // Large messages are copied before the gate is taken.
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
                group.Open = null; // because sequences in an envelope are consecutive
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

    /// <summary>Queues a mark or a question, unless too many are queued.</summary>
    /// <returns>False if it was not queued.</returns>
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

    /// <summary>
    /// Queues without a limit what the caller limits: presence reports, which are useless if a part is missing, and the
    /// goodbye.
    /// </summary>
    internal bool AddControl(Outgoing item)
    {
        lock (_gate)
        {
            if (!_isClosed) return Enqueue(item);
            Return(item);
            return false;
        }
    }

    /// <summary>Whether an announcement of this node is queued.</summary>
    internal bool HasAnnouncement
    {
        get
        {
            lock (_gate) return _words.Any(static item => item.IsAnnouncement);
        }
    }

    /// <summary>Makes marks due for all groups that need one.</summary>
    internal void BeginMarks()
    {
        lock (_gate) _marksDue = _unmarked.Count;
    }

    /// <summary>Releases published broadcasts that are too old to be repeated, or beyond the limit.</summary>
    internal void TrimSent(long nowMs)
    {
        lock (_gate)
        {
            while (_sent.TryPeek(out Outgoing? oldest)
                && (_sentBytes > repeatLimitBytes || nowMs - oldest.SentAtMs > RepeatMs))
            {
                _sentBytes -= oldest.Length + MemoryAroundKept;
                Return(_sent.Dequeue());
            }
        }
    }

    /// <summary>Queues recently published broadcasts again, before all others. Called after a reconnect.</summary>
    internal void Repeat()
    {
        lock (_gate)
        {
            // Newer than the published ones: the broker was lost again before the previous repetition was complete.
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

    /// <summary>
    /// Takes the next group that is due for a mark, with its sequence. Returns false while too many marks are queued.
    /// </summary>
    internal bool TryTakeUnmarked([NotNullWhen(true)] out GroupState? group, out ulong sequence)
    {
        (group, sequence) = (null, 0);
        if (_marksDue == 0) return false; // used on the loop only
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

    /// <summary>Makes the group publish marks again, after a reconnect.</summary>
    internal void MarkAgain(GroupState group)
    {
        lock (_gate)
        {
            if (group.Sequence > 0) NeedsMarks(group);
        }
    }

    /// <summary>Returns whether no envelopes and marks of the group are left to be published.</summary>
    internal bool IsSettled(GroupState group, bool isConnected)
    {
        lock (_gate) return group.Waiting == 0 && group.MarksLeft == 0 && (isConnected || group.Sequence == 0);
    }

    internal ulong SequenceOf(GroupState group)
    {
        lock (_gate) return group.Sequence;
    }

    /// <summary>
    /// Takes up to <paramref name="most"/> envelopes for the loop; while broadcasts are held, only unordered ones. They
    /// count as queued until <see cref="Sent"/>.
    /// </summary>
    internal void Take(List<Outgoing> target, int most, bool isHeld)
    {
        lock (_gate)
        {
            while (target.Count < most && TryTake(isHeld, out Outgoing? item)) target.Add(item);
            if (target.Count < most) _isScheduled = false;
        }
    }

    /// <summary>
    /// Takes back envelopes that the bus has no room for, so that the policy can drop them again. The loop takes them
    /// again when there is room.
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

    /// <summary>
    /// Clears the scheduled flag, so that the next caller of <see cref="Add"/> schedules the loop again.
    /// </summary>
    internal void Unschedule()
    {
        lock (_gate) _isScheduled = false;
    }

    /// <summary>
    /// Records that the bus has accepted envelopes. Broadcasts are kept for a while, because the broker may be lost
    /// with them.
    /// </summary>
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

    /// <summary>Removes an envelope that the bus will never accept.</summary>
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

    private WaitingLine LineOf(Outgoing item) => item.IsRepeated ? _again : item.Count > 0 ? _broadcasts
        : item.IsOrdered ? _control : _words;

    // In arrival order, so that a mark stays after the broadcasts that it counts.
    private bool TryTake(bool isHeld, [NotNullWhen(true)] out Outgoing? oldest)
    {
        if (_words.TryTake(out oldest)) return true;
        if (isHeld) return false;
        if (_again.TryTake(out oldest)) return true;
        bool isBroadcast = _broadcasts.TryPeek(out Outgoing? broadcast)
            && !(_control.TryPeek(out Outgoing? control) && control.Place < broadcast.Place);
        if (!(isBroadcast ? _broadcasts : _control).TryTake(out oldest)) return false;
        Close(oldest);
        return true;
    }

    /// <summary>Closes an envelope for further broadcasts.</summary>
    private static void Close(Outgoing item)
    {
        if (item.Group is { } group && group.Open == item) group.Open = null;
    }

    private bool Fits(Outgoing open, int message) =>
        open.Length + Envelope.MessageLength(message) <= Math.Min(_mostJoinedBytes, _mostEnvelopeBytes);

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
