using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>One request at a time of a client, and the task that waits for its response. It connects the client when that is not connected.</summary>
/// <remarks>Each task is completed once, whatever comes first: the response, a mistake in it, the end of the connection, or the timeout. Whoever awaits it goes on elsewhere.</remarks>
internal sealed class OneRequest(IOneRequest client) : IDisposable
{
    private static readonly TimeSpan s_usual = TimeSpan.FromMinutes(1);

    private readonly Lock _gate = new();
    private TaskCompletionSource<HttpResponse>? _waiting;
    private HttpResponse? _response;
    private Exception? _failure;
    private Timer? _timer;

    /// <summary>Sends a request, and connects before when that is needed.</summary>
    internal Task<HttpResponse> Begin(HttpRequest request, TimeSpan? timeout)
    {
        ArgumentNullException.ThrowIfNull(request);
        return Begin(() => request, timeout);
    }

    /// <summary>The same, for a request that is composed when none is under way.</summary>
    internal Task<HttpResponse> Begin(Func<HttpRequest> compose, TimeSpan? timeout)
    {
        TaskCompletionSource<HttpResponse> waiting = new(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_gate)
        {
            if (_waiting is not null) return Task.FromException<HttpResponse>(new InvalidOperationException("A request is under way: this client makes one at a time."));
            client.Http.Request = compose();
            _waiting = waiting;
            _response = null;
            _failure = null;
            _timer = new Timer(_ => TimedOut(waiting), null, timeout ?? s_usual, Timeout.InfiniteTimeSpan);
        }

        HttpRequest request = client.Http.Request;
        if (request.IsEmpty || request.IsErrorSet) Fail("Invalid HTTP request!", waiting);
        else if (client.IsReady) Send();
        else if (!client.Connect()) Fail("Connection failed!", waiting);
        return waiting.Task;
    }

    /// <summary>The client is connected: what was asked for is sent.</summary>
    internal void Connected()
    {
        lock (_gate)
        {
            if (_waiting is null) return;
        }

        Send();
    }

    /// <summary>The response is there. The task is completed when the client may be asked again: <see cref="Settle"/>.</summary>
    internal void Answered() => _response = client.Http.TakeResponse();

    /// <summary>The connection lives on, or has ended: whoever waits may go on.</summary>
    internal void Settle()
    {
        if (_response is not { } response || Take(null) is not { } waiting) return;
        _response = null;
        waiting.TrySetResult(response);
    }

    /// <summary>The response broke a rule. The connection ends, and with it the wait.</summary>
    internal void Broken(string error) => _failure = new InvalidOperationException(error);

    /// <summary>The connection has ended. A response that had come is given.</summary>
    internal void Ended()
    {
        Settle();
        Take(null)?.TrySetException(_failure ?? new InvalidOperationException("The connection ended before the response."));
    }

    public void Dispose() => Fail("The client was disposed.", null);

    private void Send()
    {
        if (!client.Send(client.Http.Request)) Fail("Failed to send HTTP request!", null);
    }

    private void TimedOut(TaskCompletionSource<HttpResponse> waiting)
    {
        lock (_gate)
        {
            if (_waiting != waiting) return;
            _failure = new TimeoutException("Timeout!");
        }

        // Before the wait ends: who asks again has another connection.
        client.End();
        Take(waiting)?.TrySetException(new TimeoutException("Timeout!"));
    }

    private void Fail(string error, TaskCompletionSource<HttpResponse>? only) => Take(only)?.TrySetException(new InvalidOperationException(error));

    private TaskCompletionSource<HttpResponse>? Take(TaskCompletionSource<HttpResponse>? only)
    {
        lock (_gate)
        {
            if (_waiting is not { } waiting || (only is not null && only != waiting)) return null;
            _waiting = null;
            _timer?.Dispose();
            _timer = null;
            return waiting;
        }
    }
}
