using Whimbrel.Connections;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// System calls of the io_uring engine besides its rings. Safe: no pointer is used here.
internal sealed unsafe class RingSockets(SimKernel kernel) : SimSockets(kernel)
{
    private protected override int RefuseSend(SimDescriptor descriptor, int length)
    {
        if (!descriptor.IsAsked) throw Kernel.Violation("a direct send on a fast open that has not started");
        if (descriptor.Sends > 0) throw Kernel.Violation("a direct send beside a queued one");
        return Kernel.Chance(Kernel.Faults.Passing, "direct send that is not done")
            ? Kernel.Dice.Pick(Errno.EINTR, Errno.ENOMEM, Errno.ENOBUFS, Errno.EAGAIN)
            : 0;
    }

    private protected override int RefuseReceive(SimDescriptor descriptor)
    {
        if (descriptor.Receives > 0) throw Kernel.Violation("a direct receive beside one of the ring");
        return Kernel.Chance(Kernel.Faults.Passing, "direct receive that is not done")
            ? Kernel.Dice.Pick(Errno.EINTR, Errno.ENOMEM, Errno.ENOBUFS)
            : 0;
    }

    internal override int Accept(int listener, byte* address, uint* length, int flags) => Kernel.AcceptNow(listener);

    // Atomic in the kernel: the reserve is closed, its number used, and the reserve opened again in one step.
    internal override int OpenReserve() => -Errno.EMFILE;

    internal override ShedResult Shed(int listener, ref int reserve) => Kernel.Shed(listener);
}
