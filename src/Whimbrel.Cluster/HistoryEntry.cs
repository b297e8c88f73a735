namespace Whimbrel.Clusters;

/// <summary>An entry of a stream.</summary>
/// <param name="Offset">Its number.</param>
/// <param name="Envelope">As appended. Not to be changed.</param>
public readonly record struct HistoryEntry(ulong Offset, ReadOnlyMemory<byte> Envelope);
