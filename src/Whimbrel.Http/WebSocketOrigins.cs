using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// From whose pages a browser may connect. A browser connects wherever a page tells it to, with the cookies of the place: a server that
/// trusts them must look at Origin (RFC 6455, 10.2). What is no browser sends none, and is let in.
/// </summary>
public sealed class WebSocketOrigins
{
    private readonly string[]? _list;
    private readonly bool _sameHost;

    private WebSocketOrigins(string[]? list, bool sameHost)
    {
        _list = list;
        _sameHost = sameHost;
    }

    /// <summary>Pages of the host and port that the request is for.</summary>
    public static WebSocketOrigins SameHost { get; } = new(null, sameHost: true);

    /// <summary>All pages: for services that know their users by other things than cookies.</summary>
    public static WebSocketOrigins Any { get; } = new(null, sameHost: false);

    /// <summary>Pages of these origins, and of no other.</summary>
    /// <param name="origins">As browsers send them: <c>https://example.org</c>, with a port where it is not that of the scheme.</param>
    public static WebSocketOrigins Of(params ReadOnlySpan<string> origins)
    {
        foreach (string origin in origins)
        {
            if (!Uri.TryCreate(origin, UriKind.Absolute, out Uri? uri) || uri.PathAndQuery != "/" || origin.EndsWith('/')) throw new ArgumentException($"An origin is a scheme, a host and perhaps a port: {origin}", nameof(origins));
        }

        return new WebSocketOrigins(origins.ToArray(), sameHost: false);
    }

    internal bool Allows(HttpRequest request)
    {
        if (!request.TryGet(HttpField.Origin, out ReadOnlySpan<byte> origin)) return true;
        if (_list is not null)
        {
            foreach (string each in _list)
            {
                if (Ascii.EqualsIgnoreCase(origin, each)) return true;
            }

            return false;
        }

        if (!_sameHost) return true;
        int scheme = origin.IndexOf("://"u8);
        return scheme > 0 && Ascii.EqualsIgnoreCase(origin[(scheme + 3)..], request.Authority);
    }
}
