using System.Buffers;
using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>Messages of a <see cref="MessageWriter"/> that are longer than one block: the queue takes the blocks themselves.</summary>
internal sealed partial class Connection
{
    /// <param name="first">With those behind it: all of the message. Ours with <see cref="SendResult.Queued"/>.</param>
    /// <param name="length">Of all of them.</param>
    /// <param name="generation">The caller's.</param>
    internal SendResult SendWritten(WriterBlock first, int length, uint generation)
    {
        if (IsRefused(length, generation)) return SendResult.Refused;
        if (!Loop.IsCurrent) return SendOwnedForeign(default, first, 0, length, generation);
        SendResult result = Admit(length, generation);
        if (result == SendResult.Queued) EnqueueWritten(first, length);
        return result;
    }

    /// <summary>The message was admitted.</summary>
    private void EnqueueWritten(WriterBlock first, int length)
    {
        SettleStrand();
        for (WriterBlock? block = first, next; block is not null; block = next)
        {
            next = block.NextBlock;
            block.NextBlock = null;
            if (block.Length < ByReferenceBytes)
            {
                // As with small memory of others: it would cost the sends around it a block each.
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

    /// <summary>Memory that another thread has sent, and that is sent from here on.</summary>
    private void EnqueueDrained(IMemoryOwner<byte> owner, int offset, int length)
    {
        if (owner is WriterBlock first) EnqueueWritten(first, length);
        else EnqueueOwned(default, owner, owner.Memory.Slice(offset, length));
    }
}
