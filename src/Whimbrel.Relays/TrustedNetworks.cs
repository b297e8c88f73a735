using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Relays;

/// <summary>Networks of the trusted proxies. Immutable and thread-safe.</summary>
public sealed class TrustedNetworks
{
    private readonly IPNetwork[] _networks;
    private readonly bool _hasUnix;
    private readonly bool _hasAll;

    private TrustedNetworks(IPNetwork[] networks, bool hasUnix, bool hasAll) =>
        (_networks, _hasUnix, _hasAll) = (networks, hasUnix, hasAll);

    /// <summary>
    /// All peers. Safe only if no client can reach the port directly, because a trusted peer can claim any address.
    /// </summary>
    public static TrustedNetworks Everybody { get; } = new([], true, true);

    /// <summary>Parses a list of networks.</summary>
    /// <param name="networks">
    /// Networks (<c>10.0.0.0/8</c>, <c>fd00::/8</c>), addresses (<c>127.0.0.1</c>), or <c>unix</c> for the peers of
    /// Unix sockets.
    /// </param>
    /// <exception cref="ArgumentException">
    /// The list is empty or has invalid entries; the message names all of them.
    /// </exception>
    public static TrustedNetworks Parse(params ReadOnlySpan<string> networks)
    {
        List<IPNetwork> read = [];
        List<string> mistakes = [];
        bool hasUnix = false;
        foreach (string text in networks)
        {
            if (text == "unix") hasUnix = true;
            else if (IPNetwork.TryParse(text, out IPNetwork network)) read.Add(Plain(network));
            else if (IPAddress.TryParse(text, out IPAddress? address))
                read.Add(Plain(new IPNetwork(address, address.GetAddressBytes().Length * 8)));
            else mistakes.Add($"'{text}' is no network (10.0.0.0/8), no address and not 'unix'");
        }

        if (networks.IsEmpty) mistakes.Add("the list is empty");
        if (mistakes.Count > 0)
            throw new ArgumentException($"Trusted networks: {string.Join("; ", mistakes)}.", nameof(networks));
        return new TrustedNetworks([.. read], hasUnix, false);
    }

    /// <summary>
    /// Returns whether a peer is in one of the networks. An IPv4-mapped IPv6 address counts as the IPv4 address.
    /// </summary>
    /// <param name="peer">Address of the peer. Null is contained in <see cref="Everybody"/> only.</param>
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
        network.BaseAddress.IsIPv4MappedToIPv6 && network.PrefixLength >= 96
            ? new IPNetwork(network.BaseAddress.MapToIPv4(), network.PrefixLength - 96)
            : network;
}
