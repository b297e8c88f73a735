using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Sending on io_uring: one operation for all data that is queued at the flush. The kernel waits for space in the
/// socket by itself. A large send with nothing queued, and a connection that is alone in the flush, use a direct call
/// instead (docs/design/0014).
/// </summary>
// Safe: blocks stay in the queue until the send has completed; message and vectors are scratch memory of the ring, read
// at the submit.
internal sealed unsafe partial class UringLoop
{
    private const int MaxVectors = 64;

    internal override void StartSend(Connection connection, bool isOffer)
    {
        if (isOffer && (connection.Outbound.IsSendInFlight || _slots[connection.Slot].Opening.IsUnderWay)) return;
        connection.Outbound.BeginSending();
        if (isOffer) SendByCalls(connection);
        else SendByRing(connection);
    }

    private void SendByRing(Connection connection)
    {
        Block? head = connection.Outbound.SendHead;
        while (head is { Length: 0 }) head = head.Next;
        if (head is null)
        {
            connection.Outbound.CompleteSend();
            return;
        }

        Counters.Sends++;
        if (head.Kind == BlockKind.File)
        {
            SendFile(connection, head);
            return;
        }

        if (IsLoneFlush && head.Next is null && TrySendAlone(connection, head)) return;
        SubmissionEntry entry = default;
        entry.Descriptor = _slots[connection.Slot].Fd;
        entry.OperationFlags = SocketAbi.MSG_NOSIGNAL;
        _slots[connection.Slot].Offered = head.Length;
        if (head.NextInMemory is null || !TryGather(connection, head, ref entry))
        {
            entry.Opcode = UringAbi.IORING_OP_SEND;
            entry.Address = (ulong)(head.Memory + head.Start);
            entry.Length = (uint)head.Length;
        }

        MakeWaiting(ref _slots[connection.Slot]);
        Push(connection, RingOperation.Send, ref entry);
    }

    /// <summary>
    /// Sends a file by a direct call, because the ring has no such operation that would not occupy a kernel thread
    /// while the socket is full. The wait for space is a poll.
    /// </summary>
    private void SendFile(Connection connection, Block file)
    {
        int slot = connection.Slot;
        long result = SendFileNow(ref _slots[slot], file);
        if (FileTransfer.MustWait(result))
        {
            _slots[slot].Offered = 0;
            PushPoll(connection, EpollAbi.EPOLLOUT, RingOperation.Send);
        }
        else if (FileTransfer.IsOfSocket(result))
        {
            FailSend(connection, (int)-result);
        }
        else
        {
            connection.Outbound.CompleteFile(result);
        }
    }

    /// <summary>
    /// Sends a file without blocking. sendfile has no flag for that, so the socket is non-blocking during the call.
    /// Operations in progress have checked the flag before, and none is submitted meanwhile.
    /// </summary>
    private long SendFileNow(ref UringSlot slot, Block file)
    {
        if (slot.DoesNotWait) return _sockets.SendFile(slot.Fd, file);
        if (_sockets.SetWaits(slot.Fd, false) is < 0 and int refused) return refused;
        long taken = _sockets.SendFile(slot.Fd, file);
        MakeBlocking(slot.Fd);
        return taken;
    }

