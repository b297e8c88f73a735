namespace Whimbrel.Tool;

/// <summary>Counter with a cell per loop, so that no cache line moves between cores.</summary>
internal sealed class Tally
{
    private readonly Cell[] _cells;

    internal Tally(int loops) => _cells = [.. Enumerable.Range(0, loops).Select(static _ => new Cell())];

    /// <summary>Sum of all cells, slightly old. Any thread.</summary>
    internal long Total => _cells.Sum(static c => c.Count);

    internal Cell Of(Loop loop) => _cells[loop.Index];

    internal sealed class Cell
    {
        // The number is in the middle of two cache lines.
        private readonly long[] _padded = new long[32];

        internal long Count => Volatile.Read(ref _padded[16]);

        /// <summary>Adds to the cell. On its loop only.</summary>
        internal void Add(long count) => Volatile.Write(ref _padded[16], _padded[16] + count);
    }
}
