namespace Whimbrel.Buffers;

/// <summary>
/// Blocks of 4 KiB that are taken on a loop and given back on any thread, or the other way round: what the pipes of one loop's connections show and write. Last in first
/// out. The shared pool of the framework keeps 32 of a size for each cpu, and a turn may bring bytes for more connections.
/// </summary>
internal sealed class SmallBlocks
{
    internal const int Length = 4096;

    /// <summary>4 MiB; what comes above it is the collector's.</summary>
    internal const int MostKept = 1024;

    private readonly Lock _gate = new();
    private byte[][] _free = new byte[16][];
    private int _count;

    internal byte[] Take()
    {
        // tidy: allowed because blocks are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate)
        {
            if (_count > 0) return _free[--_count];
        }

        return GC.AllocateUninitializedArray<byte>(Length);
    }

    internal void Return(byte[] block)
    {
        // tidy: allowed because blocks are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate)
        {
            if (_count == MostKept) return;
            if (_count == _free.Length) Array.Resize(ref _free, _count * 2);
            _free[_count++] = block;
        }
    }
}
