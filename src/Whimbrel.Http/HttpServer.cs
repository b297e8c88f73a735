using System.ComponentModel;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Files;

namespace Whimbrel.Http;

/// <summary>
/// HTTP/1.1 server with routes. A handler without an awaitable runs on the loop, has the body in memory and must not
/// block. An awaited handler starts on the loop and reads the body as a stream. Its token is cancelled when the client
/// disconnects.
/// </summary>
/// <remarks>
/// A pattern is a path of segments: text, <c>{name}</c> for one segment, or <c>{*name}</c> as the last one for the rest
/// of the path. HEAD is served by the handler of GET, OPTIONS by the list of methods. A path without a handler gets
/// 404, a method without one 405.
/// Each connection is an <see cref="HttpSession"/>. Routes, filters, groups and files are added by the methods of
/// <see cref="HttpRoutes"/>. Everything else is inherited from <see cref="Server"/>.
/// </remarks>
public sealed class HttpServer : Server, IHttpRoutes
{
    internal const string ApplicationProtocol = "http/1.1";

    private readonly RouteTable _routes;

    /// <summary>Creates a server with one address.</summary>
    /// <param name="address"><c>http://127.0.0.1:8080</c>, <c>http://*:80</c>, <c>https://...</c> with TLS options, or
    /// <c>unix:/path</c>. Port 0 takes a free port.</param>
    /// <param name="options">HTTP limits; null for the defaults.</param>
    /// <param name="tls">Certificate and TLS settings for <c>https://</c>. <c>ApplicationProtocols</c> must contain
    /// <c>http/1.1</c>; if it is empty, <c>http/1.1</c> is used.</param>
    public HttpServer(string address, HttpOptions? options = null, TlsOptions? tls = null)
        : this(new ServerOptions
        {
            Address = address ?? throw new ArgumentNullException(nameof(address)),
            Tls = tls is { ApplicationProtocols.Count: 0 } ? tls.WithApplicationProtocols(ApplicationProtocol) : tls
        }, options)
    {
    }

    /// <summary>Creates a server with all options of the core.</summary>
    /// <param name="server">Addresses, engine, TLS and connection limits.</param>
    /// <param name="options">HTTP limits; null for the defaults.</param>
    public HttpServer(ServerOptions server, HttpOptions? options = null)
        : this(server, options ??= new HttpOptions(),
            new RouteTable { ServesTrace = options.AllowTrace, Compression = options.Compression })
    {
    }

    // A factory with a connection argument would allocate that argument for each connection. This one needs only the
    // options and the routes.
    private HttpServer(ServerOptions server, HttpOptions options, RouteTable routes)
        : base(CheckTls(server), () => new HttpSession(options, routes))
    {
        _routes = routes;
        Http = options;
        Http.Check();
        HttpMetrics.Prepare();
    }

    /// <summary>Creates a server that redirects every request to the same host over TLS, with status 308. Start it
    /// beside the TLS server.</summary>
    /// <param name="address">Address to listen on: <c>http://*:80</c>.</param>
    /// <param name="port">Port of the TLS server, 1 to 65,535; default 443.</param>
    /// <param name="options">HTTP limits; null for the defaults. With <see cref="HttpOptions.Hosts"/> it redirects to
    /// these hosts only.</param>
    public static HttpServer RedirectToHttps(string address, int port = 443, HttpOptions? options = null)
    {
        if (port is < 1 or > 65535)
            throw new ArgumentOutOfRangeException(nameof(port), port, "1 up to 65,535 is possible.");
        HttpServer server = new(address, options);
        // tidy: allowed because it is made once; without a route no body is kept
        server.Use((request, response) => Redirect(request, response, port));
        return server;
    }

    /// <summary>HTTP limits and counters.</summary>
    public HttpOptions Http { get; }

    RouteScope IHttpRoutes.Scope => _routes.Scope;

    /// <summary>
    /// Sets the error hook, which runs for each exception of a handler or filter. Status and fields set by the handler
    /// are removed; fields added by filters stay. If the hook gives no response, the client gets 500 and a diagnostic
    /// event names the handler, as without a hook. If it gives one, no diagnostic event is logged and the connection
    /// continues.
    /// </summary>
    /// <param name="hook">
    /// Called on the loop; must not block. If the handler has begun its response (<see cref="HttpResponse.HasBegun"/>),
    /// the hook cannot respond: a complete response is delivered, otherwise the connection is aborted. An exception of
    /// the hook is logged as a diagnostic event, and the client gets 500. The hook does not run for errors of the
    /// client (<see cref="HttpProtocolException"/>) and clients that disconnected.
    /// </param>
    /// <exception cref="InvalidOperationException">A hook is already set, or the server has accepted a
    /// connection.</exception>
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

