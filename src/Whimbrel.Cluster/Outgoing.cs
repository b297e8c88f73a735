namespace Whimbrel.Clusters;

/// <summary>An envelope on its way to the bus, in a buffer of the shared pool.</summary>
internal readonly record struct Outgoing(string Subject, byte[] Buffer, int Length, ulong Sequence, GroupState? Group)
{
    internal Memory<byte> Bytes => Buffer.AsMemory(0, Length);
}
