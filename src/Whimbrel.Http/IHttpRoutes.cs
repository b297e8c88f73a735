namespace Whimbrel.Http;

/// <summary>
/// A place where routes are added: an <see cref="HttpServer"/>, or one of its groups (<see cref="HttpRouteGroup"/>). What can be added stands in
/// <see cref="HttpRoutes"/>. Only classes of this library implement it.
/// </summary>
public interface IHttpRoutes
{
    internal RouteScope Scope { get; }
}
