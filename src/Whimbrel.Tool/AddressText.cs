using System.Net;

namespace Whimbrel.Tool;

/// <summary>Parses addresses of the command line: the library's form, or HOST:PORT, which means TCP.</summary>
internal static class AddressText
{
    /// <summary>Parses an address. Returns null and a message for invalid text.</summary>
    internal static NetworkAddress? Read(string text, out string? mistake)
    {
        if (DatagramText.IsDatagrams(text))
        {
            mistake = $"'{text}' is an address for datagrams: use it with whimbrel serve udp, whimbrel connect or "
                + $"whimbrel join.";
            return null;
        }

        // HTTP servers of the library accept these addresses; the commands that use this method speak TCP and TLS.
        if (text.StartsWith("http://", StringComparison.OrdinalIgnoreCase)
            || text.StartsWith("https://", StringComparison.OrdinalIgnoreCase))
        {
            mistake = $"'{text}' is no address: '{text[..text.IndexOf(':', StringComparison.Ordinal)]}' is no scheme "
                + $"here, allowed tcp, tls, unix and memory. To send a request: whimbrel get {text}";
            return null;
        }

        bool hasScheme = text.Contains("://", StringComparison.Ordinal)
            || text.StartsWith("unix:", StringComparison.OrdinalIgnoreCase)
            || text.StartsWith("systemd:", StringComparison.OrdinalIgnoreCase)
            || text.StartsWith("fd:", StringComparison.OrdinalIgnoreCase);
        return NetworkAddress.TryParse(hasScheme || text.Length == 0 ? text : "tcp://" + text,
            out NetworkAddress? address, out mistake) ? address : null;
    }

    /// <summary>Parses an address at which a server of this machine can listen.</summary>
    internal static NetworkAddress? ReadForListening(string text, out string? mistake)
    {
        NetworkAddress? address = Read(text, out mistake);
        if (address is null) return null;
        // The start finds the sockets, and reports what is missing.
        if (address.Scheme is "systemd" or "fd") return address;
        if (EndPointOf(address, out mistake) is not { } endPoint) return null;
        if (endPoint is not DnsEndPoint { Host: not "localhost" }) return address;
        mistake =
            $"'{text}' names a host: a server listens at an address of this machine, at localhost, or at * for all.";
        return null;
    }

    /// <summary>Parses an address to connect to.</summary>
    internal static NetworkAddress? ReadForConnecting(string text, out string? mistake)
    {
        NetworkAddress? address = Read(text, out mistake);
        if (address is null || EndPointOf(address, out mistake) is null) return null;
        if (address.Port != 0) return address;
        mistake = $"'{text}' has port 0: a port to connect to is 1 to 65535.";
        return null;
    }

    private static EndPoint? EndPointOf(NetworkAddress address, out string? mistake)
    {
        mistake = null;
        try
        {
            return address.ToEndPoint();
        }
        catch (Exception e) when (e is FormatException or NotSupportedException)
        {
            mistake = e.Message + ".";
            return null;
        }
    }
}
