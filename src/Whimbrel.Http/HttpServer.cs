using System.Text;
using Whimbrel.Http.Files;

namespace Whimbrel.Http;

/// <summary>
/// An HTTP/1.1 server with routes. Handlers without an awaitable run on the loop, have the body in memory and must not block; awaited ones
/// begin on the loop, read the body as a stream, and get a token that is cancelled when the client goes away.
/// </summary>
/// <remarks>
/// A pattern is a path of segments: text, <c>{name}</c> for one segment, and as the last <c>{*name}</c> for all that is left. HEAD is served by
/// the handler of GET, OPTIONS by the list of methods; a path without a handler is answered with 404, a method without one with 405.
/// Each connection is a <see cref="HttpSession"/>; all else is what <see cref="Server"/> has.
/// </remarks>
public sealed partial class HttpServer : Server
{
    internal const string ApplicationProtocol = "http/1.1";

    private readonly RouteTable _routes;
    private readonly List<FileSite> _sites = [];

    /// <summary>A server for one address.</summary>
    /// <param name="address"><c>http://127.0.0.1:8080</c>, <c>http://*:80</c>, <c>https://...</c> with TLS options, or <c>unix:/path</c>. Port 0 takes a free one.</param>
    /// <param name="options">Limits; null for the defaults.</param>
    /// <param name="tls">Certificate and rules for <c>https://</c>. Where <c>ApplicationProtocols</c> are named, <c>http/1.1</c> is among them; else it is what is agreed on.</param>
    public HttpServer(string address, HttpOptions? options = null, TlsOptions? tls = null)
        : this(new ServerOptions { Address = AddressOf(address), Tls = tls is { ApplicationProtocols.Count: 0 } ? tls.WithApplicationProtocols(ApplicationProtocol) : tls }, options)
    {
    }

    /// <summary>A server with all options of the core.</summary>
    /// <param name="server">Addresses, engine, TLS and the limits of connections.</param>
    /// <param name="options">Limits of HTTP; null for the defaults.</param>
    public HttpServer(ServerOptions server, HttpOptions? options = null)
        : this(server, options ?? new HttpOptions(), new RouteTable())
    {
    }

    // A factory that is told about the connection would cost each one the objects that tell it: session and routes are all that this one needs.
    private HttpServer(ServerOptions server, HttpOptions options, RouteTable routes)
        : base(CheckTls(server), () => new HttpSession(options, routes))
    {
        _routes = routes;
        Http = options;
        Http.Check();
        HttpMetrics.Prepare();
    }

    /// <summary>A server that sends every request on to the same address over TLS, with 308: start it beside the one that has TLS.</summary>
    /// <param name="address">Where it listens: <c>http://*:80</c>.</param>
    /// <param name="port">The port of the other one, 1 to 65,535; default 443.</param>
    /// <param name="options">Limits; with <see cref="HttpOptions.Hosts"/> it sends nobody elsewhere than to these.</param>
    public static HttpServer RedirectToHttps(string address, int port = 443, HttpOptions? options = null)
    {
        if (port is < 1 or > 65535) throw new ArgumentOutOfRangeException(nameof(port), port, "1 up to 65,535 is possible.");
        HttpServer server = new(address, options);
        for (HttpVerb verb = HttpVerb.Get; verb <= HttpVerb.Patch; verb++)
        {
            // Awaited, so that a body is not kept.
            if (verb is not (HttpVerb.Head or HttpVerb.Connect or HttpVerb.Trace)) server.Map(verb, "/{*path}", (request, response, _) => Redirect(request, response, port));
        }

        return server;
    }

    /// <summary>The limits of HTTP, and its counters.</summary>
    public HttpOptions Http { get; }

    /// <summary>A handler on the loop for GET and HEAD.</summary>
    /// <param name="pattern">See the remarks of this class.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public void Get(string pattern, Action<HttpRequest, HttpResponse> handler) => Map(HttpVerb.Get, pattern, handler);

    /// <summary>An awaited handler for GET and HEAD.</summary>
    /// <param name="pattern">See the remarks of this class.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    public void Get(string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Map(HttpVerb.Get, pattern, handler);

    /// <summary>A handler on the loop for POST.</summary>
    /// <param name="pattern">See the remarks of this class.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public void Post(string pattern, Action<HttpRequest, HttpResponse> handler) => Map(HttpVerb.Post, pattern, handler);

    /// <summary>An awaited handler for POST.</summary>
    /// <param name="pattern">See the remarks of this class.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    public void Post(string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Map(HttpVerb.Post, pattern, handler);

