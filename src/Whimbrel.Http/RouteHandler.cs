using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

/// <summary>Handler or filter of one of two kinds. Task and ValueTask, with and without a token, become one kind
/// here.</summary>
internal readonly struct RouteHandler
{
    internal const string DroppedResult = "The result of this handler would be dropped. Answer by the response, or "
        + "return Task or ValueTask; to drop a result knowingly, write a block: { Call(); }";

    private RouteHandler(Action<HttpRequest, HttpResponse>? onLoop,
        Func<HttpRequest, HttpResponse, CancellationToken, ValueTask>? awaitable)
    {
        OnLoop = onLoop;
        Awaitable = awaitable;
    }

    /// <summary>Handler that runs on the loop, and has responded when it returns.</summary>
    internal Action<HttpRequest, HttpResponse>? OnLoop { get; }

    /// <summary>Handler that has responded when its task completes.</summary>
    internal Func<HttpRequest, HttpResponse, CancellationToken, ValueTask>? Awaitable { get; }

    internal static RouteHandler Of(Action<HttpRequest, HttpResponse> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        RefuseAsyncVoid(handler, nameof(handler));
        return new RouteHandler(handler, null);
    }

    internal static RouteHandler Of(Func<HttpRequest, HttpResponse, CancellationToken, ValueTask> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        return new RouteHandler(null, handler);
    }

    internal static RouteHandler Of(Func<HttpRequest, HttpResponse, CancellationToken, Task> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        // tidy: allowed because routes are made once
        return new RouteHandler(null, (request, response, stop) => Running(handler(request, response, stop)));
    }

    internal static RouteHandler Of(Func<HttpRequest, HttpResponse, ValueTask> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        // tidy: allowed because routes are made once
        return new RouteHandler(null, (request, response, _) => handler(request, response));
    }

    internal static RouteHandler Of(Func<HttpRequest, HttpResponse, Task> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        // tidy: allowed because routes are made once
        return new RouteHandler(null, (request, response, _) => Running(handler(request, response)));
    }

    internal static ValueTask Running(Task? task) => new(task ?? throw new InvalidOperationException(
        "The handler returned null instead of a task: return Task.CompletedTask."));

    /// <summary>Throws for an async void method: its end cannot be awaited, so its response would be late, and its
    /// exception would end the process.</summary>
    internal static void RefuseAsyncVoid(Delegate handler, string parameter)
    {
        // With native AOT the attribute may be missing; the error still appears in every debug run.
        if (!RuntimeFeature.IsDynamicCodeSupported
            || !handler.Method.IsDefined(typeof(AsyncStateMachineAttribute), inherit: false))
            return;
        throw new ArgumentException(
            "The handler is async void, so nothing waits for its answer. Let it return Task or ValueTask.", parameter);
    }
}
