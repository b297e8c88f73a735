namespace Whimbrel.Http;

/// <summary>
/// Routes with a common beginning of their paths and common filters: <c>web.Group("/api")</c>. A pattern <c>/</c> in a group is the path of the group itself.
/// </summary>
/// <remarks>Add routes and filters before the first connection; later both throw <see cref="InvalidOperationException"/>.</remarks>
public sealed class HttpRouteGroup : IHttpRoutes
{
    private readonly RouteScope _scope;

    internal HttpRouteGroup(RouteScope scope) => _scope = scope;

    /// <summary>The beginning of its paths, with that of the groups around it; empty for a group without one.</summary>
    public string Prefix => _scope.Prefix;

    RouteScope IHttpRoutes.Scope => _scope;
}
