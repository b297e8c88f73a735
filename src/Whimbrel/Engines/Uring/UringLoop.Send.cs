using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Bytes out: one operation for what the queue holds at the flush. The kernel waits for room in the socket by itself. A large send
/// with nothing queued, and a connection that is alone in the flush, go by a call instead (docs/design/0014).
/// </summary>
// Safe: blocks stay in the queue until the send has completed; message and vectors are scratch of the ring, read at the submit.
internal sealed unsafe partial class UringLoop
{
    private const int MaxVectors = 64;

    internal override void StartSend(Connection connection)
    {
        Block? head = connection.SendHead;
        while (head is { Length: 0 }) head = head.Next;
        if (head is null)
        {
            connection.CompleteSend();
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

    /// <summary>By a call: the ring has no operation for it that would not hold a thread of the kernel while the socket is full. That is waited for here.</summary>
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
            connection.CompleteFile(result);
        }
    }

    /// <summary>
    /// sendfile has no flag that says not to wait, so the socket does not wait for the length of the call. Operations under way have
    /// asked before, and none is handed over meanwhile.
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
    /// A large send goes at once, out of the caller's memory: what it holds is in the cache now, and nothing is copied. What the socket
    /// does not take is queued, and waits for room as an operation.
    /// </summary>
    internal override int TrySendNow(Connection connection, ReadOnlySpan<IoVector> pieces)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        if (!TakesCalls(in slot)) return 0;
        Counters.Sends++;
        int result;
        fixed (IoVector* vectors = pieces)
        {
            result = pieces.Length == 1
                ? _sockets.Send(slot.Fd, vectors->Base, (int)vectors->Length)
                : _sockets.Send(slot.Fd, vectors, pieces.Length);
        }

        long length = 0;
        foreach (IoVector piece in pieces) length += (long)piece.Length;
        slot.WasShort = result < length;
        if (result >= 0) return result;
        if (SaysNothing(result)) return 0;
        FailSend(connection, -result);
        return 0;
    }

    internal override bool StrandsSend => true;

    internal override int SendForStrand(Connection connection, IoVector* pieces, int count, int length)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        if (!TakesCalls(in slot)) return 0;
        Interlocked.Increment(ref Counters.SendsOfStrands);
        int result = count == 1 ? _sockets.Send(slot.Fd, pieces->Base, length) : _sockets.Send(slot.Fd, pieces, count);
        slot.WasShort = result < length;
        return SaysNothing(result) ? 0 : result;
    }

    internal override void StrandSendFailed(Connection connection, int error) => FailSend(connection, error);

    private void FailSend(Connection connection, int error)
    {
        _sockets.SendBroke(_slots[connection.Slot].Fd, error);
        connection.FailSend(error);
    }

    /// <summary>
    /// By calls, block for block, until the socket takes no more; the rest waits for room as an operation. While an operation is under way
    /// nothing can pass it, and how much it has sent is known when it completes only.
    /// </summary>
    internal override void OfferSend(Connection connection)
    {
        if (connection.IsSendInFlight || _slots[connection.Slot].Opening.IsUnderWay) return;
        connection.BeginSending();
        while (connection.SendHead is { Length: > 0 } head)
        {
            if (head.Kind == BlockKind.File)
            {
                StartSend(connection);
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

            if (result > 0) connection.AdvanceSend(result);
            _slots[slot].WasShort = result < length;
            if (result == length) continue;
            StartSend(connection);
            return;
        }

        connection.CompleteSend();
    }

    /// <summary>Its peer has answered, and the last send was taken whole.</summary>
    private static bool TakesCalls(in UringSlot slot) => !slot.Opening.IsUnderWay && !slot.WasShort;

    /// <summary>No room, or an error that is not about the connection: the operation finds out.</summary>
    private static bool SaysNothing(int result) => result is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM;

    /// <summary>
    /// The completion of an operation that goes alone would end the wait for what comes next: a turn and an enter for nothing.
    /// False when it has to wait, and when the system says nothing for certain.
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

    /// <summary>Describes several blocks. False when there is no memory for that now: then the first goes alone.</summary>
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
        // After a cancel nothing is counted and nothing sent again: the connection discards its queue when it has closed.
        if (_slots[slot].IsDetaching) return;
        if (_slots[slot].Offered == 0)
        {
            // A part of a file waited for room.
            connection.CompleteSend();
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
                case Errno.EINPROGRESS: // a fast open that turned into a plain one and took no bytes
                    break;
                default:
                    FailSend(connection, -result);
                    return;
            }
        }
        else if (result > 0)
        {
            connection.AdvanceSend(result);
        }

        // What is left goes with what was queued meanwhile, at the next flush.
        connection.CompleteSend();
    }

    internal override void ShutdownSend(Connection connection)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        slot.Opening.ShutdownSend(_sockets, slot.Fd);
    }
}
