namespace Whimbrel.Clusters;

/// <summary>What was read of a stream, and how it stood then.</summary>
/// <param name="Epoch">Of the stream; never 0.</param>
/// <param name="First">Offset of the oldest entry that is kept; one behind the last when none is.</param>
/// <param name="Last">Offset of the newest entry there ever was in this epoch; 0 when there was none.</param>
/// <param name="Entries">By offset, without a hole, from the one that was asked for or the oldest that is kept.</param>
public sealed record HistoryPage(ulong Epoch, ulong First, ulong Last, IReadOnlyList<HistoryEntry> Entries);
