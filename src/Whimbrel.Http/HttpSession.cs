using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Server side of an HTTP/1.1 connection. Derive from it, override <see cref="OnRequest"/> and respond with
/// <see cref="Respond"/> or <see cref="Response"/>: on the loop, without a task or an allocation per request.
/// <see cref="HttpServer"/> creates such sessions, with routes and awaitable handlers.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>An <see cref="HttpRequest"/> and an <see cref="HttpResponse"/> belong to one exchange, which ends when the
/// response is complete and the handler has returned. After that they throw, on any thread, and nothing is sent.</item>
/// <item>Requests are served one at a time, in order; the next is read after the response. Until then at most
/// <see cref="HttpOptions.PipelineLimitBytes"/> of pipelined data are received, plus the rest of one receive.</item>
/// <item>A request that breaks a rule or a limit gets one response with the matching status, and the connection is
/// closed. Later requests are not served.</item>
/// <item><see cref="OnRequest"/> may return without a response, which is then given later, on any thread. Each request
/// gets exactly one.</item>
/// <item>An exception of an override or handler, unless the client caused it or a hook
/// (<see cref="HttpServer.OnError(Action{HttpRequest, HttpResponse, Exception})"/>) responds, is passed to
/// <see cref="Session.OnError"/>. The client gets 500 if the response has not begun; otherwise the connection is
/// aborted. Only this connection ends. A complete response is delivered, and the connection serves the next
/// request.</item>
/// <item>A disconnect of the peer cancels <see cref="Stop"/>.</item>
/// </list>
/// <c>HttpSession.Reading.cs</c> reads requests, <c>HttpSession.Answering.cs</c> runs handlers,
/// <c>HttpSession.Clock.cs</c> enforces timeouts, <c>HttpSession.Metrics.cs</c> records metrics.
/// </remarks>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer "
    + "or a wait handle owns nothing to give back, and a handler may look at its token after the end.")]
public partial class HttpSession : Session
{
    private static readonly HttpOptions s_defaults = new();

    private readonly HttpOptions _options;
    private readonly RouteTable? _routes;
    private HttpResponse _response; // a field, so that Response can return a reference
    private ServerExchange? _exchange; // from the first byte of a head to the end of its response
    private CancellationTokenSource? _stop;
    private Phase _phase;
    private int _requests;
    private bool _isPaused;
    private bool _peerFinished;
    private bool _saidAll; // the request has asked to close the connection, and no bytes follow it
    private volatile bool _isLast;
    private volatile bool _hasEnded;

    /// <summary>Creates a session.</summary>
    /// <param name="options">Limits; null for the defaults. Use one object for all sessions of a kind.</param>
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
        /// <summary>Between requests, or inside a head.</summary>
        Head,

        /// <summary>A body is buffered until it is complete.</summary>
        Body,

        /// <summary>A request waits for its response. Its body may be read meanwhile.</summary>
        Answer,

        /// <summary>The rest of an unwanted body is read and dropped.</summary>
        Skip,

