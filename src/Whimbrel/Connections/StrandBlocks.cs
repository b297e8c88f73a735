namespace Whimbrel.Connections;

/// <summary>
/// Free blocks for data that goes from one loop to the thread pool, last in first out. Any thread. Keeps at most
/// <see cref="MaxKept"/> blocks, <see cref="MaxKeptLarge"/> large ones and <see cref="MaxKeptSmall"/> small ones.
/// </summary>
internal sealed class StrandBlocks : IStrandBlockHome
{
    internal const int MaxKept = 256;
    internal const int MaxKeptLarge = 64;
    internal const int MaxKeptSmall = 4096; // a message of each of so many connections

    /// <summary>
    /// Above this number of bytes in use, each connection gets less. Otherwise the blocks of a hundred bulk connections
    /// exceed the CPU cache.
    /// </summary>
    internal const int MuchBytes = 2 * 1024 * 1024;

    private readonly Lock _gate = new();
    private StrandBlock? _free;
    private StrandBlock? _freeLarge;
    private StrandBlock? _freeSmall;
    private int _freeCount;
    private int _freeLargeCount;
    private int _freeSmallCount;
    private int _outstanding;
    private int _outstandingBytes;

    /// <summary>Number of blocks in use. Zero when all connections are gone.</summary>
    internal int Outstanding => Volatile.Read(ref _outstanding);

    /// <summary>True if blocks of more than <see cref="MuchBytes"/> are in use.</summary>
    internal bool IsMuchHeld => Volatile.Read(ref _outstandingBytes) > MuchBytes;

    /// <summary>Takes a block of <see cref="StrandBlock.Capacity"/>.</summary>
    internal StrandBlock Take() => Take(ref _free, ref _freeCount, StrandBlock.Capacity);

    /// <summary>Takes a block of <see cref="StrandBlock.LargeCapacity"/>.</summary>
    internal StrandBlock TakeLarge() => Take(ref _freeLarge, ref _freeLargeCount, StrandBlock.LargeCapacity);

    /// <summary>Takes a block of <see cref="StrandBlock.SmallCapacity"/>.</summary>
    internal StrandBlock TakeSmall() => Take(ref _freeSmall, ref _freeSmallCount, StrandBlock.SmallCapacity);

    public void Return(StrandBlock block)
    {
        block.Length = 0;
        // tidy: allowed because blocks are taken on one thread and returned on another; a few instructions
        lock (_gate)
        {
            _outstanding--;
            _outstandingBytes -= block.Bytes.Length;
            if (block.IsSmall) Keep(block, ref _freeSmall, ref _freeSmallCount, MaxKeptSmall);
            else if (block.Bytes.Length == StrandBlock.Capacity) Keep(block, ref _free, ref _freeCount, MaxKept);
            else Keep(block, ref _freeLarge, ref _freeLargeCount, MaxKeptLarge);
        }
    }

    private StrandBlock Take(ref StrandBlock? free, ref int count, int bytes)
    {
        // tidy: allowed because blocks are taken on one thread and returned on another; a few instructions
        lock (_gate)
        {
            _outstandingBytes += bytes;
            _outstanding++;
            if (free is { } block)
            {
                free = block.Next;
                count--;
                block.Next = null;
                return block;
            }
        }

        return new StrandBlock(this, bytes);
    }

    private static void Keep(StrandBlock block, ref StrandBlock? free, ref int count, int most)
    {
        if (count == most) return;
        block.Next = free;
        free = block;
        count++;
    }
}
