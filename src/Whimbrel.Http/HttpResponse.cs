using Whimbrel.Http.Files;

namespace Whimbrel.Http;

/// <summary>
/// Response to a request: complete from memory (<see cref="Text"/>, <see cref="Bytes"/>, <see cref="Json{T}"/>,
/// <see cref="Empty"/>), or in pieces (<see cref="WriteAsync"/>, <see cref="Body"/>, <see cref="SendEventAsync"/>).
/// Each request gets one. One call at a time; any thread.
/// </summary>
/// <remarks>
/// A handle of one exchange, which may be copied and kept. The exchange ends when the response is complete and the
/// handler has returned. After that each member throws <see cref="InvalidOperationException"/> and nothing is sent, so
/// a late response never becomes the response to another request.
/// </remarks>
public readonly partial struct HttpResponse
{
    private const int LargestKeptJson = 128 * 1024;

    private readonly ServerExchange? _exchange;
    private readonly long _generation;

    internal HttpResponse(ServerExchange exchange, long generation)
    {
        _exchange = exchange;
        _generation = generation;
    }

    /// <summary>Status code, 200 to 599; default 200. Set it before anything is sent.</summary>
    /// <exception cref="InvalidOperationException">The head was sent, or the exchange has ended.</exception>
    public int Status
    {
        get => Read(Exchange.Answer.Status);
        set
        {
            using ResponseUse use = Enter();
            use.Answer.Status = value;
        }
    }

    /// <summary>Whether the head, or the complete response, was sent.</summary>
    public bool HasBegun => Read(Exchange.Answer.HasBegun);

    /// <summary>
    /// Whether the body is compressed if the client accepts it and its type is text. Default: true with
    /// <see cref="HttpOptions.Compression"/>, but over TLS only with <see cref="HttpCompression.OverTls"/>. Set true
    /// for a response without a secret, false for a secret together with data chosen by the request. Set it before
    /// anything is sent.
    /// </summary>
    public bool MayCompress
    {
        get => Read(Exchange.Answer.MayCompress);
        set
        {
            using ResponseUse use = Enter();
            use.Answer.MayCompress = value;
        }
    }

    /// <summary>Length of the body in bytes, sent as Content-Length; the body must have exactly this length. Default
    /// -1: unknown, so the body is sent in chunks. Set it before anything is sent.</summary>
    public long BodyLength
    {
        get => Read(Exchange.Answer.BodyLength);
        set
        {
            using ResponseUse use = Enter();
            use.Answer.BodyLength = value;
        }
    }

    /// <summary>Writable stream of the body. Its FlushAsync is <see cref="FlushAsync"/>. The response ends when the
    /// handler returns, or by <see cref="EndAsync"/>.</summary>
    public Stream Body
    {
        get
        {
            ServerExchange exchange = Exchange;
            bool isCounted = exchange.EnterReader(_generation);
            Stream body = exchange.Pieces.Stream ??= new HttpResponseStream(this);
            if (isCounted) exchange.LeaveReader();
            return body;
        }
    }

    // ------------------------------------------------------------------ fields

    /// <summary>Closes the connection after this response. Call it before anything is sent.</summary>
    public void CloseAfter()
    {
        using ResponseUse use = Enter();
        use.Answer.CloseAfter();
    }

    /// <summary>Adds a field. Other fields with the same name stay.</summary>
    /// <param name="name">A token. Fields that frame the body, Connection and Date are not allowed, because the server
    /// sets them.</param>
    /// <param name="value">ASCII without control characters.</param>
    /// <exception cref="ArgumentException">Invalid name or value. A line end in a value could add a field or a second
    /// response.</exception>
    /// <exception cref="InvalidOperationException">The head was sent, all fields together exceed 128 KiB, or the
    /// exchange has ended.</exception>
    public void Add(string name, string value)
    {
        using ResponseUse use = Enter();
        use.Answer.Add(name, value);
    }

    /// <summary>
    /// Adds the fields of a forwarded response unchanged. Hop-by-hop fields (Connection and the fields it names,
    /// Keep-Alive, Trailer, Upgrade and the like) and fields that frame the body are omitted. So is Date if the server
    /// sends its own. The body length becomes <see cref="BodyLength"/>, also in the response to HEAD.
    /// </summary>
    /// <param name="head">Head of a response received by a client. If its status differs, set <see cref="Status"/>
    /// first.</param>
    /// <exception cref="InvalidOperationException">The head was sent, or the exchange has ended.</exception>
    public void AddFieldsOf(HttpResponseHead head)
    {
        using ResponseUse use = Enter();
        use.Answer.AddFieldsOf(head);
    }

    /// <summary>Adds a Set-Cookie field.</summary>
    /// <param name="cookie">Name, value and attributes.</param>
    /// <exception cref="InvalidOperationException">Browsers would reject the cookie, or it would form another field or
    /// cookie: the message gives the reason. Or the head was sent, or the exchange has ended.</exception>
    public void SetCookie(HttpCookie cookie)
    {
        ArgumentNullException.ThrowIfNull(cookie);
        Add("Set-Cookie", cookie.Format());
    }

    /// <summary>
    /// Sets the version of the response as ETag and Last-Modified, and evaluates the conditions of the request. After
    /// true, a GET response with status 200 and known length also serves range requests.
    /// </summary>
    /// <param name="entityTag">Quoted tag, with the prefix <c>W/</c> if weak; null for none. It must change with the
    /// body.</param>
    /// <param name="lastModified">Time of the last change; null if unknown.</param>
    /// <returns>True to continue with the response. False if 304 or 412 was sent: the response is complete.</returns>
    /// <exception cref="ArgumentException">The entity tag is not valid.</exception>
    /// <exception cref="InvalidOperationException">A response was already given, or the exchange has ended.</exception>
    public bool MeetsConditions(string? entityTag, DateTimeOffset? lastModified = null)
    {
        using ResponseUse use = Enter();
        return use.Answer.MeetsConditions(entityTag, lastModified);
    }

    // ------------------------------------------------------------------ whole

    /// <summary>Responds with text in UTF-8, as <c>text/plain; charset=utf-8</c> unless a Content-Type was
    /// added.</summary>
    /// <param name="text">The body.</param>
    /// <exception cref="InvalidOperationException">A response was already given, the status allows no body, or the
    /// exchange has ended.</exception>
    public void Text(string text)
    {
        using ResponseUse use = Enter();
        use.Answer.Text(text);
    }

    /// <summary>Responds without a body.</summary>
    /// <param name="status">Status code. Null: <see cref="Status"/> if it was set, otherwise 204.</param>
    /// <exception cref="InvalidOperationException">A response was already given, or the exchange has ended.</exception>
    public void Empty(int? status = null)
    {
        using ResponseUse use = Enter();
        use.Answer.Empty(status);
    }

    /// <summary>Responds with a body from memory.</summary>
    /// <param name="body">The body; copied. The response to HEAD has its length.</param>
    /// <param name="contentType">Content-Type, unless one was added; empty for none.</param>
    /// <exception cref="InvalidOperationException">A response was already given, the status allows no body, or the
    /// exchange has ended.</exception>
    public void Bytes(ReadOnlySpan<byte> body, ReadOnlySpan<byte> contentType = default)
    {
        using ResponseUse use = Enter();
        use.Answer.Bytes(body, contentType);
    }

    /// <summary>Responds with a status and one line of text that explains it.</summary>
    /// <param name="status">Status code, usually 300 to 599.</param>
    /// <param name="text">Additional text of the body; null for none. Any characters, because it is not a
    /// field.</param>
    /// <exception cref="InvalidOperationException">A response was already given, or the exchange has ended.</exception>
    public void Fail(int status, string? text = null)
    {
        using ResponseUse use = Enter();
        use.Answer.Fail(status, text);
    }

    /// <summary>
    /// Responds with a file, with ranges of it, or with 304 or 412, as the request asks. Responds with 404 if the path
    /// is no regular file (a folder, a FIFO, a device). The file is opened on the thread pool and sent by the system.
    /// The path is not checked: for paths of requests use <see cref="HttpRoutes.Files"/>.
    /// </summary>
    /// <param name="path">Path of the file, without NUL.</param>
    /// <param name="contentType">Content-Type, unless one was added; null for the type of the file extension.</param>
    /// <exception cref="ArgumentException">The path is empty or contains NUL.</exception>
    /// <exception cref="InvalidOperationException">A response was already given, the status allows no body, or the
    /// exchange has ended.</exception>
    public void File(string path, string? contentType = null)
    {
        using ResponseUse use = Enter();
        use.Answer.File(path, contentType);
    }

    /// <summary>
    /// Responds with 101 and the added fields, and hands the connection over to another session, with all bytes after
    /// the request. Call it inside <see cref="HttpSession.OnRequest"/> or a handler on the loop. The exchange ends
    /// here.
    /// </summary>
    /// <param name="protocol">Value of the Upgrade field.</param>
    /// <param name="next">Session without a connection.</param>
    /// <exception cref="InvalidOperationException">The request has a body or did not ask for an upgrade, or the
    /// exchange has ended.</exception>
    public void SwitchProtocol(string protocol, Session next)
    {
        ServerExchange exchange;
        using (ResponseUse use = Enter())
        {
            exchange = Exchange;
            use.Answer.SwitchProtocol(protocol, next);
        }

        exchange.Session.LeaveForNext();
    }

    // ------------------------------------------------------------------ piece by piece

    /// <summary>Writes a piece of the body. It is sent when 16 KiB are buffered, at a flush, and at the end. Waits
    /// while the peer does not read.</summary>
    /// <param name="data">May be reused when the task completes.</param>
    /// <param name="cancellationToken">Cancels the wait. The connection is then aborted, because an unknown part of the
    /// piece was sent.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    /// <exception cref="InvalidOperationException">The response is complete, exceeds its length, an earlier write was
    /// not awaited, or the exchange has ended.</exception>
    public ValueTask WriteAsync(ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default) =>
        EnterToWait().WriteAsync(data, _generation, cancellationToken);

    /// <summary>Sends everything written so far; if nothing was written, the head. With a status without a body this
    /// completes the response.</summary>
    /// <param name="cancellationToken">Cancels the wait.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    /// <exception cref="InvalidOperationException">The response is complete, an earlier write was not awaited, or the
    /// exchange has ended.</exception>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default) =>
        EnterToWait().FlushAsync(_generation, cancellationToken);

    /// <summary>Sends a server-sent event (EventSource), and flushes. The first one sends the head, with
    /// <c>text/event-stream</c>.</summary>
    /// <param name="data">Data of the event; each line becomes a data field.</param>
    /// <param name="type">Type of the event, without line ends; null for <c>message</c>.</param>
    /// <param name="id">Id of the event, without line ends and NUL; null for none.</param>
    /// <param name="cancellationToken">Cancels the wait.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    /// <exception cref="InvalidOperationException">The response is complete, an earlier write was not awaited, or the
    /// exchange has ended; or the head was sent before, without a Content-Type.</exception>
    public ValueTask SendEventAsync(string data, string? type = null, string? id = null,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(data);
        CheckEventText(type, nameof(type));
        CheckEventText(id, nameof(id));
        return EnterToWait().SendEventAsync(data, type, id, _generation, cancellationToken);
    }

    /// <summary>Adds a trailer field, sent after the chunked body. Call it before the end. Clients of HTTP/1.0 do not
    /// receive it.</summary>
    /// <param name="name">A token; no field for framing, routing or authorization.</param>
    /// <param name="value">ASCII without control characters.</param>
    /// <exception cref="InvalidOperationException">The response is complete or has a length, or the exchange has
    /// ended.</exception>
    public void AddTrailer(string name, string value)
    {
        using ResponseUse use = Enter();
        use.Answer.AddTrailer(name, value);
    }

    /// <summary>Ends the response. Only needed for a response given after <see cref="HttpSession.OnRequest"/> returned:
    /// after an awaited handler it ends automatically.</summary>
    /// <exception cref="InvalidOperationException">An earlier write was not awaited, or the exchange has
    /// ended.</exception>
    public ValueTask EndAsync() => EnterToWait().EndAsync(_generation);

    // ------------------------------------------------------------------ for the site

    /// <summary>Adds checked field lines, including their line ends.</summary>
    internal void AddLines(ReadOnlySpan<byte> lines)
    {
        using ResponseUse use = Enter();
        use.Answer.AddLines(lines);
    }

    /// <summary>Responds with a variant of a file. The caller keeps a reference to the variant until this
    /// returns.</summary>
    internal void SendVariant(FileVariant variant)
    {
        using ResponseUse use = Enter();
        use.Answer.SendVariant(variant);
    }

    private static void CheckEventText(string? text, string name)
    {
        if (text is not null && text.AsSpan().IndexOfAny('\r', '\n', '\0') >= 0)
            throw new ArgumentException("It has a line end or NUL, and would become another event.", name);
    }

    // ------------------------------------------------------------------ the gate

    private ServerExchange Exchange => _exchange ?? throw new InvalidOperationException(
        "This is default(HttpResponse), and no response: a handler or HttpSession.Response gives one.");

    private T Read<T>(T value)
    {
        _exchange!.Check(_generation);
        return value;
    }

    // Called before converters of the user run, because these run outside of the gate.
    private void MustBeOpen()
    {
        using ResponseUse use = Enter();
        use.Answer.MustBeOpen();
    }

    private ResponseUse Enter()
    {
        ServerExchange exchange = Exchange;
        exchange.EnterWriter(_generation);
        return new ResponseUse(exchange, _generation);
    }

    /// <summary>Enters for a member that waits; the answer itself leaves the gate.</summary>
    private ServerAnswer EnterToWait()
    {
        ServerExchange exchange = Exchange;
        exchange.EnterWriter(_generation);
        return exchange.Answer;
    }

    /// <summary>Scope of a member that does not wait.</summary>
    private readonly ref struct ResponseUse(ServerExchange exchange, long generation)
    {
        internal ServerAnswer Answer => exchange.Answer;

        public void Dispose() => exchange.LeaveWriter(generation);
    }
}
