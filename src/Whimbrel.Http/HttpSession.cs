using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// The server's side of an HTTP/1.1 connection. Derive from it, override <see cref="OnRequest"/> and answer with <see cref="Respond"/> or
/// with <see cref="Response"/>: on the loop, without a task and without an allocation for each request. <see cref="HttpServer"/> makes
/// such sessions by itself, with routes and awaitable handlers.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A <see cref="HttpRequest"/> and a <see cref="HttpResponse"/> belong to one exchange, which ends when the answer is complete. From then on they throw, on any thread, and nothing is sent.</item>
/// <item>One request at a time, in their order; the next is read when this one was answered. Until then at most
/// <see cref="HttpOptions.PipelineLimitBytes"/> of what the peer sends ahead are taken in, and what one receive brought above that.</item>
/// <item>A request that breaks a rule or a limit gets one answer, with the status that says so, and the connection is closed. Nothing behind
/// it is served.</item>
/// <item><see cref="OnRequest"/> may return without an answer: it is given later, on any thread. Each request gets exactly one.</item>
/// <item>An exception of an override or handler is told to <see cref="Session.OnError"/>, and answered with 500 when nothing was sent; else
/// the connection is aborted. Either way it ends, and no other. An answer that was whole before is delivered, and the connection serves the next request.</item>
/// <item>A peer that goes away cancels <see cref="Stop"/>.</item>
/// </list>
/// The life of a request: <c>HttpSession.Reading.cs</c> reads it, <c>HttpSession.Answering.cs</c> has it answered, <c>HttpSession.Clock.cs</c>
/// holds the peer to its times, <c>HttpSession.Metrics.cs</c> tells the meter.
/// </remarks>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer or a wait handle owns nothing to give back, and a handler may look at its token after the end.")]
public partial class HttpSession : Session
{
    private static readonly HttpOptions s_defaults = new();

    private readonly HttpOptions _options;
    private readonly RouteTable? _routes;
    private HttpResponse _response; // a handle, so that Response can give it by reference
    private ServerExchange? _exchange; // from the first byte of a head to the end of its answer
    private CancellationTokenSource? _stop;
    private Phase _phase;
    private int _requests;
    private bool _isPaused;
    private bool _peerFinished;
    private bool _saidAll; // the request asked for the end of the connection, and nothing came behind it
    private volatile bool _isLast;
    private volatile bool _hasEnded;

    /// <summary>Makes a session.</summary>
    /// <param name="options">Its limits; null for the defaults. One object for all sessions of a kind.</param>
    protected HttpSession(HttpOptions? options = null)
    {
        _options = options ?? s_defaults;
        _options.Check();
        HttpMetrics.Prepare();
    }

    internal HttpSession(HttpOptions options, RouteTable routes)
        : this(options) => _routes = routes;

    private enum Phase : byte
    {
        /// <summary>Between requests, or in a head.</summary>
        Head,

        /// <summary>A body is kept until it is whole.</summary>
        Body,

        /// <summary>A request waits for its answer. Its body may be read meanwhile.</summary>
        Answer,

        /// <summary>The rest of a body that nobody wants is read away.</summary>
        Skip,

        /// <summary>No further request is read.</summary>
        Over,
    }

    /// <summary>The answer to the request that <see cref="OnRequest"/> is called for. To answer later, on any thread, keep it: <c>HttpResponse response = Response;</c></summary>
    /// <exception cref="InvalidOperationException">This is not inside of <see cref="OnRequest"/>: it is not known which request would be answered.</exception>
    protected ref HttpResponse Response
    {
        get
        {
            if (!IsInRequest) throw new InvalidOperationException("Response and Respond are for use inside of OnRequest: later they could answer another request. To answer later, keep the response there: HttpResponse response = Response;");
            _response = Exchange.Response;
            return ref _response;
        }
    }

    /// <summary>Cancelled when the peer has gone away, or the connection has ended. For what works on an answer.</summary>
    public CancellationToken Stop
    {
        get
        {
            if (_stop is null) Interlocked.CompareExchange(ref _stop, new CancellationTokenSource(), null);
            if (_hasEnded) _stop.Cancel();
            return _stop.Token;
        }
    }

    internal HttpOptions Options => _options;

    private ServerExchange Exchange => _exchange!;

    // ------------------------------------------------------------------ overrides

