using System.Globalization;

namespace Whimbrel.Http;

/// <summary>Server of a client's requests as metric tags: created once and used for each request.</summary>
internal sealed class HttpMetricsPeer
{
    private HttpMetricsPeer(string address, int port, bool isSecure)
    {
        Address = address;
        Port = port;
        Scheme = HttpMetrics.SchemeOf(isSecure);
    }

    internal string Address { get; }

    internal object Port { get; }

    internal string Scheme { get; }

    internal static HttpMetricsPeer Of(Uri uri) => new(uri.IdnHost, uri.Port, uri.Scheme == Uri.UriSchemeHttps);

    /// <summary>Creates tags from the host and port of a request.</summary>
    internal static HttpMetricsPeer Of(string authority, bool isSecure)
    {
        int port = isSecure ? 443 : 80;
        int colon = authority.LastIndexOf(':');
        if (colon > authority.LastIndexOf(']') && int.TryParse(authority.AsSpan(colon + 1),
            NumberStyles.None, CultureInfo.InvariantCulture, out int named))
            port = named;
        if (colon > authority.LastIndexOf(']')) authority = authority[..colon];
        return new HttpMetricsPeer(authority.Trim('[', ']'), port, isSecure);
    }
}
