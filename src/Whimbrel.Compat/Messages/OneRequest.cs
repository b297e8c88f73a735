using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>Sends one request at a time for a client, and completes a task with its response. Connects the client if
/// necessary.</summary>
/// <remarks>Each task completes once: with the response, an error in it, the end of the connection, or a timeout.
/// Continuations run asynchronously.</remarks>
internal sealed class OneRequest(IOneRequest client) : IDisposable
{
    private const int Tries = 10;
    private static readonly TimeSpan s_usual = TimeSpan.FromMinutes(1);

    private readonly Lock _gate = new();
    private TaskCompletionSource<HttpResponse>? _waiting;
    private HttpResponse? _response;
    private Exception? _failure;
    private Timer? _timer;
    private bool _isOn; // the request belongs to the current connection or connect attempt, so its end ends the request
    private bool _mayRetry; // a failed send is repeated once, on another connection
    private bool _connectsLater; // connects when the current connection has ended or is ready

    /// <summary>Sends a request, and connects first if necessary.</summary>
    internal Task<HttpResponse> Begin(HttpRequest request, TimeSpan? timeout)
    {
        ArgumentNullException.ThrowIfNull(request);
        return Begin(() => request, timeout);
    }

    /// <summary>Sends a request that is composed only if no other is in progress.</summary>
    internal Task<HttpResponse> Begin(Func<HttpRequest> compose, TimeSpan? timeout)
    {
        TaskCompletionSource<HttpResponse> waiting = new(TaskCreationOptions.RunContinuationsAsynchronously);
        bool isReady;
        lock (_gate)
        {
            if (_waiting is not null)
                return Task.FromException<HttpResponse>(
                    new InvalidOperationException("A request is in progress: this client makes one at a time."));
            client.Http.Request = compose();
            _waiting = waiting;
            _response = null;
            _failure = null;
            _isOn = isReady = client.IsReady;
            _connectsLater = false;
            _mayRetry = true;
            _timer = new Timer(_ => TimedOut(waiting), null, timeout ?? s_usual, Timeout.InfiniteTimeSpan);
        }

        HttpRequest request = client.Http.Request;
        if (request.IsEmpty || request.IsErrorSet) Fail("Invalid HTTP request!", waiting);
        else if (isReady) Send();
        else Connect(waiting);
        return waiting.Task;
    }

    /// <summary>Called when a connect starts and the end of the previous connection was reported: the next end belongs
    /// to this one.</summary>
    internal void Connecting()
    {
        lock (_gate) _isOn = true;
    }

    /// <summary>Called when the client is connected: sends the request.</summary>
    internal void Connected()
    {
        lock (_gate)
        {
            if (_waiting is null) return;
            _isOn = true;
            _connectsLater = false;
        }

        Send();
    }

    /// <summary>Stores the response. <see cref="Settle"/> completes the task when the client may be used
    /// again.</summary>
    internal void Answered() => _response = client.Http.TakeResponse();

    /// <summary>Completes the task, when the connection is usable again or has ended.</summary>
    /// <returns>True if there was a response. Its receiver may have sent another request by now.</returns>
    internal bool Settle()
    {
        if (_response is not { } response) return false;
        _response = null;
        Take(null)?.TrySetResult(response);
        return true;
    }

    /// <summary>Stores the error of a response that broke a rule. The end of the connection completes the
    /// task.</summary>
    internal void Broken(string error) => _failure = new InvalidOperationException(error);

    /// <summary>Called when the connection has ended. A complete response is passed on.</summary>
    internal void Ended()
    {
        if (Settle()) return;
        TaskCompletionSource<HttpResponse>? waiting;
        lock (_gate)
        {
            // A request started meanwhile has its own connection, whose connect starts after this method has returned.
            if (_waiting is null || !(_isOn || _connectsLater)) return;
            waiting = _connectsLater ? _waiting : null;
            _isOn = _connectsLater = false;
        }

        if (waiting is not null) Connect(waiting);
        else Take(null)
            ?.TrySetException(_failure ?? new InvalidOperationException($"No response from {client.Failure}."));
    }

    public void Dispose() => Fail("The client was disposed.", null);

    private void Connect(TaskCompletionSource<HttpResponse> waiting)
    {
        for (int tries = 1; !client.Connect(); tries++)
        {
            // The current connection ends or becomes ready, and a callback reports either.
            lock (_gate)
            {
                if (_waiting != waiting || _isOn) return;
                _connectsLater = true;
            }

            if (client.IsBusy) return;
            // It may have ended before the flag was set; then no callback follows.
            lock (_gate)
            {
                if (_waiting != waiting || !_connectsLater) return;
                _connectsLater = false;
            }

            if (tries == Tries)
            {
                Fail("Connection failed!", waiting);
                return;
            }
        }
    }

    private void Send()
    {
        if (client.Send(client.Http.Request)) return;
        TaskCompletionSource<HttpResponse>? waiting = null;
        lock (_gate)
        {
            if (_waiting is null) return;
            if (_mayRetry)
            {
                _mayRetry = _isOn = false;
                waiting = _waiting;
            }
        }

        if (waiting is null)
        {
            Fail("Failed to send HTTP request!", null);
            return;
        }

        // A connection that is about to end rejects sends, and reports its end a little later.
        client.End();
        Connect(waiting);
    }

    private void TimedOut(TaskCompletionSource<HttpResponse> waiting)
    {
        lock (_gate)
        {
            if (_waiting != waiting) return;
            _failure = new TimeoutException("Timeout!");
        }

        // Before the task completes, so that the next request gets another connection.
        client.End();
        Take(waiting)?.TrySetException(new TimeoutException("Timeout!"));
    }

    private void Fail(string error, TaskCompletionSource<HttpResponse>? only) =>
        Take(only)?.TrySetException(new InvalidOperationException(error));

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
