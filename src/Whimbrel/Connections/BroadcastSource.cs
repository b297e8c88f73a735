namespace Whimbrel.Connections;

/// <summary>The data of <see cref="BroadcastData"/>, for a broadcast that waits for space.</summary>
internal readonly record struct BroadcastSource(ReadOnlyMemory<byte> Bytes, int[]? Forms = null,
    SharedBytes? Shared = null, int Offset = 0)
{
    internal BroadcastData Data => Shared is { } shared ? new(shared, Offset, Bytes.Length) : new(Bytes.Span, Forms);
}
