namespace Whimbrel.Connections;

/// <summary>
/// The blocks that go between one loop and the thread pool, last in first out. Any thread. Keeps at most <see cref="MaxKept"/> free ones, and <see cref="MaxKeptLarge"/>
/// large ones.
/// </summary>
internal sealed class StrandBlocks : IStrandBlockHome
{
    internal const int MaxKept = 256;
    internal const int MaxKeptLarge = 64;

    /// <summary>Above so much that is held, each connection has to do with less: a hundred of them in bulk would use more memory than a cache has.</summary>
    internal const int MuchBytes = 2 * 1024 * 1024;

    private readonly Lock _gate = new();
    private StrandBlock? _free;
    private StrandBlock? _freeLarge;
    private int _freeCount;
    private int _freeLargeCount;
    private int _outstanding;
    private int _outstandingBytes;

    /// <summary>Blocks that somebody holds now. Zero when all connections are gone.</summary>
    internal int Outstanding => Volatile.Read(ref _outstanding);

    /// <summary>Blocks of more than <see cref="MuchBytes"/> are held.</summary>
    internal bool IsMuchHeld => Volatile.Read(ref _outstandingBytes) > MuchBytes;

    /// <summary>One of <see cref="StrandBlock.Capacity"/>.</summary>
    internal StrandBlock Take()
    {
        // tidy: allowed because blocks are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate)
            return Take(ref _free, ref _freeCount, StrandBlock.Capacity) ?? new StrandBlock(this, StrandBlock.Capacity);
    }

    /// <summary>One of <see cref="StrandBlock.LargeCapacity"/>.</summary>
    internal StrandBlock TakeLarge()
    {
        // tidy: allowed because blocks are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate)
            return Take(ref _freeLarge, ref _freeLargeCount, StrandBlock.LargeCapacity)
                ?? new StrandBlock(this, StrandBlock.LargeCapacity);
    }

    public void Return(StrandBlock block)
    {
        block.Length = 0;
        // tidy: allowed because blocks are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate)
        {
            _outstanding--;
            _outstandingBytes -= block.Bytes.Length;
            if (block.Bytes.Length == StrandBlock.Capacity) Keep(block, ref _free, ref _freeCount, MaxKept);
            else Keep(block, ref _freeLarge, ref _freeLargeCount, MaxKeptLarge);
        }
    }

    private StrandBlock? Take(ref StrandBlock? free, ref int count, int bytes)
    {
        _outstandingBytes += bytes;
        _outstanding++;
        if (free is not { } block) return null;
        free = block.Next;
        count--;
        block.Next = null;
        return block;
    }

    private static void Keep(StrandBlock block, ref StrandBlock? free, ref int count, int most)
    {
        if (count == most) return;
        block.Next = free;
        free = block;
        count++;
    }
}
