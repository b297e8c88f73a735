using NetCoreServer;

namespace Whimbrel.Compat;

/// <summary>One request at a time of a client, and the task that waits for its response. It connects the client when that is not connected.</summary>
/// <remarks>Each task is completed once, whatever comes first: the response, a mistake in it, the end of the connection, or the timeout. Whoever awaits it goes on elsewhere.</remarks>
internal sealed class OneRequest(IOneRequest client) : IDisposable
{
    private const int Tries = 10;
    private static readonly TimeSpan s_usual = TimeSpan.FromMinutes(1);

    private readonly Lock _gate = new();
    private TaskCompletionSource<HttpResponse>? _waiting;
    private HttpResponse? _response;
    private Exception? _failure;
    private Timer? _timer;
    private bool _isOn;       // the request goes over what is connected or dialled now: the end of that is told next, and is its own
    private bool _mayRetry;   // what could not be sent, once, over another connection
    private bool _connectsLater; // the connection that it cannot have is about to end, or to be ready

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
        bool isReady;
        lock (_gate)
        {
            if (_waiting is not null) return Task.FromException<HttpResponse>(new InvalidOperationException("A request is under way: this client makes one at a time."));
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

    /// <summary>A connection is dialled, and the end of the one before has been told: the next end is this one's.</summary>
    internal void Connecting()
    {
        lock (_gate) _isOn = true;
    }

    /// <summary>The client is connected: what was asked for is sent.</summary>
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

    /// <summary>The response is there. The task is completed when the client may be asked again: <see cref="Settle"/>.</summary>
    internal void Answered() => _response = client.Http.TakeResponse();

    /// <summary>The connection lives on, or has ended: whoever waits may go on.</summary>
    /// <returns>True: there was a response. Whoever waited for it may have asked again by now.</returns>
    internal bool Settle()
    {
        if (_response is not { } response) return false;
        _response = null;
        Take(null)?.TrySetResult(response);
        return true;
    }

    /// <summary>The response broke a rule. The connection ends, and with it the wait.</summary>
    internal void Broken(string error) => _failure = new InvalidOperationException(error);

    /// <summary>The connection has ended. A response that had come is given.</summary>
    internal void Ended()
    {
        if (Settle()) return;
        TaskCompletionSource<HttpResponse>? waiting;
        lock (_gate)
        {
            // One that was begun meanwhile has a connection of its own, which is not dialled before this has returned.
            if (_waiting is null || !(_isOn || _connectsLater)) return;
            waiting = _connectsLater ? _waiting : null;
            _isOn = _connectsLater = false;
        }

        if (waiting is not null) Connect(waiting);
        else Take(null)?.TrySetException(_failure ?? new InvalidOperationException($"No response from {client.Failure}."));
    }

    public void Dispose() => Fail("The client was disposed.", null);

    private void Connect(TaskCompletionSource<HttpResponse> waiting)
    {
        for (int tries = 1; !client.Connect(); tries++)
        {
            // What is in the way ends, or gets ready: either is told.
            lock (_gate)
            {
                if (_waiting != waiting || _isOn) return;
                _connectsLater = true;
            }

            if (client.IsBusy) return;
            // It may have ended before this was noted: then nothing more is told.
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

        // A connection that is about to end takes nothing, and says a little later that it is none.
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
