using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>Bytes out: one operation for what the queue holds at the flush. The kernel waits for room in the socket by itself.</summary>
// Safe: blocks stay in the queue until the send has completed; message and vectors are scratch of the ring, read at the submit.
internal sealed unsafe partial class UringLoop
{
    private const int MaxVectors = 64;

    internal override void StartSend(Connection connection)
    {
        Block? head = connection.SendHead;
        while (head is not null && head.Length == 0) head = head.Next;
        if (head is null)
        {
            connection.CompleteSend();
            return;
        }

        Counters.Sends++;
        SubmissionEntry entry = default;
        entry.Descriptor = _slots[connection.Slot].Fd;
        entry.OperationFlags = SocketAbi.MSG_NOSIGNAL;
        if (head.Next is null || !TryGather(head, ref entry))
        {
            entry.Opcode = UringAbi.IORING_OP_SEND;
            entry.Address = (ulong)(head.Memory + head.Start);
            entry.Length = (uint)head.Length;
        }

        Push(connection, RingOperation.Send, ref entry);
    }

    /// <summary>Describes several blocks. False when there is no memory for that now: then the first goes alone.</summary>
    private bool TryGather(Block head, ref SubmissionEntry entry)
    {
        int count = 0;
        for (Block? block = head; block is not null && count < MaxVectors; block = block.Next)
        {
            if (block.Length > 0) count++;
        }

        byte* memory = _ring.TryTakeScratch(sizeof(MessageHeader) + (count * sizeof(IoVector)));
        if (memory is null) return false;
        MessageHeader* message = (MessageHeader*)memory;
        IoVector* vectors = (IoVector*)(message + 1);
        *message = new MessageHeader { Vectors = vectors, VectorCount = (nuint)count };
        for (Block? block = head; count > 0; block = block.Next)
        {
            if (block!.Length == 0) continue;
            vectors->Base = block.Memory + block.Start;
            vectors->Length = (nuint)block.Length;
            vectors++;
            count--;
        }

        entry.Opcode = UringAbi.IORING_OP_SENDMSG;
        entry.Address = (ulong)message;
        entry.Length = 1;
        return true;
    }

    private void Sent(Connection connection, int slot, int result)
    {
        // After a cancel nothing is counted and nothing sent again: the connection discards its queue when it has closed.
        if (_slots[slot].IsDetaching) return;
        if (result < 0)
        {
            switch (-result)
            {
                case Errno.EAGAIN:
                    _ring.MakeBlocking(_slots[slot].Fd);
                    break;
                case Errno.EINTR or Errno.ENOBUFS or Errno.ENOMEM or Errno.ECANCELED:
                    break;
                default:
                    connection.FailSend(-result);
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

    internal override void FinishSend(Connection connection) => _ring.FinishSend(_slots[connection.Slot].Fd);
}
