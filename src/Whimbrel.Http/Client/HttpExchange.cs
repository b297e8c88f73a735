using System.Threading.Tasks.Sources;

namespace Whimbrel.Http;

/// <summary>
/// One request of a pool on one connection, and the wait for its response. The claim decides the completion: by the
/// session with the head, by a cancellation, or by the end of the connection. A body sent after the head is written on
/// the thread pool; everything else happens on the session's loop.
/// </summary>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer "
    + "or a wait handle has nothing to dispose, and the writer of a body may read its token after the end.")]
internal sealed class HttpExchange : IValueTaskSource<HttpClientResponse>
{
    // A body up to this size is sent with the head as one message.
    private const int SmallBody = 64 * 1024;

    private readonly HttpPool _pool;
    private readonly CancellationToken _stop;
    private ManualResetValueTaskSourceCore<HttpClientResponse> _source =
        new() { RunContinuationsAsynchronously = true };
    private CancellationTokenRegistration _registration;
    private CancellationTokenSource? _pumpStop;
    private TaskCompletionSource<bool>? _continue;
    private int _isClaimed;
    private volatile bool _isAllGiven;
    private volatile bool _sendEnded;

    internal HttpExchange(HttpPool pool, PooledSession session, HttpClientRequest request, string? cookies,
        byte[]? trace, CancellationToken stop)
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

    /// <summary>Trace context fields, with their line ends.</summary>
    internal byte[]? Trace { get; }

    /// <summary>Whether a byte may have been sent. Before, any request can be sent again.</summary>
    internal bool WasSent { get; set; }

    /// <summary>Whether any byte of a response was received.</summary>
    internal bool WasAnswered { get; set; }

    /// <summary>Times of the start of sending and of the first response byte, on the clock of
    /// <see cref="System.Diagnostics.Stopwatch"/>. On the loop.</summary>
    internal long SentAt { get; set; }

    internal long AnsweredAt { get; set; }

    /// <summary>Whether the exchange is completed, or about to be.</summary>
    internal bool IsClaimed => Volatile.Read(ref _isClaimed) != 0;

    /// <summary>Whether the body is sent with the head.</summary>
    internal bool IsSmall =>
        Request.Write is null && Request.Body.Length <= SmallBody && (!Request.ExpectContinue || Request.Body.IsEmpty);

    /// <summary>Whether the last byte of the request was passed to the session, or is being passed.</summary>
    internal bool IsAllGiven => _isAllGiven;

    /// <summary>Whether the body of the request is written completely. On the loop.</summary>
    internal bool IsPumped { get; set; }

    /// <summary>Response body that is being read, or null. On the loop.</summary>
    internal HttpClientBody? Body { get; set; }

    // ------------------------------------------------------------------ the wait

    /// <summary>Sends the request, and completes with the head of the response.</summary>
    internal ValueTask<HttpClientResponse> SendAsync()
    {
        bool isPosted;
        using (Session.BatchWakeUps())
            isPosted = Session.Post(static exchange => ((HttpExchange)exchange!).Session.Begin((HttpExchange)exchange),
                this);
        if (!isPosted) TryFail(Lost());
        else if (_stop.CanBeCanceled)
            _registration = _stop.UnsafeRegister(static exchange => ((HttpExchange)exchange!).Cancel(), this);
        return new ValueTask<HttpClientResponse>(this, _source.Version);
    }

    internal HttpClientException Lost() =>
        HttpClientException.OfEnd(new CloseReason(CloseCause.PeerClosed), isInBody: false, Session.Peer);

    internal bool TryClaim() => Interlocked.Exchange(ref _isClaimed, 1) == 0;

    /// <summary>Completes with the response. Called by the holder of the claim.</summary>
    internal void Complete(HttpClientResponse response) => _source.SetResult(response);

    /// <summary>Fails the exchange unless it is claimed. Any thread.</summary>
    internal bool TryFail(Exception failure)
    {
        if (!TryClaim()) return false;
        _pumpStop?.Cancel();
        _source.SetException(failure);
        return true;
    }

    private void Cancel()
    {
        if (TryFail(new OperationCanceledException(_stop)))
            Session.Post(static exchange => ((HttpExchange)exchange!).Session.GiveUp((HttpExchange)exchange), this);
    }

    HttpClientResponse IValueTaskSource<HttpClientResponse>.GetResult(short token)
    {
        _registration.Unregister();
        return _source.GetResult(token);
    }

    ValueTaskSourceStatus IValueTaskSource<HttpClientResponse>.GetStatus(short token) => _source.GetStatus(token);

    void IValueTaskSource<HttpClientResponse>.OnCompleted(Action<object?> continuation, object? state, short token,
        ValueTaskSourceOnCompletedFlags flags) =>
        _source.OnCompleted(continuation, state, token, flags);

    // ------------------------------------------------------------------ the body of the request

    /// <summary>Starts to write the body on the thread pool, after the head was queued. On the loop.</summary>
    internal void StartPump()
    {
        _pumpStop = new CancellationTokenSource();
        if (Request.ExpectContinue)
            _continue = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        if (IsClaimed) _pumpStop.Cancel();
        _ = Task.Run(PumpAsync);
    }

    /// <summary>Reports whether the server wants the body, or has responded without it. On the loop.</summary>
    internal void Continue(bool isWanted) => _continue?.TrySetResult(isWanted);

    /// <summary>Stops the body, because its rest is not needed. On the loop.</summary>
    internal void StopPump() => _pumpStop?.Cancel();

    /// <summary>Called before the last byte is passed to the session: from here on the response can be
    /// complete.</summary>
    internal void GivesLast() => _isAllGiven = true;

    /// <summary>
    /// Called when the connection accepts no more of the request. A response may have been sent before (RFC 9112, 9.6)
    /// and is still read. It, or the end of the connection, completes the exchange.
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
            // After a cancellation, or the end of the connection, the exception is only a consequence and is not
            // reported.
            if (stop.IsCancellationRequested || _sendEnded || !Session.IsConnected) return;
            HttpClientException failure = new(HttpClientFailure.RequestBody,
                $"The body of {Request} was not sent: {e.Message}", e);
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
            return true; // servers without support for Expect never send 100
        }
    }
}
