namespace Whimbrel.Engines;

/// <summary>
/// Whether a connection is received into the <c>LargeBlock</c> of its loop or a block for the pool, or is spliced: from the first receive on that brought
/// enough for it, where it may be, until little comes at a time. Engine data of one connection.
/// </summary>
internal struct ReceiveSize
{
    /// <summary>A receive of fewer bytes is a small one; so many of those in a row, and the block of the others will do.</summary>
    private const int SmallBytes = 4 * 1024;
    private const byte SmallInARow = 16;

    private byte _small;

    internal bool IsLarge { get; private set; }

    /// <summary>After a receive that the connection has outlived.</summary>
    /// <param name="bytes">How many it brought.</param>
    /// <param name="enough">So many at a time are much, and are received in another way from then on.</param>
    internal void Report(int bytes, int enough)
    {
        _small = bytes < SmallBytes ? (byte)(_small + 1) : (byte)0;
        IsLarge = bytes >= enough || (IsLarge && _small < SmallInARow);
    }
}
