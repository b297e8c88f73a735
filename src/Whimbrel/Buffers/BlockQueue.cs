using System.Diagnostics;

namespace Whimbrel.Buffers;

/// <summary>
/// Blocks in sending order: plaintext, or bytes for the wire. The owner of the queue owns its blocks, and returns those
/// that are removed. One thread.
/// </summary>
internal struct BlockQueue
{
    /// <summary>The block that is sent first, or null.</summary>
    internal Block? Head { readonly get; private set; }

    internal Block? Tail { readonly get; private set; }

    internal readonly bool IsEmpty => Head is null;

    internal void Enqueue(Block block)
    {
        Debug.Assert(block.Next is null && !ReferenceEquals(block, Tail), "a block is in one queue at a time");
        if (Tail is null) Head = block;
        else Tail.Next = block;
        Tail = block;
    }

    /// <summary>Adds a block before all others.</summary>
    internal void Push(Block block)
    {
        Debug.Assert(block.Next is null && !ReferenceEquals(block, Tail), "a block is in one queue at a time");
        block.Next = Head;
        Head = block;
        Tail ??= block;
    }

    /// <summary>Removes the first block, sent or not. The caller owns it.</summary>
    internal Block Dequeue()
    {
        Block block = Head!;
        Head = block.Next;
        if (Head is null) Tail = null;
        block.Next = null;
        return block;
    }

    /// <summary>
    /// Marks bytes from the head as sent: at most one block per call, and lowers the count by its bytes. Returns a
    /// completely sent block, which the caller must return to the pool.
    /// </summary>
    internal Block? Advance(ref long count)
    {
        Debug.Assert(count > 0 && Head is not null, "more was sent than was queued");
        Block block = Head!;
        int part = (int)Math.Min(count, block.Length);
        block.Start += part;
        count -= part;
        return block.Length == 0 ? Dequeue() : null;
    }
}
