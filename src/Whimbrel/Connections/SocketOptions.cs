using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Sets the options of one socket, for every engine: by number on Linux, by .NET's name elsewhere (SocketOptionRules
/// has rejected options without a name there). A listener gets the options of its connections too: on Linux accepted
/// TCP sockets inherit all of them, so that an accept needs no further system call. The first option that the system
/// refuses is kept in <see cref="Fault"/>, and the rest is skipped.
/// </summary>
// Safe: pointers are to integers on the stack or to pinned bytes, for the length of a call.
internal unsafe ref struct SocketOptions
{
    private readonly RawSocket _socket;
    private readonly EndPoint _endPoint;

    private SocketOptions(RawSocket socket, EndPoint endPoint)
    {
        _socket = socket;
        _endPoint = endPoint;
    }

    /// <summary>The first failure, or null.</summary>
    private NetworkException? Fault { get; set; }

    // ------------------------------------------------------------------ by role

    /// <summary>
    /// Sets all options of a listener before it is bound, then calls the hook. Returns the failure, or null.
    /// </summary>
    internal static NetworkException? ApplyTo(Listener listener, RawSocket socket)
    {
        ServerOptions options = listener.Options;
        SocketOptions target = new(socket, listener.EndPoint);
        if (listener.EndPoint is IPEndPoint)
        {
            // The portable engine's sockets set ReuseAddress in every bind. The .NET option of that name is not used,
            // because it also sets SO_REUSEPORT, and a second server would get the same port without an error.
            if (options.Socket.ReuseAddress && socket.Handle is null)
                target.Set("ReuseAddress", "SO_REUSEADDR", SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEADDR, 1);
            if (options.Socket.ReusePort || listener.Sharing == PortSharing.Joins)
                target.Set("ReusePort", "SO_REUSEPORT", SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
            if (options.Socket.ExclusiveAddressUse)
                target.Set("ExclusiveAddressUse", "SO_EXCLUSIVEADDRUSE", 0, 0, 1, SocketOptionLevel.Socket,
                    SocketOptionName.ExclusiveAddressUse);
            if (options.Socket.FastOpenQueue > 0)
                target.Set("FastOpenQueue", "TCP_FASTOPEN", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_FASTOPEN,
                    options.Socket.FastOpenQueue);
            if (options.Socket.DeferAccept > TimeSpan.Zero)
                target.Set("DeferAccept", "TCP_DEFER_ACCEPT", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_DEFER_ACCEPT,
                    Seconds(options.Socket.DeferAccept));
        }

        target.SetCommon(options.Socket);
        return target.Fault ?? CallHook(SocketRole.Listener, socket, listener.EndPoint, options);
    }

    /// <summary>
    /// Sets all options of a connect before it is bound and connects, then calls the hook. Returns the failure, or
    /// null.
    /// </summary>
    internal static NetworkException? ApplyTo(ConnectAttempt connector, RawSocket socket)
    {
        ConnectionOptions options = connector.Options;
        SocketOptions target = new(socket, connector.Target);
        target.SetCommon(options.CommonSocket);
        if (connector.Target is IPEndPoint)
        {
            if (options is ClientOptions { Socket.FastOpen: true })
                target.Set("FastOpen", "TCP_FASTOPEN_CONNECT", SocketAbi.IPPROTO_TCP,
                    SocketAbi.TCP_FASTOPEN_CONNECT, 1);
            // The port is chosen in the connect, so that each target has its own range of local ports. A kernel without
            // this option chooses in the bind.
            if (connector.LocalEndPoint is IPEndPoint { Port: 0 } && KernelProbe.IsLinux)
                SetRaw(socket, SocketAbi.IPPROTO_IP, SocketAbi.IP_BIND_ADDRESS_NO_PORT, 1);
        }

        return target.Fault ?? CallHook(SocketRole.Connected, socket, connector.Target, options);
    }

    /// <summary>
    /// True if accepted sockets inherit all options. On Linux those of TCP are inherited, and none of a Unix socket's.
    /// Other systems do not guarantee it.
    /// </summary>
    internal static bool AreInherited(EndPoint endPoint, ConnectionOptions options) =>
        endPoint is IPEndPoint
            ? KernelProbe.IsLinux
            : options is { CommonSocket.ReceiveBufferBytes: 0, CommonSocket.SendBufferBytes: 0 };

    /// <summary>
    /// Sets options that an accepted socket has not inherited, then calls the hook. Returns the failure, or null.
    /// </summary>
    internal static NetworkException? ApplyToAccepted(Listener listener, RawSocket socket)
    {
        // Sockets of the memory engine have no options.
        if (socket.Handle is not (null or Socket)) return null;
        if (!AreInherited(listener.EndPoint, listener.Options))
        {
            SocketOptions target = new(socket, listener.EndPoint);
            target.SetCommon(listener.Options.Socket);
            if (target.Fault is not null) return target.Fault;
        }

        return CallHook(SocketRole.Accepted, socket, listener.EndPoint, listener.Options);
    }

    private void SetCommon(ConnectionSocketOptions options)
    {
        if (_endPoint is IPEndPoint ip)
        {
            if (options.NoDelay)
                Set("NoDelay", "TCP_NODELAY", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY, 1, SocketOptionLevel.Tcp,
                    SocketOptionName.NoDelay);
            if (options.KeepAlive) SetKeepAlive(options);
            if (options.UserTimeout > TimeSpan.Zero)
                Set("UserTimeout", "TCP_USER_TIMEOUT", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_USER_TIMEOUT,
                    (int)options.UserTimeout.TotalMilliseconds);
            if (options.TypeOfService > 0) SetTypeOfService(ip, options.TypeOfService);
            if (options.Mark != 0)
                Set("Mark", "SO_MARK", SocketAbi.SOL_SOCKET, SocketAbi.SO_MARK, (int)options.Mark);
            if (options.BusyPoll > TimeSpan.Zero)
                Set("BusyPoll", "SO_BUSY_POLL", SocketAbi.SOL_SOCKET, SocketAbi.SO_BUSY_POLL,
                    (int)options.BusyPoll.TotalMicroseconds);
            if (options.BindToDevice is { } device) SetDevice(device);
            if (options.FreeBind)
                Set("FreeBind", "IP_FREEBIND", SocketAbi.IPPROTO_IP, SocketAbi.IP_FREEBIND, 1);
        }

        if (options.ReceiveBufferBytes > 0)
            Set("ReceiveBufferBytes", "SO_RCVBUF", SocketAbi.SOL_SOCKET, SocketAbi.SO_RCVBUF,
                options.ReceiveBufferBytes, SocketOptionLevel.Socket, SocketOptionName.ReceiveBuffer);
        if (options.SendBufferBytes > 0)
            Set("SendBufferBytes", "SO_SNDBUF", SocketAbi.SOL_SOCKET, SocketAbi.SO_SNDBUF,
                options.SendBufferBytes,
                SocketOptionLevel.Socket, SocketOptionName.SendBuffer);
    }

    private void SetKeepAlive(ConnectionSocketOptions options)
    {
        Set("KeepAlive", "SO_KEEPALIVE", SocketAbi.SOL_SOCKET, SocketAbi.SO_KEEPALIVE, 1, SocketOptionLevel.Socket,
            SocketOptionName.KeepAlive);
        if (options.KeepAliveTime > TimeSpan.Zero)
            Set("KeepAliveTime", "TCP_KEEPIDLE", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPIDLE,
                Seconds(options.KeepAliveTime), SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime);
        if (options.KeepAliveInterval > TimeSpan.Zero)
            Set("KeepAliveInterval", "TCP_KEEPINTVL", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPINTVL,
                Seconds(options.KeepAliveInterval), SocketOptionLevel.Tcp,
                SocketOptionName.TcpKeepAliveInterval);
        if (options.KeepAliveCount > 0)
            Set("KeepAliveCount", "TCP_KEEPCNT", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPCNT,
                options.KeepAliveCount,
                SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveRetryCount);
    }

    /// <summary>
    /// Sets both options on an IPv6 socket: the second is for IPv4 connections of a dual-stack listener, and for mapped
    /// addresses.
    /// </summary>
    private void SetTypeOfService(IPEndPoint endPoint, int value)
    {
        if (endPoint.AddressFamily == AddressFamily.InterNetworkV6)
            Set("TypeOfService", "IPV6_TCLASS", SocketAbi.IPPROTO_IPV6, SocketAbi.IPV6_TCLASS, value);
        Set("TypeOfService", "IP_TOS", SocketAbi.IPPROTO_IP, SocketAbi.IP_TOS, value);
    }

    private void SetDevice(string device)
    {
        if (Fault is not null) return;
        int error = SetRaw(_socket, SocketAbi.SOL_SOCKET, SocketAbi.SO_BINDTODEVICE,
            Encoding.UTF8.GetBytes(device + "\0"));
        if (error != 0) Fault = Refused(error, $"Socket.BindToDevice = '{device}' (SO_BINDTODEVICE)");
    }

    // ------------------------------------------------------------------ one option

    private void Set(string option, string systemName, int level, int name, int value,
        SocketOptionLevel namedLevel = default, SocketOptionName named = default)
    {
        if (Fault is not null) return;
        int error = KernelProbe.IsLinux
            ? SetRaw(_socket, level, name, value)
            : SetNamed((Socket)_socket.Handle!, namedLevel, named, value);
        if (error != 0) Fault = Refused(error, $"Socket.{option} ({systemName} = {(uint)value})");
    }

    private static int SetNamed(Socket socket, SocketOptionLevel level, SocketOptionName name, int value)
    {
        try
        {
            socket.SetSocketOption(level, name, value);
            return 0;
        }
        catch (SocketException e)
        {
            return ErrorText.ErrnoOf(e.SocketErrorCode);
        }
    }

    private NetworkException Refused(int error, string option)
    {
        string hint = error switch
        {
            Errno.EPERM or Errno.EACCES => " It needs a privilege: the capability CAP_NET_ADMIN, or root.",
            Errno.ENODEV => " There is no network device of that name.",
            Errno.ENOPROTOOPT or Errno.EOPNOTSUPP => " This kernel does not have it.",
            _ => "",
        };
        return Fail(error, ErrorCategory.Option, $"the system refused {option}: {ErrorText.Of(error)} (error "
            + $"{error}).{hint} See docs/symptoms/socket-option.md, or: whimbrel explain socket-option.", null);
    }

    private readonly NetworkException Fail(int error, ErrorCategory category, string why, Exception? inner) =>
        new(new NetworkError(error, category, $"Cannot prepare a socket for {_endPoint}: {why}"), inner);

    // ------------------------------------------------------------------ the hook

    private static NetworkException? CallHook(SocketRole role, RawSocket socket, EndPoint endPoint,
        ConnectionOptions options)
    {
        if (options.CommonSocket.OnCreated is not { } hook) return null;
        SocketOptions target = new(socket, endPoint);
        try
        {
            using CallbackScope scope = Loop.Current is { } loop ? new CallbackScope(loop.Engine) : default;
            hook(new NewSocket(role, endPoint, socket));
        }
        catch (NetworkException e)
        {
            return target.Fail(e.Error.Code, e.Error.Category, $"Socket.OnCreated failed: {e.Message}", e);
        }
        catch (Exception e)
        {
            return target.Fail(0, ErrorCategory.User, $"Socket.OnCreated threw {ErrorText.Of(e)}. "
                + $"See docs/symptoms/socket-option.md, or: whimbrel explain socket-option.", e);
        }

        int seconds = LingerSecondsOf(socket);
        if (seconds <= 0) return null;
        return target.Fail(0, ErrorCategory.User, $"Socket.OnCreated switched SO_LINGER on with {seconds} "
            + $"s: every close would hold up a loop for as long. Close drains by itself, see Timeouts.Drain. "
            + $"See docs/symptoms/socket-option.md, or: whimbrel explain socket-option.", null);
    }

    private static int LingerSecondsOf(RawSocket socket)
    {
        if (!KernelProbe.IsLinux)
            return ((Socket)socket.Handle!).LingerState is { Enabled: true } state ? state.LingerTime : 0;
        Linux.LingerOption linger = default;
        int length = GetRaw(socket, SocketAbi.SOL_SOCKET, SocketAbi.SO_LINGER,
            new Span<byte>(&linger, sizeof(Linux.LingerOption)));
        return length > 0 && linger.OnOff != 0 ? linger.Seconds : 0;
    }

    // ------------------------------------------------------------------ raw

    private static int Seconds(TimeSpan time) => (int)time.TotalSeconds;

    internal static int SetRaw(RawSocket socket, int level, int name, int value) =>
        SetRaw(socket, level, name, new ReadOnlySpan<byte>(&value, sizeof(int)));

    /// <summary>
    /// Calls setsockopt. Returns 0 or an error number: on Linux the kernel's own, also for the portable engine, because
    /// .NET's exceptions distinguish fewer.
    /// </summary>
    internal static int SetRaw(RawSocket socket, int level, int name, ReadOnlySpan<byte> value)
    {
        if (KernelProbe.IsLinux)
        {
            fixed (byte* p = value)
                return Syscall.SetSocketOption(DescriptorOf(socket), level, name, p, (uint)value.Length) == 0
                    ? 0
                    : Syscall.LastError;
        }

        try
        {
            ((Socket)socket.Handle!).SetRawSocketOption(level, name, value);
            return 0;
        }
        catch (SocketException e)
        {
            return ErrorText.ErrnoOf(e.SocketErrorCode);
        }
    }

    /// <summary>Calls getsockopt. Returns the number of bytes, or a negated error number.</summary>
    internal static int GetRaw(RawSocket socket, int level, int name, Span<byte> value)
    {
        if (KernelProbe.IsLinux)
        {
            uint length = (uint)value.Length;
            fixed (byte* p = value)
                return Syscall.GetSocketOption(DescriptorOf(socket), level, name, p, &length) == 0
                    ? (int)length
                    : -Syscall.LastError;
        }

        try
        {
            return ((Socket)socket.Handle!).GetRawSocketOption(level, name, value);
        }
        catch (SocketException e)
        {
            return -ErrorText.ErrnoOf(e.SocketErrorCode);
        }
    }

    private static int DescriptorOf(RawSocket socket) =>
        socket.Handle is Socket managed ? (int)managed.Handle : socket.Descriptor;
}
