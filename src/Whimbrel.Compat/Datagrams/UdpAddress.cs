using System.Net;
using System.Net.Sockets;
using Whimbrel.Compat.Links;

namespace Whimbrel.Compat.Datagrams;

/// <summary>Addresses and errors of UDP, as the old APIs have them.</summary>
internal static class UdpAddress
{
    /// <summary>With a name looked up. Blocks. Throws <see cref="SocketException"/> when there is none, or when it is cancelled.</summary>
    internal static EndPoint Of(EndPoint endPoint, CancellationToken cancelled = default)
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

    /// <summary>Any free port, in the family of that one.</summary>
    internal static EndPoint AnyOf(EndPoint target) => new IPEndPoint(target.AddressFamily == AddressFamily.InterNetworkV6 ? IPAddress.IPv6Any : IPAddress.Any, 0);
}
