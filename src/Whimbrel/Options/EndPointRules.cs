using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>Checks and normalizes the addresses of servers and clients.</summary>
internal static class EndPointRules
{
    /// <summary>
    /// Returns the addresses to listen on or connect to, from the three properties of the options. Mistakes are added
    /// to <paramref name="errors"/>; if it is null, unusable addresses are omitted.
    /// </summary>
    internal static List<EndPoint> Collect(OptionErrors? errors, string? address, EndPoint? endPoint,
        IReadOnlyList<EndPoint> endPoints, Engine engine, bool toListen)
    {
        List<EndPoint> found = [];
        if (endPoint is not null && endPoints.Count > 0)
            errors?.Add("EndPoint and EndPoints are both given: use one of them");
        else if (address is not null && (endPoint is not null || endPoints.Count > 0))
            errors?.Add($"Address and {(endPoint is null ? "EndPoints" : "EndPoint")} are both given: use one of them");
        if (address is not null) AddAddress(found, errors, address, engine, toListen);
        else if (endPoint is null && endPoints.Count == 0)
            errors?.Add("EndPoint is missing: give an IPEndPoint or a UnixDomainSocketEndPoint, or an Address such as "
                + "tcp://localhost:80");
        foreach (EndPoint given in endPoint is null ? endPoints : [endPoint])
        {
            if (given is InheritedSocket inherited)
            {
                if (errors is not null) CheckInherited(errors, nameof(EndPoint), inherited, engine, toListen);
                found.Add(given);
                continue;
            }

            if (errors is not null) Check(errors, nameof(EndPoint), given, engine, allowName: !toListen);
            if (!toListen) AddTarget(found, errors, nameof(EndPoint), given);
            else if (given is not null) found.Add(Plain(given));
        }

        return found;
    }

    /// <summary>Returns the end point of a status socket with an absolute path; or null and the mistake.</summary>
    internal static UnixDomainSocketEndPoint? StatusAt(string path, out string? mistake)
    {
        mistake = null;
        if (path.Length == 0) mistake = "is empty: give the path of a Unix socket, or null for none";
        else if (path[0] is '@' or '\0')
            mistake = $"{path} is an abstract name, which has no permissions: any process could connect. Give the "
                + $"path of a file";
        if (mistake is not null) return null;
        try
        {
            return new UnixDomainSocketEndPoint(Path.GetFullPath(path));
        }
        catch (ArgumentException)
        {
            mistake = $"{Path.GetFullPath(path)} is too long for a Unix socket";
            return null;
        }
    }

    private static void AddAddress(List<EndPoint> found, OptionErrors? errors, string text, Engine engine,
        bool toListen)
    {
        if (!NetworkAddress.TryParse(text, out NetworkAddress? address, out string? mistake))
        {
            errors?.Add($"Address: {mistake.TrimEnd('.')}");
            return;
        }

        // An HTTP server replaces the scheme before the core reads the address.
        if (text.StartsWith("http", StringComparison.OrdinalIgnoreCase))
        {
            errors?.Add($"Address = {text}, but a plain {(toListen ? "Server" : "Client")} does not speak HTTP: use "
                + $"{(toListen ? "HttpServer" : "HttpPool")} of the package Whimbrel.Http, or write {address}");
            return;
        }

        if (address.Service is { } service && ServiceNames.PortOf(service) is null)
        {
            errors?.Add($"Address: {address.NoService}");
            return;
        }

        if (address.Scheme is NetworkAddress.Systemd or NetworkAddress.Descriptor)
        {
            AddInherited(found, errors, address, engine, toListen);
            return;
        }

        EndPoint? endPoint = address.Scheme is NetworkAddress.Tcp or NetworkAddress.Tls or NetworkAddress.Unix
            ? address.ToEndPoint()
            : engine.EndPointOf(address);
        if (endPoint is null)
            errors?.Add($"Address = {address}, the {engine.KindName} engine has no addresses of that kind"
                + (address.Scheme != NetworkAddress.Memory
                    ? ""
                    : ": set Engine to a MemoryEngine of Whimbrel.Testing"));
        else if (!toListen) AddTarget(found, errors, "Address", endPoint, address.IsWildcard);
        else if (endPoint is not DnsEndPoint dns) found.Add(endPoint);
        else if (dns.Host == "localhost") found.Add(new IPEndPoint(IPAddress.Loopback, dns.Port));
        else errors?.Add($"Address = {address}, a server listens at addresses of this machine: give one, or localhost, "
            + $"or * for all");
    }

