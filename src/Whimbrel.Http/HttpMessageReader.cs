using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Reads the messages of one direction of an HTTP/1.1 connection from bytes that somebody else has received: as strict as
/// <see cref="HttpSession"/> and <see cref="HttpClientSession"/>, by the same rules and limits. It knows no connection and no clock, and holds
/// nothing but the head that it read last. For protocols on other transports, and for whoever brings a session of their own.
/// </summary>
/// <remarks>
/// What a call does not take is given again, joined with what follows. What comes out does not depend on where the bytes were cut. One thread at a time.
/// </remarks>
public sealed class HttpMessageReader
{
    private HttpReaderLimits _limits;
    private readonly HttpAnswerReader? _answers;
    private readonly HttpHead _head;
    private HttpBodyReader _body;
    private HttpRule _rule;
    private bool _isInBody;

    /// <summary>Reads requests.</summary>
    /// <param name="options">Its limits of request line, head, fields and <see cref="HttpOptions.BodyLimitBytes"/>.</param>
    /// <exception cref="ArgumentException">A limit is out of its range.</exception>
    public HttpMessageReader(HttpOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        _limits = options.ReaderLimits with { BodyBytes = options.BodyLimitBytes };
        _head = new HttpHead();
        _head.Reader.BeginRequest(_limits);
    }

    /// <summary>Reads answers: <see cref="ExpectAnswer"/> before each.</summary>
    /// <param name="options">Its limits of head, fields, interim answers and body.</param>
    /// <exception cref="ArgumentException">A limit is out of its range.</exception>
    public HttpMessageReader(HttpClientOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        _limits = options.ReaderLimits;
        _answers = new HttpAnswerReader(_limits, options.InterimLimit);
        _head = _answers.Head;
    }

    /// <summary>
    /// Whether a request of HTTP/1.1 without the field Host breaks a rule, as RFC 9112 wants it. True by default. False is for protocols and clients that never
    /// send one; sessions of <see cref="HttpServer"/> always require it. Has no effect on answers.
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

    /// <summary>The method of the request. Of the last head, as everything below; valid until the next one is read.</summary>
    public ReadOnlySpan<byte> Method => _head.Bytes[Reader.Method];

    /// <summary>The target of the request, as it was sent.</summary>
    public ReadOnlySpan<byte> Target => _head.Bytes[Reader.Target];

    /// <summary>The status of the answer, 100 up to 599; up to 999 unless <see cref="HttpClientOptions.StrictAnswers"/> is set.</summary>
    public int Status => Reader.Status;

    /// <summary>The words behind the status.</summary>
    public ReadOnlySpan<byte> Reason => _head.Bytes[Reader.Reason];

    /// <summary>1 for HTTP/1.1 and higher minor versions, 0 for HTTP/1.0.</summary>
    public int MinorVersion => Reader.MinorVersion;

    /// <summary>How many fields it has.</summary>
    public int FieldCount => Reader.Count;

    /// <summary>How long the body will be: -1 when it is not known, 0 when there is none.</summary>
    public long BodyLength => Reader.Framing switch
    {
        HttpFraming.None => 0,
        HttpFraming.Length => Reader.ContentLength,
        _ => -1,
    };

    /// <summary>The connection may serve another message behind this one.</summary>
    public bool IsPersistent => _answers?.IsReusable ?? Reader.IsPersistent;

    /// <summary>The client waits to be told to go on (100) before it sends its body.</summary>
    public bool ExpectsContinue => Reader.ExpectsContinue;

    /// <summary>A message was begun and is not whole: the head of a request, or any byte of an answer, has come.</summary>
    public bool IsInMessage => _isInBody || (_answers?.HasBegun ?? false);

    /// <summary>The rule that was broken, once <see cref="HttpMessagePart.Broken"/> was returned: what is wrong, and the status to answer.</summary>
    public HttpProtocolException? Failure => _rule == HttpRule.None ? null : new HttpProtocolException(_rule);

    private HttpReader Reader => _head.Reader;

    /// <summary>The name of a field, as it was sent.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> NameAt(int index) => _head.NameAt(index);

    /// <summary>The value of a field, without spaces around it.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> ValueAt(int index) => _head.ValueAt(index);

    /// <summary>The value of the first field of this kind.</summary>
    /// <param name="field">Any but <see cref="HttpField.Other"/>.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGet(HttpField field, out ReadOnlySpan<byte> value) => _head.TryGet(field, out value);

    /// <summary>The answer to a request comes next.</summary>
    /// <param name="toHead">The request was HEAD: its answer has no body, whatever it says.</param>
    /// <exception cref="InvalidOperationException">It reads requests, or the last answer is not whole.</exception>
    public void ExpectAnswer(bool toHead)
    {
        if (_answers is null) throw new InvalidOperationException("This reader reads requests: those need no announcement.");
        if (IsInMessage) throw new InvalidOperationException("The answer before is not whole.");
        _answers.Begin(toHead);
    }

    /// <summary>Reads on.</summary>
    /// <param name="unread">What the last call did not take, and what has come since.</param>
    /// <param name="taken">How many of them are not to be given again.</param>
    /// <param name="piece">Of <see cref="HttpMessagePart.Data"/> a piece of the body, without its framing. Lies in <paramref name="unread"/>.</param>
    public HttpMessagePart Read(ReadOnlySpan<byte> unread, out int taken, out ReadOnlySpan<byte> piece)
    {
        HttpMessagePart part = _answers is { } answers ? ReadAnswer(answers, unread, out taken, out piece)
            : _isInBody ? ReadBody(unread, out taken, out piece)
            : ReadHead(unread, out taken, out piece);
        if (part is HttpMessagePart.Head) _isInBody = true;
        else if (part is HttpMessagePart.Done or HttpMessagePart.Switched or HttpMessagePart.Broken) _isInBody = false;
        return part;
    }

    /// <summary>The sender has finished: the end of an answer that has no other.</summary>
    /// <returns><see cref="HttpMessagePart.Done"/>: the answer is whole. <see cref="HttpMessagePart.NeedMore"/>: nothing was under way. Else <see cref="HttpMessagePart.Broken"/>.</returns>
    public HttpMessagePart Finish()
    {
        if (!IsInMessage && _rule == HttpRule.None) return HttpMessagePart.NeedMore;
        bool isWhole = _isInBody && _answers?.Finish() == HttpMessagePart.Done;
        _isInBody = false;
        return isWhole ? HttpMessagePart.Done : Break(_rule == HttpRule.None ? HttpRule.Truncated : _rule);
    }

    private HttpMessagePart ReadAnswer(HttpAnswerReader answers, ReadOnlySpan<byte> unread, out int taken, out ReadOnlySpan<byte> piece)
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
        // The last head may still be looked at, until the first byte of the next one.
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
