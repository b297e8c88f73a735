using Whimbrel.Http.Files;

namespace Whimbrel.Http;

/// <summary>
/// The answer to a request: whole, from memory (<see cref="Text"/>, <see cref="Bytes"/>, <see cref="Json{T}"/>, <see cref="Empty"/>), or piece by
/// piece (<see cref="WriteAsync"/>, <see cref="Body"/>, <see cref="SendEventAsync"/>). Each request gets one. One call at a time; any thread.
/// </summary>
/// <remarks>
/// A handle of one exchange, to be copied and kept at will. It ends with the exchange: when the answer is complete and the handler has ended. From then on each member throws
/// <see cref="InvalidOperationException"/>, and nothing is sent: an answer that comes too late never becomes the answer to another request.
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

    /// <summary>Its status, 100 to 599; 200 unless it is set. Before anything is sent.</summary>
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

    /// <summary>Whether its head was sent, or all of it.</summary>
    public bool HasBegun => Read(Exchange.Answer.HasBegun);

    /// <summary>
    /// Whether the body is compressed for a client that takes it and when its type is text. The default is what <see cref="HttpOptions.Compression"/> says: false without
    /// it, and over TLS without <see cref="HttpCompression.OverTls"/>. True for an answer without a secret, false for one with a secret beside something that the
    /// request chose. Before anything is sent.
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

    /// <summary>How long the body will be: it is then sent as it is, and must become exactly so long. -1 (the default): not known, so it is sent in chunks. Before anything is sent.</summary>
    public long BodyLength
    {
        get => Read(Exchange.Answer.BodyLength);
        set
        {
            using ResponseUse use = Enter();
            use.Answer.BodyLength = value;
        }
    }

    /// <summary>The body as a stream to write to. Its FlushAsync is <see cref="FlushAsync"/>; the answer ends with its handler, or <see cref="EndAsync"/>.</summary>
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

    /// <summary>The connection is closed behind this answer. Before anything is sent.</summary>
    public void CloseAfter()
    {
        using ResponseUse use = Enter();
        use.Answer.CloseAfter();
    }

    /// <summary>Adds a field. Another one with the same name stays.</summary>
    /// <param name="name">A token; not one that says where the body ends, and not Connection or Date, which follow from the rest.</param>
    /// <param name="value">ASCII without control characters.</param>
    /// <exception cref="ArgumentException">They are not that: with a line end in it, a value could become a field or a second answer.</exception>
    /// <exception cref="InvalidOperationException">The head was sent, the fields would be larger than 128 KiB together, or the exchange has ended.</exception>
    public void Add(string name, string value)
    {
        using ResponseUse use = Enter();
        use.Answer.Add(name, value);
    }

    /// <summary>
    /// Adds the fields of an answer that is passed on, as they came: all but those of its connection (Connection, what that names, Keep-Alive, Trailer, Upgrade and the
    /// like) and what frames the body, and Date, if the server sends its own. The length of the body is taken over as <see cref="BodyLength"/>, also for the answer to HEAD.
    /// </summary>
    /// <param name="head">Of an answer by a client; with another status than this one has, set <see cref="Status"/> first.</param>
    /// <exception cref="InvalidOperationException">The head was sent, or the exchange has ended.</exception>
    public void AddFieldsOf(HttpResponseHead head)
    {
        using ResponseUse use = Enter();
        use.Answer.AddFieldsOf(head);
    }

    /// <summary>Adds Set-Cookie.</summary>
    /// <param name="cookie">What to keep, and how.</param>
    /// <exception cref="InvalidOperationException">No browser would keep it, or it would become another field or cookie: the message says why. Or the head was sent, or the exchange has ended.</exception>
    public void SetCookie(HttpCookie cookie)
    {
        ArgumentNullException.ThrowIfNull(cookie);
        Add("Set-Cookie", cookie.Format());
    }

    /// <summary>
    /// Says which version the answer is, as ETag and Last-Modified, and judges the conditions of the request by it. False: it has got its answer,
    /// 304 or 412, and there is nothing more to do, nor to be changed. True: go on; an answer to GET with status 200 whose length is known may be asked for in parts then, too.
    /// </summary>
    /// <param name="entityTag">In quotes, after <c>W/</c> where equal means only alike; null for none. It changes with the body.</param>
    /// <param name="lastModified">When the body changed last; null for unknown.</param>
    /// <exception cref="ArgumentException">The tag is none.</exception>
    /// <exception cref="InvalidOperationException">There is an answer already, or the exchange has ended.</exception>
    public bool MeetsConditions(string? entityTag, DateTimeOffset? lastModified = null)
    {
        using ResponseUse use = Enter();
        return use.Answer.MeetsConditions(entityTag, lastModified);
    }

    // ------------------------------------------------------------------ whole

    /// <summary>Answers with text in UTF-8, as <c>text/plain; charset=utf-8</c> unless a Content-Type was added.</summary>
    /// <param name="text">The body.</param>
    /// <exception cref="InvalidOperationException">There is an answer already, the status has no body, or the exchange has ended.</exception>
    public void Text(string text)
    {
        using ResponseUse use = Enter();
        use.Answer.Text(text);
    }

    /// <summary>Answers without a body.</summary>
    /// <param name="status">Null: the one that was set, or 204 when none was.</param>
    /// <exception cref="InvalidOperationException">There is an answer already, or the exchange has ended.</exception>
    public void Empty(int? status = null)
    {
        using ResponseUse use = Enter();
        use.Answer.Empty(status);
    }

    /// <summary>Answers with a body that lies in memory.</summary>
    /// <param name="body">Copied. The answer to HEAD says how long it would be.</param>
    /// <param name="contentType">Content-Type, unless one was added; empty for none.</param>
    /// <exception cref="InvalidOperationException">There is an answer already, the status has no body, or the exchange has ended.</exception>
    public void Bytes(ReadOnlySpan<byte> body, ReadOnlySpan<byte> contentType = default)
    {
        using ResponseUse use = Enter();
        use.Answer.Bytes(body, contentType);
    }

    /// <summary>Answers with a status and a line of text that says what it means.</summary>
    /// <param name="status">300 to 599, mostly.</param>
    /// <param name="text">What more to say; null for nothing. ASCII or not, it is no field.</param>
    /// <exception cref="InvalidOperationException">There is an answer already, or the exchange has ended.</exception>
    public void Fail(int status, string? text = null)
    {
        using ResponseUse use = Enter();
        use.Answer.Fail(status, text);
    }

    /// <summary>
    /// Answers with a file, or with 404 when there is none: as a whole, in parts, or not at all, as the request asks. It is opened on the thread
    /// pool and sent by the system. The path is taken as it is: where it comes from a request, use <see cref="HttpRoutes.Files"/>.
    /// What is no regular file (a folder, a FIFO, a device) counts as none.
    /// </summary>
    /// <param name="path">The file, without NUL.</param>
    /// <param name="contentType">Content-Type, unless one was added; null for that of its ending.</param>
    /// <exception cref="ArgumentException">The path is empty or has a NUL.</exception>
    /// <exception cref="InvalidOperationException">There is an answer already, the status has no body, or the exchange has ended.</exception>
    public void File(string path, string? contentType = null)
    {
        using ResponseUse use = Enter();
        use.Answer.File(path, contentType);
    }

    /// <summary>
    /// Answers with 101 and gives the connection to another session, with all bytes behind the request. Inside
    /// <see cref="HttpSession.OnRequest"/> or a handler on the loop; what was added as fields is sent, too. The exchange ends here.
    /// </summary>
    /// <param name="protocol">The value of Upgrade.</param>
    /// <param name="next">A session that has no connection yet.</param>
    /// <exception cref="InvalidOperationException">The request has a body, or did not ask for another protocol; or the exchange has ended.</exception>
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

    /// <summary>Writes a piece of the body. It leaves when 16 KiB have gathered, at a flush, and at the end. Waits while the peer takes nothing.</summary>
    /// <param name="data">Free to be reused when this completes.</param>
    /// <param name="cancellationToken">Gives up waiting. Nobody knows then how much of the piece was sent: the answer cannot go on, and its connection is aborted.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    /// <exception cref="InvalidOperationException">The answer is complete, has another length than was said, or a write before was not awaited; or the exchange has ended.</exception>
    public ValueTask WriteAsync(ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default) => EnterToWait().WriteAsync(data, _generation, cancellationToken);

    /// <summary>Sends what was written so far; the head, if nothing was, which is all of an answer whose status has no body.</summary>
    /// <param name="cancellationToken">Gives up waiting.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    /// <exception cref="InvalidOperationException">The answer is complete, a write before was not awaited, or the exchange has ended.</exception>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default) => EnterToWait().FlushAsync(_generation, cancellationToken);

    /// <summary>Sends an event to an EventSource (server-sent events), and flushes. The first one sends the head, with <c>text/event-stream</c>.</summary>
    /// <param name="data">Its data; each of its lines becomes one.</param>
    /// <param name="type">Its type, without line ends; null for a message.</param>
    /// <param name="id">Its id, without line ends and NUL; null for none.</param>
    /// <param name="cancellationToken">Gives up waiting.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    /// <exception cref="InvalidOperationException">The answer is complete, a write before was not awaited, or the exchange has ended.</exception>
    public ValueTask SendEventAsync(string data, string? type = null, string? id = null, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(data);
        CheckEventText(type, nameof(type));
        CheckEventText(id, nameof(id));
        return EnterToWait().SendEventAsync(data, type, id, _generation, cancellationToken);
    }

    /// <summary>A field behind the body, which is chunked then. Before the end; a client of HTTP/1.0 does not get it.</summary>
    /// <param name="name">A token; nothing that frames, routes or authorises.</param>
    /// <param name="value">ASCII without control characters.</param>
    /// <exception cref="InvalidOperationException">The answer is complete or has a length, or the exchange has ended.</exception>
    public void AddTrailer(string name, string value)
    {
        using ResponseUse use = Enter();
        use.Answer.AddTrailer(name, value);
    }

    /// <summary>Ends the answer: by itself when an awaited handler has ended. For answers that are given behind <see cref="HttpSession.OnRequest"/>.</summary>
    /// <exception cref="InvalidOperationException">A write before was not awaited, or the exchange has ended.</exception>
    public ValueTask EndAsync() => EnterToWait().EndAsync(_generation);

    // ------------------------------------------------------------------ for the site

    /// <summary>Adds what was checked: lines with their ends.</summary>
    internal void AddLines(ReadOnlySpan<byte> lines)
    {
        using ResponseUse use = Enter();
        use.Answer.AddLines(lines);
    }

    /// <summary>Answers with a variant of a file. It is in use by the caller until this returns.</summary>
    internal void SendVariant(FileVariant variant)
    {
        using ResponseUse use = Enter();
        use.Answer.SendVariant(variant);
    }

    private static void CheckEventText(string? text, string name)
    {
        if (text is not null && text.AsSpan().IndexOfAny('\r', '\n', '\0') >= 0) throw new ArgumentException("It has a line end or NUL, and would become another event.", name);
    }

    // ------------------------------------------------------------------ the gate

    private ServerExchange Exchange => _exchange ?? throw new InvalidOperationException("This is default(HttpResponse), and no response: a handler or HttpSession.Response gives one.");

    private T Read<T>(T value)
    {
        _exchange!.Check(_generation);
        return value;
    }

    // Before converters of the user's run, which they do outside of the gate.
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

    /// <summary>What waits leaves by itself.</summary>
    private ServerAnswer EnterToWait()
    {
        ServerExchange exchange = Exchange;
        exchange.EnterWriter(_generation);
        return exchange.Answer;
    }

    /// <summary>A member that does not wait is running.</summary>
    private readonly ref struct ResponseUse(ServerExchange exchange, long generation)
    {
        internal ServerAnswer Answer => exchange.Answer;

        public void Dispose() => exchange.LeaveWriter(generation);
    }
}
