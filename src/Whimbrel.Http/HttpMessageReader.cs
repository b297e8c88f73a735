using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Reads the messages of one direction of an HTTP/1.1 connection from bytes received elsewhere, by the same rules and
/// limits as <see cref="HttpSession"/> and <see cref="HttpClientSession"/>. It has no connection and no clock, and
/// keeps only the last head. For other transports and custom sessions.
/// </summary>
/// <remarks>
/// Bytes that a call does not consume are passed again, followed by new bytes. The result does not depend on how the
/// bytes are split. One thread at a time.
/// </remarks>
public sealed class HttpMessageReader
{
    private HttpReaderLimits _limits;
    private readonly HttpAnswerReader? _answers;
    private readonly HttpHead _head;
    private HttpBodyReader _body;
    private HttpRule _rule;
    private bool _isInBody;

    /// <summary>Creates a reader of requests.</summary>
    /// <param name="options">Limits of request line, head, fields and <see cref="HttpOptions.BodyLimitBytes"/>.</param>
    /// <exception cref="ArgumentException">A limit is out of range.</exception>
    public HttpMessageReader(HttpOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        _limits = options.ReaderLimits with { BodyBytes = options.BodyLimitBytes };
        _head = new HttpHead();
        _head.Reader.BeginRequest(_limits);
    }

    /// <summary>Creates a reader of responses: call <see cref="ExpectAnswer"/> before each.</summary>
    /// <param name="options">Limits of head, fields, interim responses and body.</param>
    /// <exception cref="ArgumentException">A limit is out of range.</exception>
    public HttpMessageReader(HttpClientOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        _limits = options.ReaderLimits;
        _answers = new HttpAnswerReader(_limits, options.InterimLimit);
        _head = _answers.Head;
    }

    /// <summary>
    /// Whether a request of HTTP/1.1 without Host breaks a rule, as RFC 9112 requires. Default true. Set false for
    /// protocols and clients that never send one; sessions of <see cref="HttpServer"/> always require it. No effect on
    /// responses.
    /// </summary>
    public bool RequireHost
    {
        get => _limits.RequireHost;
        init
        {
            _limits = _limits with { RequireHost = value };
            if (_answers is null) _head.Reader.BeginRequest(_limits);
        }
    }

    /// <summary>Method of the request. This and all members below are of the last head, and valid until the next one is
    /// read.</summary>
    public ReadOnlySpan<byte> Method => _head.Bytes[Reader.Method];

    /// <summary>Request target, as received.</summary>
    public ReadOnlySpan<byte> Target => _head.Bytes[Reader.Target];

    /// <summary>Status of the response: 100 to 599, or to 999 unless <see cref="HttpClientOptions.StrictAnswers"/> is
    /// set.</summary>
    public int Status => Reader.Status;

    /// <summary>Reason phrase.</summary>
    public ReadOnlySpan<byte> Reason => _head.Bytes[Reader.Reason];

    /// <summary>1 for HTTP/1.1 and higher minor versions, 0 for HTTP/1.0.</summary>
    public int MinorVersion => Reader.MinorVersion;

    /// <summary>Number of fields.</summary>
    public int FieldCount => Reader.Count;

    /// <summary>Length of the body in bytes: -1 if unknown, 0 if there is none.</summary>
    public long BodyLength => Reader.Framing switch
    {
        HttpFraming.None => 0,
        HttpFraming.Length => Reader.ContentLength,
        _ => -1,
    };

    /// <summary>Whether the connection can carry another message after this one.</summary>
    public bool IsPersistent => _answers?.IsReusable ?? Reader.IsPersistent;

    /// <summary>Whether the client waits for 100 (Continue) before it sends its body.</summary>
    public bool ExpectsContinue => Reader.ExpectsContinue;

    /// <summary>Whether a message was begun and is not complete: the head of a request, or any byte of a response, was
    /// received.</summary>
    public bool IsInMessage => _isInBody || (_answers?.HasBegun ?? false);

    /// <summary>Broken rule, after <see cref="HttpMessagePart.Broken"/> was returned: reason, and status to respond
    /// with; otherwise null.</summary>
    public HttpProtocolException? Failure => _rule == HttpRule.None ? null : new HttpProtocolException(_rule);

    private HttpReader Reader => _head.Reader;

    /// <summary>Returns the name of a field, as received.</summary>
    /// <param name="index">From 0 to less than <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> NameAt(int index) => _head.NameAt(index);

    /// <summary>Returns the value of a field, without surrounding spaces.</summary>
    /// <param name="index">From 0 to less than <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> ValueAt(int index) => _head.ValueAt(index);

