using System.Net;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Simulation.Kernel;

// The calls on sockets, implemented by the simulated kernel. Subclasses check what an engine must not do. Safe:
// pointers are read and written within the call.
internal abstract unsafe class SimSockets(SimKernel kernel) : SocketCalls
{
    private protected SimKernel Kernel { get; } = kernel;

    // The error of a call that fails without being made, or 0.
    private protected abstract int RefuseSend(SimDescriptor descriptor, int length);

    private protected abstract int RefuseReceive(SimDescriptor descriptor);

    internal override int Listen(Listener listener, out EndPoint bound)
    {
        bound = listener.EndPoint;
        int number = Kernel.Open(new SimDescriptor { Listening = Kernel.Listen((IPEndPoint)listener.EndPoint) });
        if (number >= 0) bound = Kernel.Get(number, "Listen").Listening!.EndPoint;
        return number;
    }

    internal override int Connect(ConnectAttempt connector, out bool pending) =>
        Kernel.ConnectPeer(connector, out pending);

    internal override int ConnectErrorOf(int fd) => Kernel.Get(fd, "ConnectErrorOf").ConnectError;

    internal override bool OpenDeferred(int fd) => Kernel.OpenDeferred(fd);

    internal override void RefuseNewcomers(int listener, EndPoint endPoint) =>
        Kernel.RefuseNewcomers(Kernel.Get(listener, "RefuseNewcomers").Listening!);

    internal override EndPoint? LocalEndPointOf(int fd)
    {
        SimDescriptor descriptor = Kernel.Get(fd, "LocalEndPointOf");
        return descriptor.Local ?? descriptor.Socket?.LocalEndPoint;
    }

    internal override PeerAddress PeerAddressOf(int fd) => Kernel.Get(fd, "PeerAddressOf").Socket!.RemoteAddress;

    internal override bool WasReset(int fd) => Kernel.Get(fd, "WasReset").Socket!.IsReset;

    internal override int SetWaits(int fd, bool waits)
    {
        Kernel.Get(fd, "SetWaits").IsNonBlocking = !waits;
        return 0;
    }

    internal override int Receive(int fd, byte* buffer, int length)
    {
        SimDescriptor descriptor = Kernel.Get(fd, "Receive");
        return RefuseReceive(descriptor) is not 0 and int error
            ? -error
            : Kernel.Receive(descriptor, new Span<byte>(buffer, length));
    }

    internal override int Send(int fd, byte* bytes, int length)
    {
        SimDescriptor descriptor = Kernel.Get(fd, "Send");
        return RefuseSend(descriptor, length) is not 0 and int error
            ? -error
            : Kernel.Send(descriptor, [((nint)bytes, length)], length);
    }

    internal override int Send(int fd, IoVector* pieces, int count)
    {
        SimDescriptor descriptor = Kernel.Get(fd, "Send");
        (nint Base, int Length)[] parts = new (nint, int)[count];
        for (int i = 0; i < count; i++) parts[i] = ((nint)pieces[i].Base, (int)pieces[i].Length);
        int length = parts.Sum(static p => p.Length);
        return RefuseSend(descriptor, length) is not 0 and int error ? -error : Kernel.Send(descriptor, parts, length);
    }

    // No file can be sent by the kernel here: it is read, like other files without kernel support.
    internal override long SendFile(int fd, Block file) => -Errno.EINVAL;

    internal override void ShutdownSend(int fd) => Kernel.ShutdownSend(fd);

    internal override void FinishReceive(int fd) => Kernel.Get(fd, "FinishReceive").IsReadShut = true;

    internal override void ResetOnClose(int fd) => Kernel.Get(fd, "ResetOnClose").ResetsOnClose = true;

    internal override void BreakOff(int fd)
    {
        SimDescriptor descriptor = Kernel.Get(fd, "BreakOff");
        if (descriptor.Socket is null)
            throw Kernel.Violation($"descriptor {fd} is broken off, and it is no connection");
        Kernel.Trace.Add("break-off", fd, 0);
        descriptor.Socket.Reset();
    }

    internal override void Close(int fd) => Kernel.Close(fd, "Close");

    internal override void DeletePath(string path) =>
        throw Kernel.Violation($"the path {path} is deleted, but was never created");
}
