namespace Whimbrel.Buffers;

/// <summary>A part of a file to send.</summary>
/// <param name="File">The file, on loan while this value is used.</param>
/// <param name="Offset">Offset of the first byte.</param>
/// <param name="Length">Number of bytes.</param>
internal readonly record struct FileRange(OpenFile File, long Offset, long Length)
{
    /// <summary>
    /// Maximum length of one block; longer parts use several blocks, because the lengths of blocks are 32-bit integers.
    /// </summary>
    internal const int MostInBlock = 1 << 30;

    /// <summary>
    /// Accounted size of a block of a file against the send limit: its bytes are on disk, not in memory.
    /// </summary>
    internal const int ChargeBytes = 1024;

    /// <summary>Accounted size of the whole part.</summary>
    internal long Charge => (Length / MostInBlock * ChargeBytes) + Math.Min(Length % MostInBlock, ChargeBytes);
}
