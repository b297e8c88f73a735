using System.Net;
using System.Net.NetworkInformation;
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
    public override string ToString() => $"{Address}{(Interface is null ? "" : $" on {Interface}")}{(Source is null ? "" : $" from {Source}")}";

    /// <summary>Throws an argument exception for a mistake.</summary>
    internal void Check(string name)
    {
        if (Address is null) throw new ArgumentException("The group has no address.", name);
        if (!IsGroup(Address)) throw new ArgumentException($"{Address} is no multicast group: groups are 224.0.0.0 to 239.255.255.255 and ff00::/8.", name);
        if (Source is null) return;
        if (Source.AddressFamily != Address.AddressFamily) throw new ArgumentException($"Source {Source} and group {Address} are of different families.", name);
        if (IsGroup(Source)) throw new ArgumentException($"Source {Source} is a group: a source is one sender's address.", name);
    }

    internal static bool IsGroup(IPAddress address)
    {
        if (address.AddressFamily == AddressFamily.InterNetworkV6) return address.IsIPv6Multicast;
        Span<byte> bytes = stackalloc byte[4];
        return address.TryWriteBytes(bytes, out _) && (bytes[0] & 0xF0) == 0xE0;
    }

    /// <summary>
    /// Returns the number of an interface; 0 for null. Throws <see cref="NetworkException"/> if no interface has that
    /// name, number or address. Makes system calls: not on a hot path.
    /// </summary>
    internal static int IndexOf(string? name)
    {
        if (name is null) return 0;
        if (int.TryParse(name, out int number) && number > 0) return number;
        IPAddress? address = IPAddress.TryParse(name, out IPAddress? parsed) ? parsed : null;
        foreach (NetworkInterface one in NetworkInterface.GetAllNetworkInterfaces())
        {
            bool isIt = one.Name == name;
            if (!isIt && address is null) continue;
            IPInterfaceProperties properties = one.GetIPProperties();
            if (!isIt)
            {
                foreach (UnicastIPAddressInformation unicast in properties.UnicastAddresses) isIt |= unicast.Address.Equals(address);
            }

            if (isIt) return NumberOf(properties);
        }

        throw new NetworkException(new NetworkError(Linux.Errno.ENODEV, ErrorCategory.Option, $"No network interface is called, or has the address, '{name}'. See docs/symptoms/multicast.md, or: whimbrel explain multicast."));
    }

    private static int NumberOf(IPInterfaceProperties properties)
    {
        try
        {
            return properties.GetIPv4Properties().Index;
        }
        catch (NetworkInformationException)
        {
            // The interface has no IPv4.
            return properties.GetIPv6Properties().Index;
        }
    }
}
