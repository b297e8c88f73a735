namespace Whimbrel.Tool;

/// <summary>A count that every loop adds to in a cell of its own, so that no cache line moves between cores.</summary>
internal sealed class Tally
{
    private readonly Cell[] _cells;

    internal Tally(int loops) => _cells = [.. Enumerable.Range(0, loops).Select(static _ => new Cell())];

    /// <summary>Any thread; a moment old.</summary>
    internal long Total => _cells.Sum(static c => c.Count);

    internal Cell Of(Loop loop) => _cells[loop.Index];

    internal sealed class Cell
    {
        // The number stands in the middle of two lines' worth of memory.
        private readonly long[] _padded = new long[32];

        internal long Count => Volatile.Read(ref _padded[16]);

        /// <summary>The cell's loop only.</summary>
        internal void Add(long count) => Volatile.Write(ref _padded[16], _padded[16] + count);
    }
}
