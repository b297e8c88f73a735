using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// Checks socket options. An option at its default never fails; a set option must be supported here, otherwise the
/// start fails with its name, its value and the reason. An option of TCP applies to the TCP addresses of a server, and
/// is a mistake if there are none.
/// </summary>
internal static class SocketOptionRules
{
    private const string Group = "Socket.";
    private const string FastOpenFile = "/proc/sys/net/ipv4/tcp_fastopen";
    private const int FastOpenClientBit = 1;
    private const int FastOpenServerBit = 2;

    private static readonly TimeSpan s_second = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_longestKeepAlive = TimeSpan.FromSeconds(32_767);

    // ------------------------------------------------------------------ ranges, on every engine

    internal static void CheckRanges(OptionErrors errors, ConnectionSocketOptions options)
    {
        Steps(errors, nameof(options.KeepAliveTime), options.KeepAliveTime, s_second, s_longestKeepAlive, s_second,
            "whole seconds");
        Steps(errors, nameof(options.KeepAliveInterval), options.KeepAliveInterval, s_second, s_longestKeepAlive,
            s_second, "whole seconds");
        errors.Range(Group + nameof(options.KeepAliveCount), options.KeepAliveCount, 0, 127);
        if (!options.KeepAlive)
        {
            NeedsKeepAlive(errors, nameof(options.KeepAliveTime), options.KeepAliveTime, TimeSpan.Zero);
            NeedsKeepAlive(errors, nameof(options.KeepAliveInterval), options.KeepAliveInterval, TimeSpan.Zero);
            NeedsKeepAlive(errors, nameof(options.KeepAliveCount), options.KeepAliveCount, 0);
        }

        Steps(errors, nameof(options.UserTimeout), options.UserTimeout, TimeSpan.FromMilliseconds(1),
            TimeSpan.FromDays(24), TimeSpan.FromMilliseconds(1), "whole milliseconds");
        Steps(errors, nameof(options.BusyPoll), options.BusyPoll, TimeSpan.FromMicroseconds(1), s_second,
            TimeSpan.FromMicroseconds(1), "whole microseconds");
        if (options.TypeOfService is < 0 or > 252 || options.TypeOfService % 4 != 0)
            errors.Add(
                $"{Group}{nameof(options.TypeOfService)} = {options.TypeOfService}, allowed multiples of 4 "
                + $"from 0 to 252");
        if (options.BindToDevice is { } device
            && (Encoding.UTF8.GetByteCount(device) is 0 or > SocketAbi.MaxDeviceBytes || device.Contains('\0')))
        {
            errors.Add($"{Group}{nameof(options.BindToDevice)} = '{device}', a device name has 1 to "
                + $"{SocketAbi.MaxDeviceBytes} bytes");
        }

        errors.Range(Group + nameof(options.ReceiveBufferBytes), options.ReceiveBufferBytes, 0, 1 << 30);
        errors.Range(Group + nameof(options.SendBufferBytes), options.SendBufferBytes, 0, 1 << 30);
        if (options is ServerSocketOptions server)
        {
            errors.Range(Group + nameof(server.Backlog), server.Backlog, 1, 65_535);
            errors.Range(Group + nameof(server.FastOpenQueue), server.FastOpenQueue, 0, 65_535);
            Steps(errors, nameof(server.DeferAccept), server.DeferAccept, s_second, TimeSpan.FromHours(1), s_second,
                "whole seconds");
            if (server.ExclusiveAddressUse && server.ReusePort)
                errors.Add("Socket.ExclusiveAddressUse and Socket.ReusePort are both true: one keeps the port alone, "
                    + "the other shares it");
        }
    }

    private static void Steps(OptionErrors errors, string name, TimeSpan value, TimeSpan least, TimeSpan most,
        TimeSpan step, string what)
    {
        if (value == TimeSpan.Zero || (value >= least && value <= most && value.Ticks % step.Ticks == 0)) return;
        errors.Add($"{Group}{name} = {value}, allowed {what} from {least} to {most}, or zero");
    }

    // Takes objects, because a generic method would be compiled for each kind of option at every start.
    private static void NeedsKeepAlive(OptionErrors errors, string name, object value, object unset)
    {
        if (!value.Equals(unset)) errors.Add($"{Group}{name} = {value}, has no effect without Socket.KeepAlive = True");
    }

    // ------------------------------------------------------------------ support by the system and the addresses

