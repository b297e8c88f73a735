using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>Makes sockets with their options set: raw descriptors for the Linux engines, Socket objects for the portable one.</summary>
internal static unsafe class SocketFactory
{
    // ------------------------------------------------------------------ Linux

    /// <summary>A listening descriptor, or minus the error number; when an option was the reason, <see cref="Listener.Fault"/> says which. <paramref name="bound"/> is the address it really has.</summary>
    // Safe: the address buffer is larger than any address the codec writes.
    internal static int Listen(Listener listener, out EndPoint bound)
    {
        EndPoint endPoint = listener.EndPoint;
        ServerOptions options = listener.Options;
        bound = endPoint;
        int fd = Open(listener, endPoint, SocketAbi.SOCK_STREAM, options.CreateSocket, out NetworkException? fault);
        listener.Fault = fault;
        if (fd < 0) return fd;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = AddressCodec.Encode(endPoint, address);
        int error = listener.Loop.Engine.Descriptors.IsReached(fd) ? Errno.EMFILE : 0;
        if (error == 0 && endPoint is IPEndPoint { AddressFamily: AddressFamily.InterNetworkV6 } ip)
        {
            error = Syscall.SetOption(fd, SocketAbi.IPPROTO_IPV6, SocketAbi.IPV6_V6ONLY, options.DualMode && ip.Address.Equals(IPAddress.IPv6Any) ? 0 : 1);
        }

        if (error == 0) error = NumberOf(listener.Fault = SocketOptions.ApplyTo(listener, new RawSocket(fd, null)));
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
        if (error == 0 && listener.Sharing == PortSharing.Opens) error = Syscall.SetOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
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
    /// A descriptor that is bound to nothing yet and whose calls do not wait, or minus the error number. Where user code makes the sockets it is a
    /// duplicate, and <paramref name="fault"/> says what was wrong with the user's.
    /// </summary>
    internal static int Open(Resident resident, EndPoint endPoint, int type, Func<EndPoint, Socket>? create, out NetworkException? fault)
    {
        fault = null;
        if (create is null)
        {
            int fd = Syscall.Socket(AddressCodec.FamilyOf(endPoint), type | SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC, 0);
            return fd >= 0 ? fd : -Syscall.LastError;
        }

        if (SocketShare.Create(create, endPoint, type == SocketAbi.SOCK_STREAM ? SocketType.Stream : SocketType.Dgram, out fault) is not { } made) return -NumberOf(fault);
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

    /// <summary>What a failed attach is told: never 0, also when the failure has no number of the system's.</summary>
    internal static int NumberOf(NetworkException? fault) => fault is null ? 0 : fault.Error.Code != 0 ? fault.Error.Code : Errno.EINVAL;

    /// <summary>Starts a dial. The descriptor, or minus the error number, as <see cref="Listen"/>; <paramref name="pending"/> when the answer is still to come.</summary>
    // Safe: as in Listen.
    internal static int Connect(ConnectAttempt connector, out bool pending)
    {
        pending = false;
        int fd = OpenToConnect(connector);
        if (fd < 0) return fd;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        if (Syscall.Connect(fd, address, AddressCodec.Encode(connector.Target, address)) == 0) return fd;
        int error = Syscall.LastError;
        // EINTR: the dial goes on in the kernel, as after EINPROGRESS.
        pending = error is Errno.EINPROGRESS or Errno.EINTR;
        if (pending) return fd;
        connector.EndSharing();
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>A descriptor with its options set, bound if there is a local address: all of a dial but the connect.</summary>
    // Safe: as in Listen.
    internal static int OpenToConnect(ConnectAttempt connector)
    {
        int fd = Open(connector, connector.Target, SocketAbi.SOCK_STREAM, connector.Options.CreateSocket, out NetworkException? fault);
        connector.Fault = fault;
        if (fd < 0) return fd;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        int error = connector.Loop.Engine.Descriptors.IsReached(fd) ? Errno.EMFILE : NumberOf(connector.Fault = SocketOptions.ApplyTo(connector, new RawSocket(fd, null)));
        if (error == 0 && connector.LocalEndPoint is { } local && Syscall.Bind(fd, address, AddressCodec.Encode(local, address)) != 0) error = Syscall.LastError;
        if (error == 0) return fd;
        connector.EndSharing();
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
    internal static bool RemoveStalePath(EndPoint endPoint, byte* address, uint length)
    {
        string path = endPoint.ToString()!;
        if (path.StartsWith('@')) return false;
        int probe = Syscall.Socket(SocketAbi.AF_UNIX, SocketAbi.SOCK_STREAM | SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC, 0);
        if (probe < 0) return false;
        bool refused = Syscall.Connect(probe, address, length) != 0 && Syscall.LastError == Errno.ECONNREFUSED;
        Syscall.Close(probe);
        return refused && IsSocketFile(path) && DeletePath(path);
    }

    /// <summary>What is at the path of a Unix address when it is no socket, in words; null for other addresses.</summary>
    internal static string? NoSocketAt(EndPoint endPoint)
    {
        if (endPoint is not UnixDomainSocketEndPoint || endPoint.ToString() is not { Length: > 0 } path || path[0] is '@' or '\0') return null;
        if (Directory.Exists(path)) return "a directory";
        return File.Exists(path) && !IsSocketFile(path) ? "a file" : null;
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

    /// <summary>A listening socket; null when an option could not be set, and <see cref="Listener.Fault"/> says which. Throws what sockets throw.</summary>
    internal static Socket? CreateListener(Listener listener)
    {
        EndPoint endPoint = listener.EndPoint;
        ServerOptions options = listener.Options;
        Socket? socket = CreateSocket(listener, endPoint, SocketType.Stream, options.CreateSocket, out NetworkException? fault);
        listener.Fault = fault;
        if (socket is null) return null;
        try
        {
            if (endPoint is IPEndPoint { AddressFamily: AddressFamily.InterNetworkV6 } ip) socket.DualMode = options.DualMode && ip.Address.Equals(IPAddress.IPv6Any);
            if ((listener.Fault = SocketOptions.ApplyTo(listener, new RawSocket(0, socket))) is not null) return null;
            Bind(socket, endPoint, options.RemoveStaleUnixPath);
            socket.Listen(options.Backlog);
            // As in Listen.
            if (listener.Sharing == PortSharing.Opens) socket.SetRawSocketOption(SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, BitConverter.GetBytes(1));
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
        catch (SocketException e) when (e.SocketErrorCode == SocketError.AddressAlreadyInUse && endPoint is UnixDomainSocketEndPoint && removesStale && IsStale(endPoint))
        {
            File.Delete(endPoint.ToString()!);
            socket.Bind(endPoint);
        }
    }

    /// <summary>
    /// A listening Unix socket, none of a loop's, that only this process's user can connect to (on Windows: whoever may into its folder); a path that is left
    /// over is taken. Throws what sockets and files throw.
    /// </summary>
    internal static Socket ListenForOwner(UnixDomainSocketEndPoint endPoint, int backlog)
    {
        Socket socket = CreateSocket(endPoint, SocketType.Stream);
        try
        {
            Bind(socket, endPoint, removesStale: true);
            // Nobody can connect before it listens: there is no moment in which others could.
            if (!OperatingSystem.IsWindows()) File.SetUnixFileMode(endPoint.ToString(), UnixFileMode.UserRead | UnixFileMode.UserWrite);
            socket.Listen(backlog);
            (Socket result, socket) = (socket, null!);
            return result;
        }
        finally
        {
            socket?.Dispose();
        }
    }

    /// <summary>As with a descriptor; elsewhere than on Linux whoever comes between the last accept and the close is reset.</summary>
    internal static void RefuseNewcomers(Socket listener, EndPoint endPoint)
    {
        if (OperatingSystem.IsLinux()) RefuseNewcomers((int)listener.Handle, endPoint);
    }

    internal static bool IsStale(EndPoint endPoint)
    {
        if (OperatingSystem.IsLinux() && !IsSocketFile(endPoint.ToString()!)) return false;
        using Socket probe = CreateSocket(endPoint, SocketType.Stream);
        // One who answers, and whose backlog is full, would have this wait for him.
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

    /// <summary>As <see cref="Open"/>: within the margin of the engine; throws as if there were no descriptor. Elsewhere than on Linux the user's object is taken itself.</summary>
    internal static Socket? CreateSocket(Resident resident, EndPoint endPoint, SocketType type, Func<EndPoint, Socket>? create, out NetworkException? fault)
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

    /// <summary>Closes it and throws when it is one too many for the engine's margin.</summary>
    internal static Socket Keep(Socket socket, Loop loop)
    {
        if (!loop.Engine.Descriptors.IsReached(new RawSocket(0, socket).Number)) return socket;
        socket.Dispose();
        throw new SocketException((int)SocketError.TooManyOpenSockets);
    }

    private static Socket CreateSocket(EndPoint endPoint, SocketType type) =>
        new(endPoint.AddressFamily, type, endPoint.AddressFamily == AddressFamily.Unix ? ProtocolType.Unspecified : type == SocketType.Stream ? ProtocolType.Tcp : ProtocolType.Udp);
}
