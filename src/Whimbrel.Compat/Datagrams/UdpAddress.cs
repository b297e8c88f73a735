using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Datagrams;

/// <summary>UDP addresses of the original APIs.</summary>
internal static class UdpAddress
{
    /// <summary>Returns the wildcard address with port 0, in the family of the target.</summary>
    internal static EndPoint AnyOf(EndPoint target) =>
        new IPEndPoint(target.AddressFamily == AddressFamily.InterNetworkV6 ? IPAddress.IPv6Any : IPAddress.Any, 0);
}