    internal static void Check(OptionErrors errors, ServerOptions options, Engine engine)
    {
        if (!HasSockets(engine)) return;
        ServerSocketOptions socket = options.Socket;
        bool hasTcp = false;
        List<EndPoint> endPoints = options.EndPointsOn(engine);
        foreach (EndPoint endPoint in endPoints) hasTcp |= endPoint is not UnixDomainSocketEndPoint;
        // Without any address there is a mistake already, and no address to check these against.
        hasTcp |= endPoints.Count == 0;
        CheckCommon(errors, socket, hasTcp);
        OnLinux(errors, nameof(socket.ReusePort), socket.ReusePort, false, "SO_REUSEPORT", hasTcp);
        OnLinux(errors, nameof(socket.FastOpenQueue), socket.FastOpenQueue, 0, "TCP_FASTOPEN", hasTcp);
        OnLinux(errors, nameof(socket.DeferAccept), socket.DeferAccept, TimeSpan.Zero, "TCP_DEFER_ACCEPT", hasTcp);
        OnLinux(errors, nameof(socket.FreeBind), socket.FreeBind, false, "IP_FREEBIND", hasTcp);
        if (socket.ExclusiveAddressUse && !KernelProbe.IsWindows)
            errors.Add("Socket.ExclusiveAddressUse = True, only Windows has SO_EXCLUSIVEADDRUSE; here no process can "
                + "take a port by force");
        if (!socket.ReuseAddress && hasTcp && engine.Kind == EngineKind.Portable && !KernelProbe.IsWindows)
            errors.Add(
                "Socket.ReuseAddress = False, the portable engine cannot: System.Net.Sockets sets SO_REUSEADDR "
                + "in every bind");
        if (socket.FastOpenQueue > 0 && hasTcp)
            FastOpenIsOn(errors, $"{Group}{nameof(socket.FastOpenQueue)} = {socket.FastOpenQueue}", "servers",
                FastOpenServerBit);
    }

    internal static void Check(OptionErrors errors, ClientOptions options, Engine engine)
    {
        if (!HasSockets(engine)) return;
        ClientSocketOptions socket = options.Socket;
        bool hasTcp = false;
        List<EndPoint> targets = options.TargetsOn(engine);
        foreach (EndPoint target in targets) hasTcp |= target is not UnixDomainSocketEndPoint;
        hasTcp |= targets.Count == 0;
        CheckCommon(errors, socket, hasTcp);
        OnLinux(errors, nameof(socket.FastOpen), socket.FastOpen, false, "TCP_FASTOPEN_CONNECT", hasTcp);
        OnLinux(errors, nameof(socket.FreeBind), socket.FreeBind, false, "IP_FREEBIND", hasTcp);
        if (socket.FreeBind && socket.LocalEndPoint is null)
            errors.Add("Socket.FreeBind = True, has no effect without Socket.LocalEndPoint");
        if (socket.FastOpen && hasTcp)
            FastOpenIsOn(errors, $"{Group}{nameof(socket.FastOpen)} = True", "clients", FastOpenClientBit);
    }

    private static void CheckCommon(OptionErrors errors, ConnectionSocketOptions options, bool hasTcp)
    {
        OnTcp(errors, nameof(options.NoDelay), options.NoDelay, true, "TCP_NODELAY", hasTcp);
        OnTcp(errors, nameof(options.KeepAlive), options.KeepAlive, false, "SO_KEEPALIVE", hasTcp);
        OnTcp(errors, nameof(options.KeepAliveTime), options.KeepAliveTime, TimeSpan.Zero, "TCP_KEEPIDLE", hasTcp);
        OnTcp(errors, nameof(options.KeepAliveInterval), options.KeepAliveInterval, TimeSpan.Zero,
            "TCP_KEEPINTVL", hasTcp);
        OnTcp(errors, nameof(options.KeepAliveCount), options.KeepAliveCount, 0, "TCP_KEEPCNT", hasTcp);
        OnLinux(errors, nameof(options.UserTimeout), options.UserTimeout, TimeSpan.Zero, "TCP_USER_TIMEOUT", hasTcp);
        OnLinux(errors, nameof(options.TypeOfService), options.TypeOfService, 0, "IP_TOS", hasTcp);
        OnLinux(errors, nameof(options.Mark), options.Mark, 0u, "SO_MARK", hasTcp);
        OnLinux(errors, nameof(options.BusyPoll), options.BusyPoll, TimeSpan.Zero, "SO_BUSY_POLL", hasTcp);
        OnLinux(errors, nameof(options.BindToDevice), options.BindToDevice, null, "SO_BINDTODEVICE", hasTcp);
    }

    /// <summary>Returns false for the memory engine, which has no sockets and no kind.</summary>
    private static bool HasSockets(Engine engine) => engine.Kind != EngineKind.Auto;

    private static bool OnTcp(OptionErrors errors, string name, object? value, object? unset, string systemName,
        bool hasTcp)
    {
        if (Equals(value, unset)) return false;
        if (!hasTcp) errors.Add($"{Group}{name} = {value}, Unix sockets have no {systemName}");
        return hasTcp;
    }

    private static void OnLinux(OptionErrors errors, string name, object? value, object? unset, string systemName,
        bool hasTcp)
    {
        if (OnTcp(errors, name, value, unset, systemName, hasTcp) && !KernelProbe.IsLinux)
            errors.Add($"{Group}{name} = {value}, of the systems that this library knows only Linux has {systemName}");
    }

    /// <summary>
    /// Adds a mistake if fast open is off system-wide: the system then accepts the option without an effect.
    /// </summary>
    private static void FastOpenIsOn(OptionErrors errors, string option, string who, int bit)
    {
        try
        {
            if (!File.Exists(FastOpenFile) || !int.TryParse(File.ReadAllText(FastOpenFile),
                CultureInfo.InvariantCulture, out int bits) || (bits & bit) != 0)
                return;
            errors.Add($"{option}, fast open is off for {who} on this system: net.ipv4.tcp_fastopen = {bits}, needs "
                + $"bit {bit} (sysctl -w net.ipv4.tcp_fastopen=3)");
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The file is not readable for this process. If fast open is off, connections open as slowly as without the
            // option.
        }
    }
}
