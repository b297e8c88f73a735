using System.ComponentModel;
using System.Runtime.CompilerServices;
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
/// Each connection is a <see cref="HttpSession"/>; all else is what <see cref="Server"/> has. Routes, filters, groups and files are added by the methods of <see cref="HttpRoutes"/>.
/// </remarks>
public sealed class HttpServer : Server, IHttpRoutes
{
    internal const string ApplicationProtocol = "http/1.1";

    private readonly RouteTable _routes;

    /// <summary>A server for one address.</summary>
    /// <param name="address"><c>http://127.0.0.1:8080</c>, <c>http://*:80</c>, <c>https://...</c> with TLS options, or <c>unix:/path</c>. Port 0 takes a free one.</param>
    /// <param name="options">Limits; null for the defaults.</param>
    /// <param name="tls">Certificate and rules for <c>https://</c>. Where <c>ApplicationProtocols</c> are named, <c>http/1.1</c> is among them; else it is what is agreed on.</param>
    public HttpServer(string address, HttpOptions? options = null, TlsOptions? tls = null)
        : this(new ServerOptions { Address = address ?? throw new ArgumentNullException(nameof(address)), Tls = tls is { ApplicationProtocols.Count: 0 } ? tls.WithApplicationProtocols(ApplicationProtocol) : tls }, options)
    {
    }

