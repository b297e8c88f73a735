using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>
/// Creates datagram sockets and sets their options: with raw constants on Linux, with .NET's
/// names elsewhere. Raw descriptors for the Linux engines, Socket objects for the portable one. Stateless.
/// </summary>
// Safe: pointers are to memory on the stack, for the length of a call.
internal static unsafe class DatagramSetup
{
    // ------------------------------------------------------------------ creation

    /// <summary>
    /// Creates a bound (and connected) descriptor; returns it, or the negative error number. If an option failed, the
    /// socket's Fault names it. Sets its EndPoint to the actual address.
    /// </summary>
    internal static int Open(LoopSocket resident)
    {
        EndPoint endPoint = resident.EndPoint;
        NetworkException? fault = null;
        InheritedSocket? inherited = resident.Inherited;
        int fd = inherited is { IsClaimed: true } ? SocketFactory.Claim(inherited)
            : inherited is not null ? SocketFactory.Duplicate(inherited)
            : SocketFactory.Open(resident, endPoint, DatagramAbi.SOCK_DGRAM, resident.Options.CreateSocket, out fault);
        resident.Fault = fault;
        if (fd < 0) return fd;
        RawSocket socket = new(fd, null);
        resident.Queue.KeepsRuns = true;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = AddressCodec.Encode(endPoint, address);
        int error = resident.Loop.Engine.Descriptors.IsReached(fd) ? Errno.EMFILE : 0;
        if (error == 0 && resident.IsV6 && inherited is null)
            error = Syscall.SetOption(fd, SocketAbi.IPPROTO_IPV6, SocketAbi.IPV6_V6ONLY, IsDual(resident) ? 0 : 1);
        if (error == 0) error = SocketFactory.NumberOf(resident.Fault = Prepare(resident, socket));
        if (error == 0 && inherited is null && Syscall.Bind(fd, address, length) != 0)
        {
            error = Syscall.LastError;
            if (error == Errno.EADDRINUSE && endPoint is UnixDomainSocketEndPoint
                && SocketFactory.RemoveStalePath(endPoint, address, length))
                error = Syscall.Bind(fd, address, length) == 0 ? 0 : Syscall.LastError;
        }

        if (error == 0) error = Share(resident, socket);
        if (error == 0 && resident.Options.RemoteEndPoint is not null)
        {
            byte* remote = stackalloc byte[SocketAbi.MaxAddressBytes];
            if (Syscall.Connect(fd, remote, DatagramBatch.Encode(resident.Remote, resident.IsV6, remote)) != 0)
                error = Syscall.LastError;
        }

        if (error == 0)
        {
            resident.EndPoint = SocketFactory.LocalEndPointOf(fd) ?? endPoint;
            return fd;
        }

        resident.EndSharing();
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>
    /// Creates a Socket in non-blocking mode. Returns null if an option could not be set. Throws the exceptions of
    /// sockets.
    /// </summary>
    internal static Socket? Create(LoopSocket resident)
    {
        EndPoint endPoint = resident.EndPoint;
        Socket? socket = SocketFactory.CreateSocket(resident, endPoint, SocketType.Dgram, resident.Options.CreateSocket,
            out NetworkException? fault);
        resident.Fault = fault;
        if (socket is null) return null;
        try
        {
            if (resident.IsV6) socket.DualMode = IsDual(resident);
            RawSocket raw = new(0, socket);
            if ((resident.Fault = Prepare(resident, raw)) is not null) return null;
            try
            {
                socket.Bind(endPoint);
            }
            catch (SocketException e) when (e.SocketErrorCode == SocketError.AddressAlreadyInUse
                && endPoint is UnixDomainSocketEndPoint && SocketFactory.IsStale(endPoint))
            {
                File.Delete(endPoint.ToString()!);
                socket.Bind(endPoint);
            }

            if (Share(resident, raw) is not 0 and int error) throw new SocketException(error);
            if (resident.Options.RemoteEndPoint is { } remote)
                socket.Connect(resident.IsV6 && remote is IPEndPoint { AddressFamily: AddressFamily.InterNetwork } v4
                    ? new IPEndPoint(v4.Address.MapToIPv6(), v4.Port) : remote);
            socket.Blocking = false;
            resident.EndPoint = socket.LocalEndPoint is { } bound ? EndPointRules.Plain(bound) : endPoint;
            (Socket result, socket) = (socket, null);
            return result;
        }
        finally
        {
            if (socket is not null) resident.EndSharing();
            socket?.Dispose();
        }
    }

    private static bool IsDual(LoopSocket resident) =>
        resident.Options.DualMode && resident.EndPoint is IPEndPoint ip && ip.Address.Equals(IPAddress.IPv6Any);

    /// <summary>
    /// Shares the port. The first of several sockets binds exclusively, so that a port in use is detected, and allows
    /// sharing only then. The others join its group with its steering program.
    /// </summary>
    private static int Share(LoopSocket resident, RawSocket socket)
    {
        if (resident.Sharing == PortSharing.Opens)
            return SocketOptions.SetRaw(socket, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
        if (resident.Sharing != PortSharing.Joins || resident.Options.Steering == DatagramSteering.ByPeer) return 0;
        const uint random = unchecked((uint)(-0x1000 + 56));
        const uint cpu = unchecked((uint)(-0x1000 + 36));
        ReadOnlySpan<FilterInstruction> program =
        [
            new(0x20, 0, 0, resident.Options.Steering == DatagramSteering.ByCpu ? cpu : random), // load
            new(0x94, 0, 0, (uint)resident.Sharers), // modulo
            new(0x16, 0, 0, 0), // the socket of that number, in the order of binding
        ];
        fixed (FilterInstruction* instructions = program)
        {
            FilterProgram filter = new() { Count = (ushort)program.Length, Instructions = instructions };
            return SocketOptions.SetRaw(socket, SocketAbi.SOL_SOCKET, DatagramAbi.SO_ATTACH_REUSEPORT_CBPF,
                new ReadOnlySpan<byte>(&filter, sizeof(FilterProgram)));
        }
    }

    // ------------------------------------------------------------------ options

    /// <summary>Sets all options before the bind. Returns the failure, or null.</summary>
    private static NetworkException? Prepare(LoopSocket resident, RawSocket socket) =>
        KernelProbe.IsLinux ? PrepareLinux(resident, socket) : PrepareOther(resident, (Socket)socket.Handle!);

    private static NetworkException? PrepareLinux(LoopSocket resident, RawSocket socket)
    {
        DatagramOptions options = resident.Options;
        OptionSetter set = new(socket, resident.EndPoint);
        if (options.ReceiveBufferBytes > 0)
            set.Set("ReceiveBufferBytes (SO_RCVBUF)", SocketAbi.SOL_SOCKET, SocketAbi.SO_RCVBUF,
                options.ReceiveBufferBytes);
        if (options.SendBufferBytes > 0)
            set.Set("SendBufferBytes (SO_SNDBUF)", SocketAbi.SOL_SOCKET, SocketAbi.SO_SNDBUF, options.SendBufferBytes);
        if (socket.Handle is null) set.Try(SocketAbi.SOL_SOCKET, DatagramAbi.SO_RXQ_OVFL, 1);
        if (resident.EndPoint is not IPEndPoint) return set.Fault;
        if (options.ReuseAddress)
            set.Set("ReuseAddress (SO_REUSEADDR)", SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEADDR, 1);
        if (options.ReusePort || resident.Sharing == PortSharing.Joins)
            set.Set("ReusePort (SO_REUSEPORT)", SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT, 1);
        if (options.Broadcast) set.Set("Broadcast (SO_BROADCAST)", SocketAbi.SOL_SOCKET, DatagramAbi.SO_BROADCAST, 1);
        if (options.BindToDevice is { } device)
            set.Set($"BindToDevice = '{device}' (SO_BINDTODEVICE)", SocketAbi.SOL_SOCKET, SocketAbi.SO_BINDTODEVICE,
                Encoding.UTF8.GetBytes(device + "\0"));
        // The portable engine does not read the error queue or control data.
        if (socket.Handle is null && options.Coalescing)
            resident.CanCoalesce = set.Try(DatagramAbi.SOL_UDP, DatagramAbi.UDP_GRO, 1);
        if (options.PathMtu != PathMtuRule.System)
        {
            int rule = options.PathMtu switch { PathMtuRule.Fragment => 0, PathMtuRule.DontFragment => 2, _ => 3 };
            set.Both(resident.IsV6, "PathMtu", DatagramAbi.IP_MTU_DISCOVER, DatagramAbi.IPV6_MTU_DISCOVER, rule);
        }

        if (options.TypeOfService > 0)
            set.Both(resident.IsV6, "TypeOfService", SocketAbi.IP_TOS, SocketAbi.IPV6_TCLASS, options.TypeOfService);
        if (socket.Handle is null && options.ReportPeerErrors)
        {
            set.Both(resident.IsV6, "ReportPeerErrors", DatagramAbi.IP_RECVERR, DatagramAbi.IPV6_RECVERR, 1);
            resident.HasErrorQueue = true;
        }

        set.Both(resident.IsV6, "MulticastHops", DatagramAbi.IP_MULTICAST_TTL, DatagramAbi.IPV6_MULTICAST_HOPS,
            options.MulticastHops);
        set.Both(resident.IsV6, "MulticastLoopback", DatagramAbi.IP_MULTICAST_LOOP, DatagramAbi.IPV6_MULTICAST_LOOP,
            options.MulticastLoopback ? 1 : 0);
        // Kernels before 4.20 support it for IPv4 only.
        if (resident.IsV6) set.Try(SocketAbi.IPPROTO_IPV6, DatagramAbi.IPV6_MULTICAST_ALL, options.AllGroups ? 1 : 0);
        set.Try(SocketAbi.IPPROTO_IP, DatagramAbi.IP_MULTICAST_ALL, options.AllGroups ? 1 : 0);
        if (resident.MulticastInterfaceIndex is > 0 and int index) SetInterface(ref set, resident.IsV6, index);
        return set.Fault;
    }

    private static void SetInterface(ref OptionSetter set, bool isV6, int index)
    {
        // struct ip_mreqn: group, address, number.
        Span<byte> request = stackalloc byte[12];
        request.Clear();
        MemoryMarshal.Write(request[8..], in index);
        if (!isV6)
        {
            set.Set("MulticastInterface (IP_MULTICAST_IF)", SocketAbi.IPPROTO_IP, DatagramAbi.IP_MULTICAST_IF, request);
            return;
        }

        set.Set("MulticastInterface (IPV6_MULTICAST_IF)", SocketAbi.IPPROTO_IPV6, DatagramAbi.IPV6_MULTICAST_IF, index);
        set.Try(SocketAbi.IPPROTO_IP, DatagramAbi.IP_MULTICAST_IF, request);
    }

    private static NetworkException? PrepareOther(LoopSocket resident, Socket socket)
    {
        DatagramOptions options = resident.Options;
        string option = "";
        try
        {
            if (options.ReceiveBufferBytes > 0) socket.ReceiveBufferSize = options.ReceiveBufferBytes;
            if (options.SendBufferBytes > 0) socket.SendBufferSize = options.SendBufferBytes;
            if (resident.EndPoint is not IPEndPoint) return null;
            SocketOptionLevel level = resident.IsV6 ? SocketOptionLevel.IPv6 : SocketOptionLevel.IP;
            option = nameof(options.ReuseAddress);
            if (options.ReuseAddress)
                socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.ReuseAddress, true);
            option = nameof(options.Broadcast);
            if (options.Broadcast) socket.EnableBroadcast = true;
            option = nameof(options.PathMtu);
            if (options.PathMtu != PathMtuRule.System && !resident.IsV6)
                socket.DontFragment = options.PathMtu != PathMtuRule.Fragment;
            option = nameof(options.MulticastHops);
            socket.SetSocketOption(level, SocketOptionName.MulticastTimeToLive, options.MulticastHops);
            option = nameof(options.MulticastLoopback);
            socket.SetSocketOption(level, SocketOptionName.MulticastLoopback, options.MulticastLoopback);
            option = nameof(options.MulticastInterface);
            int index = resident.MulticastInterfaceIndex;
            if (index > 0)
                socket.SetSocketOption(level, SocketOptionName.MulticastInterface,
                    resident.IsV6 ? index : IPAddress.HostToNetworkOrder(index));
            return null;
        }
        catch (SocketException e)
        {
            return new NetworkException(new NetworkError(ErrorText.ErrnoOf(e.SocketErrorCode),
                ErrorCategory.Option, $"Cannot prepare a datagram socket for {resident.EndPoint}: "
                    + $"the system refused {option}: {ErrorText.WithoutStop(e.Message)}. "
                    + $"See docs/symptoms/socket-option.md, or: whimbrel explain socket-option."), e);
        }
    }
}
