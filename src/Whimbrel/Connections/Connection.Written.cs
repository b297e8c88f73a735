using System.Buffers;
using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// Messages of a <see cref="MessageWriter"/> that are longer than one block: the queue takes the blocks themselves.
/// </summary>
internal sealed partial class Connection
{
    /// <param name="first">First block of the message, linked to the others. Owned by the connection if the result is
    /// <see cref="SendResult.Queued"/>.</param>
    /// <param name="length">Total number of bytes of all blocks.</param>
    /// <param name="generation">Generation of the caller's session.</param>
    internal SendResult SendWritten(WriterBlock first, int length, uint generation)
    {
        if (IsRefused(length, generation)) return SendResult.Refused;
        if (!Loop.IsCurrent) return SendOwnedForeign(default, first, 0, length, generation);
        SendResult result = Admit(length, generation);
        if (result == SendResult.Queued) EnqueueWritten(first, length);
        return result;
    }

    /// <summary>Queues an admitted message.</summary>
    private void EnqueueWritten(WriterBlock first, int length)
    {
        SettleStrand();
        for (WriterBlock? block = first, next; block is not null; block = next)
        {
            next = block.NextBlock;
            block.NextBlock = null;
            if (block.Length < ByReferenceBytes)
            {
                // Copied like other small memory, because a separate block would split the fill blocks of neighbouring
                // sends.
                Append(block.Written);
                block.Dispose();
            }
            else
            {
                _queue.Enqueue(Loop.Blocks.TakeOwned(block, ((IMemoryOwner<byte>)block).Memory, block.Length));
            }
        }

        CountMessage(length);
        MarkDirty();
    }

    /// <summary>Queues memory that another thread has sent.</summary>
    private void EnqueueDrained(IMemoryOwner<byte> owner, int offset, int length)
    {
        if (owner is WriterBlock first) EnqueueWritten(first, length);
        else EnqueueOwned(default, owner, owner.Memory.Slice(offset, length));
    }
}