    /// <summary>A handler on the loop for any method with a number.</summary>
    /// <param name="verb">The method.</param>
    /// <param name="pattern">See the remarks of this class.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    /// <exception cref="ArgumentException">The pattern is none, or has a handler already.</exception>
    /// <exception cref="InvalidOperationException">There was a connection.</exception>
    public void Map(HttpVerb verb, string pattern, Action<HttpRequest, HttpResponse> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        _routes.Add(verb, pattern, handler, null);
    }

    /// <summary>An awaited handler for any method with a number.</summary>
    /// <param name="verb">The method.</param>
    /// <param name="pattern">See the remarks of this class.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    /// <exception cref="ArgumentException">The pattern is none, or has a handler already.</exception>
    /// <exception cref="InvalidOperationException">There was a connection.</exception>
    public void Map(HttpVerb verb, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        _routes.Add(verb, pattern, null, handler);
    }

    /// <summary>
    /// Serves the files of a folder, and never one outside of it, to GET and HEAD. Routes with a longer pattern go before. Small files are kept
    /// in memory and large ones open, within limits; what changes on disk is seen after <see cref="HttpFileOptions.Freshness"/>.
    /// </summary>
    /// <param name="prefix">Where in the paths of requests the folder begins: <c>/</c>, or <c>/static</c>.</param>
    /// <param name="folder">The folder. It need not exist yet, and may be replaced while it is served.</param>
    /// <param name="options">What is served, and how much is kept; null for the defaults.</param>
    /// <exception cref="ArgumentException">The prefix is none or has a handler already, or the options have mistakes.</exception>
    /// <exception cref="InvalidOperationException">There was a connection.</exception>
    public void Files(string prefix, string folder, HttpFileOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(prefix);
        if (!prefix.StartsWith('/') || prefix.Contains('{', StringComparison.Ordinal)) throw new ArgumentException($"A prefix begins with a slash and has no names: {prefix}", nameof(prefix));
        FileSite site = new(folder, options ?? new HttpFileOptions(), Http.Compression);
        prefix = prefix.TrimEnd('/');
        _routes.Add(HttpVerb.Get, prefix + "/{*file}", null, null, site);
        if (prefix.Length > 0) Get(prefix, static (request, response) => FileSite.Redirect(request, response));
        _sites.Add(site);
    }

    /// <summary>
    /// Makes a session that serves the routes of this server on a connection which another session hands over (<see cref="Session.HandOver"/>), unread bytes and all: for a port on
    /// which several protocols are spoken. This server need not be started for that.
    /// </summary>
    public HttpSession CreateSession() => new(Http, _routes);

    /// <inheritdoc/>
    protected override void OnStarting()
    {
        foreach (FileSite site in _sites) site.Cache.Open();
    }

    /// <inheritdoc/>
    protected override void OnStopped(StopReport report)
    {
        foreach (FileSite site in _sites) site.Cache.Clear();
    }

    /// <summary>The address of the core for one of HTTP, for <see cref="ServerOptions.Address"/>: <c>http://*</c> is <c>tcp://*:80</c>, <c>https://*</c> is <c>tls://*:443</c>; others stay as they are.</summary>
    /// <param name="address">As for the constructor.</param>
    public static string AddressOf(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        if (address.StartsWith("http://", StringComparison.OrdinalIgnoreCase)) return "tcp://" + WithPort(address[7..], 80);
        return address.StartsWith("https://", StringComparison.OrdinalIgnoreCase) ? "tls://" + WithPort(address[8..], 443) : address;
    }

    private static string WithPort(string authority, int port)
    {
        authority = authority.TrimEnd('/');
        bool hasPort = authority.LastIndexOf(':') > authority.LastIndexOf(']');
        return hasPort ? authority : $"{authority}:{port}";
    }

    private static ServerOptions CheckTls(ServerOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        if (options.Tls is { ApplicationProtocols: { Count: > 0 } offered } && !offered.Contains(ApplicationProtocol)) throw new ArgumentException($"TlsOptions.ApplicationProtocols has no {ApplicationProtocol}: no client would get an answer.", nameof(options));
        return options;
    }

    private static ValueTask Redirect(HttpRequest request, HttpResponse response, int port)
    {
        ReadOnlySpan<byte> host = request.Authority;
        int colon = host.LastIndexOf((byte)':');
        if (colon > host.LastIndexOf((byte)']')) host = host[..colon];
        if (host.IsEmpty)
        {
            response.Fail(400, "Host is missing, so there is nowhere to go on");
            return default;
        }

        string query = request.Query.IsEmpty ? "" : $"?{request.Query}";
        response.Add("Location", $"https://{Encoding.ASCII.GetString(host)}{(port == 443 ? "" : $":{port}")}{Encoding.ASCII.GetString(request.Path)}{query}");
        response.Empty(308);
        return default;
    }
}
