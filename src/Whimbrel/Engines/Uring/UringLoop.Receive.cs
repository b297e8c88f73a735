using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Bytes in. A connection has no buffer of its own: the kernel takes one of the loop's when bytes arrive. When there is none,
/// the receive ends and the connection is parked until buffers are back.
/// </summary>
// Safe: a receive buffer is read between its completion and ReturnBuffer only.
internal sealed unsafe partial class UringLoop
{
    /// <summary>After so many bytes a receive ends and is started anew: most that one connection takes before it can be paused (contract 10).</summary>
    private const uint ReceiveLimitBytes = 256 * 1024;

    // This turn had a large receive.
    private bool _receivesLarge;

    internal override void StartReceive(Resident resident)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        slot.IsWanted = true;
        if (!NeedsReceive(resident.Slot)) return;
        if (resident is not Connection)
        {
            if (resident is Listener listener) StartAccept(listener);
            else ArmReady((DatagramResident)resident);
            return;
        }

        if (slot.HeldError != 0)
        {
            // No verb calls a session: the error comes back as a completion.
            SubmissionEntry nothing = default;
            nothing.Opcode = UringAbi.IORING_OP_NOP;
            Push(resident, RingOperation.HeldError, ref nothing);
            return;
        }

        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_RECV;
        entry.Flags = UringAbi.IOSQE_BUFFER_SELECT;
        entry.Descriptor = slot.Fd;
        entry.Priority = UringAbi.IORING_RECV_MULTISHOT;
        if (_ring.CanLimitReceive) entry.TotalLength = ReceiveLimitBytes;

        Push(resident, RingOperation.Receive, ref entry);
    }

    /// <summary>Somebody wants to read, and neither a receive nor what starts one later is under way.</summary>
    private bool NeedsReceive(int slot)
    {
        ref UringSlot s = ref _slots[slot];
        // A listener polls for somebody to shed; a connection for the answer to a fast open, and receives beside it.
        const OperationSet underWay = OperationSet.Receive | OperationSet.Accept | OperationSet.Poll | OperationSet.HeldError;
        const OperationSet underWayDeferred = underWay & ~OperationSet.Poll;
        return s.IsWanted && !s.IsParked && !s.IsDetaching && (s.Has & (s.IsDeferred ? underWayDeferred : underWay)) == 0;
    }

    internal override void StopReceive(Resident resident)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        slot.IsWanted = false;
        // Not now: the kernel takes nothing before the next submit, and it may be started again until then.
        if ((slot.Has & (OperationSet.Receive | OperationSet.Accept)) != 0) _stopped.Enqueue(MarkOf(RingOperation.Receive, resident));
    }

    private void CancelStopped()
    {
        for (int budget = _stopped.Count; budget > 0; budget--)
        {
            if (AtMark(_stopped.Dequeue()) is not { } resident) continue;
            ref UringSlot slot = ref _slots[resident.Slot];
            if (slot.IsWanted || slot.IsDetaching || (slot.Has & OperationSet.CancelReceive) != 0) continue;
            if ((slot.Has & OperationSet.Receive) != 0) PushCancel(resident, RingOperation.CancelReceive, RingOperation.Receive);
            else if ((slot.Has & OperationSet.Accept) != 0) PushCancel(resident, RingOperation.CancelReceive, RingOperation.Accept);
        }
    }

    /// <summary>The resident that a mark was made for, while it is in its slot.</summary>
    private Resident? AtMark(ulong mark) =>
        ResidentAt((int)(mark >> 32) & 0xFF_FFFF) is { } resident && resident.SlotGeneration == (uint)mark ? resident : null;

    /// <summary>
    /// A cancel that found nothing came behind the end, which has its own completion. One that found the receive at work is
    /// repeated while it is still there and nobody wants it.
    /// </summary>
    private void ReceiveCancelled(int slot, Resident resident, int result)
    {
        if (result >= 0 || (_slots[slot].Has & (OperationSet.Receive | OperationSet.Accept)) == 0 || _slots[slot].IsWanted) return;
        if (!_slots[slot].IsDetaching) _stopped.Enqueue(MarkOf(RingOperation.Receive, resident));
        else PushCancel(resident, RingOperation.CancelReceive, (_slots[slot].Has & OperationSet.Receive) != 0 ? RingOperation.Receive : RingOperation.Accept);
    }

    private void Received(Connection connection, int slot, int result, uint flags)
    {
        int buffer = (flags & UringAbi.IORING_CQE_F_BUFFER) != 0 ? (int)(flags >> UringAbi.IORING_CQE_BUFFER_SHIFT) : -1;
        if (result > 0 && buffer >= 0 && !_slots[slot].IsDetaching)
        {
            if (result >= _ring.LargeReceiveBytes)
            {
                _receivesLarge = true;
                _ring.HoldBack();
            }

            uint generation = connection.SlotGeneration;
            byte* bytes = _ring.BufferAt(buffer);
            _delivering = buffer;
            connection.CompleteReceive(new ReadOnlySpan<byte>(bytes, result));
            _delivering = -1;
            if (_lends[buffer] == 0)
            {
                Poison(new Span<byte>(bytes, result));
                _ring.ReturnBuffer(buffer);
            }

            // The callback may have ended it. A receive that has not ended goes on by itself.
            if (connection.Slot == slot && connection.SlotGeneration == generation && NeedsReceive(slot)) StartReceive(connection);
            return;
        }

        if (buffer >= 0) _ring.ReturnBuffer(buffer);
        if (_slots[slot].IsDetaching) return;
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
            case Errno.ENOBUFS:
                Counters.ReceivesParked++;
                if (!_receivesLarge) _ring.OfferAll();
                if (!_slots[slot].IsWanted) return;
                _slots[slot].IsParked = true;
                _parked.Enqueue(MarkOf(RingOperation.Receive, connection));
                return;
            case Errno.EAGAIN:
                // A socket that somebody made non-blocking: io_uring does not wait on those.
                _ring.MakeBlocking(_slots[slot].Fd);
                break;
            case Errno.ECANCELED or Errno.EINTR or Errno.ENOMEM:
                break;
            default:
                // While it drains nobody else would: bytes that are still queued must not look like all of them.
                if (error != Errno.ECONNRESET) _ring.ResetOnClose(_slots[slot].Fd);
                // What the connection has not looked at yet must not go before it: told when it reads again (contract 10).
                _slots[slot].HeldError = error;
                if (!_slots[slot].IsWanted) return;
                TellHeldError(connection, slot);
                return;
        }

        if (NeedsReceive(slot)) StartReceive(connection);
    }

    private void TellHeldError(Connection connection, int slot)
    {
        if (!_slots[slot].IsWanted || _slots[slot].IsDetaching) return;
        _slots[slot].IsWanted = false;
        connection.CompleteReceiveError(_slots[slot].HeldError);
    }

    /// <summary>
    /// Buffers are back: the longest waiting receives begin again, for half of the buffers. Each may take one in the submit; if they
    /// took all, those that the same enter completes would be parked for them, and so for ever.
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
