using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

/// <summary>A handler or a filter: one of the two kinds. Task and ValueTask, with and without a token, are one kind from here on.</summary>
internal readonly struct RouteHandler
{
    internal const string DroppedResult = "The result of this handler would be dropped. Answer by the response, or return Task or ValueTask; to drop a result knowingly, write a block: { Call(); }";

    private RouteHandler(Action<HttpRequest, HttpResponse>? onLoop, Func<HttpRequest, HttpResponse, CancellationToken, ValueTask>? awaitable)
    {
        OnLoop = onLoop;
        Awaitable = awaitable;
    }

    /// <summary>Runs on the loop, and has answered when it returns.</summary>
    internal Action<HttpRequest, HttpResponse>? OnLoop { get; }

    /// <summary>Has answered when its task has ended.</summary>
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
        return new RouteHandler(null, (request, response, stop) => Running(handler(request, response, stop))); // tidy: allowed because routes are made once
    }

    internal static RouteHandler Of(Func<HttpRequest, HttpResponse, ValueTask> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        return new RouteHandler(null, (request, response, _) => handler(request, response)); // tidy: allowed because routes are made once
    }

    internal static RouteHandler Of(Func<HttpRequest, HttpResponse, Task> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        return new RouteHandler(null, (request, response, _) => Running(handler(request, response))); // tidy: allowed because routes are made once
    }

    internal static ValueTask Running(Task? task) => new(task ?? throw new InvalidOperationException("The handler returned null instead of a task: return Task.CompletedTask."));

    /// <summary>Throws for an async void method: nobody could wait for it, so its answer would come after the request's, and its exception would end the process.</summary>
    internal static void RefuseAsyncVoid(Delegate handler, string parameter)
    {
        // Machine code compiled ahead need not have the attribute; the mistake shows in every debug run.
        if (!RuntimeFeature.IsDynamicCodeSupported || !handler.Method.IsDefined(typeof(AsyncStateMachineAttribute), inherit: false)) return;
        throw new ArgumentException("The handler is async void, so nothing waits for its answer. Let it return Task or ValueTask.", parameter);
    }
}
