using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// From whose pages a browser may connect. A browser connects wherever a page tells it to, with the cookies of the place: a server that
/// trusts them must look at Origin (RFC 6455, 10.2). What is no browser sends none, and is let in.
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
    /// Pages of the host and port that the request is for, with the scheme of this server: <c>https</c> when the connection
    /// has TLS, <c>http</c> when it has none. Behind a proxy that ends TLS take <see cref="SameHostBehindTls"/>.
    /// </summary>
    public static WebSocketOrigins SameHost { get; } = new(Rule.Same);

    /// <summary>
    /// Pages of the host and port that the request is for, with the scheme <c>https</c>: for a server without TLS behind a
    /// proxy that ends it and passes <c>Host</c> on.
    /// </summary>
    public static WebSocketOrigins SameHostBehindTls { get; } = new(Rule.SameBehindTls);

    /// <summary>All pages: for services that know their users by other things than cookies.</summary>
    public static WebSocketOrigins Any { get; } = new(Rule.Any);

    /// <summary>Pages of these origins, and of no other.</summary>
    /// <param name="origins">As browsers send them: <c>https://example.org</c>, with a port where it is not that of the scheme.</param>
    /// <exception cref="ArgumentException">One is no origin: a scheme, a host and perhaps a port, and nothing behind it.</exception>
    public static WebSocketOrigins Of(params ReadOnlySpan<string> origins)
    {
        string[] list = new string[origins.Length];
        for (int i = 0; i < list.Length; i++)
        {
            string origin = origins[i];
            if (!Uri.TryCreate(origin, UriKind.Absolute, out Uri? uri) || uri.Host.Length == 0 || uri.UserInfo.Length > 0 || uri.PathAndQuery != "/" || origin.EndsWith('/'))
                throw new ArgumentException($"An origin is a scheme, a host and perhaps a port, such as https://example.org: {origin}", nameof(origins));
            // As a browser writes it: without the port of the scheme, and with the ASCII form of the host.
            string host = uri.HostNameType == UriHostNameType.IPv6 ? $"[{uri.IdnHost}]" : uri.IdnHost;
            list[i] = uri.IsDefaultPort ? $"{uri.Scheme}://{host}" : $"{uri.Scheme}://{host}:{uri.Port}";
        }

        return new WebSocketOrigins(Rule.Listed, list);
    }

    /// <summary>Why the request may not be answered: status and text; null when it may.</summary>
    internal (int Status, string Text)? Judge(HttpRequest request)
    {
        using HttpRequest.RequestUse use = request.Enter();
        int index = use.Reader.IndexOf(HttpField.Origin);
        if (index < 0) return null;
        // A check of one of them would say nothing about the others.
        if (use.Reader.IndexOf(HttpField.Origin, index + 1) >= 0) return (400, "There is more than one Origin");
        ReadOnlySpan<byte> origin = request.ValueAt(index);
        if (_rule == Rule.Any || IsListed(origin)) return null;
        if (_rule == Rule.Listed) return (403, "Pages of this origin may not connect");
        bool wantsTls = _rule == Rule.SameBehindTls || request.Session.Tls is not null;
        if (!IsSameHost(origin, request.Authority, out bool isHttps)) return (403, "Pages of this origin may not connect");
        if (isHttps == wantsTls) return null;
        return (403, isHttps
            ? $"The page has https and this server has no TLS: behind a proxy that ends TLS the route needs {nameof(WebSocketOrigins)}.{nameof(SameHostBehindTls)}, or {nameof(WebSocketOrigins)}.{nameof(Of)}"
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

    // Browsers leave the port of the scheme out; others may write it.
    private static ReadOnlySpan<byte> Without(ReadOnlySpan<byte> port, ReadOnlySpan<byte> host) => host.EndsWith(port) ? host[..^port.Length] : host;
}
