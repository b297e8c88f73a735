namespace Whimbrel.Clusters;

/// <summary>An entry of a stream.</summary>
/// <param name="Offset">Offset in the stream.</param>
/// <param name="Envelope">Bytes as appended. Must not be modified.</param>
public readonly record struct HistoryEntry(ulong Offset, ReadOnlyMemory<byte> Envelope);
