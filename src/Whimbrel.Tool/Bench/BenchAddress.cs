namespace Whimbrel.Tool.Bench;

/// <summary>Parses the address of a load: HOST:PORT, or with the scheme of its protocol.</summary>
internal static class BenchAddress
{
    /// <summary>Returns the address with its scheme, or null and a message.</summary>
    internal static string? Read(BenchProtocol protocol, string text, out string? mistake)
    {
        string[] schemes = SchemesOf(protocol);
        bool hasScheme = text.Contains("://", StringComparison.Ordinal);
        if (hasScheme && !schemes.Any(s => text.StartsWith($"{s}://", StringComparison.OrdinalIgnoreCase)))
        {
            mistake = $"'{text}' is no address for bench {protocol.ToString().ToLowerInvariant()}, which takes "
                + $"HOST:PORT or {string.Join(" or ", schemes.Select(static s => $"{s}://"))}.";
            return null;
        }

        bool isPath = protocol == BenchProtocol.Tcp && text.StartsWith("unix:", StringComparison.OrdinalIgnoreCase);
        string whole = hasScheme || isPath ? text : $"{schemes[0]}://{text}";
        switch (protocol)
        {
            case BenchProtocol.Udp:
                return DatagramText.ReadForSending(whole, out mistake) is null ? null : whole;
            case BenchProtocol.Tcp or BenchProtocol.Tls:
                return AddressText.ReadForConnecting(whole, out mistake)?.ToString();
            default:
                bool isUrl = Uri.TryCreate(whole, UriKind.Absolute, out Uri? url) && url.Host.Length > 0
                    && url.UserInfo.Length == 0 && url.Fragment.Length == 0;
                mistake = isUrl ? null : $"'{text}' is no URL: use {schemes[0]}://HOST:PORT/PATH or "
                    + $"{schemes[1]}://HOST/PATH, without a fragment.";
                return isUrl ? url!.ToString() : null;
        }
    }

    internal static bool IsSecure(string address) => address.StartsWith("tls://", StringComparison.OrdinalIgnoreCase)
        || address.StartsWith("wss://", StringComparison.OrdinalIgnoreCase)
        || address.StartsWith("https://", StringComparison.OrdinalIgnoreCase);

    private static string[] SchemesOf(BenchProtocol protocol) => protocol switch
    {
        BenchProtocol.Tcp => ["tcp"],
        BenchProtocol.Tls => ["tls"],
        BenchProtocol.Ws => ["ws", "wss"],
        BenchProtocol.Http => ["http", "https"],
        _ => ["udp"],
    };
}
