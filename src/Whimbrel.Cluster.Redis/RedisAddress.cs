using System.Net;

namespace Whimbrel.Clusters;

/// <summary>Servers and credentials of an address: <c>redis://user:password@host:port,other:port</c>.</summary>
internal sealed record RedisAddress(IReadOnlyList<EndPoint> Servers, string Text, bool WantsTls, string? User,
    string? Password)
{
    private const int DefaultPort = 6379;
    private const string Form = "right would be redis://host:6379, redis://:password@host, rediss://user:password@host "
        + "for TLS, or redis://one:6379,two:6379";

    internal static RedisAddress Parse(string address)
    {
        ArgumentException.ThrowIfNullOrEmpty(address);
        int end = address.IndexOf("://", StringComparison.Ordinal);
        string scheme = end < 0 ? "" : address[..end];
        // The address may contain a password, so the message does not repeat it.
        if (scheme is not ("redis" or "rediss")) throw BrokerSettings.Wrong($"it is no address of Redis; {Form}");
        string? user = null, password = null;
        List<EndPoint> servers = [];
        List<string> texts = [];
        foreach (string part in address[(end + 3)..].Split(','))
        {
            if (!Uri.TryCreate($"{scheme}://{part}", UriKind.Absolute, out Uri? uri) || uri.Host.Length == 0)
                throw BrokerSettings.Wrong($"one of its servers has no form; {Form}");
            // Such addresses often contain a database number, which has no effect on publish and subscribe.
            if (uri.Query.Length > 0 || uri.Fragment.Length > 0
                || !uri.AbsolutePath.TrimStart('/').All(char.IsAsciiDigit))
                throw BrokerSettings.Wrong($"something follows host and port; {Form}");
            int colon = uri.UserInfo.IndexOf(':', StringComparison.Ordinal);
            if (uri.UserInfo.Length > 0 && colon < 0)
                throw BrokerSettings.Wrong("it has a user without a password; a password alone has a colon before it");
            if (colon >= 0)
                (user, password) = (colon == 0 ? null : Uri.UnescapeDataString(uri.UserInfo[..colon]),
                    Uri.UnescapeDataString(uri.UserInfo[(colon + 1)..]));
            (EndPoint server, string place) = BrokerSettings.PlaceOf(uri, DefaultPort);
            servers.Add(server);
            texts.Add(place);
        }

        return new RedisAddress(servers, $"{scheme}://{string.Join(',', texts)}", scheme == "rediss", user, password);
    }
}
