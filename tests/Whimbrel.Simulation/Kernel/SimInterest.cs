namespace Whimbrel.Simulation.Kernel;

// What an epoll set has of one descriptor.
internal sealed class SimInterest(SimDescriptor descriptor, uint mask, ulong data)
{
    internal SimDescriptor Descriptor { get; } = descriptor;

    internal uint Mask { get; set; } = mask;

    internal ulong Data { get; set; } = data;

    // How often it was told of and nothing was done about it.
    internal int Ignored { get; set; }
}