    /// <summary>
    /// Sends a large message at once from the caller's memory, which is in the cpu cache, without a copy. The part that
    /// the socket does not take is queued, and waits for space as an operation.
    /// </summary>
    internal override int TrySend(Connection connection, ReadOnlySpan<IoVector> pieces)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        if (!TakesCalls(in slot)) return 0;
        CountDirectSend();
        int result = _sockets.Send(slot.Fd, pieces);
        long length = 0;
        foreach (IoVector piece in pieces) length += (long)piece.Length;
        slot.WasShort = result < length;
        if (SaysNothing(result)) return 0;
        if (result < 0) _sockets.SendBroke(slot.Fd, -result);
        return result;
    }

    private void FailSend(Connection connection, int error)
    {
        _sockets.SendBroke(_slots[connection.Slot].Fd, error);
        connection.Outbound.FailSend(error);
    }

    /// <summary>
    /// Sends by direct calls, one per block, until the socket is full; an operation waits for space for the rest. While
    /// an operation is in progress nothing can overtake it, and the number of bytes it has sent is known only when it
    /// completes.
    /// </summary>
    private void SendByCalls(Connection connection)
    {
        while (connection.Outbound.SendHead is { Length: > 0 } head)
        {
            if (head.Kind == BlockKind.File)
            {
                SendByRing(connection);
                return;
            }

            int slot = connection.Slot;
            Counters.Sends++;
            int length = head.Length;
            int result = _sockets.Send(_slots[slot].Fd, head.Memory + head.Start, length);
            if (result < 0 && !SaysNothing(result))
            {
                FailSend(connection, -result);
                return;
            }

            if (result > 0) connection.Outbound.AdvanceSend(result);
            _slots[slot].WasShort = result < length;
            if (result == length) continue;
            SendByRing(connection);
            return;
        }

        connection.Outbound.CompleteSend();
    }

    /// <summary>True if the peer has answered, and the last send was taken completely.</summary>
    private static bool TakesCalls(in UringSlot slot) => !slot.Opening.IsUnderWay && !slot.WasShort;

    /// <summary>
    /// True if there is no space, or for an error that does not concern the connection: the operation will show the
    /// result.
    /// </summary>
    private static bool SaysNothing(int result) =>
        result is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM;

    /// <summary>
    /// Sends by a direct call, because the completion of a single operation would end the next wait, at the cost of a
    /// turn and an enter. Returns false if the socket is full or the result is uncertain.
    /// </summary>
    private bool TrySendAlone(Connection connection, Block head)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        if (!TakesCalls(in slot)) return false;
        int result = _sockets.Send(slot.Fd, head.Memory + head.Start, head.Length);
        if (SaysNothing(result)) return false;
        slot.Offered = head.Length;
        Sent(connection, connection.Slot, result);
        return true;
    }

    /// <summary>
    /// Describes several blocks. Returns false if there is no memory for that now; then the first block is sent alone.
    /// </summary>
    private bool TryGather(Connection connection, Block head, ref SubmissionEntry entry)
    {
        int count = 0;
        for (Block? block = head; block is not null && count < MaxVectors; block = block.NextInMemory)
        {
            if (block.Length > 0) count++;
        }

        byte* memory = _ring.TryTakeScratch(sizeof(MessageHeader) + (count * sizeof(IoVector)));
        if (memory is null) return false;
        MessageHeader* message = (MessageHeader*)memory;
        IoVector* vectors = (IoVector*)(message + 1);
        *message = new MessageHeader { Vectors = vectors, VectorCount = (nuint)count };
        long offered = 0;
        for (Block? block = head; count > 0; block = block.Next)
        {
            if (block!.Length == 0) continue;
            offered += block.Length;
            vectors->Base = block.Memory + block.Start;
            vectors->Length = (nuint)block.Length;
            vectors++;
            count--;
        }

        _slots[connection.Slot].Offered = offered;
        entry.Opcode = UringAbi.IORING_OP_SENDMSG;
        entry.Address = (ulong)message;
        entry.Length = 1;
        return true;
    }

    private void Sent(Connection connection, int slot, int result)
    {
        // After a cancel nothing is counted and nothing is sent again: the connection discards its queue when it has
        // closed.
        if (_slots[slot].IsDetaching) return;
        if (_slots[slot].Offered == 0)
        {
            // A part of a file waited for space.
            connection.Outbound.CompleteSend();
            return;
        }

        _slots[slot].WasShort = result < _slots[slot].Offered;
        if (result < 0)
        {
            switch (-result)
            {
                case Errno.EAGAIN:
                    MakeBlocking(_slots[slot].Fd);
                    break;
                case Errno.EINTR or Errno.ENOBUFS or Errno.ENOMEM or Errno.ECANCELED:
                case Errno.EINPROGRESS: // a fast open that became a normal connect and took no bytes
                    break;
                default:
                    FailSend(connection, -result);
                    return;
            }
        }
        else if (result > 0)
        {
            connection.Outbound.AdvanceSend(result);
        }

        // The rest is sent at the next flush, with messages queued meanwhile.
        connection.Outbound.CompleteSend();
    }

    internal override void ShutdownSend(Connection connection)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        slot.Opening.ShutdownSend(_sockets, slot.Fd);
    }
}
