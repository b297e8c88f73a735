using System.Globalization;
using System.Net;

namespace Whimbrel.Tool;

/// <summary>HOST:PORT as people type it; IPv6 addresses stand in brackets.</summary>
/// <param name="Host">A name or an address, without brackets.</param>
/// <param name="Port">0 to 65535.</param>
internal readonly record struct Address(string Host, int Port)
{
    internal static Address? Parse(string text)
    {
        int colon = text.LastIndexOf(':');
        if (colon < 1 || !int.TryParse(text.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out int port) || port > IPEndPoint.MaxPort) return null;
        string host = text[..colon];
        bool isBracketed = host.StartsWith('[') && host.EndsWith(']');
        if (isBracketed) host = host[1..^1];

        // A bare ::1:80 could mean two things.
        return host.Length == 0 || host.Contains(':') != isBracketed ? null : new Address(host, port);
    }

    /// <summary>The address to listen at, or null when the host is neither an address nor one of the two words that mean one.</summary>
    internal IPEndPoint? ToListenEndPoint() => Host switch
    {
        "localhost" => new IPEndPoint(IPAddress.Loopback, Port),
        "*" => new IPEndPoint(IPAddress.IPv6Any, Port),
        _ => TryLiteral(out IPAddress? address) ? new IPEndPoint(address!, Port) : null,
    };

    /// <summary>All addresses of the host, in the order in which the system wants them tried.</summary>
    internal async Task<IPEndPoint[]> ResolveAsync(CancellationToken cancellationToken)
    {
        int port = Port;
        if (TryLiteral(out IPAddress? address)) return [new IPEndPoint(address!, port)];
        IPAddress[] found = await Dns.GetHostAddressesAsync(Host, cancellationToken);
        return [.. found.Select(a => new IPEndPoint(a, port))];
    }

    // IPAddress takes "7" for 0.0.0.7; nobody who types that means it.
    private bool TryLiteral(out IPAddress? address) =>
        IPAddress.TryParse(Host, out address) && (Host.Contains(':') || Host.Count(static c => c == '.') == 3);

    /// <summary>As it is typed.</summary>
    public override string ToString() => Host.Contains(':') ? $"[{Host}]:{Port}" : $"{Host}:{Port}";
}
