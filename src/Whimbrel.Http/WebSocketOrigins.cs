using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Origins of web pages from which a browser may connect. Any page can make a browser connect, with the cookies of the
/// server. So a server that trusts cookies must check Origin (RFC 6455, 10.2). Clients other than browsers send no
/// Origin and are accepted.
/// </summary>
public sealed class WebSocketOrigins
{
    private const string Http = "http";
    private const string Https = "https";

    private readonly string[]? _list;
    private readonly Rule _rule;

    private WebSocketOrigins(Rule rule, string[]? list = null)
    {
        _list = list;
        _rule = rule;
    }

    private enum Rule
    {
        Any,
        Listed,
        Same,
        SameBehindTls,
    }

    /// <summary>
    /// Pages of the requested host and port, with the scheme of this server: <c>https</c> on a connection with TLS,
    /// otherwise <c>http</c>. With a proxy that terminates TLS use <see cref="SameHostBehindTls"/>.
    /// </summary>
    public static WebSocketOrigins SameHost { get; } = new(Rule.Same);

    /// <summary>
    /// Pages of the requested host and port with the scheme <c>https</c>: for a server without TLS if the proxy
    /// terminates TLS and forwards <c>Host</c>.
    /// </summary>
    public static WebSocketOrigins SameHostBehindTls { get; } = new(Rule.SameBehindTls);

    /// <summary>All pages: for services that authenticate users by other means than cookies.</summary>
    public static WebSocketOrigins Any { get; } = new(Rule.Any);

    /// <summary>Returns a rule for pages of these origins only.</summary>
    /// <param name="origins">Origins as browsers send them: <c>https://example.org</c>, with a port unless it is the
    /// default of the scheme.</param>
    /// <exception cref="ArgumentException">One is not an origin: only a scheme, a host and optionally a port are
    /// allowed.</exception>
    public static WebSocketOrigins Of(params ReadOnlySpan<string> origins)
    {
        string[] list = new string[origins.Length];
        for (int i = 0; i < list.Length; i++)
        {
            string origin = origins[i];
            if (!Uri.TryCreate(origin, UriKind.Absolute, out Uri? uri) || uri.Host.Length == 0
                || uri.UserInfo.Length > 0 || uri.PathAndQuery != "/" || origin.EndsWith('/'))
                throw new ArgumentException(
                    $"An origin is a scheme, a host and perhaps a port, such as https://example.org: {origin}",
                    nameof(origins));
            // As a browser sends it: without the default port, and with the ASCII form of the host.
            string host = uri.HostNameType == UriHostNameType.IPv6 ? $"[{uri.IdnHost}]" : uri.IdnHost;
            list[i] = uri.IsDefaultPort ? $"{uri.Scheme}://{host}" : $"{uri.Scheme}://{host}:{uri.Port}";
        }

        return new WebSocketOrigins(Rule.Listed, list);
    }

    /// <summary>
    /// Returns whether the rule accepts a request: it has no Origin, as those of programs, or one accepted Origin. For
    /// handlers that change something and trust cookies or the network of the client (CSRF).
    /// </summary>
    /// <param name="request">Request of any method.</param>
    public bool Accepts(HttpRequest request) => Judge(request) is null;

    /// <summary>Returns status and text for a rejected request; null if it is accepted.</summary>
    internal (int Status, string Text)? Judge(HttpRequest request)
    {
        using HttpRequest.RequestUse use = request.Enter();
        int index = use.Reader.IndexOf(HttpField.Origin);
        if (index < 0) return null;
        // With several Origin fields, a check of one does not cover the others.
        if (use.Reader.IndexOf(HttpField.Origin, index + 1) >= 0) return (400, "There is more than one Origin");
        ReadOnlySpan<byte> origin = request.ValueAt(index);
        if (_rule == Rule.Any || IsListed(origin)) return null;
        if (_rule == Rule.Listed) return (403, "Pages of this origin may not connect");
        bool wantsTls = _rule == Rule.SameBehindTls || request.Session.Tls is not null;
        if (!IsSameHost(origin, request.Authority, out bool isHttps))
            return (403, "Pages of this origin may not connect");
        if (isHttps == wantsTls) return null;
        return (403, isHttps
            ? $"The page has https and this server has no TLS: behind a proxy that ends TLS the route needs "
                + $"{nameof(WebSocketOrigins)}.{nameof(SameHostBehindTls)}, or {nameof(WebSocketOrigins)}.{nameof(Of)}"
            : "The page has http, and pages of this server have https");
    }

    private bool IsListed(ReadOnlySpan<byte> origin)
    {
        foreach (string each in _list ?? [])
        {
            if (Ascii.EqualsIgnoreCase(origin, each)) return true;
        }

        return false;
    }

    private static bool IsSameHost(ReadOnlySpan<byte> origin, ReadOnlySpan<byte> authority, out bool isHttps)
    {
        int scheme = origin.IndexOf("://"u8);
        isHttps = scheme > 0 && Ascii.EqualsIgnoreCase(origin[..scheme], Https);
        if (!isHttps && (scheme <= 0 || !Ascii.EqualsIgnoreCase(origin[..scheme], Http))) return false;
        ReadOnlySpan<byte> port = isHttps ? ":443"u8 : ":80"u8;
        return Ascii.EqualsIgnoreCase(Without(port, origin[(scheme + 3)..]), Without(port, authority));
    }

    // Browsers omit the default port of the scheme; other clients may send it.
    private static ReadOnlySpan<byte> Without(ReadOnlySpan<byte> port, ReadOnlySpan<byte> host) =>
        host.EndsWith(port) ? host[..^port.Length] : host;
}