    /// <summary>
    /// The head of a request that has a body was read: says what is to become of the body. The default is <see cref="HttpBodyMode.Buffer"/>.
    /// On the session's thread; no answer yet.
    /// </summary>
    /// <param name="request">The request, without its body.</param>
    protected virtual HttpBodyMode OnHead(HttpRequest request) => _routes is null ? HttpBodyMode.Buffer : Exchange.Found.Mode;

    /// <summary>
    /// A request is there. Answer it here, or later on any thread. The session's thread; must not block on the loop. The default is 404, and
    /// in an <see cref="HttpServer"/> the route's handler.
    /// </summary>
    /// <param name="request">Valid until it is answered.</param>
    protected virtual void OnRequest(HttpRequest request)
    {
        if (_routes is null) Response.Fail(404);
        else RunRoute();
    }

    /// <summary>Answers the request that <see cref="OnRequest"/> is called for with a body that lies in memory, head and body as one message.</summary>
    /// <param name="status">100 to 599; one that has a body, unless it is empty.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    /// <param name="body">Copied.</param>
    /// <exception cref="InvalidOperationException">It has an answer already, or this is not inside of <see cref="OnRequest"/>.</exception>
    protected void Respond(int status, ReadOnlySpan<byte> contentType, ReadOnlySpan<byte> body)
    {
        HttpResponse response = Response;
        response.Status = status;
        response.Bytes(body, contentType);
    }

    /// <inheritdoc/>
    protected override string? BroadcastRefusal =>
        "a session of HTTP is among the members, and its client would take the bytes for an answer. Let sessions of WebSocket, or of your own protocol, join a SessionGroup, and broadcast to that.";

    // ------------------------------------------------------------------ the life of the connection

    /// <inheritdoc/>
    protected override void OnConnected()
    {
        _connectedMs = _quietSinceMs = Loop.TimeMs;
        Watch(_quietSinceMs + Milliseconds(_options.KeepAliveTimeout));
    }

    /// <inheritdoc/>
    protected override void OnPeerFinished()
    {
        _peerFinished = true;
        if (_phase is Phase.Answer)
        {
            _stop?.Cancel();
            if (UnreadCount == 0 && Exchange.Stream is { } stream && GiveBody(stream, default, out _)) stream.Complete();
            return;
        }

        // What waits for the peer to take its answers comes again; a request that was not finished has no answer.
        if (!IsHeldBack || UnreadCount == 0) End();
    }

    /// <inheritdoc/>
    protected override void OnServerStopping()
    {
        // What is under way is answered; who waits for nothing but further events is told to end.
        _isLast = true;
        if (_phase == Phase.Head)
        {
            // A client that keeps an idle connection looks at it when it has another request, and not for our FIN (RFC 9112, 9.6).
            if (_exchange is null && UnreadCount == 0 && BytesPending == 0) NotePeerFinished();
            base.OnServerStopping();
        }
        else if (_exchange is { Answer.IsEventStream: true }) _stop?.Cancel();
    }

    /// <inheritdoc/>
    protected override void OnDisconnected(CloseReason reason)
    {
        _hasEnded = true;
        _timer?.Return();
        _timer = null;
        _stop?.Cancel();
        if (IsTimed) TellTime(_phase == Phase.Answer && Exchange.Answer.HasBegun ? Exchange.Answer.Status : 0, reason.Cause.ToString());
        if (_phase == Phase.Answer)
        {
            NoteAnswer(wentAway: true);
            Exchange.IsLeft = true;
            if (reason.Cause == CloseCause.ServerStopped && _isHandlerRunning) NoteStopOverdue(Exchange);
            Exchange.Stream?.Fail(new NetworkException(reason.Error));
        }
        else ReleaseExchange();
        _phase = Phase.Over;
    }

    /// <param name="peerSaidAll">By the protocol nothing comes any more (RFC 9112, 9.6), so nobody waits for the peer's FIN.</param>
    private void End(bool peerSaidAll = false)
    {
        // In the middle of a body: an answer is noted before.
        if (IsTimed) TellTime(0, nameof(CloseCause.PeerClosed));
        ReleaseExchange();
        _phase = Phase.Over;
        Close(peerSaidAll);
    }

    private void ReleaseExchange()
    {
        if (_exchange is not { IsLeft: false } exchange) return;
        _exchange = null;
        exchange.End();
    }

    internal void Count(HttpCount what) => _options.Tally.Add(what, Loop.Index);
}