    /// <summary>A server with all options of the core.</summary>
    /// <param name="server">Addresses, engine, TLS and the limits of connections.</param>
    /// <param name="options">Limits of HTTP; null for the defaults.</param>
    public HttpServer(ServerOptions server, HttpOptions? options = null)
        : this(server, options ??= new HttpOptions(), new RouteTable { ServesTrace = options.AllowTrace, Compression = options.Compression })
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
        server.Use((request, response) => Redirect(request, response, port)); // tidy: allowed because it is made once; without a route no body is kept
        return server;
    }

    /// <summary>The limits of HTTP, and its counters.</summary>
    public HttpOptions Http { get; }

    RouteScope IHttpRoutes.Scope => _routes.Scope;

    /// <summary>
    /// The error hook: answers for handlers and filters that throw, and is told of every such exception. Without an answer of its own the request is answered with 500 and a notice
    /// names the handler, as without a hook; with one there is no notice, and the connection goes on. Fields and status that the handler had set are gone; fields of filters stay.
    /// </summary>
    /// <param name="hook">
    /// On the loop; must not block. When the handler had begun its answer (<see cref="HttpResponse.HasBegun"/>), nothing can be answered any more: the connection is aborted afterwards. What it
    /// throws itself is noted, and the request answered with 500. Mistakes of the client (<see cref="HttpProtocolException"/>) and clients that went away do not come here.
    /// </param>
    /// <exception cref="InvalidOperationException">There is a hook already, or there was a connection.</exception>
    public void OnError(Action<HttpRequest, HttpResponse, Exception> hook)
    {
        ArgumentNullException.ThrowIfNull(hook);
        RouteHandler.RefuseAsyncVoid(hook, nameof(hook));
        _routes.AddErrorHook((request, response, exception) => // tidy: allowed because it is made once
        {
            hook(request, response, exception);
            return default;
        });
    }

    /// <summary>The error hook, awaited: see <see cref="OnError(Action{HttpRequest, HttpResponse, Exception})"/>.</summary>
    /// <param name="hook">Its answer is complete when it has ended.</param>
    /// <exception cref="InvalidOperationException">There is a hook already, or there was a connection.</exception>
    [OverloadResolutionPriority(2)]
    public void OnError(Func<HttpRequest, HttpResponse, Exception, ValueTask> hook)
    {
        ArgumentNullException.ThrowIfNull(hook);
        _routes.AddErrorHook(hook);
    }

    /// <summary>The error hook, awaited: see <see cref="OnError(Action{HttpRequest, HttpResponse, Exception})"/>.</summary>
    /// <param name="hook">Its answer is complete when it has ended.</param>
    /// <exception cref="InvalidOperationException">There is a hook already, or there was a connection.</exception>
    [OverloadResolutionPriority(1)]
    public void OnError(Func<HttpRequest, HttpResponse, Exception, Task> hook)
    {
        ArgumentNullException.ThrowIfNull(hook);
        _routes.AddErrorHook((request, response, exception) => RouteHandler.Running(hook(request, response, exception))); // tidy: allowed because it is made once
    }

    /// <summary>Not for use: the compiler reports a hook whose result would be dropped.</summary>
    /// <param name="hook">A hook that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public void OnError<T>(Func<HttpRequest, HttpResponse, Exception, T> hook) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>
    /// Makes a session that serves the routes of this server on a connection which another session hands over (<see cref="Session.HandOver"/>), unread bytes and all: for a port on
    /// which several protocols are spoken. This server need not be started for that.
    /// </summary>
    public HttpSession CreateSession() => new(Http, _routes);

    /// <inheritdoc/>
    protected override void OnStarting()
    {
        foreach (FileSite site in _routes.Sites) site.Cache.Open();
    }

    /// <inheritdoc/>
    protected override void OnStopped(StopReport report)
    {
        foreach (FileSite site in _routes.Sites) site.Cache.Clear();
    }

    /// <summary>The address of the core for one of HTTP, for <see cref="ServerOptions.Address"/>: <c>http://*</c> is <c>tcp://*:80</c>, <c>https://*</c> is <c>tls://*:443</c>; others stay as they are.</summary>
    /// <param name="address">As for the constructor.</param>
    public static string AddressOf(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        if (address.StartsWith("http://", StringComparison.OrdinalIgnoreCase)) return "tcp://" + WithPort(address[7..], 80);
        return address.StartsWith("https://", StringComparison.OrdinalIgnoreCase) ? "tls://" + WithPort(address[8..], 443) : address;
    }

    /// <summary>What is wrong with an address of a server of HTTP, and what would be right; null when it can be used.</summary>
    /// <param name="address">As for the constructor.</param>
    public static string? WrongWith(string? address)
    {
        if (NetworkAddress.TryParse(address, out _, out string? mistake)) return null;
        // Those that are written with a scheme of the core are answered with one.
        return address?.StartsWith("tcp:", StringComparison.OrdinalIgnoreCase) == true ? mistake : mistake.Replace("tcp://", "http://", StringComparison.Ordinal);
    }

    private static string WithPort(string authority, int port)
    {
        authority = authority.TrimEnd('/');
        if (authority == "+" || authority.StartsWith("+:", StringComparison.Ordinal)) authority = "*" + authority[1..];
        bool hasPort = authority.LastIndexOf(':') > authority.LastIndexOf(']');
        return hasPort ? authority : $"{authority}:{port}";
    }

    private static ServerOptions CheckTls(ServerOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        // The core would speak of the scheme of its own.
        if (options.Address is { } address && WrongWith(address) is { } wrong) throw new ArgumentException($"Address: {wrong}", nameof(options));
        if (options.Tls is { ApplicationProtocols: { Count: > 0 } offered } && !offered.Contains(ApplicationProtocol)) throw new ArgumentException($"TlsOptions.ApplicationProtocols has no {ApplicationProtocol}: no client would get an answer.", nameof(options));
        return options.Address is { } text && AddressOf(text) is var plain && plain != text ? options.With(plain) : options;
    }

    private static void Redirect(HttpRequest request, HttpResponse response, int port)
    {
        ReadOnlySpan<byte> host = request.Authority;
        int colon = host.LastIndexOf((byte)':');
        if (colon > host.LastIndexOf((byte)']')) host = host[..colon];
        if (host.IsEmpty)
        {
            response.Fail(400, "Host is missing, so there is nowhere to go on");
            return;
        }

        string query = request.Query.IsEmpty ? "" : $"?{request.Query}";
        response.Redirect($"https://{Encoding.ASCII.GetString(host)}{(port == 443 ? "" : $":{port}")}{Encoding.ASCII.GetString(request.Path)}{query}", 308);
    }
}
