using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Creates sockets with their options set: raw descriptors for the Linux engines, Socket objects for the portable one.
/// </summary>
internal static unsafe class SocketFactory
{
    // ------------------------------------------------------------------ Linux

    /// <summary>
    /// Creates a listening descriptor. Returns a negated error number on failure; <see cref="Listener.Fault"/> has the
    /// option, if that was the reason. <paramref name="bound"/> is the address it is bound to.
    /// </summary>
    // Safe: the address buffer is larger than any address the codec writes.
    internal static int Listen(Listener listener, out EndPoint bound)
    {
        EndPoint endPoint = listener.EndPoint;
        ServerOptions options = listener.Options;
        bound = endPoint;
        if (listener.Inherited is { } inherited) return Inherit(listener, inherited);
        int fd = Open(listener, endPoint, SocketAbi.SOCK_STREAM, options.Socket.Create, out NetworkException? fault);
        listener.Fault = fault;
        if (fd < 0) return fd;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = AddressCodec.Encode(endPoint, address);
        int error = listener.Loop.Engine.Descriptors.IsReached(fd) ? Errno.EMFILE : 0;
        if (error == 0 && endPoint is IPEndPoint { AddressFamily: AddressFamily.InterNetworkV6 } ip)
        {
            error = Syscall.SetOption(fd, SocketAbi.IPPROTO_IPV6, SocketAbi.IPV6_V6ONLY,
                options.Socket.DualMode && ip.Address.Equals(IPAddress.IPv6Any) ? 0 : 1);
        }

        if (error == 0) error = NumberOf(listener.Fault = SocketOptions.ApplyTo(listener, new RawSocket(fd, null)));
        if (error == 0 && Syscall.Bind(fd, address, length) != 0)
        {
            error = Syscall.LastError;
            if (error == Errno.EADDRINUSE && endPoint is UnixDomainSocketEndPoint && options.Socket.RemoveStaleUnixPath
                && RemoveStalePath(endPoint, address, length))
            {
                error = Syscall.Bind(fd, address, length) == 0 ? 0 : Syscall.LastError;
            }
        }

        if (error == 0 && Syscall.Listen(fd, options.Socket.Backlog) != 0) error = Syscall.LastError;
        // Set only now: until this socket listens, a port that is in use must be an error, even if its owner shares it.
        if (error == 0 && listener.Sharing == PortSharing.Opens)
            error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
        if (error == 0)
        {
            bound = LocalEndPointOf(fd) ?? endPoint;
            return fd;
        }

        listener.EndSharing();
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>
    /// Duplicates the descriptor of another process's listening socket, or takes a claimed one, and sets the options.
    /// </summary>
    private static int Inherit(Listener listener, InheritedSocket inherited)
    {
        int fd = inherited.IsClaimed ? Claim(inherited) : Duplicate(inherited);
        if (fd < 0) return fd;
        int error = listener.Loop.Engine.Descriptors.IsReached(fd)
            ? Errno.EMFILE
            : NumberOf(listener.Fault = SocketOptions.ApplyTo(listener, new RawSocket(fd, null)));
        // A second listen sets the backlog only.
        if (error == 0 && inherited.IsClaimed && Syscall.Listen(fd, listener.Options.Socket.Backlog) != 0)
            error = Syscall.LastError;
        // As in Listen.
        if (error == 0 && listener.Sharing == PortSharing.Opens)
            error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
        if (error == 0) return fd;
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>Returns the descriptor of a claimed socket, now non-blocking, or a negated error number.</summary>
    internal static int Claim(InheritedSocket claimed)
    {
        int fd = claimed.Take();
        if (fd < 0) return -Errno.EBADF;
        int error = Syscall.SetNonBlocking(fd, true);
        if (error == 0) return fd;
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>Returns a non-blocking duplicate, or a negated error number.</summary>
    internal static int Duplicate(InheritedSocket inherited)
    {
        int fd = Syscall.Duplicate(inherited.Descriptor);
        int error = fd < 0 ? 0 : Syscall.SetNonBlocking(fd, true);
        if (error == 0) return fd;
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>
    /// Creates an unbound non-blocking descriptor, or returns a negated error number. If user code creates the sockets,
    /// the descriptor is a duplicate, and <paramref name="fault"/> has the problem of the user's socket.
    /// </summary>
    internal static int Open(Resident resident, EndPoint endPoint, int type, Func<EndPoint, Socket>? create,
        out NetworkException? fault)
    {
        fault = null;
        if (create is null)
        {
            int fd = Syscall.Socket(AddressCodec.FamilyOf(endPoint),
                type | SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC, 0);
            return fd >= 0 ? fd : -Syscall.LastError;
        }

        if (SocketShare.Create(create, endPoint,
            type == SocketAbi.SOCK_STREAM ? SocketType.Stream : SocketType.Dgram, out fault) is not { } made)
            return -NumberOf(fault);
        int duplicate = Syscall.Duplicate((int)made.Handle);
        int error = duplicate < 0 ? -duplicate : Syscall.SetNonBlocking(duplicate, true);
        if (error == 0)
        {
            resident.Made = made;
            return duplicate;
        }

        if (duplicate >= 0) Syscall.Close(duplicate);
        made.Dispose();
        return -error;
    }

    /// <summary>
    /// Returns the error number for a failed attach: never 0 for a failure, even if the system gave no number.
    /// </summary>
    internal static int NumberOf(NetworkException? fault) => fault is null ? 0
        : fault.Error.Code != 0 ? fault.Error.Code : Errno.EINVAL;

    /// <summary>
    /// Starts a connect. Returns the descriptor, or a negated error number, as <see cref="Listen"/>;
    /// <paramref name="pending"/> is true if the result is still to come.
    /// </summary>
    // Safe: as in Listen.
    internal static int Connect(ConnectAttempt connector, out bool pending)
    {
        pending = false;
        int fd = OpenToConnect(connector);
        if (fd < 0) return fd;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        if (Syscall.Connect(fd, address, AddressCodec.Encode(connector.Target, address)) == 0) return fd;
        int error = Syscall.LastError;
        // EINTR: the connect continues in the kernel, as after EINPROGRESS.
        pending = error is Errno.EINPROGRESS or Errno.EINTR;
        if (pending) return fd;
        connector.EndSharing();
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>
    /// Creates a descriptor with its options set, bound to the local address if there is one: everything except the
    /// connect.
    /// </summary>
    // Safe: as in Listen.
    internal static int OpenToConnect(ConnectAttempt connector)
    {
        int fd = Open(connector, connector.Target, SocketAbi.SOCK_STREAM, connector.Options.CommonSocket.Create,
            out NetworkException? fault);
        connector.Fault = fault;
        if (fd < 0) return fd;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        int error = connector.Loop.Engine.Descriptors.IsReached(fd)
            ? Errno.EMFILE
            : NumberOf(connector.Fault = SocketOptions.ApplyTo(connector, new RawSocket(fd, null)));
        if (error == 0 && connector.LocalEndPoint is { } local
            && Syscall.Bind(fd, address, AddressCodec.Encode(local, address)) != 0)
            error = Syscall.LastError;
        if (error == 0) return fd;
        connector.EndSharing();
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>
    /// True where SO_REUSEPORT distributes connections to the listeners of a port, and can be set when the first one
    /// already listens.
    /// </summary>
    internal static bool CanSharePorts => OperatingSystem.IsLinux();

    /// <summary>
    /// Makes the listener complete no new connection; completed ones can still be accepted. TCP: a filter drops every
    /// SYN, so that the peer retries and is rejected when the listener is closed. Best effort: if it fails, a
    /// connection that arrives between the last accept and the close is reset.
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
            _ = Syscall.SetSocketOption(listenFd, SocketAbi.SOL_SOCKET, SocketAbi.SO_ATTACH_FILTER, &program,
                (uint)sizeof(FilterProgram));
        }
    }

    // Safe: the kernel writes at most `length` bytes.
    internal static EndPoint? LocalEndPointOf(int fd)
    {
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = SocketAbi.MaxAddressBytes;
        return Syscall.GetSocketName(fd, address, &length) == 0
            ? AddressCodec.Decode(address, length).ToEndPoint()
            : null;
    }

    /// <summary>Deletes the path if it is a socket without a listener: its process has ended.</summary>
    // Safe: `address` holds an encoded Unix address of `length` bytes.
    internal static bool RemoveStalePath(EndPoint endPoint, byte* address, uint length)
    {
        string path = endPoint.ToString()!;
        if (path.StartsWith('@')) return false;
        int probe = Syscall.Socket(SocketAbi.AF_UNIX,
            SocketAbi.SOCK_STREAM | SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC, 0);
        if (probe < 0) return false;
        bool refused = Syscall.Connect(probe, address, length) != 0 && Syscall.LastError == Errno.ECONNREFUSED;
        Syscall.Close(probe);
        return refused && IsSocketFile(path) && DeletePath(path);
    }

    /// <summary>
    /// Returns "a directory" or "a file" if the path of a Unix address is not a socket; null for other addresses.
    /// </summary>
    internal static string? NoSocketAt(EndPoint endPoint)
    {
        if (endPoint is not UnixDomainSocketEndPoint || endPoint.ToString() is not { Length: > 0 } path
            || path[0] is '@' or '\0')
            return null;
        if (Directory.Exists(path)) return "a directory";
        return File.Exists(path) && !IsSocketFile(path) ? "a file" : null;
    }

    /// <summary>
    /// Returns true if the path is a socket, which cannot be opened. A connect to a plain file is rejected too, and
    /// that file may be needed.
    /// </summary>
    // Safe: the string is local and ends in a zero byte.
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

    /// <summary>Deletes the path of a Unix listener that this process created.</summary>
    internal static bool DeletePath(string path)
    {
        byte[] bytes = Encoding.UTF8.GetBytes(path + "\0");
        fixed (byte* p = bytes) return Syscall.Unlink(p) == 0;
    }

    // ------------------------------------------------------------------ portable

    /// <summary>
    /// Creates a listening socket. Returns null if an option could not be set; <see cref="Listener.Fault"/> has the
    /// option. Throws the exceptions of sockets.
    /// </summary>
    internal static Socket? CreateListener(Listener listener)
    {
        EndPoint endPoint = listener.EndPoint;
        ServerOptions options = listener.Options;
        Socket? socket = CreateSocket(listener, endPoint, SocketType.Stream, options.Socket.Create,
            out NetworkException? fault);
        listener.Fault = fault;
        if (socket is null) return null;
        try
        {
            if (endPoint is IPEndPoint { AddressFamily: AddressFamily.InterNetworkV6 } ip)
                socket.DualMode = options.Socket.DualMode && ip.Address.Equals(IPAddress.IPv6Any);
            if ((listener.Fault = SocketOptions.ApplyTo(listener, new RawSocket(0, socket))) is not null) return null;
            Bind(socket, endPoint, options.Socket.RemoveStaleUnixPath);
            socket.Listen(options.Socket.Backlog);
            // As in Listen.
            if (listener.Sharing == PortSharing.Opens)
                socket.SetRawSocketOption(SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, BitConverter.GetBytes(1));
            (Socket result, socket) = (socket, null);
            return result;
        }
        finally
        {
            if (socket is not null) listener.EndSharing();
            socket?.Dispose();
        }
    }

    private static void Bind(Socket socket, EndPoint endPoint, bool removesStale)
    {
        try
        {
            socket.Bind(endPoint);
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.AddressAlreadyInUse
            && endPoint is UnixDomainSocketEndPoint && removesStale && IsStale(endPoint))
        {
            File.Delete(endPoint.ToString()!);
            socket.Bind(endPoint);
        }
    }

    /// <summary>
    /// Creates a listening Unix socket outside the loops that only the user of this process can connect to (on Windows:
    /// users with access to its folder). A stale path is replaced. Throws the exceptions of sockets and files.
    /// </summary>
    internal static Socket ListenForOwner(UnixDomainSocketEndPoint endPoint, int backlog)
    {
        Socket socket = CreateSocket(endPoint, SocketType.Stream);
        try
        {
            Bind(socket, endPoint, removesStale: true);
            // Set before it listens, so that no other user can connect at any time.
            if (!OperatingSystem.IsWindows())
                File.SetUnixFileMode(endPoint.ToString(), UnixFileMode.UserRead | UnixFileMode.UserWrite);
            socket.Listen(backlog);
            (Socket result, socket) = (socket, null!);
            return result;
        }
        finally
        {
            socket?.Dispose();
        }
    }

    /// <summary>
    /// The same, at a path that another process of the same program still uses: the path leads to this socket from now
    /// on, and never to none. The caller deletes the path. Linux.
    /// </summary>
    internal static Socket ListenInPlace(UnixDomainSocketEndPoint endPoint, int backlog)
    {
        if (NoSocketAt(endPoint) is not null) throw new SocketException((int)SocketError.AddressAlreadyInUse);
        Socket socket = ListenForOwner(new UnixDomainSocketEndPoint(UpgradeNames.TemporaryOf(endPoint)), backlog);
        int error = UpgradeChannel.Rename(UpgradeNames.TemporaryOf(endPoint), endPoint.ToString());
        if (error == 0) return socket;
        socket.Dispose();
        throw new SocketException((int)ErrorText.SocketErrorOf(error));
    }

    /// <summary>
    /// As with a descriptor. On other systems than Linux, a connection that arrives between the last accept and the
    /// close is reset.
    /// </summary>
    internal static void RefuseNewcomers(Socket listener, EndPoint endPoint)
    {
        if (OperatingSystem.IsLinux()) RefuseNewcomers((int)listener.Handle, endPoint);
    }

    internal static bool IsStale(EndPoint endPoint)
    {
        if (OperatingSystem.IsLinux() && !IsSocketFile(endPoint.ToString()!)) return false;
        using Socket probe = CreateSocket(endPoint, SocketType.Stream);
        // A listener with a full backlog would block this connect.
        probe.Blocking = false;
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

    /// <summary>
    /// Creates a socket as <see cref="Open"/> within the margin of the engine; throws as if there were no descriptor
    /// otherwise. On other systems than Linux the user's object itself is used.
    /// </summary>
    internal static Socket? CreateSocket(Resident resident, EndPoint endPoint, SocketType type,
        Func<EndPoint, Socket>? create, out NetworkException? fault)
    {
        fault = null;
        if (create is null) return Keep(CreateSocket(endPoint, type), resident.Loop);
        if (SocketShare.Create(create, endPoint, type, out fault) is not { } made) return null;
        resident.Made = made;
        if (!KernelProbe.IsLinux) return made;
        try
        {
            return Keep(SocketShare.Duplicate(new RawSocket(0, made)), resident.Loop);
        }
        catch
        {
            resident.EndSharing();
            throw;
        }
    }

    /// <summary>Closes the socket and throws if it exceeds the engine's margin.</summary>
    internal static Socket Keep(Socket socket, Loop loop)
    {
        if (!loop.Engine.Descriptors.IsReached(new RawSocket(0, socket).Number)) return socket;
        socket.Dispose();
        throw new SocketException((int)SocketError.TooManyOpenSockets);
    }

    private static Socket CreateSocket(EndPoint endPoint, SocketType type) =>
        new(endPoint.AddressFamily, type, endPoint.AddressFamily == AddressFamily.Unix ? ProtocolType.Unspecified
            : type == SocketType.Stream ? ProtocolType.Tcp : ProtocolType.Udp);
}
