using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>Makes sockets with their options set: raw descriptors for the Linux engines, Socket objects for the portable one.</summary>
internal static unsafe class SocketFactory
{
    // ------------------------------------------------------------------ Linux

    /// <summary>A listening descriptor, or minus the error number. <paramref name="bound"/> is the address it really has.</summary>
    // Safe: the address buffer is larger than any address the codec writes.
    internal static int Listen(EndPoint endPoint, ServerOptions options, PortSharing sharing, out EndPoint bound)
    {
        bound = endPoint;
        int fd = Syscall.Socket(AddressCodec.FamilyOf(endPoint), SocketAbi.SOCK_STREAM | SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC, 0);
        if (fd < 0) return -Syscall.LastError;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = AddressCodec.Encode(endPoint, address);
        int error = SetListenerOptions(fd, endPoint, options, sharing);
        if (error == 0 && Syscall.Bind(fd, address, length) != 0)
        {
            error = Syscall.LastError;
            if (error == Errno.EADDRINUSE && endPoint is UnixDomainSocketEndPoint && options.RemoveStaleUnixPath && RemoveStalePath(endPoint, address, length))
            {
                error = Syscall.Bind(fd, address, length) == 0 ? 0 : Syscall.LastError;
            }
        }

        if (error == 0 && Syscall.Listen(fd, options.Backlog) != 0) error = Syscall.LastError;
        // Only now: until it listens, a port that somebody else has must be an error, also when that one shares.
        if (error == 0 && sharing == PortSharing.Opens) error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
        if (error == 0)
        {
            bound = LocalEndPointOf(fd) ?? endPoint;
            return fd;
        }

        Syscall.Close(fd);
        return -error;
    }

    private static int SetListenerOptions(int fd, EndPoint endPoint, ServerOptions options, PortSharing sharing)
    {
        int error = 0;
        if (endPoint is IPEndPoint ip)
        {
            if (options.ReuseAddress) error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEADDR, 1);
            if (error == 0 && (options.ReusePort || sharing == PortSharing.Joins)) error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
            if (error == 0 && ip.AddressFamily == AddressFamily.InterNetworkV6)
            {
                error = Syscall.SetOption(fd, SocketAbi.IPPROTO_IPV6, SocketAbi.IPV6_V6ONLY, options.DualMode && ip.Address.Equals(IPAddress.IPv6Any) ? 0 : 1);
            }
        }