    /// <summary>Gets the value of the first field of this kind.</summary>
    /// <param name="field">Any value except <see cref="HttpField.Other"/>.</param>
    /// <param name="value">Value without surrounding spaces.</param>
    public bool TryGet(HttpField field, out ReadOnlySpan<byte> value) => _head.TryGet(field, out value);

    /// <summary>Announces the response to a request.</summary>
    /// <param name="toHead">Whether the request was HEAD: its response has no body, whatever its fields are.</param>
    /// <exception cref="InvalidOperationException">This reader reads requests, or the last response is not
    /// complete.</exception>
    public void ExpectAnswer(bool toHead)
    {
        if (_answers is null)
            throw new InvalidOperationException("This reader reads requests: those need no announcement.");
        if (IsInMessage) throw new InvalidOperationException("The answer before is not whole.");
        _answers.Begin(toHead);
    }

    /// <summary>Reads the next part.</summary>
    /// <param name="unread">Bytes that the last call did not consume, followed by new bytes.</param>
    /// <param name="taken">Number of bytes consumed, which are not passed again.</param>
    /// <param name="piece">Piece of the body for <see cref="HttpMessagePart.Data"/>, without its framing; a slice of
    /// <paramref name="unread"/>.</param>
    public HttpMessagePart Read(ReadOnlySpan<byte> unread, out int taken, out ReadOnlySpan<byte> piece)
    {
        HttpMessagePart part = _answers is { } answers ? ReadAnswer(answers, unread, out taken, out piece)
            : _isInBody ? ReadBody(unread, out taken, out piece)
            : ReadHead(unread, out taken, out piece);
        if (part is HttpMessagePart.Head) _isInBody = true;
        else if (part is HttpMessagePart.Done or HttpMessagePart.Switched or HttpMessagePart.Broken) _isInBody = false;
        return part;
    }

    /// <summary>Signals the end of the sender's data, which ends a response without other framing.</summary>
    /// <returns><see cref="HttpMessagePart.Done"/> if the response is complete, <see cref="HttpMessagePart.NeedMore"/>
    /// if no message was begun, otherwise <see cref="HttpMessagePart.Broken"/>.</returns>
    public HttpMessagePart Finish()
    {
        if (!IsInMessage && _rule == HttpRule.None) return HttpMessagePart.NeedMore;
        bool isWhole = _isInBody && _answers?.Finish() == HttpMessagePart.Done;
        _isInBody = false;
        return isWhole ? HttpMessagePart.Done : Break(_rule == HttpRule.None ? HttpRule.Truncated : _rule);
    }

    private HttpMessagePart ReadAnswer(HttpAnswerReader answers, ReadOnlySpan<byte> unread, out int taken,
        out ReadOnlySpan<byte> piece)
    {
        HttpMessagePart part = answers.Read(unread, out taken);
        piece = part == HttpMessagePart.Data ? unread.Slice(answers.Start, answers.Length) : default;
        return part == HttpMessagePart.Broken ? Break(answers.Rule) : part;
    }

    private HttpMessagePart ReadHead(ReadOnlySpan<byte> unread, out int taken, out ReadOnlySpan<byte> piece)
    {
        taken = 0;
        piece = default;
        if (_rule != HttpRule.None) return HttpMessagePart.Broken;
        // The last head stays readable until the first byte of the next one.
        if (unread.IsEmpty) return HttpMessagePart.NeedMore;
        if (Reader.HeadLength > 0) Reader.BeginRequest(_limits);
        switch (Reader.Read(unread))
        {
            case HttpReading.NeedMore:
                return HttpMessagePart.NeedMore;
            case HttpReading.Broken:
                return Break(Reader.Rule);
        }

        _head.Keep(unread[..Reader.HeadLength]);
        taken = Reader.HeadLength;
        _body = new HttpBodyReader(Reader, _limits);
        return HttpMessagePart.Head;
    }

    private HttpMessagePart ReadBody(ReadOnlySpan<byte> unread, out int taken, out ReadOnlySpan<byte> piece)
    {
        HttpReading reading = _body.Read(unread, out taken);
        piece = reading == HttpReading.Data ? unread.Slice(_body.Start, _body.Length) : default;
        return reading switch
        {
            HttpReading.Data => HttpMessagePart.Data,
            HttpReading.Done => HttpMessagePart.Done,
            HttpReading.Broken => Break(_body.Rule),
            _ => HttpMessagePart.NeedMore,
        };
    }

    private HttpMessagePart Break(HttpRule rule)
    {
        _rule = rule;
        return HttpMessagePart.Broken;
    }
}
