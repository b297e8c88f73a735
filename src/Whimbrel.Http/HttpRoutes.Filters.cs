using System.ComponentModel;
using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

// Filters and route groups.
public static partial class HttpRoutes
{
    /// <summary>Creates a group: its routes have a common path prefix, and it can have its own filters and
    /// groups.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="prefix">Prefix of its paths: <c>/api</c>, or <c>/tenants/{tenant}</c>. <c>/</c> for a group that
    /// has filters only.</param>
    public static HttpRouteGroup Group(this IHttpRoutes routes, string prefix) => new(ScopeOf(routes).Group(prefix));

    /// <summary>
    /// Adds a filter, which runs before the handlers. If a filter responds, later filters and the handler do not run.
    /// Filters run in the order of registration, those of a server before those of a group. The order of filters and
    /// routes does not matter.
    /// </summary>
    /// <param name="routes">
    /// A server: its filters run for every request that no rule of HTTP or option rejects, even without a route; 404
    /// or 405 follows after them. Or a group: its filters run for the requests of its routes.
    /// </param>
    /// <param name="filter">Filter on the loop; must not block. It passes the request on by doing nothing.</param>
    public static void Use(this IHttpRoutes routes, Action<HttpRequest, HttpResponse> filter) =>
        ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The
    /// handler runs on the session's thread again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">Asynchronous filter. When its task completes, it has responded, or the request is passed
    /// on.</param>
    [OverloadResolutionPriority(2)]
    public static void Use(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, ValueTask> filter) =>
        ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The
    /// handler runs on the session's thread again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">Asynchronous filter. When its task completes, it has responded, or the request is passed
    /// on.</param>
    [OverloadResolutionPriority(1)]
    public static void Use(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, Task> filter) =>
        ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The
    /// handler runs on the session's thread again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">Asynchronous filter. When its task completes, it has responded, or the request is passed
    /// on. Its token is cancelled when the client disconnects.</param>
    [OverloadResolutionPriority(2)]
    public static void Use(this IHttpRoutes routes,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> filter) =>
        ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Adds an awaited filter: see <see cref="Use(IHttpRoutes, Action{HttpRequest, HttpResponse})"/>. The
    /// handler runs on the session's thread again.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">Asynchronous filter. When its task completes, it has responded, or the request is passed
    /// on. Its token is cancelled when the client disconnects.</param>
    [OverloadResolutionPriority(1)]
    public static void Use(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, CancellationToken, Task> filter) =>
        ScopeOf(routes).Use(RouteHandler.Of(filter));

    /// <summary>Not for use: a compiler error for a filter with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="filter">A filter that returns something.</param>
    [Obsolete(DroppedVerdict, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Use<T>(this IHttpRoutes routes, Func<HttpRequest, HttpResponse, T> filter) =>
        throw new NotSupportedException(DroppedVerdict);

    private const string DroppedVerdict = "The result of this filter would be dropped. A filter stops a request by "
        + "answering it (response.Fail(401)), and lets it pass by doing nothing.";
}
