using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Receiving on io_uring. A connection has no buffer of its own: the kernel takes one of the loop's when bytes arrive.
/// If none is free, the receive ends, and the connection is parked until buffers are returned. For large amounts the
/// kernel only reports readiness, and a direct call receives into one shared buffer that stays in the cpu cache
/// (docs/design/0014).
/// </summary>
// Safe: a receive buffer is read only between its completion and ReturnBuffer, the large one until its callback has
// returned.
internal sealed unsafe partial class UringLoop
{
    /// <summary>
    /// Number of bytes after which a receive ends and is started again: the most that one connection takes before it
    /// can be paused (contract 10).
    /// </summary>
    private const uint ReceiveLimitBytes = 256 * 1024;

    /// <summary>
    /// Number of consecutive small receives after which a connection with large receives is received by the ring again.
    /// </summary>
    private const byte SmallInARow = 16;

    /// <summary>
    /// Number of consecutive receives failed for lack of memory or buffers that are tried again at once; then the
    /// connection is paused.
    /// </summary>
    private const byte FailuresInARow = 16;

    /// <summary>
    /// Events after which the socket must be received until it is empty, because the poll does not report them again.
    /// </summary>
    private const uint UntilEmpty = EpollAbi.EPOLLRDHUP | EpollAbi.EPOLLHUP | EpollAbi.EPOLLERR | EpollAbi.EPOLLPRI;

    // Connections with large receives that have, or may have, more data: received again after the next enter, in this
    // order.
    private readonly Queue<ulong> _again = new();

    internal override void StartReceive(Resident resident)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        slot.IsWanted = true;
        if (!NeedsReceive(resident.Slot))
        {
            if (slot.IsReady) ReceiveAgain(resident);
            return;
        }

        if (resident is not Connection)
        {
            if (resident is Listener listener) StartAccept(listener);
            else ArmReady((DatagramResident)resident);
            return;
        }

        if (slot.HeldError != 0)
        {
            // No verb calls a session, so the error returns as a completion.
            SubmissionEntry nothing = default;
            nothing.Opcode = UringAbi.IORING_OP_NOP;
            Push(resident, RingOperation.HeldError, ref nothing);
            return;
        }

        if (slot.IsLarge)
        {
            PushPoll(resident, EpollAbi.EPOLLIN | UntilEmpty, RingOperation.ReceiveReady, isMultishot: true);
            return;
        }