        // Accepted sockets inherit all of these: no system call for each of them.
        return error != 0 ? error : SetStreamOptions(fd, endPoint, options);
    }

    private static int SetStreamOptions(int fd, EndPoint endPoint, ConnectionOptions options)
    {
        int error = 0;
        if (endPoint is IPEndPoint && options.NoDelay) error = Syscall.SetOption(fd, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY, 1);
        if (error == 0 && endPoint is IPEndPoint && options.KeepAlive) error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_KEEPALIVE, 1);
        if (error == 0 && options.ReceiveBufferBytes > 0) error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_RCVBUF, options.ReceiveBufferBytes);
        if (error == 0 && options.SendBufferBytes > 0) error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_SNDBUF, options.SendBufferBytes);
        return error;
    }

    /// <summary>Starts a dial. The descriptor, or minus the error number; <paramref name="pending"/> when the answer is still to come.</summary>
    // Safe: as in Listen.
    internal static int Dial(EndPoint target, EndPoint? local, ConnectionOptions options, out bool pending)
    {
        pending = false;
        int fd = Syscall.Socket(AddressCodec.FamilyOf(target), SocketAbi.SOCK_STREAM | SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC, 0);
        if (fd < 0) return -Syscall.LastError;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        int error = SetStreamOptions(fd, target, options);
        if (error == 0 && local is not null && Syscall.Bind(fd, address, AddressCodec.Encode(local, address)) != 0) error = Syscall.LastError;
        if (error == 0 && Syscall.Connect(fd, address, AddressCodec.Encode(target, address)) != 0)
        {
            error = Syscall.LastError;
            // EINTR: the dial goes on in the kernel, as after EINPROGRESS.
            if (error is Errno.EINPROGRESS or Errno.EINTR)
            {
                pending = true;
                error = 0;
            }
        }

        if (error == 0) return fd;
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>SO_REUSEPORT spreads connections over the listeners of a port, and can be set when the first one listens already.</summary>
    internal static bool CanSharePorts => OperatingSystem.IsLinux();

    /// <summary>
    /// The listener completes no new connection; those that are complete can still be accepted. TCP: a filter drops every
    /// first packet, so that the peer tries again and is refused when the listener is closed. Best effort: where it fails, a
    /// connection that comes between the last accept and the close is reset.
    /// </summary>
    // Safe: the kernel copies the program during the call.
    internal static void RefuseNewcomers(int listenFd, EndPoint endPoint)
    {
        if (endPoint is not IPEndPoint)
        {
            _ = Syscall.Shutdown(listenFd, SocketAbi.SHUT_RD);
            return;
        }

        ReadOnlySpan<FilterInstruction> dropFirstPackets =
        [
            new(0x30, 0, 0, 13), // the byte of flags in the TCP header
            new(0x54, 0, 0, 0x12), // SYN and ACK of it
            new(0x15, 0, 1, 0x02), // SYN alone?
            new(0x06, 0, 0, 0), // drop
            new(0x06, 0, 0, uint.MaxValue), // keep
        ];
        fixed (FilterInstruction* instructions = dropFirstPackets)
        {
            FilterProgram program = new() { Count = (ushort)dropFirstPackets.Length, Instructions = instructions };
            _ = Syscall.SetSocketOption(listenFd, SocketAbi.SOL_SOCKET, SocketAbi.SO_ATTACH_FILTER, &program, (uint)sizeof(FilterProgram));
        }
    }

    // Safe: the kernel writes at most `length` bytes.
    internal static EndPoint? LocalEndPointOf(int fd)
    {
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = SocketAbi.MaxAddressBytes;
        return Syscall.GetSocketName(fd, address, &length) == 0 ? AddressCodec.Decode(address, length).ToEndPoint() : null;
    }

    /// <summary>Deletes the path when it is a socket that nobody answers at: its process has ended.</summary>
    // Safe: `address` holds an encoded Unix address of `length` bytes.
    private static bool RemoveStalePath(EndPoint endPoint, byte* address, uint length)
    {
        string path = endPoint.ToString()!;
        if (path.StartsWith('@')) return false;
        int probe = Syscall.Socket(SocketAbi.AF_UNIX, SocketAbi.SOCK_STREAM | SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC, 0);
        if (probe < 0) return false;
        bool refused = Syscall.Connect(probe, address, length) != 0 && Syscall.LastError == Errno.ECONNREFUSED;
        Syscall.Close(probe);
        return refused && IsSocketFile(path) && DeletePath(path);
    }

    /// <summary>A dial to a plain file is refused as well, and somebody may need that file. Sockets are what cannot be opened.</summary>
    // Safe: a string of our own that ends in a zero byte.
    private static bool IsSocketFile(string path)
    {
        const int readOnlyNonBlockingCloseOnExec = 0x80800;
        byte[] bytes = Encoding.UTF8.GetBytes(path + "\0");
        fixed (byte* p = bytes)
        {
            int fd = Syscall.Open(p, readOnlyNonBlockingCloseOnExec, 0);
            if (fd < 0) return Syscall.LastError == Errno.ENXIO;
            Syscall.Close(fd);
            return false;
        }
    }

    /// <summary>Deletes the path of a Unix listener that this process made.</summary>
    internal static bool DeletePath(string path)
    {
        byte[] bytes = Encoding.UTF8.GetBytes(path + "\0");
        fixed (byte* p = bytes) return Syscall.Unlink(p) == 0;
    }

    // ------------------------------------------------------------------ portable

    internal static Socket CreateListener(EndPoint endPoint, ServerOptions options, PortSharing sharing)
    {
        Socket socket = CreateSocket(endPoint);
        try
        {
            if (endPoint is IPEndPoint ip)
            {
                // ReuseAddress: .NET sets SO_REUSEADDR in every bind of a Unix system. Its own option of that name is not for us: it
                // sets SO_REUSEPORT as well, and a second server would take the same port without an error.
                if ((options.ReusePort || sharing == PortSharing.Joins) && OperatingSystem.IsLinux()) SetReusePort(socket);
                if (ip.AddressFamily == AddressFamily.InterNetworkV6) socket.DualMode = options.DualMode && ip.Address.Equals(IPAddress.IPv6Any);
            }

            SetStreamOptions(socket, endPoint, options);
            Bind(socket, endPoint, options);
            socket.Listen(options.Backlog);
            // As in Listen.
            if (sharing == PortSharing.Opens) SetReusePort(socket);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    private static void Bind(Socket socket, EndPoint endPoint, ServerOptions options)
    {
        try
        {
            socket.Bind(endPoint);
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.AddressAlreadyInUse && endPoint is UnixDomainSocketEndPoint && options.RemoveStaleUnixPath && IsStale(endPoint))
        {
            File.Delete(endPoint.ToString()!);
            socket.Bind(endPoint);
        }
    }

    /// <summary>As with a descriptor; elsewhere than on Linux whoever comes between the last accept and the close is reset.</summary>
    internal static void RefuseNewcomers(Socket listener, EndPoint endPoint)
    {
        if (OperatingSystem.IsLinux()) RefuseNewcomers((int)listener.Handle, endPoint);
    }

    private static bool IsStale(EndPoint endPoint)
    {
        if (OperatingSystem.IsLinux() && !IsSocketFile(endPoint.ToString()!)) return false;
        using Socket probe = CreateSocket(endPoint);
        try
        {
            probe.Connect(endPoint);
            return false;
        }
        catch (SocketException e)
        {
            return e.SocketErrorCode == SocketError.ConnectionRefused;
        }
    }

    // ReusePort is no named option of Socket; the raw form is the same number on every Linux this library runs on.
    private static void SetReusePort(Socket socket) =>
        socket.SetRawSocketOption(SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, BitConverter.GetBytes(1));

    internal static Socket CreateSocket(EndPoint endPoint) =>
        new(endPoint.AddressFamily, SocketType.Stream, endPoint.AddressFamily == AddressFamily.Unix ? ProtocolType.Unspecified : ProtocolType.Tcp);

    internal static void SetStreamOptions(Socket socket, EndPoint endPoint, ConnectionOptions options)
    {
        if (endPoint is IPEndPoint && options.NoDelay) socket.NoDelay = true;
        if (endPoint is IPEndPoint && options.KeepAlive) socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
        if (options.ReceiveBufferBytes > 0) socket.ReceiveBufferSize = options.ReceiveBufferBytes;
        if (options.SendBufferBytes > 0) socket.SendBufferSize = options.SendBufferBytes;
    }
}
