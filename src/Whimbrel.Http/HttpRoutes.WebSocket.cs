using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

// WebSocket beside the other routes, on the same port.
public static partial class HttpRoutes
{
    /// <summary>A route on which clients go on with WebSocket.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="session">Makes the session of each connection, on its loop.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    /// <param name="visitors">Answers who asks for no WebSocket, with a page for instance, as a handler on the loop for GET and HEAD; null for 426.</param>
    public static void WebSocket(this IHttpRoutes routes, string pattern, Func<WebSocketSession> session, WebSocketOptions? options = null, Action<HttpRequest, HttpResponse>? visitors = null)
    {
        ArgumentNullException.ThrowIfNull(session);
        routes.WebSocket(pattern, _ => session(), options, visitors);
    }

    /// <summary>A route on which clients go on with WebSocket, with a look at the request.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="session">Makes the session of each connection, on its loop. The request is valid during the call. Null refuses with 403.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    /// <param name="visitors">Answers who asks for no WebSocket, with a page for instance, as a handler on the loop for GET and HEAD; null for 426.</param>
    public static void WebSocket(this IHttpRoutes routes, string pattern, Func<HttpRequest, WebSocketSession?> session, WebSocketOptions? options = null, Action<HttpRequest, HttpResponse>? visitors = null)
    {
        ArgumentNullException.ThrowIfNull(session);
        options ??= new WebSocketOptions();
        options.Check();
        if (options.Fields.Count > 0) throw new ArgumentException($"{nameof(WebSocketOptions)}.{nameof(WebSocketOptions.Fields)} is for clients: a route answers with the fields of the handshake.", nameof(options));
        if (visitors is not null) RouteHandler.RefuseAsyncVoid(visitors, nameof(visitors));
        routes.Get(pattern, new WebSocketRoute(session, options, visitors).Answer);
    }

    /// <summary>
    /// A route on which each client that goes on with WebSocket is served by one call of a handler, which pulls its messages. It starts on the loop of the connection; with callbacks on
    /// the pool, there. When it returns the WebSocket is closed with 1000, when it throws with 1011.
    /// </summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">What to do with a connection. Its token is cancelled when the server stops, and when the connection has ended.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    public static void WebSocket(this IHttpRoutes routes, string pattern, Func<WebSocketSession, CancellationToken, Task> handler, WebSocketOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(handler);
        routes.WebSocket(pattern, _ => new WebSocketSession(handler), options);
    }
}
