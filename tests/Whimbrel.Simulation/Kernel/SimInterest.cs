namespace Whimbrel.Simulation.Kernel;

// Entry of one descriptor in an epoll set.
internal sealed class SimInterest(SimDescriptor descriptor, uint mask, ulong data)
{
    internal SimDescriptor Descriptor { get; } = descriptor;

    internal uint Mask { get; set; } = mask;

    internal ulong Data { get; set; } = data;

    // Number of reports without a reaction.
    internal int Ignored { get; set; }
}
