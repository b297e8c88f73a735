namespace Whimbrel.Connections;

/// <summary>The blocks that go between one loop and the thread pool, last in first out. Any thread. Keeps at most <see cref="MaxKept"/> free ones.</summary>
internal sealed class StrandBlocks
{
    internal const int MaxKept = 256;

    private readonly Lock _gate = new();
    private StrandBlock? _free;
    private int _freeCount;
    private int _outstanding;

    /// <summary>Blocks that somebody holds now. Zero when all connections are gone.</summary>
    internal int Outstanding => Volatile.Read(ref _outstanding);

    internal StrandBlock Take()
    {
        // tidy: allowed because blocks are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate)
        {
            _outstanding++;
            if (_free is not { } block) return new StrandBlock(this);
            _free = block.Next;
            _freeCount--;
            block.Next = null;
            return block;
        }
    }

    internal void Return(StrandBlock block)
    {
        block.Length = 0;
        block.Messages = 0;
        // tidy: allowed because blocks are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate)
        {
            _outstanding--;
            if (_freeCount == MaxKept) return;
            block.Next = _free;
            _free = block;
            _freeCount++;
        }
    }
}
