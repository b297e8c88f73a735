using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Epoll;

// The system calls of the epoll engine on sockets. Each counts as a reaction to a reported event. Safe: an address is
// written into the memory that the caller provides for it.
internal sealed unsafe class EpollSockets(SimKernel kernel) : SimSockets(kernel)
{
    private const int ShortBytes = 200;

    private void Use(SimDescriptor descriptor)
    {
        descriptor.Calls++;
        if (descriptor.ConnectError != 0)
            throw Kernel.Violation($"descriptor {descriptor.Number} is used, and its connect has failed");
    }

    private protected override int RefuseSend(SimDescriptor descriptor, int length)
    {
        Use(descriptor);
        if (Kernel.Chance(Kernel.Faults.Passing, "send that is not done"))
            return Kernel.Dice.Pick(Errno.EINTR, Errno.ENOMEM, Errno.ENOBUFS, Errno.EAGAIN);
        // The fast open is pending: nothing more is sent before its result.
        return descriptor.IsAsked && !descriptor.IsAnsweredAt(Kernel.NowMs) ? Errno.EAGAIN : 0;
    }

    private protected override int RefuseReceive(SimDescriptor descriptor)
    {
        Use(descriptor);
        if (Kernel.Chance(Kernel.Faults.Passing, "receive that is not done"))
            return Kernel.Dice.Pick(Errno.EINTR, Errno.ENOMEM, Errno.ENOBUFS, Errno.EAGAIN);
        return descriptor.IsAnsweredAt(Kernel.NowMs) && descriptor.IsAsked ? 0 : Errno.EAGAIN;
    }

    internal override int Receive(int fd, byte* buffer, int length)
    {
        // Less than available: some of it arrived in the meantime.
        if (Kernel.Chance(Kernel.Faults.Short, "short receive"))
            length = Kernel.Dice.Next(1, Math.Min(length, ShortBytes));
        return base.Receive(fd, buffer, length);
    }

    internal override long SendFile(int fd, Block file)
    {
        SimDescriptor descriptor = Kernel.Get(fd, "SendFile");
        if (RefuseSend(descriptor, file.Length) is not 0 and int error) return -error;
        // As for a file system without splice support: the engine reads the file then.
        if (Kernel.Chance(Kernel.Faults.Short, "file that is not sent")) return -Errno.EINVAL;
        byte[] bytes = new byte[file.Length];
        int count = RandomAccess.Read(file.File!.Handle, bytes, file.FileOffset + file.Start);
        fixed (byte* start = bytes) return Kernel.Send(descriptor, [((nint)start, count)], count);
    }

    internal override int ConnectErrorOf(int fd)
    {
        SimDescriptor descriptor = Kernel.Get(fd, "ConnectErrorOf");
        descriptor.Calls++;
        if (!descriptor.IsAnsweredAt(Kernel.NowMs))
            throw Kernel.Violation($"descriptor {fd} is asked for the end of a connect that has no answer yet");
        return descriptor.ConnectError;
    }

    internal override bool OpenDeferred(int fd)
    {
        Kernel.Get(fd, "OpenDeferred").Calls++;
        return base.OpenDeferred(fd);
    }

    internal override int Accept(int listener, byte* address, uint* length, int flags)
    {
        SimDescriptor descriptor = Kernel.Get(listener, "Accept");
        descriptor.Calls++;
        const int expected = SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC;
        if (address is not null && flags != expected) throw Kernel.Violation($"an accept with flags 0x{flags:x}");
        if (Kernel.Chance(Kernel.Faults.AcceptError, "accept that fails"))
        {
            int error = Kernel.Dice.Pick(Errno.ECONNABORTED, Errno.EMFILE, Errno.ENFILE, Errno.EINTR, Errno.ENOMEM,
                Errno.ENOBUFS, Errno.EPROTO);
            // Its peer disconnected before it was accepted.
            if (error == Errno.ECONNABORTED && descriptor.Listening!.Waiting.TryDequeue(out Testing.MemorySocket? gone))
                gone.Close(reset: true);
            return -error;
        }

        int number = Kernel.AcceptNow(listener);
        if (number < 0) return number;
        SimDescriptor accepted = Kernel.Get(number, "Accept");
        Kernel.Trace.Add("accept", listener, number);
        if (address is not null) *length = AddressCodec.Encode(accepted.Socket!.RemoteEndPoint!, address);
        return number;
    }

    internal override int OpenReserve() => Kernel.Open(new SimDescriptor());

    internal override void ShutdownSend(int fd)
    {
        Kernel.Get(fd, "ShutdownSend").Calls++;
        base.ShutdownSend(fd);
    }
}
