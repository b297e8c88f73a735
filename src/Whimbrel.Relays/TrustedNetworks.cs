using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Relays;

/// <summary>Whose word counts: the networks that proxies stand in. Never changes; any thread.</summary>
public sealed class TrustedNetworks
{
    private readonly IPNetwork[] _networks;
    private readonly bool _hasUnix;
    private readonly bool _hasAll;

    private TrustedNetworks(IPNetwork[] networks, bool hasUnix, bool hasAll) => (_networks, _hasUnix, _hasAll) = (networks, hasUnix, hasAll);

    /// <summary>Everybody: where only proxies can reach the port at all. Whoever else can, may claim to be anybody.</summary>
    public static TrustedNetworks Everybody { get; } = new([], true, true);

    /// <summary>Reads a list.</summary>
    /// <param name="networks">Each a network (<c>10.0.0.0/8</c>, <c>fd00::/8</c>), an address (<c>127.0.0.1</c>), or <c>unix</c> for the peers of Unix sockets.</param>
    /// <exception cref="ArgumentException">The list is empty, or something in it is none of these; all mistakes are named.</exception>
    public static TrustedNetworks Parse(params ReadOnlySpan<string> networks)
    {
        List<IPNetwork> read = [];
        List<string> mistakes = [];
        bool hasUnix = false;
        foreach (string text in networks)
        {
            if (text == "unix") hasUnix = true;
            else if (IPNetwork.TryParse(text, out IPNetwork network)) read.Add(Plain(network));
            else if (IPAddress.TryParse(text, out IPAddress? address)) read.Add(Plain(new IPNetwork(address, address.GetAddressBytes().Length * 8)));
            else mistakes.Add($"'{text}' is no network (10.0.0.0/8), no address and not 'unix'");
        }

        if (networks.IsEmpty) mistakes.Add("the list is empty");
        if (mistakes.Count > 0) throw new ArgumentException($"Trusted networks: {string.Join("; ", mistakes)}.", nameof(networks));
        return new TrustedNetworks([.. read], hasUnix, false);
    }

    /// <summary>True when this peer is in one of them. An IPv4 address in IPv6 form is the IPv4 address.</summary>
    /// <param name="peer">The peer of a connection; null is in none but <see cref="Everybody"/>.</param>
    public bool Contains(EndPoint? peer)
    {
        if (_hasAll) return true;
        if (peer is UnixDomainSocketEndPoint) return _hasUnix;
        if (peer is not IPEndPoint { Address: { } address }) return false;
        if (address.IsIPv4MappedToIPv6) address = address.MapToIPv4();
        foreach (IPNetwork network in _networks)
        {
            if (network.BaseAddress.AddressFamily == address.AddressFamily && network.Contains(address)) return true;
        }

        return false;
    }

    private static IPNetwork Plain(IPNetwork network) =>
        network.BaseAddress.IsIPv4MappedToIPv6 && network.PrefixLength >= 96 ? new IPNetwork(network.BaseAddress.MapToIPv4(), network.PrefixLength - 96) : network;
}
