using System.Buffers;
using System.Diagnostics;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Client side of an HTTP/1.1 connection, by callbacks, without a task or an allocation per request. Derive from it and
/// send with <see cref="Request(HttpVerb, ReadOnlySpan{byte}, ReadOnlySpan{byte}, ReadOnlySpan{byte})"/> from
/// <see cref="Session.OnConnected"/> on. The response arrives in <see cref="OnResponse"/>, <see cref="OnBody"/> and
/// <see cref="OnResponseEnd"/>. <see cref="HttpPool"/> is the awaitable alternative.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Each request gets <c>OnInformed* OnResponse OnBody* OnResponseEnd</c>. After a failure
/// <see cref="OnRequestFailed"/> replaces the missing callbacks; after a protocol switch <see cref="OnSwitched"/> does.
/// Callbacks have the order of the requests.</item>
/// <item>One request is pending at a time, or up to <see cref="HttpClientOptions.PipelineLimit"/>. Inside
/// <see cref="OnResponseEnd"/> the next one may be sent.</item>
/// <item>A response that breaks a rule or a limit fails its request and all later ones, and aborts the connection. So
/// do bytes without a request.</item>
/// <item>If the response announces the end of the connection, or has no other end, the connection is closed after
/// it.</item>
/// <item>The head of a response has <see cref="HttpClientOptions.HeadTimeout"/>, its body a minimum rate.</item>
/// </list>
/// </remarks>
public abstract partial class HttpClientSession : Session
{
    private const int SmallHead = 512;
    private const int LeastRoom = 96; // version, framing and line ends
    private static readonly HttpClientOptions s_defaults = new();

    private readonly HttpClientOptions _options;
    private readonly HttpAnswerReader _reader;
    private readonly HttpResponseHead _response = new();
    private readonly byte[] _host;
    private ulong _heads; // bit per pending request: it was HEAD. The lowest bit is the next response.
    private int _outstanding;
    private HttpClientWatch? _watch;
    private bool _isInBody;
    private bool _hasFailed;

    /// <summary>Creates a session.</summary>
    /// <param name="host">Host and port for the Host field: <c>example.org</c>, <c>127.0.0.1:8080</c>.</param>
    /// <param name="options">Limits; null for the defaults. Use one object for all sessions of a kind.</param>
    /// <exception cref="ArgumentException">The host is not valid.</exception>
    protected HttpClientSession(string host, HttpClientOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(host);
        _host = Encoding.UTF8.GetBytes(host);
        if (!HttpBytes.IsAuthority(_host))
            throw new ArgumentException($"{host} is no host with or without a port.", nameof(host));
        _options = options ?? s_defaults;
        _options.Check();
        HttpMetrics.Prepare();
        _reader = new HttpAnswerReader(_options.ReaderLimits, _options.InterimLimit);
    }

    /// <summary>Number of requests without a complete response. The session's thread.</summary>
    protected int OutstandingRequests => _outstanding;

    // ------------------------------------------------------------------ requests

    /// <summary>Sends a request, without a body or with one from memory. Head and body are sent as one message. The
    /// session's thread only.</summary>
    /// <param name="verb">Method; not <see cref="HttpVerb.Other"/> and not CONNECT.</param>
    /// <param name="target">Path and query, percent-encoded.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    /// <param name="body">The body; copied.</param>
    /// <returns>Full, with nothing sent, if <see cref="HttpClientOptions.PipelineLimit"/> requests are pending or the
    /// send queue is full. Closed if the connection has ended, or will end after the current response.</returns>
    /// <exception cref="ArgumentException">An argument would break the message: a space in the target, a line end in
    /// the type.</exception>
    protected SendResult Request(HttpVerb verb, ReadOnlySpan<byte> target, ReadOnlySpan<byte> contentType = default,
        ReadOnlySpan<byte> body = default)
    {
        ReadOnlySpan<byte> method = HttpReader.NameOf(verb);
        if (verb is HttpVerb.Other or HttpVerb.Connect)
            throw new ArgumentException($"{verb} cannot be sent from here.", nameof(verb));
        if (MayRequest() is not SendResult.Queued and SendResult refused) return refused;
        byte[]? trace = BeginTrace(HttpMetrics.NameOf(verb), target, null, out Activity? activity);
        int room = LeastRoom + method.Length + target.Length + _host.Length + contentType.Length + (trace?.Length ?? 0);
        byte[]? rented = null;
        SendResult result = SendResult.Closed;
        Span<byte> head = room <= SmallHead ? stackalloc byte[SmallHead] : rented = ArrayPool<byte>.Shared.Rent(room);
        try
        {
            HttpWriter writer = new(head);
            writer.RequestLine(method, target);
            writer.Field(HttpField.Host, _host);
            if (trace is not null) writer.CheckedFields(trace);
            if (!contentType.IsEmpty) writer.Field(HttpField.ContentType, contentType);
            if (!body.IsEmpty || verb is HttpVerb.Post or HttpVerb.Put or HttpVerb.Patch)
                writer.ContentLength(body.Length);
            writer.EndHead();
            result = Send(Outgoing.Pieces(head[..writer.Length], body));
            return Sent(result, verb == HttpVerb.Head, HttpMetrics.NameOf(verb), activity);
        }
        finally
        {
            if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
            if (activity is not null && result != SendResult.Queued) EndTrace(activity, result);
        }
    }

