using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Tool;

/// <summary>Parses addresses of datagram sockets and groups, and formats datagrams for output.</summary>
internal static class DatagramText
{
    internal const string Scheme = "udp://";

    private const int ShownBytes = 32;

    internal static bool IsDatagrams(string text) => text.StartsWith(Scheme, StringComparison.OrdinalIgnoreCase);

    /// <summary>Reads the address of a receiver: HOST:PORT, udp://HOST:PORT or unix:PATH.</summary>
    internal static NetworkAddress? ReadForSending(string text, out string? mistake) =>
        Read(text, AddressText.ReadForConnecting, out mistake);

    /// <summary>Parses the address to receive at: ADDR:PORT, udp://ADDR:PORT or unix:PATH.</summary>
    internal static NetworkAddress? ReadForReceiving(string text, out string? mistake) =>
        Read(text, AddressText.ReadForListening, out mistake);

    /// <summary>Parses GROUP or GROUP:PORT, with an IPv6 group in brackets if a port follows.</summary>
    internal static IPEndPoint? ReadGroup(string text, int defaultPort, out string? mistake)
    {
        mistake = null;
        string plain = IsDatagrams(text) ? text[Scheme.Length..] : text;
        // IPEndPoint parses "7:1" and "010.1.1.1" in a way that users do not expect.
        bool hasPort = plain.StartsWith('[')
            ? plain.Contains("]:", StringComparison.Ordinal)
            : plain.Count(static c => c == ':') == 1;
        string address = plain.StartsWith('[') && plain.IndexOf(']', StringComparison.Ordinal) is > 0 and int bracket
            ? plain[1..bracket] : hasPort ? plain[..plain.LastIndexOf(':')] : plain;
        if (!IPAddress.TryParse(address, out IPAddress? group)
            || (group.AddressFamily == AddressFamily.InterNetwork && address.Count(static c => c == '.') != 3)
            || (plain.StartsWith('[') && group.AddressFamily == AddressFamily.InterNetwork))
        {
            mistake = $"'{text}' is no group; right would be 239.1.1.1:{defaultPort} or [ff15::1]:{defaultPort}.";
            return null;
        }

        if (!new DatagramPeer(group, 0).IsMulticast)
        {
            mistake = $"{group} is no multicast group: groups are 224.0.0.0 to 239.255.255.255 and ff00::/8.";
            return null;
        }

        if (!hasPort && plain.EndsWith(']') == plain.StartsWith('[')) return new IPEndPoint(group, defaultPort);
        string port = plain[(plain.LastIndexOf(':') + 1)..];
        if (hasPort && int.TryParse(port, NumberStyles.None, CultureInfo.InvariantCulture, out int number)
            && number is >= 1 and <= IPEndPoint.MaxPort)
            return new IPEndPoint(group, number);
        mistake = $"'{port}' is no port of a group: that is a number from 1 to {IPEndPoint.MaxPort}.";
        return null;
    }

    /// <summary>Formats a numbered message or text; shows the first bytes of anything else.</summary>
    internal static string Describe(ReadOnlySpan<byte> datagram)
    {
        if (PushMessage.TryRead(datagram, out ulong sequence)) return $"message {sequence}";
        if (datagram.Length == 0) return "(empty)";
        ReadOnlySpan<byte> line = datagram.EndsWith("\n"u8) ? datagram[..^1] : datagram;
        if (IsText(line)) return ChatText.Clean(line);
        string more = datagram.Length > ShownBytes ? "..." : "";
        return $"0x{Convert.ToHexStringLower(datagram[..Math.Min(datagram.Length, ShownBytes)])}{more}";
    }

    /// <summary>As <see cref="Describe"/>, but text is unchanged, so that a sent line is printed as that
    /// line.</summary>
    internal static string DescribeLine(ReadOnlySpan<byte> datagram)
    {
        ReadOnlySpan<byte> line = datagram.EndsWith("\n"u8) ? datagram[..^1] : datagram;
        return IsText(line) ? Encoding.UTF8.GetString(line) : Describe(datagram);
    }

    /// <summary>Returns the addresses of a host for datagrams. Throws <see cref="NetworkException"/> if there are
    /// none.</summary>
    internal static async Task<EndPoint> LookUpAsync(NetworkAddress address, CancellationToken cancellationToken)
    {
        EndPoint endPoint = address.ToEndPoint();
        if (endPoint is not DnsEndPoint name) return endPoint;
        try
        {
            IPAddress[] found = await Dns.GetHostAddressesAsync(name.Host, cancellationToken);
            // Datagrams cannot race addresses: for localhost use IPv4, the default of this tool's servers.
            IPAddress? first = name.Host == "localhost"
                ? found.FirstOrDefault(static a => a.AddressFamily == AddressFamily.InterNetwork)
                : null;
            if (found.Length > 0) return new IPEndPoint(first ?? found[0], name.Port);
        }
        catch (Exception e) when (e is SocketException or ArgumentException)
        {
            // Reported below with a message of our own.
        }

        throw new NetworkException(new NetworkError(0, ErrorCategory.UnknownHost,
            $"Cannot send to {name.Host}: the host name is unknown."));
    }

    private static NetworkAddress? Read(string text, CommandLine.AddressReader read, out string? mistake)
    {
        // One form of host and port for both; only the scheme is ours.
        string form = IsDatagrams(text) ? $"tcp://{text[Scheme.Length..]}" : text;
        if (form.StartsWith("tcp://", StringComparison.OrdinalIgnoreCase) && !IsDatagrams(text))
        {
            mistake = $"'{text}' is a stream; right would be {Scheme}{text["tcp://".Length..]}.";
            return null;
        }

        NetworkAddress? address = read(form, out mistake);
        mistake = mistake?.Replace("tcp://", Scheme, StringComparison.Ordinal);
        return address;
    }

    private static bool IsText(ReadOnlySpan<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            if (Rune.DecodeFromUtf8(bytes, out Rune rune, out int count) != System.Buffers.OperationStatus.Done)
                return false;
            if (Rune.GetUnicodeCategory(rune) == UnicodeCategory.Control && rune.Value != '\t') return false;
            bytes = bytes[count..];
        }

        return true;
    }
}
