using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>Implementation of the resolvers of CSharpServer: the connects and look-ups in progress, which can be
/// cancelled, and the look-up of names. Any thread may use it.</summary>
internal sealed class Resolving
{
    private readonly Lock _gate = new();
    private readonly List<Link> _connecting = [];
    private CancellationTokenSource? _lookUps;

    /// <summary>Token for look-ups of UDP, which has no connect. Cancelled by the next <see cref="Cancel"/>.</summary>
    internal CancellationToken LookUps
    {
        get
        {
            lock (_gate) return (_lookUps ??= new CancellationTokenSource()).Token;
        }
    }

    internal void Begin(Link link)
    {
        lock (_gate)
        {
            _connecting.RemoveAll(static l => !l.IsConnecting);
            if (!_connecting.Contains(link)) _connecting.Add(link);
        }
    }

    internal void Cancel()
    {
        Link[] all;
        CancellationTokenSource? lookUps;
        lock (_gate)
        {
            all = [.. _connecting];
            _connecting.Clear();
            (lookUps, _lookUps) = (_lookUps, null);
        }

        lookUps?.Cancel();

        foreach (Link link in all)
        {
            if (link.IsConnecting) link.Disconnect(waits: false);
        }
    }

    /// <summary>Returns the end point that a client connects to. As in asio, a name needs a resolver; without one only
    /// numeric addresses are valid.</summary>
    internal static EndPoint EndPointOf(string address, int port, bool hasResolver)
    {
        if (IPAddress.TryParse(address, out IPAddress? digits)) return new IPEndPoint(digits, port);
        return hasResolver
            ? new DnsEndPoint(address, port)
            : throw new SocketException((int)SocketError.InvalidArgument);
    }

    /// <summary>Looks up a name, and blocks. Throws <see cref="SocketException"/> if there is no address, or if it is
    /// cancelled.</summary>
    internal static EndPoint LookUp(EndPoint endPoint, CancellationToken cancelled = default)
    {
        if (endPoint is not DnsEndPoint name) return endPoint;
        IPAddress[] found;
        try
        {
            found = Wait.For(Dns.GetHostAddressesAsync(name.Host, name.AddressFamily, cancelled));
        }
        catch (OperationCanceledException)
        {
            throw new SocketException((int)SocketError.OperationAborted);
        }

        if (found.Length == 0) throw new SocketException((int)SocketError.HostNotFound);
        return new IPEndPoint(found[0], name.Port);
    }

    /// <summary>Returns the port of a service: a number, or one of these common names.</summary>
    internal static int PortOf(string scheme) =>
        int.TryParse(scheme, out int port) && port is > 0 and < 65536 ? port : scheme.ToLowerInvariant() switch
        {
            "echo" => 7,
            "ftp" => 21,
            "ssh" => 22,
            "telnet" => 23,
            "smtp" => 25,
            "domain" => 53,
            "http" => 80,
            "ntp" => 123,
            "imap" => 143,
            "https" => 443,
            "imaps" => 993,
            _ => throw new SocketException((int)SocketError.TypeNotFound),
        };
}
