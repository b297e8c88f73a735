namespace Whimbrel.Engines;

/// <summary>
/// Whether a connection is received into the <see cref="LargeBlock"/> of its loop: from the first full block on, where a session gets the bytes as they lie
/// there, until little comes at a time. Engine data of one connection.
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
    /// <param name="room">So many have room in the block that is not the large one.</param>
    /// <param name="takesLarge">Its session may be given more at a time.</param>
    internal void Note(int bytes, int room, bool takesLarge)
    {
        _small = bytes < SmallBytes ? (byte)(_small + 1) : (byte)0;
        IsLarge = (bytes >= room && takesLarge) || (IsLarge && bytes < room && _small < SmallInARow);
    }
}
