using System.ComponentModel;
using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

/// <summary>
/// Adds handlers for methods and patterns, filters, groups, folders and WebSockets to an <see cref="HttpServer"/> or a
/// group of its routes. After the first connection these methods throw <see cref="InvalidOperationException"/>.
/// Patterns are described at <see cref="HttpServer"/>; one that cannot match throws <see cref="ArgumentException"/>.
/// </summary>
/// <remarks>
/// Each handler has five forms: on the loop, and awaited with or without a token as ValueTask or Task. The compiler
/// chooses the awaited form for an async lambda and a method that returns a task. A handler with any other result does
/// not compile, and an async void method throws <see cref="ArgumentException"/>, because its end cannot be awaited.
/// </remarks>
public static partial class HttpRoutes
{
    /// <summary>Adds a handler on the loop for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler; responds before it returns. Must not block.</param>
    public static void Get(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) =>
        Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(2)]
    public static void Get(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, ValueTask> handler) =>
        Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(1)]
    public static void Get(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) =>
        Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(2)]
    public static void Get(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) =>
        Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for GET and HEAD.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(1)]
    public static void Get(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) =>
        Add(routes, HttpVerb.Get, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: a compiler error for a handler with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Get<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) =>
        throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>Adds a handler on the loop for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler; responds before it returns. Must not block.</param>
    public static void Post(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) =>
        Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(2)]
    public static void Post(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, ValueTask> handler) =>
        Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(1)]
    public static void Post(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) =>
        Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(2)]
    public static void Post(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) =>
        Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for POST.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(1)]
    public static void Post(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) =>
        Add(routes, HttpVerb.Post, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: a compiler error for a handler with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Post<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) =>
        throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>Adds a handler on the loop for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler; responds before it returns. Must not block.</param>
    public static void Put(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) =>
        Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(2)]
    public static void Put(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, ValueTask> handler) =>
        Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(1)]
    public static void Put(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) =>
        Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(2)]
    public static void Put(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) =>
        Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PUT.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(1)]
    public static void Put(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) =>
        Add(routes, HttpVerb.Put, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: a compiler error for a handler with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Put<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) =>
        throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>Adds a handler on the loop for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler; responds before it returns. Must not block.</param>
    public static void Delete(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) =>
        Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(2)]
    public static void Delete(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, ValueTask> handler) =>
        Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(1)]
    public static void Delete(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) =>
        Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(2)]
    public static void Delete(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) =>
        Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for DELETE.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(1)]
    public static void Delete(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) =>
        Add(routes, HttpVerb.Delete, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: a compiler error for a handler with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Delete<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) =>
        throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>Adds a handler on the loop for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler; responds before it returns. Must not block.</param>
    public static void Patch(this IHttpRoutes routes, string pattern, Action<HttpRequest, HttpResponse> handler) =>
        Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(2)]
    public static void Patch(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, ValueTask> handler) =>
        Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(1)]
    public static void Patch(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, Task> handler) =>
        Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(2)]
    public static void Patch(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) =>
        Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for PATCH.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(1)]
    public static void Patch(this IHttpRoutes routes, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) =>
        Add(routes, HttpVerb.Patch, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: a compiler error for a handler with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Patch<T>(this IHttpRoutes routes, string pattern, Func<HttpRequest, HttpResponse, T> handler) =>
        throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>Adds a handler on the loop for a method of <see cref="HttpVerb"/>.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">Method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler; responds before it returns. Must not block.</param>
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern,
        Action<HttpRequest, HttpResponse> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for a method of <see cref="HttpVerb"/>.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">Method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern,
        Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for a method of <see cref="HttpVerb"/>.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">Method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern,
        Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for a method of <see cref="HttpVerb"/>.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">Method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) =>
        Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for a method of <see cref="HttpVerb"/>.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">Method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, HttpVerb verb, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) =>
        Add(routes, verb, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: a compiler error for a handler with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="verb">Method. TRACE only with <see cref="HttpOptions.AllowTrace"/>; CONNECT never.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Map<T>(this IHttpRoutes routes, HttpVerb verb, string pattern,
        Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    /// <summary>Adds a handler on the loop for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">Case-sensitive token: <c>"PURGE"</c>. Up to 54 besides <see cref="HttpVerb"/>.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Handler; responds before it returns. Must not block.</param>
    public static void Map(this IHttpRoutes routes, string method, string pattern,
        Action<HttpRequest, HttpResponse> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">Case-sensitive token: <c>"PURGE"</c>. Up to 54 besides <see cref="HttpVerb"/>.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, string method, string pattern,
        Func<HttpRequest, HttpResponse, ValueTask> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">Case-sensitive token: <c>"PURGE"</c>. Up to 54 besides <see cref="HttpVerb"/>.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, string method, string pattern,
        Func<HttpRequest, HttpResponse, Task> handler) => Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">Case-sensitive token: <c>"PURGE"</c>. Up to 54 besides <see cref="HttpVerb"/>.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(2)]
    public static void Map(this IHttpRoutes routes, string method, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler) =>
        Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>Adds an awaited handler for any method.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">Case-sensitive token: <c>"PURGE"</c>. Up to 54 besides <see cref="HttpVerb"/>.</param>
    /// <param name="pattern">See <see cref="HttpServer"/>.</param>
    /// <param name="handler">Async handler; its end completes the response. A disconnect cancels its token.</param>
    [OverloadResolutionPriority(1)]
    public static void Map(this IHttpRoutes routes, string method, string pattern,
        Func<HttpRequest, HttpResponse, CancellationToken, Task> handler) =>
        Add(routes, method, pattern, RouteHandler.Of(handler));

    /// <summary>Not for use: a compiler error for a handler with a result, which would be dropped.</summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="method">Case-sensitive token: <c>"PURGE"</c>. Up to 54 besides <see cref="HttpVerb"/>.</param>
    /// <param name="pattern">A pattern.</param>
    /// <param name="handler">A handler that returns something.</param>
    [Obsolete(RouteHandler.DroppedResult, error: true), EditorBrowsable(EditorBrowsableState.Never)]
    public static void Map<T>(this IHttpRoutes routes, string method, string pattern,
        Func<HttpRequest, HttpResponse, T> handler) => throw new NotSupportedException(RouteHandler.DroppedResult);

    private static void Add(IHttpRoutes routes, HttpVerb verb, string pattern, RouteHandler handler) =>
        ScopeOf(routes).Add(verb, pattern, handler);

    private static void Add(IHttpRoutes routes, string method, string pattern, RouteHandler handler) =>
        ScopeOf(routes).Add(method, pattern, handler);

    private static RouteScope ScopeOf(IHttpRoutes routes)
    {
        ArgumentNullException.ThrowIfNull(routes);
        return routes.Scope;
    }
}
