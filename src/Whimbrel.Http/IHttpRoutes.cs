namespace Whimbrel.Http;

/// <summary>
/// Target of route registrations: an <see cref="HttpServer"/>, or one of its groups (<see cref="HttpRouteGroup"/>). Its
/// members are in <see cref="HttpRoutes"/>. Only classes of this library implement it.
/// </summary>
public interface IHttpRoutes
{
    internal RouteScope Scope { get; }
}
