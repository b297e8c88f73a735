namespace Whimbrel.Engines;

/// <summary>
/// Selects the receive buffer of a connection. After a receive of enough data it uses the loop's <c>LargeBlock</c>, a
/// block for the pool, or splice, where allowed, until a number of small receives follow each other. Engine data of one
/// connection.
/// </summary>
internal struct ReceiveSize
{
    /// <summary>
    /// A receive of fewer bytes is small. After this many small ones in a row, the shared block is used again.
    /// </summary>
    private const int SmallBytes = 4 * 1024;
    private const byte SmallInARow = 16;

    private byte _small;

    internal bool IsLarge { get; private set; }

    /// <summary>Records a receive. Called only if the connection still has its slot.</summary>
    /// <param name="bytes">Number of bytes received.</param>
    /// <param name="enough">Number of bytes from which the connection receives in the other way.</param>
    internal void Report(int bytes, int enough)
    {
        _small = bytes < SmallBytes ? (byte)(_small + 1) : (byte)0;
        IsLarge = bytes >= enough || (IsLarge && _small < SmallInARow);
    }
}
