namespace Whimbrel.Http;

/// <summary>
/// Routes with a common path prefix and common filters: <c>web.Group("/api")</c>. In a group the pattern <c>/</c> is
/// the path of the group itself.
/// </summary>
/// <remarks>Add routes and filters before the first connection; later both throw
/// <see cref="InvalidOperationException"/>.</remarks>
public sealed class HttpRouteGroup : IHttpRoutes
{
    private readonly RouteScope _scope;

    internal HttpRouteGroup(RouteScope scope) => _scope = scope;

    /// <summary>Path prefix, including those of outer groups; empty for a group without one.</summary>
    public string Prefix => _scope.Prefix;

    RouteScope IHttpRoutes.Scope => _scope;
}
