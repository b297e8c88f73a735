namespace Whimbrel.Buffers;

/// <summary>
/// The free blocks of all writers of the process, last in first out. Any thread; used for long messages only, because a
/// writer keeps its first block. Keeps at most <see cref="MaxKept"/> of each kind.
/// </summary>
internal static class WriterBlocks
{
    internal const int MaxKept = 256;

    private static readonly Lock s_gate = new();
    private static WriterBlock? s_free;
    private static WriterBlock? s_freeRented; // without memory
    private static int s_freeCount;
    private static int s_freeRentedCount;
    private static int s_outstanding;

    /// <summary>Number of blocks in use by writers and queues, including those of lost writers.</summary>
    internal static int Outstanding => Volatile.Read(ref s_outstanding);

    /// <summary>Takes an empty block with this minimum size.</summary>
    internal static WriterBlock Take(int least)
    {
        bool isRented = least > WriterBlock.Capacity;
        WriterBlock? block;
        // tidy: allowed because blocks are taken on one thread and returned on another; a few instructions, never
        // nested
        lock (s_gate)
        {
            s_outstanding++;
            block = isRented ? s_freeRented : s_free;
            if (block is not null && isRented)
            {
                s_freeRented = block.NextBlock;
                s_freeRentedCount--;
            }
            else if (block is not null)
            {
                s_free = block.NextBlock;
                s_freeCount--;
            }
        }

        // Allocated as pinned, so that pinning it for a send costs nothing.
        block ??= new WriterBlock(
            isRented ? null : GC.AllocateUninitializedArray<byte>(WriterBlock.Capacity, pinned: true));
        block.NextBlock = null;
        if (isRented) block.Rent(least);
        return block;
    }

    /// <summary>Returns a block and the blocks that follow it.</summary>
    internal static void Return(WriterBlock? first)
    {
        while (first is { } block)
        {
            first = block.NextBlock;
            block.Length = 0;
            block.SetPlace(0);
            if (block.IsRented) block.GiveBackRented();
            // tidy: allowed because blocks are taken on one thread and returned on another; a few instructions, never
            // nested
            lock (s_gate)
            {
                s_outstanding--;
                block.NextBlock = null;
                if (block.IsRented && s_freeRentedCount < MaxKept)
                {
                    block.NextBlock = s_freeRented;
                    s_freeRented = block;
                    s_freeRentedCount++;
                }
                else if (!block.IsRented && s_freeCount < MaxKept)
                {
                    block.NextBlock = s_free;
                    s_free = block;
                    s_freeCount++;
                }
            }
        }
    }
}
