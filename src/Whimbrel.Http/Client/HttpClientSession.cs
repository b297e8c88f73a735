using System.Buffers;
using System.Diagnostics;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// The client's side of an HTTP/1.1 connection, by callbacks: derive from it, send with <see cref="Request(HttpVerb, ReadOnlySpan{byte}, ReadOnlySpan{byte}, ReadOnlySpan{byte})"/>
/// from <see cref="Session.OnConnected"/> on, and get the answer in <see cref="OnResponse"/>, <see cref="OnBody"/> and <see cref="OnResponseEnd"/>. Without a
/// task, and without an allocation for each request. Who would rather await has <see cref="HttpPool"/>.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Each request gets either all of <c>OnInformed* OnResponse OnBody* OnResponseEnd</c>, or <see cref="OnRequestFailed"/> instead of what is missing
/// of it, or, when the connection goes on with another protocol, <see cref="OnSwitched"/>. In the order of the requests.</item>
/// <item>One request at a time, or as many as <see cref="HttpClientOptions.PipelineLimit"/> says. Inside <see cref="OnResponseEnd"/> the next one may be sent.</item>
/// <item>An answer that breaks a rule or a limit fails its request and those behind it, and aborts the connection. So do bytes that nobody asked for.</item>
/// <item>When the answer says that the connection ends, or has no end but that, it is closed behind it.</item>
/// <item>The head of an answer has <see cref="HttpClientOptions.HeadTimeout"/>, its body a rate.</item>
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
    private ulong _heads; // a bit for each request under way: it was HEAD. The lowest is the one whose answer comes next.
    private int _outstanding;
    private HttpClientWatch? _watch;
    private bool _isInBody;
    private bool _hasFailed;

    /// <summary>Makes a session.</summary>
    /// <param name="host">Host and port as requests name them: <c>example.org</c>, <c>127.0.0.1:8080</c>.</param>
    /// <param name="options">Its limits; null for the defaults. One object for all sessions of a kind.</param>
    /// <exception cref="ArgumentException">The host is none.</exception>
    protected HttpClientSession(string host, HttpClientOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(host);
        _host = Encoding.UTF8.GetBytes(host);
        if (!HttpBytes.IsAuthority(_host)) throw new ArgumentException($"{host} is no host with or without a port.", nameof(host));
        _options = options ?? s_defaults;
        _options.Check();
        HttpMetrics.Prepare();
        _reader = new HttpAnswerReader(_options.ReaderLimits, _options.InterimLimit);
    }

    /// <summary>Requests whose answer is not whole yet. The session's thread.</summary>
    protected int OutstandingRequests => _outstanding;

    // ------------------------------------------------------------------ requests

    /// <summary>Sends a request with a body from memory, or without one: head and body as one message. The session's thread only.</summary>
    /// <param name="verb">Any but <see cref="HttpVerb.Other"/> and CONNECT.</param>
    /// <param name="target">Path and query, with percent signs.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    /// <param name="body">Copied.</param>
    /// <returns>Full, with nothing sent: <see cref="HttpClientOptions.PipelineLimit"/> requests are under way, or the send queue is full. Closed: so is the connection, or it will be behind the answer under way.</returns>
    /// <exception cref="ArgumentException">Something would bend the message: a space in the target, a line end in the type.</exception>
    protected SendResult Request(HttpVerb verb, ReadOnlySpan<byte> target, ReadOnlySpan<byte> contentType = default, ReadOnlySpan<byte> body = default)
    {
        ReadOnlySpan<byte> method = HttpReader.NameOf(verb);
        if (verb is HttpVerb.Other or HttpVerb.Connect) throw new ArgumentException($"{verb} cannot be sent from here.", nameof(verb));
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
            if (!body.IsEmpty || verb is HttpVerb.Post or HttpVerb.Put or HttpVerb.Patch) writer.ContentLength(body.Length);
            writer.EndHead();
            result = Send(head[..writer.Length], body);
            return Sent(result, verb == HttpVerb.Head, HttpMetrics.NameOf(verb), activity);
        }
        finally
        {
            if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
            if (activity is not null && result != SendResult.Queued) EndTrace(activity, result);
        }
    }

    /// <summary>Sends a request that was made before, with the host of its URL and a body from memory, or none. The session's thread only.</summary>
    /// <param name="request">Can be sent any number of times.</param>
    /// <returns>As the other form.</returns>
    /// <exception cref="InvalidOperationException">Its body is a stream or a function: pools send those.</exception>
    protected SendResult Request(HttpClientRequest request)
    {
        ArgumentNullException.ThrowIfNull(request);
        if (request.Write is not null || request.ExpectContinue) throw new InvalidOperationException("A session sends bodies from memory, and does not ask before: an HttpPool does both.");
        if (MayRequest() is not SendResult.Queued and SendResult refused) return refused;
        byte[]? trace = BeginTrace(HttpMetrics.NameOf(request.Method), default, request, out Activity? activity);
        int room = request.HeadBytes(null, trace);
        byte[]? rented = null;
        Span<byte> head = room <= SmallHead ? stackalloc byte[SmallHead] : rented = ArrayPool<byte>.Shared.Rent(room);
        int length = request.WriteHead(head, asksForCoding: false, null, trace);
        SendResult result = Sent(Send(head[..length], request.Body.Span), request.IsHead, request.Method, activity);
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
        if (_watch is not null || activity is not null || HttpMetrics.Current is { IsClientHeard: true }) Watch(method, activity);
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

    /// <summary>An interim answer (1xx): early hints, for example. The session's thread.</summary>
    /// <param name="head">Valid during the call.</param>
    protected virtual void OnInformed(HttpResponseHead head)
    {
    }

    /// <summary>The head of an answer is there. The session's thread.</summary>
    /// <param name="head">Valid during the call.</param>
    protected virtual void OnResponse(HttpResponseHead head)
    {
    }

    /// <summary>A piece of the body, as it was sent (nothing is decompressed). The session's thread.</summary>
    /// <param name="piece">Valid during the call.</param>
    protected virtual void OnBody(ReadOnlySpan<byte> piece)
    {
    }

    /// <summary>The answer is whole. The next request may be sent. The session's thread.</summary>
    /// <param name="head">Its head, and what stood behind a chunked body. Valid during the call.</param>
    protected virtual void OnResponseEnd(HttpResponseHead head)
    {
    }

    /// <summary>A request gets no answer, or not all of it. The connection ends. The session's thread.</summary>
    /// <param name="failure">Why.</param>
    protected virtual void OnRequestFailed(HttpClientException failure)
    {
    }

    /// <summary>
    /// The server goes on with another protocol, as the request has asked (Upgrade). Hand the connection over here, with what is unread; without
    /// that the request has failed. The session's thread.
    /// </summary>
    /// <param name="head">The head of the 101. Valid during the call.</param>
    /// <returns>True when the connection was handed over.</returns>
    protected virtual bool OnSwitched(HttpResponseHead head) => false;

    // ------------------------------------------------------------------ answers

    /// <summary>Reads answers. Not for overriding.</summary>
    /// <param name="unread">What is unread.</param>
    protected sealed override int OnUnread(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (!_hasFailed && IsConnected)
        {
            // Behind a request only: what comes without one breaks a rule.
            HttpMessagePart part = _reader.Read(unread[taken..], out int count);
            ReadOnlySpan<byte> piece = part is HttpMessagePart.Data or HttpMessagePart.Done ? unread.Slice(taken + _reader.Start, _reader.Length) : default;
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
        // Before the callback, which would send into a connection that ends.
        if (!goesOn) _hasFailed = true;
        OnResponseEnd(_response);
        if (!goesOn)
        {
            FailAll(new HttpClientException(HttpClientFailure.ConnectionLost, $"There was no answer: {Peer} has closed the connection behind the one before."));
            Close();
        }
    }

    private void Switch()
    {
        _response.Show(_reader.Head);
        _outstanding--;
        _hasFailed = true; // from here on it is somebody else's
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

    /// <summary>The peer's end: that of a body that has no other, or too early. Not for overriding.</summary>
    protected sealed override void OnPeerFinished()
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

    /// <summary>The connection has ended: what has no answer has failed. Call the base when you override it.</summary>
    /// <param name="reason">Why.</param>
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
        if (failure.IsPeers) NoteProtocolError(failure);
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
