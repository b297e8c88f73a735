using System.Diagnostics;

namespace Whimbrel.Buffers;

/// <summary>
/// Blocks in the order in which they are sent: plaintext, or what is on its way to the wire. Whoever has the queue owns the blocks
/// in it, and gives back those that come out of it. One thread.
/// </summary>
internal struct BlockQueue
{
    /// <summary>The block that is sent first; null when there is none.</summary>
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

    /// <summary>Puts a block in front of all others.</summary>
    internal void Push(Block block)
    {
        Debug.Assert(block.Next is null && !ReferenceEquals(block, Tail), "a block is in one queue at a time");
        block.Next = Head;
        Head = block;
        Tail ??= block;
    }

    /// <summary>Takes the first block out, sent or not. It is the caller's.</summary>
    internal Block Dequeue()
    {
        Block block = Head!;
        Head = block.Next;
        if (Head is null) Tail = null;
        block.Next = null;
        return block;
    }

    /// <summary>
    /// So many bytes from the head were sent: goes on by one block at most and lowers the count by what that had. A block of which
    /// nothing is left comes out, for the caller to give back.
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
