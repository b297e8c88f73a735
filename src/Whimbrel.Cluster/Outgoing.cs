namespace Whimbrel.Clusters;

/// <summary>An envelope on its way to the bus, in a buffer of the shared pool.</summary>
internal readonly record struct Outgoing(string Subject, byte[] Buffer, int Length, ulong Sequence, GroupState? Group)
{
    /// <summary>How many broadcasts are in it: none in a mark, a question or a word about presence.</summary>
    internal int Count { get; init; }

    /// <summary>When it was broadcast, by <see cref="ClusterMetrics.Now"/>, for a listener of the meter; zero when there was none.</summary>
    internal long Since { get; init; }

    internal Memory<byte> Bytes => Buffer.AsMemory(0, Length);
}
