using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

// WebSocket routes on the same port as the other routes.
public static partial class HttpRoutes
{
    /// <summary>Adds a WebSocket route.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="session">Factory of the session of each connection; called on its loop.</param>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    /// <param name="visitors">Handler on the loop for GET and HEAD requests that ask for no WebSocket, for instance
    /// with a page; null for 426.</param>
    public static void WebSocket(this IHttpRoutes routes, string pattern, Func<WebSocketSession> session,
        WebSocketOptions? options = null, Action<HttpRequest, HttpResponse>? visitors = null)
    {
        ArgumentNullException.ThrowIfNull(session);
        routes.WebSocket(pattern, _ => session(), options, visitors);
    }

    /// <summary>Adds a WebSocket route with a factory that gets the request.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="session">Factory of the session of each connection; called on its loop. The request is valid during
    /// the call. Null rejects it with 403.</param>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    /// <param name="visitors">Handler on the loop for GET and HEAD requests that ask for no WebSocket, for instance
    /// with a page; null for 426.</param>
    public static void WebSocket(this IHttpRoutes routes, string pattern, Func<HttpRequest, WebSocketSession?> session,
        WebSocketOptions? options = null, Action<HttpRequest, HttpResponse>? visitors = null)
    {
        ArgumentNullException.ThrowIfNull(session);
        options ??= new WebSocketOptions();
        options.Check();
        if (options.Fields.Count > 0)
            throw new ArgumentException($"{nameof(WebSocketOptions)}.{nameof(WebSocketOptions.Fields)} is for clients: "
                + $"a route answers with the fields of the handshake.", nameof(options));
        if (visitors is not null) RouteHandler.RefuseAsyncVoid(visitors, nameof(visitors));
        routes.Get(pattern, new WebSocketRoute(session, options, visitors).Answer);
    }

    /// <summary>
    /// Adds a WebSocket route with one handler call per connection, which pulls the messages. The call starts on the
    /// loop of the connection, or on the pool if its callbacks run there. When it returns, the WebSocket is closed with
    /// 1000; when it throws, with 1011.
    /// </summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler of one connection. Its token is cancelled when the server stops, and when the
    /// connection has ended.</param>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    public static void WebSocket(this IHttpRoutes routes, string pattern,
        Func<WebSocketSession, CancellationToken, Task> handler, WebSocketOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(handler);
        routes.WebSocket(pattern, _ => new WebSocketSession(handler), options);
    }
}
