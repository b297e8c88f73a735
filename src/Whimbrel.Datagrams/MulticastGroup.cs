using System.Net;
using System.Net.Sockets;

namespace Whimbrel;

/// <summary>An IP multicast group for a join: on one interface, from any source or a single one. A value.</summary>
/// <param name="Address">Address of the group: 224.0.0.0 to 239.255.255.255, or ff00::/8.</param>
/// <param name="Interface">Interface to receive on: a name such as "eth0", its number, or one of its addresses. Null:
/// chosen by the system's routes.</param>
/// <param name="Source">The only sender to accept (source-specific multicast); null accepts any sender.</param>
public sealed record MulticastGroup(IPAddress Address, string? Interface = null, IPAddress? Source = null)
{
    /// <summary>Returns for example "239.1.1.1" or "239.1.1.1 on eth0 from 10.0.0.7".</summary>
    public override string ToString() =>
        $"{Address}{(Interface is null ? "" : $" on {Interface}")}{(Source is null ? "" : $" from {Source}")}";

    /// <summary>Throws an argument exception for a mistake.</summary>
    internal void Check(string name)
    {
        if (Address is null) throw new ArgumentException("The group has no address.", name);
        if (!IsGroup(Address))
            throw new ArgumentException(
                $"{Address} is no multicast group: groups are 224.0.0.0 to 239.255.255.255 and ff00::/8.", name);
        if (Source is null) return;
        if (Source.AddressFamily != Address.AddressFamily)
            throw new ArgumentException($"Source {Source} and group {Address} are of different families.", name);
        if (IsGroup(Source))
            throw new ArgumentException($"Source {Source} is a group: a source is one sender's address.", name);
    }

    internal static bool IsGroup(IPAddress address)
    {
        if (address.AddressFamily == AddressFamily.InterNetworkV6) return address.IsIPv6Multicast;
        Span<byte> bytes = stackalloc byte[4];
        return address.TryWriteBytes(bytes, out _) && (bytes[0] & 0xF0) == 0xE0;
    }
}