    /// <summary>Sends a prepared request, with the host of its URL and a body from memory, or none. The session's
    /// thread only.</summary>
    /// <param name="request">The request. It can be sent any number of times.</param>
    /// <returns>As for the other overload.</returns>
    /// <exception cref="InvalidOperationException">The body is a stream or a function, or
    /// <see cref="HttpClientRequest.ExpectContinue"/> is set: use a pool.</exception>
    protected SendResult Request(HttpClientRequest request)
    {
        ArgumentNullException.ThrowIfNull(request);
        if (request.Write is not null || request.ExpectContinue)
            throw new InvalidOperationException(
                "A session sends bodies from memory, and does not ask before: an HttpPool does both.");
        if (MayRequest() is not SendResult.Queued and SendResult refused) return refused;
        byte[]? trace = BeginTrace(HttpMetrics.NameOf(request.Method), default, request, out Activity? activity);
        int room = request.HeadBytes(null, trace);
        byte[]? rented = null;
        Span<byte> head = room <= SmallHead ? stackalloc byte[SmallHead] : rented = ArrayPool<byte>.Shared.Rent(room);
        int length = request.WriteHead(head, asksForCoding: false, null, trace);
        SendResult sent = Send(Outgoing.Pieces(head[..length], request.Body.Span));
        SendResult result = Sent(sent, request.IsHead, request.Method, activity);
        if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        if (activity is not null && result != SendResult.Queued) EndTrace(activity, result);
        return result;
    }

    private SendResult MayRequest()
    {
        if (_hasFailed) return SendResult.Closed;
        return _outstanding < _options.PipelineLimit ? SendResult.Queued : SendResult.Full;
    }

    private SendResult Sent(SendResult result, bool isHead, string method, Activity? activity)
    {
        if (result != SendResult.Queued) return result;
        if (_watch is not null || activity is not null || HttpMetrics.Current is { IsClientHeard: true })
            Watch(method, activity);
        if (isHead) _heads |= 1UL << _outstanding;
        if (++_outstanding == 1) AwaitAnswer();
        return result;
    }

    private void AwaitAnswer()
    {
        _reader.Begin((_heads & 1) != 0);
        BeginPhase(_options.HeadPhase);
    }

    // ------------------------------------------------------------------ overrides

    /// <summary>Called with an interim response (1xx), for example early hints. The session's thread.</summary>
    /// <param name="head">Head. Valid during the call.</param>
    protected virtual void OnInformed(HttpResponseHead head)
    {
    }

    /// <summary>Called with the head of a response. The session's thread.</summary>
    /// <param name="head">Head. Valid during the call.</param>
    protected virtual void OnResponse(HttpResponseHead head)
    {
    }

    /// <summary>Called with a piece of the body, as received, not decompressed. The session's thread.</summary>
    /// <param name="piece">Bytes. Valid during the call.</param>
    protected virtual void OnBody(ReadOnlySpan<byte> piece)
    {
    }

    /// <summary>Called when the response is complete. The next request may be sent here. The session's
    /// thread.</summary>
    /// <param name="head">Head, and trailers of a chunked body. Valid during the call.</param>
    protected virtual void OnResponseEnd(HttpResponseHead head)
    {
    }

    /// <summary>Called when a request gets no response, or no complete one. The connection ends. The session's
    /// thread.</summary>
    /// <param name="failure">The failure.</param>
    protected virtual void OnRequestFailed(HttpClientException failure)
    {
    }

    /// <summary>
    /// Called when the server switches to the protocol requested by Upgrade. Hand the connection over here, with its
    /// unread bytes; otherwise the request fails. The session's thread.
    /// </summary>
    /// <param name="head">Head of the 101 response. Valid during the call.</param>
    /// <returns>True if the connection was handed over.</returns>
    protected virtual bool OnSwitched(HttpResponseHead head) => false;

    // ------------------------------------------------------------------ answers

