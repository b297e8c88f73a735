namespace Whimbrel.Clusters;

/// <summary>An envelope on its way to the bus, in a buffer of the shared pool.</summary>
internal readonly record struct Outgoing(string Subject, byte[] Buffer, int Length, ulong Sequence, GroupState? Group)
{
    /// <summary>When it was broadcast, by <see cref="ClusterMetrics.Now"/>, for a listener of the meter; zero when there was none.</summary>
    internal long Since { get; init; }

    internal Memory<byte> Bytes => Buffer.AsMemory(0, Length);
}
