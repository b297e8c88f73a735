using System.ComponentModel;
using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

/// <summary>
/// What can be added to an <see cref="HttpServer"/> or a group of its routes: handlers for methods and patterns, filters, groups, folders, WebSockets. All of it before the first
/// connection; later it throws <see cref="InvalidOperationException"/>. Patterns are those of <see cref="HttpServer"/>; one that could match nothing throws <see cref="ArgumentException"/>.
/// </summary>
/// <remarks>
/// Each handler has five forms: on the loop, and awaited with or without a token as ValueTask or Task. The compiler takes the awaited one for an async lambda and for a method that
/// returns a task. A handler that returns anything else does not compile, and an async void method throws <see cref="ArgumentException"/>, because nothing could wait for them.
/// </remarks>
public static partial class HttpRoutes
{
    /// <summary>A handler on the loop for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public static void Get(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) => Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Get(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Get(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Get(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Get(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) => Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: the compiler reports a handler whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Get<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>A handler on the loop for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public static void Post(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) => Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Post(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Post(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Post(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Post(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) => Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: the compiler reports a handler whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Post<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>A handler on the loop for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public static void Put(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) => Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Put(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Put(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Put(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Put(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) => Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: the compiler reports a handler whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Put<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>A handler on the loop for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public static void Delete(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) => Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Delete(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Delete(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Delete(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Delete(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) => Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: the compiler reports a handler whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Delete<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>A handler on the loop for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public static void Patch(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) => Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Patch(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Patch(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Patch(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Patch(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) => Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: the compiler reports a handler whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Patch<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>A handler on the loop for a method with a number.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">The method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern, Action<HttpRequest, HttpResponse> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for a method with a number.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">The method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern, Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for a method with a number.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">The method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern, Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for a method with a number.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">The method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for a method with a number.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">The method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: the compiler reports a handler whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">The method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Map<T>(this IHttpRoutes routes, HttpVerb verb, string pattern, Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>A handler on the loop for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">A token: <c>"PURGE"</c>, <c>"PUT"</c>. Its case counts. Up to 54 different ones that have no number.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Answers at once. Must not block.</param>
    public static void Map(this IHttpRoutes routes, string method, string pattern, Action<HttpRequest, HttpResponse> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">A token: <c>"PURGE"</c>, <c>"PUT"</c>. Its case counts. Up to 54 different ones that have no number.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, string method, string pattern, Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">A token: <c>"PURGE"</c>, <c>"PUT"</c>. Its case counts. Up to 54 different ones that have no number.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, string method, string pattern, Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">A token: <c>"PURGE"</c>, <c>"PUT"</c>. Its case counts. Up to 54 different ones that have no number.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, string method, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>An awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">A token: <c>"PURGE"</c>, <c>"PUT"</c>. Its case counts. Up to 54 different ones that have no number.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Its answer is complete when it has ended. Its token is cancelled when the client goes away.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, string method, string pattern, Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: the compiler reports a handler whose result would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">A token: <c>"PURGE"</c>, <c>"PUT"</c>. Its case counts. Up to 54 different ones that have no number.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Map<T>(this IHttpRoutes routes, string method, string pattern, Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    private static void Add(IHttpRoutes routes, HttpVerb verb, string pattern, RouteHandler handler) => ScopeOf(routes).Add(verb, pattern, handler);

    private static void Add(IHttpRoutes routes, string method, string pattern, RouteHandler handler) => ScopeOf(routes).Add(method, pattern, handler);

    private static RouteScope ScopeOf(IHttpRoutes routes)
    {
        ArgumentNullException.ThrowIfNull(routes);
        return routes.Scope;
    }
}
