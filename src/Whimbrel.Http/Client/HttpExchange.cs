using System.Threading.Tasks.Sources;

namespace Whimbrel.Http;

/// <summary>
/// One request of a pool on one connection, and the wait for its answer. Whoever claims it completes it: the session with the head, or who
/// cancels, or the end of the connection. What is sent behind the head is written on the thread pool; all else happens on the session's loop.
/// </summary>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer or a wait handle owns nothing to give back, and who writes may look at its token after the end.")]
internal sealed class HttpExchange : IValueTaskSource<HttpClientResponse>
{
    // Leaves with the head, as one message.
    private const int SmallBody = 64 * 1024;

    private readonly HttpPool _pool;
    private readonly CancellationToken _stop;
    private ManualResetValueTaskSourceCore<HttpClientResponse> _source = new() { RunContinuationsAsynchronously = true };
    private CancellationTokenRegistration _registration;
    private CancellationTokenSource? _pumpStop;
    private TaskCompletionSource<bool>? _continue;
    private int _isClaimed;
    private volatile bool _isAllGiven;
    private volatile bool _sendEnded;

    internal HttpExchange(HttpPool pool, PooledSession session, HttpClientRequest request, string? cookies, byte[]? trace, CancellationToken stop)
    {
        _pool = pool;
        Session = session;
        Request = request;
        Cookies = cookies;
        Trace = trace;
        _stop = stop;
    }

    internal PooledSession Session { get; }

    internal HttpClientRequest Request { get; }

    internal string? Cookies { get; }

    /// <summary>Fields that say what the request is a part of, with their line ends.</summary>
    internal byte[]? Trace { get; }

    /// <summary>Its first byte may have left. Before, it can be sent again whatever it is.</summary>
    internal bool WasSent { get; set; }

    /// <summary>Something of an answer has come.</summary>
    internal bool WasAnswered { get; set; }

    /// <summary>When the connection took it, and when the first byte of its answer came, on the clock of <see cref="System.Diagnostics.Stopwatch"/>. On the loop.</summary>
    internal long SentAt { get; set; }

    internal long AnsweredAt { get; set; }

    /// <summary>Somebody has completed it, or is about to.</summary>
    internal bool IsClaimed => Volatile.Read(ref _isClaimed) != 0;

    /// <summary>The body leaves with the head.</summary>
    internal bool IsSmall => Request.Write is null && Request.Body.Length <= SmallBody && (!Request.ExpectContinue || Request.Body.IsEmpty);

    /// <summary>The last byte of the request was given to the session, or is just being given.</summary>
    internal bool IsAllGiven => _isAllGiven;

    /// <summary>The request is over: nobody writes any more. On the loop.</summary>
    internal bool IsPumped { get; set; }

    /// <summary>The response whose body is being read, when there is one. On the loop.</summary>
    internal HttpClientBody? Body { get; set; }

    // ------------------------------------------------------------------ the wait

    /// <summary>Sends it, and completes with the head of the answer.</summary>
    internal ValueTask<HttpClientResponse> SendAsync()
    {
        bool isPosted;
        using (Session.GatherWakes()) isPosted = Session.Post(static exchange => ((HttpExchange)exchange!).Session.Begin((HttpExchange)exchange), this);
        if (!isPosted) TryFail(Lost());
        else if (_stop.CanBeCanceled) _registration = _stop.UnsafeRegister(static exchange => ((HttpExchange)exchange!).Cancel(), this);
        return new ValueTask<HttpClientResponse>(this, _source.Version);
    }

    internal HttpClientException Lost() => HttpClientException.OfEnd(new CloseReason(CloseCause.PeerClosed), isInBody: false, Session.Peer);

    internal bool TryClaim() => Interlocked.Exchange(ref _isClaimed, 1) == 0;

    /// <summary>The head has come. By who has claimed it.</summary>
    internal void Complete(HttpClientResponse response) => _source.SetResult(response);

    /// <summary>There is no answer. Any thread.</summary>
    internal bool TryFail(Exception failure)
    {
        if (!TryClaim()) return false;
        _pumpStop?.Cancel();
        _source.SetException(failure);
        return true;
    }

    private void Cancel()
    {
        if (TryFail(new OperationCanceledException(_stop))) Session.Post(static exchange => ((HttpExchange)exchange!).Session.GiveUp((HttpExchange)exchange), this);
    }

    HttpClientResponse IValueTaskSource<HttpClientResponse>.GetResult(short token)
    {
        _registration.Unregister();
        return _source.GetResult(token);
    }

    ValueTaskSourceStatus IValueTaskSource<HttpClientResponse>.GetStatus(short token) => _source.GetStatus(token);

    void IValueTaskSource<HttpClientResponse>.OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _source.OnCompleted(continuation, state, token, flags);

    // ------------------------------------------------------------------ the body of the request

    /// <summary>The head is queued: the body goes behind it, written on the thread pool. On the loop.</summary>
    internal void StartPump()
    {
        _pumpStop = new CancellationTokenSource();
        if (Request.ExpectContinue) _continue = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        if (IsClaimed) _pumpStop.Cancel();
        _ = Task.Run(PumpAsync);
    }

    /// <summary>The server wants the body, or has answered without it. On the loop.</summary>
    internal void Continue(bool isWanted) => _continue?.TrySetResult(isWanted);

    /// <summary>Nobody wants the rest of the body. On the loop.</summary>
    internal void StopPump() => _pumpStop?.Cancel();

    /// <summary>The last byte is about to be given: from here on the answer can be whole.</summary>
    internal void GivesLast() => _isAllGiven = true;

    /// <summary>
    /// The connection takes no more of the request. An answer may have come before that (RFC 9112, 9.6), and is still read: it, or the end of the
    /// connection, completes the exchange.
    /// </summary>
    internal void EndSend() => _sendEnded = true;

    private async Task PumpAsync()
    {
        CancellationToken stop = _pumpStop!.Token;
        try
        {
            if (_continue is not null && !await IsWantedAsync(stop).ConfigureAwait(false)) return;
            if (Request.Write is { } write)
            {
                HttpRequestBody body = new(this, Request.BodyLength);
                await write(body, stop).ConfigureAwait(false);
                await body.EndAsync(stop).ConfigureAwait(false);
            }
            else
            {
                GivesLast();
                if (await Session.SendAsync(Request.Body, stop).ConfigureAwait(false) != SendResult.Queued) return;
            }
        }
        catch (Exception e)
        {
            // When nobody wants it any more, whatever it says is a consequence of that; the end of the connection tells for itself.
            if (stop.IsCancellationRequested || _sendEnded || !Session.IsConnected) return;
            HttpClientException failure = new(HttpClientFailure.RequestBody, $"The body of {Request} was not sent: {e.Message}", e);
            if (!TryFail(failure)) Body?.Fail(failure);
            Session.Post(static exchange => ((HttpExchange)exchange!).Session.GiveUp((HttpExchange)exchange), this);
            return;
        }

        Session.Post(static exchange => ((HttpExchange)exchange!).Session.Pumped((HttpExchange)exchange), this);
    }

    private async Task<bool> IsWantedAsync(CancellationToken stop)
    {
        try
        {
            return await _continue!.Task.WaitAsync(_pool.Options.ContinueTimeout, stop).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            return true; // servers that do not know it never say so
        }
    }
}
