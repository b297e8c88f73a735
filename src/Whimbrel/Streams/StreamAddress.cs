using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Streams;

/// <summary>The address form, as far as the servers of streams need it: a literal address and a port, or a path.</summary>
internal static class StreamAddress
{
    internal static EndPoint ToEndPoint(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        if (address.StartsWith("unix:", StringComparison.Ordinal) && address.Length > 5) return new UnixDomainSocketEndPoint(address[5..]);
        if (address.StartsWith("tcp://", StringComparison.Ordinal) && address.LastIndexOf(':') > 6 && IPEndPoint.TryParse(address.AsSpan(6), out IPEndPoint? endPoint)) return endPoint;
        throw new ArgumentException($"'{address}' is not an address: write tcp://127.0.0.1:1111, tcp://[::1]:1111 or unix:/path.", nameof(address));
    }
}
