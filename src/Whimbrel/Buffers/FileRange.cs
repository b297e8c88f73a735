namespace Whimbrel.Buffers;

/// <summary>A part of a file that is to be sent.</summary>
/// <param name="File">On loan for as long as somebody has this.</param>
/// <param name="Offset">Where it begins.</param>
/// <param name="Length">Bytes.</param>
internal readonly record struct FileRange(OpenFile File, long Offset, long Length)
{
    /// <summary>More is queued as several blocks, whose lengths are whole numbers of 32 bits.</summary>
    internal const int MostInBlock = 1 << 30;

    /// <summary>What a block of a file counts as against the limit: it has its bytes on disk, and not in memory.</summary>
    internal const int ChargeBytes = 1024;

    /// <summary>What all of it counts as.</summary>
    internal long Charge => (Length / MostInBlock * ChargeBytes) + Math.Min(Length % MostInBlock, ChargeBytes);
}