    /// <summary>Adds the sockets of <c>systemd:NAME</c> or <c>fd:NUMBER</c>.</summary>
    private static void AddInherited(List<EndPoint> found, OptionErrors? errors, NetworkAddress address, Engine engine,
        bool toListen)
    {
        List<InheritedSocket> sockets = address.FindInherited(out string? mistake);
        if (mistake is not null) errors?.Add($"Address = {address}, {mistake}");
        if (errors is not null && sockets.Count > 0)
            CheckInherited(errors, "Address", sockets[0], engine, toListen);
        found.AddRange(sockets);
    }

    /// <summary>Adds the mistake if a socket of another process cannot serve.</summary>
    internal static void CheckInherited(OptionErrors errors, string name, InheritedSocket socket, Engine engine,
        bool toListen, SocketType type = SocketType.Stream)
    {
        if (!toListen)
            errors.Add($"{name} = {socket}, a socket that another process opened is for servers: a client connects "
                + $"to an address, as in tcp://localhost:80");
        // The memory engine has no kind.
        else if (engine.Kind is EngineKind.Auto or EngineKind.Portable)
            errors.Add($"{name} = {socket}, the {engine.KindName} engine uses no sockets of other processes: use epoll "
                + "or io_uring");
        else if (socket.SocketType != type)
            errors.Add($"{name} = {socket} is a {(type == SocketType.Stream ? "datagram" : "stream")} socket: "
                + (type == SocketType.Stream ? "use a DatagramSocket (package Whimbrel.Datagrams)" : "use a Server"));
    }

    /// <summary>Returns whether the address asks for TLS.</summary>
    internal static bool WantsTls(string? address) =>
        NetworkAddress.TryParse(address, out NetworkAddress? parsed) && parsed.Scheme == NetworkAddress.Tls;

    /// <summary>Adds an address to connect to. The wildcard address is replaced by the loopback address.</summary>
    private static void AddTarget(List<EndPoint> found, OptionErrors? errors, string name, EndPoint? endPoint,
        bool isWildcard = false)
    {
        if (endPoint is IPEndPoint { Port: 0 } or DnsEndPoint { Port: 0 })
            errors?.Add($"{name} has port 0, allowed 1 to 65535");
        if (endPoint is IPEndPoint { Address: { IsIPv6LinkLocal: true, ScopeId: 0 } } local)
            errors?.Add(
                $"{name} = {endPoint}, a link-local address needs its interface: [{local.Address}%eth0]:{local.Port}");
        switch (endPoint is null ? null : Plain(endPoint))
        {
            case null:
                break;
            case IPEndPoint any when any.Address.Equals(IPAddress.IPv6Any):
                found.Add(new IPEndPoint(IPAddress.IPv6Loopback, any.Port));
                if (isWildcard) found.Add(new IPEndPoint(IPAddress.Loopback, any.Port));
                break;
            case IPEndPoint any when any.Address.Equals(IPAddress.Any):
                found.Add(new IPEndPoint(IPAddress.Loopback, any.Port));
                break;
            case DnsEndPoint { Host: var host } dns when NetworkAddress.TryIPv4(host, out IPAddress? literal)
                || (host.Contains(':', StringComparison.Ordinal) && IPAddress.TryParse(host, out literal)):
                found.Add(Plain(new IPEndPoint(literal!, dns.Port)));
                break;
            case { } other:
                found.Add(other);
                break;
        }
    }

    /// <summary>
    /// Converts an IPv4-mapped IPv6 address to IPv4, because systems differ in whether an IPv6 socket accepts it.
    /// </summary>
    internal static EndPoint Plain(EndPoint endPoint) =>
        endPoint is IPEndPoint { Address.IsIPv4MappedToIPv6: true } mapped
            ? new IPEndPoint(mapped.Address.MapToIPv4(), mapped.Port)
            : endPoint;

    internal static void Check(OptionErrors errors, string name, EndPoint? endPoint, Engine engine,
        bool allowName = false)
    {
        switch (endPoint)
        {
            case null:
                errors.Add($"{name} is missing: give an IPEndPoint or a UnixDomainSocketEndPoint");
                break;
            case IPEndPoint:
                break;
            case UnixDomainSocketEndPoint unix
                when Encoding.UTF8.GetByteCount(unix.ToString() ?? "") is 0 or > SocketAbi.MaxUnixPathBytes:
                errors.Add($"{name} = {unix}, a Unix path must have 1 to {SocketAbi.MaxUnixPathBytes} bytes");
                break;
            case UnixDomainSocketEndPoint:
                break;
            case DnsEndPoint when allowName:
                break;
            case DnsEndPoint dns:
                errors.Add($"{name} = {dns}, host names are not resolved here: give an IPEndPoint of this machine");
                break;
            default:
                if (!engine.Supports(endPoint)) errors.Add(
                    $"{name} = {endPoint} ({endPoint.GetType().Name}), allowed IPEndPoint or UnixDomainSocketEndPoint");
                break;
        }
    }
}
