namespace Whimbrel.Tool.Bench;

/// <summary>
/// Content of all messages: pieces of one table of random bytes. The connection and the number of a message select the
/// piece, so that a byte that is wrong, lost, repeated or of another connection is noticed.
/// </summary>
internal sealed class Payload
{
    // A prime, so that messages of a usual size repeat late.
    private const int TableBytes = 1_000_003;

    /// <summary>Longest piece that is compared at once.</summary>
    internal const int ChunkBytes = 64 * 1024;

    private readonly byte[] _table;

    internal Payload(int sizeBytes)
    {
        SizeBytes = sizeBytes;
        _table = new byte[TableBytes + Math.Max(sizeBytes, ChunkBytes)];
        Random random = new(1);
        random.NextBytes(_table.AsSpan(0, TableBytes));
        _table.AsSpan(0, _table.Length - TableBytes).CopyTo(_table.AsSpan(TableBytes));
    }

    internal int SizeBytes { get; }

    /// <summary>Returns the bytes of one message.</summary>
    internal ReadOnlySpan<byte> Message(int key, long number) => Stream(key, number * SizeBytes, SizeBytes);

    /// <summary>Returns a part of all messages of a connection, one after the other.</summary>
    /// <param name="key">Number of the connection.</param>
    /// <param name="position">Position of the first byte.</param>
    /// <param name="count">Number of bytes, at most <see cref="ChunkBytes"/> or one message.</param>
    internal ReadOnlySpan<byte> Stream(int key, long position, int count) =>
        _table.AsSpan((int)((key * 7919L + position) % TableBytes), count);
}
