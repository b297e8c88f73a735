using System.Globalization;

namespace Whimbrel.Clusters;

/// <summary>
/// Servers, credentials and virtual host of an address: <c>amqp://user:password@host:port,other/vhost</c>.
/// </summary>
internal sealed record RabbitMqAddress(IReadOnlyList<(string Host, int Port)> Servers, string Text, bool WantsTls,
    string? User, string? Password, string VirtualHost)
{
    private const string Form =
        "right would be amqp://user:password@host:5672, amqps:// for TLS, or amqp://one,two:5673/vhost";

    internal static RabbitMqAddress Parse(string address)
    {
        ArgumentException.ThrowIfNullOrEmpty(address);
        int end = address.IndexOf("://", StringComparison.Ordinal);
        string scheme = end < 0 ? "" : address[..end];
        // The address may contain a password, so the message does not repeat it.
        if (scheme is not ("amqp" or "amqps")) throw BrokerSettings.Wrong($"it is no address of RabbitMQ; {Form}");
        int port = scheme == "amqps" ? 5671 : 5672;
        string? user = null, password = null;
        string virtualHost = "/";
        List<(string, int)> servers = [];
        List<string> texts = [];
        foreach (string part in address[(end + 3)..].Split(','))
        {
            if (!Uri.TryCreate($"{scheme}://{part}", UriKind.Absolute, out Uri? uri) || uri.Host.Length == 0)
                throw BrokerSettings.Wrong($"one of its servers has no form; {Form}");
            if (uri.Query.Length > 0 || uri.Fragment.Length > 0 || uri.AbsolutePath.LastIndexOf('/') > 0)
                throw BrokerSettings.Wrong($"something follows host, port and virtual host; {Form}");
            int colon = uri.UserInfo.IndexOf(':', StringComparison.Ordinal);
            if (uri.UserInfo.Length > 0 && colon <= 0)
                throw BrokerSettings.Wrong("it has a user without a password, or a password without a user");
            if (colon > 0)
                (user, password) = (Uri.UnescapeDataString(uri.UserInfo[..colon]),
                    Uri.UnescapeDataString(uri.UserInfo[(colon + 1)..]));
            if (uri.AbsolutePath.Length > 1) virtualHost = Uri.UnescapeDataString(uri.AbsolutePath[1..]);
            (_, string place) = BrokerSettings.PlaceOf(uri, port);
            servers.Add((uri.HostNameType == UriHostNameType.IPv6 ? uri.Host.Trim('[', ']') : uri.IdnHost,
                uri.Port < 0 ? port : uri.Port));
            texts.Add(place);
        }

        string shown = virtualHost == "/"
            ? ""
            : string.Create(CultureInfo.InvariantCulture, $"/{Uri.EscapeDataString(virtualHost)}");
        return new RabbitMqAddress(servers, $"{scheme}://{string.Join(',', texts)}{shown}", scheme == "amqps", user,
            password, virtualHost);
    }
}
