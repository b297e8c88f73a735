using System.Net;

namespace Whimbrel.Clusters;

/// <summary>Servers and credentials of an address: <c>nats://user:password@host:port,other:port</c>.</summary>
internal sealed class NatsAddress
{
    private const int DefaultPort = 4222;
    private const string Form =
        "right would be nats://host:4222, nats://user:password@host:4222 or nats://one:4222,two:4222";

    private NatsAddress(List<EndPoint> servers, string text, bool wantsTls, string? user, string? password)
    {
        Servers = servers;
        Text = text;
        WantsTls = wantsTls;
        User = user;
        Password = password;
    }

    /// <summary>Servers in the order of the connection attempts.</summary>
    internal IReadOnlyList<EndPoint> Servers { get; }

    /// <summary>Address without credentials.</summary>
    internal string Text { get; }

    internal bool WantsTls { get; }

    /// <summary>User name; a token if there is no password.</summary>
    internal string? User { get; }

    internal string? Password { get; }

    internal static NatsAddress Parse(string address)
    {
        ArgumentException.ThrowIfNullOrEmpty(address);
        string? user = null, password = null, scheme = null;
        List<EndPoint> servers = [];
        List<string> texts = [];
        foreach (string part in address.Split(','))
        {
            string text =
                scheme is not null && !part.Contains("://", StringComparison.Ordinal) ? $"{scheme}://{part}" : part;
            // The address may contain a password, so the message does not repeat it.
            if (!Uri.TryCreate(text, UriKind.Absolute, out Uri? uri) || uri.Scheme is not ("nats" or "tls")
                || uri.Host.Length == 0)
                throw BrokerSettings.Wrong($"it is no address of NATS; {Form}");
            if (uri.AbsolutePath is not ("" or "/") || uri.Query.Length > 0 || uri.Fragment.Length > 0)
                throw BrokerSettings.Wrong($"something follows host and port; {Form}");
            if (scheme is not null && uri.Scheme != scheme)
                throw BrokerSettings.Wrong("all servers of one address have the same scheme");
            scheme = uri.Scheme;
            if (uri.UserInfo.Length > 0)
            {
                string[] login = uri.UserInfo.Split(':', 2);
                (user, password) = (Uri.UnescapeDataString(login[0]),
                    login.Length == 2 ? Uri.UnescapeDataString(login[1]) : null);
            }

            (EndPoint server, string place) = BrokerSettings.PlaceOf(uri, DefaultPort);
            servers.Add(server);
            texts.Add(place);
        }

        return new NatsAddress(servers, $"{scheme}://{string.Join(',', texts)}", scheme == "tls", user, password);
    }
}
