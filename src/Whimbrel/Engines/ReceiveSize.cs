namespace Whimbrel.Engines;

/// <summary>
/// Whether a connection is received into the <see cref="LargeBlock"/> of its loop or a block for the pool, or is spliced: from the first receive on that brought
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
    /// <param name="enough">So many at a time are much.</param>
    /// <param name="takesLarge">It may be received in another way then.</param>
    internal void Note(int bytes, int enough, bool takesLarge)
    {
        _small = bytes < SmallBytes ? (byte)(_small + 1) : (byte)0;
        IsLarge = (bytes >= enough && takesLarge) || (IsLarge && bytes < enough && _small < SmallInARow);
    }
}
