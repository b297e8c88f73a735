using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Datagrams;

/// <summary>Addresses of UDP, as the old APIs have them.</summary>
internal static class UdpAddress
{
    /// <summary>Any free port, in the family of that one.</summary>
    internal static EndPoint AnyOf(EndPoint target) => new IPEndPoint(target.AddressFamily == AddressFamily.InterNetworkV6 ? IPAddress.IPv6Any : IPAddress.Any, 0);
}
