namespace Whimbrel.Clusters;

/// <summary>Entries read from a stream, and its state at that time.</summary>
/// <param name="Epoch">Epoch of the stream; never 0.</param>
/// <param name="First">Offset of the oldest kept entry; <paramref name="Last"/> plus 1 if there is none.</param>
/// <param name="Last">Offset of the last entry appended in this epoch; 0 if there was none.</param>
/// <param name="Entries">Entries by offset, without gaps, starting at the requested or the oldest kept one.</param>
public sealed record HistoryPage(ulong Epoch, ulong First, ulong Last, IReadOnlyList<HistoryEntry> Entries);