        slot.IsReady = slot.IsReadyUntilEmpty = false;
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_RECV;
        entry.Flags = UringAbi.IOSQE_BUFFER_SELECT;
        entry.Descriptor = slot.Fd;
        entry.Priority = UringAbi.IORING_RECV_MULTISHOT;
        if (_ring.CanLimitReceive) entry.TotalLength = ReceiveLimitBytes;
        MakeWaiting(ref slot);
        Push(resident, RingOperation.Receive, ref entry);
    }

    /// <summary>
    /// True if a receive is wanted, and neither a receive nor an operation that will start one is in progress. A
    /// pending cancel of the last receive counts, because it would cancel a new receive too.
    /// </summary>
    private bool NeedsReceive(int slot)
    {
        ref UringSlot s = ref _slots[slot];
        // A listener polls for a connection to shed. A connection polls for the answer to a fast open, and receives at
        // the same time.
        const OperationSet underWay =
            OperationSet.Receive | OperationSet.Accept | OperationSet.Poll | OperationSet.HeldError
            | OperationSet.ReceiveReady | OperationSet.CancelReceive;
        const OperationSet underWayDeferred = underWay & ~OperationSet.Poll;
        return s.IsWanted && !s.IsParked && !s.IsResting && !s.IsDetaching
            && (s.Has & (s.Opening.IsUnderWay ? underWayDeferred : underWay)) == 0;
    }

    internal override void StopReceive(Resident resident)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        slot.IsWanted = false;
        // Not cancelled now: the kernel takes nothing before the next submit, and receiving may be started again until
        // then.
        if ((slot.Has & (OperationSet.Receive | OperationSet.Accept)) != 0)
            _stopped.Enqueue(MarkOf(RingOperation.Receive, resident));
    }

    private void CancelStopped()
    {
        for (int budget = _stopped.Count; budget > 0; budget--)
        {
            if (AtMark(_stopped.Dequeue()) is not { } resident) continue;
            ref UringSlot slot = ref _slots[resident.Slot];
            if (slot.IsWanted || slot.IsDetaching || (slot.Has & OperationSet.CancelReceive) != 0) continue;
            if ((slot.Has & OperationSet.Receive) != 0)
                PushCancel(resident, RingOperation.CancelReceive, RingOperation.Receive);
            else if ((slot.Has & OperationSet.Accept) != 0)
                PushCancel(resident, RingOperation.CancelReceive, RingOperation.Accept);
        }
    }

    /// <summary>Returns the handle of a mark while it is in its slot.</summary>
    private Resident? AtMark(ulong mark) =>
        ResidentAt((int)(mark >> 32) & 0xFF_FFFF) is { } resident && resident.SlotGeneration == (uint)mark
            ? resident
            : null;

    /// <summary>
    /// Handles the completion of a cancel. A cancel that found nothing came after the end of the receive, which has its
    /// own completion. A cancel that found the receive running is repeated while that receive still runs and is
    /// unwanted. A new receive may start from here on.
    /// </summary>
    private void ReceiveCancelled(int slot, Resident resident, int result)
    {
        if (NeedsReceive(slot)) StartReceive(resident);
        if (result >= 0 || (_slots[slot].Has & (OperationSet.Receive | OperationSet.Accept)) == 0
            || _slots[slot].IsWanted)
            return;
        if (!_slots[slot].IsDetaching) _stopped.Enqueue(MarkOf(RingOperation.Receive, resident));
        else PushCancel(resident, RingOperation.CancelReceive,
            (_slots[slot].Has & OperationSet.Receive) != 0 ? RingOperation.Receive : RingOperation.Accept);
    }

    private void Received(Connection connection, int slot, int result, uint flags)
    {
        int buffer =
            (flags & UringAbi.IORING_CQE_F_BUFFER) != 0 ? (int)(flags >> UringAbi.IORING_CQE_BUFFER_SHIFT) : -1;
        if (result > 0 && buffer >= 0 && !_slots[slot].IsDetaching)
        {
            if (result >= _ring.LargeReceiveBytes)
                TurnLarge(connection, slot, hasMore: (flags & UringAbi.IORING_CQE_F_MORE) != 0);
            uint generation = connection.SlotGeneration;
            _slots[slot].Failures = 0;
            Span<byte> bytes = new(_ring.BufferAt(buffer), result);
            try
            {
                connection.CompleteReceive(bytes);
            }
            finally
            {
                Poison(bytes);
                _ring.ReturnBuffer(buffer);
            }

            // The callback may have ended the connection. A receive that has not ended continues by itself.
            if (connection.Slot == slot && connection.SlotGeneration == generation && NeedsReceive(slot))
                StartReceive(connection);
            return;
        }

        if (buffer >= 0) _ring.ReturnBuffer(buffer);
        if (!_slots[slot].IsDetaching) ReceiveEnded(connection, slot, result);
    }

    /// <summary>
    /// Switches to direct calls. A receive of the ring soon ends by its limit; on a kernel without limits it is
    /// cancelled.
    /// </summary>
    private void TurnLarge(Connection connection, int slot, bool hasMore)
    {
        _slots[slot].IsLarge = true;
        _slots[slot].SmallReceives = 0;
        if (hasMore && !_ring.CanLimitReceive && (_slots[slot].Has & OperationSet.CancelReceive) == 0)
            PushCancel(connection, RingOperation.CancelReceive, RingOperation.Receive);
    }

    /// <summary>
    /// Handles a readiness event. The multishot poll continues and reports data that arrives later, but not data that
    /// is already there. The slot therefore stays marked as ready until a receive has found it empty.
    /// </summary>
    private void BecameReady(Connection connection, int slot, int events)
    {
        ref UringSlot s = ref _slots[slot];
        if (s.IsDetaching) return;
        if (events > 0)
        {
            s.IsReady = true;
            s.IsReadyUntilEmpty |= ((uint)events & UntilEmpty) != 0;
            // If receiving was stopped meanwhile, the data is received when it starts again.
            if (s.IsWanted && !s.IsAgain && !s.IsResting) ReceiveReady(connection, slot);
            return;
        }

        // The poll was cancelled, or could not be executed.
        if (NeedsReceive(slot)) StartReceive(connection);
    }

    /// <summary>
    /// Receives by direct calls until the socket is empty, or until the limit for one connection is reached.
    /// </summary>
    private void ReceiveReady(Connection connection, int slot)
    {
        uint generation = connection.SlotGeneration;
        bool maySplice = true;
        for (uint most = ReceiveLimitBytes; most > 0;)
        {
            bool isMuch = _slots[slot].Size.IsLarge;
            if (isMuch && maySplice && connection.SpliceTarget is { } target
                && TrySplice(connection, target, out int spliced))
            {
                if (!GoesOnBehind(connection, slot, generation, spliced)) return;
                most -= Math.Min(most, (uint)spliced);
                maySplice = spliced == Duct.Bytes;
                continue;
            }

            IReceiveBuffer? own = isMuch ? connection.BulkBuffer(_largeBlock) : null;
            Span<byte> room = own is null ? default : own.Get();
            if (room.IsEmpty)
            {
                own = null;
                room = new Span<byte>(_ring.LargeBuffer, _ring.LargeBufferBytes);
            }

            int result;
            fixed (byte* buffer = room) result = _sockets.Receive(_slots[slot].Fd, buffer, room.Length);
            if (result <= 0) own?.Done(connection, default);
            if (result is -Errno.ENOBUFS or -Errno.ENOMEM && MustRest(connection, slot)) return;
            if (result is -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM) break;
            if (result <= 0)
            {
                _slots[slot].IsReady = _slots[slot].IsReadyUntilEmpty = false;
                if (result != -Errno.EAGAIN) ReceiveEnded(connection, slot, result);
                else if (NeedsReceive(slot)) StartReceive(connection);
                return;
            }

            _slots[slot].Failures = 0;
            _slots[slot].IsReady = result == room.Length || _slots[slot].IsReadyUntilEmpty;
            NoteSize(connection, slot, result);
            Span<byte> received = room[..result];
            if (own is not null)
            {
                own.Done(connection, received);
            }
            else
            {
                connection.CompleteReceive(received);
                Poison(received);
            }

            // The callback may have ended or stopped the connection.
            if (connection.Slot != slot || connection.SlotGeneration != generation || _slots[slot].IsDetaching
                || !_slots[slot].IsWanted)
                return;
            _slots[slot].Size.Report(result, connection.MuchFrom(_ring.LargeBufferBytes));
            if (!_slots[slot].IsReady)
            {
                if (NeedsReceive(slot)) StartReceive(connection);
                return;
            }

            most -= Math.Min(most, (uint)room.Length);
            maySplice = true;
        }

        ReceiveAgain(connection);
    }

    /// <summary>
    /// Moves data from one socket to the other inside the kernel. Returns false if nothing was moved; the socket may
    /// still have data.
    /// </summary>
    private bool TrySplice(Connection connection, Connection target, out int spliced)
    {
        ref UringSlot from = ref _slots[connection.Slot];
        ref UringSlot to = ref _slots[target.Slot];
        spliced = 0;
        if (from.Opening.IsUnderWay || to.Opening.IsUnderWay) return false;
        // A splice from an empty blocking socket would block the loop.
        if (!TryStopWaiting(ref from) && _sockets.CountArrived(from.Fd) < Duct.FromBytes) return false;
        bool toWaits = !TryStopWaiting(ref to);
        spliced = _duct.Pass(connection, from.Fd, target, to.Fd, toWaits);
        return spliced != 0;
    }

    /// <summary>Records a splice. Returns false if no more is to be received now.</summary>
    private bool GoesOnBehind(Connection connection, int slot, uint generation, int spliced)
    {
        if (connection.Slot != slot || connection.SlotGeneration != generation || _slots[slot].IsDetaching)
            return false;
        ref UringSlot s = ref _slots[slot];
        if (spliced < 0)
        {
            s.IsReady = s.IsReadyUntilEmpty = false;
            ReceiveEnded(connection, slot, spliced);
            return false;
        }

        s.Failures = 0;
        NoteSize(connection, slot, spliced);
        s.Size.Report(spliced, Duct.FromBytes);
        // A splice can end for other reasons than an empty socket; only a receive shows that it is empty.
        s.IsReady = true;
        return s.IsWanted;
    }

    private void ReceiveAgain(Resident resident)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        if (slot.IsAgain || slot.IsResting || slot.IsDetaching) return;
        slot.IsAgain = true;
        _again.Enqueue(MarkOf(RingOperation.ReceiveReady, resident));
    }

    private void ReceiveAgain()
    {
        for (int budget = _again.Count; budget > 0; budget--)
        {
            if (AtMark(_again.Dequeue()) is not Connection connection) continue;
            ref UringSlot slot = ref _slots[connection.Slot];
            slot.IsAgain = false;
            if (!slot.IsReady || !slot.IsWanted || slot.IsDetaching) continue;
            try
            {
                ReceiveReady(connection, connection.Slot);
            }
            catch (Exception e) when (Outlives(e))
            {
                Outlive(e, connection);
            }
        }
    }

    /// <summary>
    /// Records the size of a receive. After a number of small ones the ring receives again, as soon as the poll has
    /// ended.
    /// </summary>
    private void NoteSize(Connection connection, int slot, int bytes)
    {
        ref UringSlot s = ref _slots[slot];
        if (!s.IsLarge) return;
        s.SmallReceives = bytes < _ring.SmallReceiveBytes ? (byte)(s.SmallReceives + 1) : (byte)0;
        if (s.SmallReceives < SmallInARow) return;
        s.IsLarge = false;
        if ((s.Has & (OperationSet.ReceiveReady | OperationSet.CancelReceiveReady)) == OperationSet.ReceiveReady)
            PushCancel(connection, RingOperation.CancelReceiveReady, RingOperation.ReceiveReady);
    }

    /// <summary>
    /// Handles the end of a receive. A socket reports a reset only once, possibly to a send that completes
    /// later. The reset must then not be taken for an end of stream.
    /// </summary>
    private void ReceiveEnded(Connection connection, int slot, int result)
    {
        if (result == 0 && (_slots[slot].Has & OperationSet.Send) != 0 && _sockets.WasReset(_slots[slot].Fd))
            result = -Errno.ECONNRESET;
        if (result == 0)
        {
            _slots[slot].IsWanted = false;
            connection.CompleteReceiveEnd();
        }
        else
        {
            ReceiveFailed(connection, slot, -result);
        }
    }

    private void ReceiveFailed(Connection connection, int slot, int error)
    {
        switch (error)
        {
            case Errno.ENOBUFS or Errno.ENOMEM when MustRest(connection, slot):
                return;
            case Errno.ENOBUFS:
                Counters.ReceivesParked++;
                if (!_slots[slot].IsWanted) return;
                _slots[slot].IsParked = true;
                _parked.Enqueue(MarkOf(RingOperation.Receive, connection));
                return;
            case Errno.EAGAIN:
                // The socket was made non-blocking elsewhere; io_uring does not wait on those.
                MakeBlocking(_slots[slot].Fd);
                break;
            case Errno.ECANCELED or Errno.EINTR or Errno.ENOMEM:
                break;
            default:
                _sockets.ReceiveBroke(_slots[slot].Fd, error);
                // Unread data must be delivered first, so the error is reported when the connection reads again
                // (contract 10).
                _slots[slot].HeldError = error;
                if (!_slots[slot].IsWanted) return;
                TellHeldError(connection, slot);
                return;
        }

        if (NeedsReceive(slot)) StartReceive(connection);
    }

    /// <summary>
    /// Pauses receives after repeated failures, because retrying in every turn would keep the loop busy without
    /// progress.
    /// </summary>
    private bool MustRest(Connection connection, int slot)
    {
        if (++_slots[slot].Failures < FailuresInARow) return false;
        _slots[slot].Failures = FailuresInARow - 1;
        RestReceive(connection);
        return true;
    }

    private void RestReceive(Resident resident)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        if (slot.IsResting) return;
        slot.IsResting = true;
        _rests.Add(resident);
    }

    private void Rested(Resident resident)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        if (!slot.IsResting) return;
        slot.IsResting = false;
        if (slot.IsWanted && !slot.IsDetaching) StartReceive(resident);
    }

    private void TellHeldError(Connection connection, int slot)
    {
        if (!_slots[slot].IsWanted || _slots[slot].IsDetaching) return;
        _slots[slot].IsWanted = false;
        connection.CompleteReceiveError(_slots[slot].HeldError);
    }

    /// <summary>
    /// Starts parked receives again, oldest first, for half of the returned buffers. Each may take a buffer in the
    /// submit. If they took all of them, receives that complete in the same enter would be parked, and this would
    /// repeat.
    /// </summary>
    private void Unpark()
    {
        int budget = Math.Min(_parked.Count, Math.Max(1, _ring.BufferCount / 2));
        for (; budget > 0; budget--)
        {
            if (AtMark(_parked.Dequeue()) is not Connection connection) continue;
            _slots[connection.Slot].IsParked = false;
            if (NeedsReceive(connection.Slot)) StartReceive(connection);
        }
    }
}