    /// <summary>Reads responses. Sealed.</summary>
    /// <param name="unread">Unconsumed bytes.</param>
    protected sealed override int OnData(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (!_hasFailed && IsConnected)
        {
            // The reader accepts bytes after a request only: bytes without one break a rule.
            HttpMessagePart part = _reader.Read(unread[taken..], out int count);
            ReadOnlySpan<byte> piece = part is HttpMessagePart.Data or HttpMessagePart.Done
                ? unread.Slice(taken + _reader.Start, _reader.Length)
                : default;
            taken += count;
            switch (part)
            {
                case HttpMessagePart.NeedMore:
                    return taken;
                case HttpMessagePart.Switched:
                    Switch();
                    return taken;
                case HttpMessagePart.Broken:
                    Fail(new HttpClientException(_reader.Rule, Peer));
                    return unread.Length;
                default:
                    Tell(part, piece);
                    break;
            }
        }

        return unread.Length;
    }

    private void Tell(HttpMessagePart part, ReadOnlySpan<byte> piece)
    {
        switch (part)
        {
            case HttpMessagePart.Interim:
                _response.Show(_reader.Head);
                OnInformed(_response);
                _response.Show(null);
                return;
            case HttpMessagePart.Head:
                _isInBody = true;
                BeginPhase(_options.BodyPhase);
                _response.Show(_reader.Head);
                if (_watch is not null) TellTime(_response.Status, _reader.Head.Reader.MinorVersion, null);
                OnResponse(_response);
                return;
            case HttpMessagePart.Data:
                OnBody(piece);
                return;
            default:
                _response.SetTrailers(piece);
                EndAnswer();
                return;
        }
    }

    private void EndAnswer()
    {
        bool goesOn = _reader.IsReusable;
        _isInBody = false;
        _heads >>= 1;
        if (--_outstanding > 0 && goesOn) AwaitAnswer();
        else EndPhase();
        // Set before the callback, which would otherwise send into a connection that ends.
        if (!goesOn) _hasFailed = true;
        OnResponseEnd(_response);
        if (!goesOn)
        {
            FailAll(new HttpClientException(HttpClientFailure.ConnectionLost,
                $"There was no response: {Peer} has closed the connection after the previous one."));
            Close();
        }
    }

    private void Switch()
    {
        _response.Show(_reader.Head);
        _outstanding--;
        _hasFailed = true; // from here on another session has the connection
        bool isTaken = OnSwitched(_response);
        if (isTaken && _watch is not null) TellTime(_response.Status, _reader.Head.Reader.MinorVersion, null);
        _response.Show(null);
        if (isTaken) return;
        _outstanding++;
        _hasFailed = false;
        Fail(new HttpClientException(HttpRule.BadSwitch, Peer));
    }

    private string Peer => Encoding.ASCII.GetString(_host);

    // ------------------------------------------------------------------ the end

    /// <summary>Called when the peer has sent FIN: the end of a body without other framing, or a premature end.
    /// Sealed.</summary>
    protected sealed override void OnEndOfStream()
    {
        if (_hasFailed)
        {
            Close();
        }
        else if (_outstanding == 0)
        {
            _hasFailed = true;
            Close();
        }
        else if (_reader.Finish() == HttpMessagePart.Done)
        {
            EndAnswer();
        }
        else
        {
            Fail(HttpClientException.OfEnd(new CloseReason(CloseCause.PeerClosed), _isInBody, Peer));
        }
    }

    /// <inheritdoc/>
    protected override void OnTimeout(CloseReason reason)
    {
        if (reason.Cause == CloseCause.PhaseTimeout) Fail(HttpClientException.OfEnd(reason, _isInBody, Peer));
        else base.OnTimeout(reason);
    }

    /// <summary>Fails pending requests because the connection has ended. An override must call this method.</summary>
    /// <param name="reason">Reason of the end.</param>
    protected override void OnDisconnected(CloseReason reason)
    {
        _hasFailed = true;
        if (_outstanding > 0) FailAll(HttpClientException.OfEnd(reason, _isInBody, Peer));
    }

    private void Fail(HttpClientException failure)
    {
        if (_hasFailed) return;
        _hasFailed = true;
        FailAll(failure);
        if (failure.IsPeers) ReportProtocolError(failure);
        Abort();
    }

    private void FailAll(HttpClientException failure)
    {
        while (_outstanding > 0)
        {
            _outstanding--;
            if (_watch is not null && !_isInBody) TellTime(0, 0, failure.Failure.ToString());
            OnRequestFailed(failure);
            if (!_isInBody) continue;
            _isInBody = false;
            failure = new HttpClientException(HttpClientFailure.ConnectionLost, failure.Message, failure);
        }
    }
}