    /// <summary>Sets an awaited error hook: see
    /// <see cref="OnError(Action{HttpRequest, HttpResponse, Exception})"/>.</summary>
    /// <param name="hook">Asynchronous hook. Its response is complete when its task completes.</param>
    /// <exception cref="InvalidOperationException">A hook is already set, or the server has accepted a
    /// connection.</exception>
    [OverloadResolutionPriority(2)]
    public void OnError(Func<HttpRequest, HttpResponse, Exception, ValueTask> hook)
    {
        ArgumentNullException.ThrowIfNull(hook);
        _routes.AddErrorHook(hook);
    }

    /// <summary>Sets an awaited error hook: see
    /// <see cref="OnError(Action{HttpRequest, HttpResponse, Exception})"/>.</summary>
    /// <param name="hook">Asynchronous hook. Its response is complete when its task completes.</param>
    /// <exception cref="InvalidOperationException">A hook is already set, or the server has accepted a
    /// connection.</exception>
    [OverloadResolutionPriority(1)]
    public void OnError(Func<HttpRequest, HttpResponse, Exception, Task> hook)
    {
        ArgumentNullException.ThrowIfNull(hook);
        _routes.AddErrorHook(
            // tidy: allowed because it is made once
            (request, response, exception) => RouteHandler.Running(hook(request, response, exception)));
    }

    /// <summary>Not for use: a compiler error for a hook with a result, which would be dropped.</summary>
    /// <param name="hook">A hook that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public void OnError<T>(Func<HttpRequest, HttpResponse, Exception, T> hook) =>
        throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>
    /// Creates a session that serves the routes of this server on a connection handed over by another session
    /// (<see cref="Session.HandOver"/>), including its unread bytes. Use it for a port with several protocols. This
    /// server need not be started for that.
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

    /// <summary>Converts an HTTP address to one of the core, for <see cref="ServerOptions.Address"/>: <c>http://*</c>
    /// is <c>tcp://*:80</c>, <c>https://*</c> is <c>tls://*:443</c>; other addresses stay as they are.</summary>
    /// <param name="address">Address, as for the constructor.</param>
    public static string AddressOf(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        if (address.StartsWith("http://", StringComparison.OrdinalIgnoreCase))
            return "tcp://" + WithPort(address[7..], 80);
        return address.StartsWith("https://", StringComparison.OrdinalIgnoreCase)
            ? "tls://" + WithPort(address[8..], 443)
            : address;
    }

    /// <summary>Returns why an address cannot be used by an HTTP server, and a correct form; null if it can be
    /// used.</summary>
    /// <param name="address">Address, as for the constructor.</param>
    public static string? WrongWith(string? address)
    {
        if (NetworkAddress.TryParse(address, out _, out string? mistake)) return null;
        // An address with a scheme of the core gets a message with that scheme.
        return address?.StartsWith("tcp:", StringComparison.OrdinalIgnoreCase) == true
            ? mistake
            : mistake.Replace("tcp://", "http://", StringComparison.Ordinal);
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
        // Otherwise the message of the core would name its own scheme, tcp://.
        if (options.Address is { } address && WrongWith(address) is { } wrong)
            throw new ArgumentException($"Address: {wrong}", nameof(options));
        if (options.Tls is { ApplicationProtocols: { Count: > 0 } offered } && !offered.Contains(ApplicationProtocol))
            throw new ArgumentException(
                $"TlsOptions.ApplicationProtocols has no {ApplicationProtocol}: no client would get an answer.",
                nameof(options));
        return options.Address is { } text && AddressOf(text) is var plain && plain != text
            ? options.With(plain)
            : options;
    }

    private static void Redirect(HttpRequest request, HttpResponse response, int port)
    {
        ReadOnlySpan<byte> host = request.Authority;
        int colon = host.LastIndexOf((byte)':');
        if (colon > host.LastIndexOf((byte)']')) host = host[..colon];
        if (host.IsEmpty)
        {
            response.Fail(400, "The Host field is missing, so the request cannot be redirected");
            return;
        }

        string query = request.Query.IsEmpty ? "" : $"?{request.Query}";
        response.Redirect($"https://{Encoding.ASCII.GetString(host)}{(port == 443 ? "" : $":{port}")}"
            + $"{Encoding.ASCII.GetString(request.Path)}{query}", 308);
    }
}
