using System.ComponentModel;
using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

// Filters, and groups that have their own.
public static partial class HttpRoutes
{
    /// <summary>Makes a group: its routes have a common beginning of their paths, and the group can have filters of its own, and groups.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="prefix">Where its paths begin: <c>/api</c>, or <c>/tenants/{tenant}</c>. <c>/</c> for a group that has filters only.</param>
    public static HttpRouteGroup Group(this IHttpRoutes routes, string prefix) => new(ScopeOf(routes).Group(prefix));

    /// <summary>
    /// Adds a filter, which runs before the handlers. One that answers has answered the request: neither later filters nor the handler run. Filters run in the order in which they were
    /// added, those of a server before those of a group, whatever was added first, the filter or the route.
    /// </summary>
    /// <param name="routes">
    /// A server: its filters see every request that is not refused by a rule of HTTP or an option, also one without a route, which is answered with 404 or 405 behind them. Or a group: its filters see
    /// the requests of its routes.
    /// </param>
    /// <param name="filter">On the loop; must not block. Does nothing to let the request pass.</param>
    public static void Use(this IHttpRoutes routes, Action<HttpRequest, HttpResponse> filter) => ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The handler runs on the thread of the session again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">The request passes, or is answered, when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Use(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, ValueTask> filter) => ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The handler runs on the thread of the session again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">The request passes, or is answered, when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Use(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, Task> filter) => ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The handler runs on the thread of the session again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">The request passes, or is answered, when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Use(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> filter) => ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The handler runs on the thread of the session again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">The request passes, or is answered, when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Use(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, CancellationToken, Task> filter) => ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Not for use: the compiler reports a filter whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">A filter that returns something.</param>
    [Obsolete(DroppedVerdict, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Use<T>(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, T> filter) => throw new NotSupportedException(DroppedVerdict);

    private const string DroppedVerdict = "The result of this filter would be dropped. A filter stops a request by answering it (response.Fail(401)), and lets it pass by doing nothing.";
}
