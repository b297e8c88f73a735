using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Bytes out: one operation for what the queue holds at the flush. The kernel waits for room in the socket by itself. A connection
/// that is alone in the flush sends by a call instead (docs/design/0014).
/// </summary>
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
        if (IsLoneFlush && head.Next is null && TrySendAlone(connection, head)) return;
        SubmissionEntry entry = default;
        entry.Descriptor = _slots[connection.Slot].Fd;
        entry.OperationFlags = SocketAbi.MSG_NOSIGNAL;
        _slots[connection.Slot].Offered = head.Length;
        if (head.Next is null || !TryGather(connection, head, ref entry))
        {
            entry.Opcode = UringAbi.IORING_OP_SEND;
            entry.Address = (ulong)(head.Memory + head.Start);
            entry.Length = (uint)head.Length;
        }

        Push(connection, RingOperation.Send, ref entry);
    }

    /// <summary>
    /// The completion of an operation that goes alone would end the wait for what comes next: a turn and an enter for nothing.
    /// False when it has to wait, and when the system says nothing for certain.
    /// </summary>
    private bool TrySendAlone(Connection connection, Block head)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        if (slot.IsDeferred || slot.WasShort) return false;
        int result = _ring.SendNow(slot.Fd, head.Memory + head.Start, head.Length);
        if (result is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM) return false;
        slot.Offered = head.Length;
        Sent(connection, connection.Slot, result);
        return true;
    }

    /// <summary>Describes several blocks. False when there is no memory for that now: then the first goes alone.</summary>
    private bool TryGather(Connection connection, Block head, ref SubmissionEntry entry)
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
        _slots[slot].WasShort = result < _slots[slot].Offered;
        if (result < 0)
        {
            switch (-result)
            {
                case Errno.EAGAIN:
                    _ring.MakeBlocking(_slots[slot].Fd);
                    break;
                case Errno.EINTR or Errno.ENOBUFS or Errno.ENOMEM or Errno.ECANCELED:
                case Errno.EINPROGRESS: // a fast open that turned into a plain one and took no bytes
                    break;
                default:
                    SendBroke(slot, -result);
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

    /// <summary>
    /// The end comes after what the peer still sent. After an error that is not the connection's own the socket may live on:
    /// then its end must not wait for the peer, nor look to it like the end of all bytes.
    /// </summary>
    private void SendBroke(int slot, int error)
    {
        if (error is Errno.EPIPE or Errno.ECONNRESET) return;
        _ring.ResetOnClose(_slots[slot].Fd);
        _ring.FinishReceive(_slots[slot].Fd);
    }

    internal override void FinishSend(Connection connection)
    {
        ref UringSlot slot = ref _slots[connection.Slot];
        if (slot.IsDeferred) slot.FinishesLater = true;
        else _ring.FinishSend(slot.Fd);
    }

    // ------------------------------------------------------------------ lending receive buffers

    // Blocks that hold a buffer, by buffer; and how many buffers are held.
    private byte[] _lends = [];
    private int _lentBuffers;

    // Tells the buffers of a ring that was given up from those of the next.
    private int _ringNumber;

    // The buffer that is being delivered, or -1.
    private int _delivering = -1;

    /// <summary>
    /// A quarter of the buffers at most, which is half of those that are offered while receives are large (docs/design/0014), and none
    /// for a connection whose peer does not take all at once: whoever does not read must not hold what the others receive into.
    /// </summary>
    internal override Block? TryLend(Connection connection, ReadOnlySpan<byte> data)
    {
        int buffer = _delivering;
        if (buffer < 0 || _slots[connection.Slot].WasShort) return null;
        fixed (byte* bytes = data)
        {
            if (!_ring.IsIn(buffer, bytes, data.Length)) return null;
            if (_lends[buffer] == byte.MaxValue || (_lends[buffer] == 0 && _lentBuffers >= _ring.BufferCount / 4)) return null;
            if (_lends[buffer]++ == 0) _lentBuffers++;
            return Blocks.TakeLent(bytes, data.Length, buffer | (_ringNumber << 8));
        }
    }

    /// <summary>A block that held a buffer is returned.</summary>
    private void TakeBack(int mark)
    {
        // Of a ring that was given up: its memory stays, its buffers are nobody's.
        if (mark >> 8 != _ringNumber) return;
        int buffer = mark & 0xFF;
        if (--_lends[buffer] > 0) return;
        _lentBuffers--;
        if (buffer != _delivering) _ring.ReturnBuffer(buffer);
    }
}