        /// <summary>No more requests are read.</summary>
        Over,
    }

    /// <summary>Response to the current request of <see cref="OnRequest"/>. To respond later, on any thread, copy it:
    /// <c>HttpResponse response = Response;</c></summary>
    /// <exception cref="InvalidOperationException">The call is not inside <see cref="OnRequest"/>, so the request is
    /// unknown.</exception>
    protected ref HttpResponse Response
    {
        get
        {
            if (!IsInRequest)
                throw new InvalidOperationException(
                    "Response and Respond are for use inside of OnRequest: later they could answer another request. To "
                    + "answer later, keep the response there: HttpResponse response = Response;");
            _response = Exchange.Response;
            return ref _response;
        }
    }

    /// <summary>Token that is cancelled when the peer disconnects, when the connection has ended, or when the server
    /// stops while server-sent events are sent.</summary>
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
    /// Called with the head of a request that has a body; returns how the body is read. Default:
    /// <see cref="HttpBodyMode.Buffer"/>; in an <see cref="HttpServer"/>, the mode of the route. The session's thread.
    /// No response can be given here.
    /// </summary>
    /// <param name="request">The request, without its body.</param>
    protected virtual HttpBodyMode OnHead(HttpRequest request) =>
        _routes is null ? HttpBodyMode.Buffer : Exchange.Found.Mode;

    /// <summary>
    /// Called with a request. Respond here, or later on any thread. The session's thread; must not block on the loop.
    /// The default responds with 404; in an <see cref="HttpServer"/> it runs the route's handler.
    /// </summary>
    /// <param name="request">The request. Valid until the exchange ends.</param>
    protected virtual void OnRequest(HttpRequest request)
    {
        if (_routes is null) Response.Fail(404);
        else RunRoute();
    }

    /// <summary>Responds to the current request of <see cref="OnRequest"/> with a body from memory. Head and body are
    /// sent as one message.</summary>
    /// <param name="status">200 to 599; a status that allows a body, unless it is empty.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    /// <param name="body">The body; copied.</param>
    /// <exception cref="InvalidOperationException">A response was already given, or the call is not inside
    /// <see cref="OnRequest"/>.</exception>
    protected void Respond(int status, ReadOnlySpan<byte> contentType, ReadOnlySpan<byte> body)
    {
        HttpResponse response = Response;
        response.Status = status;
        response.Bytes(body, contentType);
    }

    /// <inheritdoc/>
    protected override string? BroadcastRefusal =>
        "a session of HTTP is among the members, and its client would take the bytes for an answer. Let sessions of "
        + "WebSocket, or of your own protocol, join a SessionGroup, and broadcast to that.";

    // ------------------------------------------------------------------ the life of the connection

    /// <inheritdoc/>
    protected override void OnConnected()
    {
        _connectedMs = _quietSinceMs = Loop.TimeMs;
        Watch(_quietSinceMs + Milliseconds(_options.KeepAliveTimeout));
    }

    /// <inheritdoc/>
    protected override void OnEndOfStream()
    {
        _peerFinished = true;
        if (_phase is Phase.Answer)
        {
            _stop?.Cancel();
            if (UnreadCount == 0 && Exchange.Stream is { } stream && GiveBody(stream, default, out _))
                stream.Complete();
            return;
        }

        // Requests held back by a full send queue are delivered again later. An incomplete request gets no response.
        if (!IsAboveHighWaterMark || UnreadCount == 0) End();
    }

    /// <inheritdoc/>
    protected override void OnServerStopping()
    {
        // Pending requests are answered. An event stream, which has no end of its own, is cancelled.
        _isLast = true;
        if (_phase == Phase.Head)
        {
            // A client with an idle connection checks it only when it has another request, so its FIN is not waited for
            // (RFC 9112, 9.6).
            if (_exchange is null && UnreadCount == 0 && BytesPending == 0) ReportEndOfStream();
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
        if (IsTimed)
            TellTime(_phase == Phase.Answer && Exchange.Answer.HasBegun ? Exchange.Answer.Status : 0,
                reason.Cause.ToString());
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

    /// <param name="peerSaidAll">Whether the protocol allows no more data (RFC 9112, 9.6), so that the peer's FIN is
    /// not waited for.</param>
    private void End(bool peerSaidAll = false)
    {
        // Only for a request in the middle of its body, because completed responses are recorded before.
        if (IsTimed) TellTime(0, nameof(CloseCause.PeerClosed));
        ReleaseExchange();
        _phase = Phase.Over;
        if (peerSaidAll) CloseWithoutLingering();
        else Close();
    }

    private void ReleaseExchange()
    {
        if (_exchange is not { IsLeft: false } exchange) return;
        _exchange = null;
        exchange.End();
    }

    internal void Count(HttpCount what) => _options.Tally.Add(what, Loop.Index);
}
