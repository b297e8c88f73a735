using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// From bytes to requests. Everything here runs on the session's thread, inside OnData.
public partial class HttpSession
{
    private const int LargeBytes = 64 * 1024; // fewer bytes are usually accepted by the kernel before the first check

    // State of 100 (Continue): sent at most once, and never after the response, which may come from any thread.
    private const int Unsaid = 0;
    private const int Saying = 1;
    private const int Said = 2;
    private const int Withheld = 3;


    /// <summary>Reads requests; bytes of later ones stay unread. Sealed: for another protocol hand the connection over
    /// (<see cref="HttpResponse.SwitchProtocol"/>).</summary>
    /// <param name="unread">Unconsumed bytes.</param>
    protected sealed override int OnData(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        _exchange?.EnterCallback();
        try
        {
            while (Step(unread[taken..], ref taken))
            {
            }
        }
        finally
        {
            _exchange?.LeaveCallback();
        }

        if (_peerFinished && _phase is Phase.Head or Phase.Body or Phase.Skip && !IsAboveHighWaterMark) End();
        if (_phase == Phase.Answer) HoldBack(unread.Length - taken);
        return taken;
    }

    private bool Step(ReadOnlySpan<byte> rest, ref int taken)
    {
        switch (_phase)
        {
            case Phase.Head:
                return ReadHead(rest, ref taken);
            case Phase.Body:
                return KeepBody(rest, ref taken);
            case Phase.Answer:
                if (Exchange.Stream is not { } stream) return false;
                bool isServed = GiveBody(stream, rest, out int count);
                taken += count;
                if (isServed) stream.Complete();
                return _phase != Phase.Answer;
            case Phase.Skip:
                return SkipBody(rest, ref taken);
            default:
                return false;
        }
    }

    private bool ReadHead(ReadOnlySpan<byte> rest, ref int taken)
    {
        // While the peer does not read its responses, its next request waits.
        if (rest.IsEmpty || IsAboveHighWaterMark) return false;
        if (_exchange is not { } exchange)
        {
            _exchange = exchange = ServerExchange.Take(this);
            exchange.Head.Reader.BeginRequest(_options.ReaderLimits);
            exchange.HeadSinceMs = Loop.TimeMs;
        }

        HttpHead head = exchange.Head;
        switch (head.Reader.Read(rest))
        {
            case HttpReading.NeedMore:
                Watch(exchange.HeadSinceMs + Milliseconds(_options.HeadTimeout));
                return false;
            case HttpReading.Broken:
                if (_requests == 0 && (rest.StartsWith("PROXY "u8) || rest.StartsWith("\r\n\r\n\0\r\nQUIT\n"u8)))
                    NoteProxyHeader();
                Refuse(head.Reader.Rule);
                return false;
        }

        head.Keep(rest[..head.Reader.HeadLength]);
        taken += head.Reader.HeadLength;
        return Begin(exchange, hasMore: rest.Length > head.Reader.HeadLength);
    }

    /// <summary>Reports that a proxy sends the PROXY protocol, versions 1 or 2, and that nothing reads it.</summary>
    private void NoteProxyHeader()
    {
        if (Server is not { } server || !_options.Tally.TryNoteProxy(Loop.TimeMs)) return;
        server.Report(new DiagnosticEvent(
            DiagnosticEventKind.Protocol,
            $"{RemoteEndPoint} sent a PROXY header in place of a request and got 400, because an HttpServer "
            + $"does not read it. Let a ProxySession (package Whimbrel.Relays) read it and hand over to "
            + $"HttpServer.CreateSession, as docs/guide/proxy-protocol.md shows, or turn the header off in the proxy.",
            "protocol-mismatch.md"));
    }

    private bool Begin(ServerExchange exchange, bool hasMore)
    {
        HttpReader reader = exchange.Head.Reader;
        Count(HttpCount.Requests);
        exchange.BeginRequest();
        if (HttpMetrics.Current is { IsServerHeard: true } metrics) BeginTime(metrics, reader.Verb);
        bool isLastOne = ++_requests >= _options.RequestLimit
            || Loop.TimeMs - _connectedMs >= Milliseconds(_options.ConnectionLifetime);
        if (isLastOne && !_isLast)
        {
            Count(HttpCount.RequestLimits);
            _isLast = true;
        }

        // The client then connects again at a moment of its own, before this session is asked to end.
        if (Server is { IsStopping: true }) _isLast = true;
        exchange.IsPreflight = BeginResponse(exchange);
        exchange.Continuing = Unsaid;
        exchange.BodySinceMs = Loop.TimeMs;
        exchange.BodyWaitedMs = 0;
        if (reader.Verb is HttpVerb.Connect or HttpVerb.Trace && !IsAllowed(reader.Verb))
            return Refuse(reader.Verb == HttpVerb.Trace ? 405 : 501, "This method is not served here");
        if (!_options.Serves(exchange.Head.Bytes[reader.Authority])) return Refuse(421, "This host is not served here");
        if (_routes is not null) exchange.Found = _routes.Find(reader.Verb, exchange);
        HttpBodyMode mode = HttpBodyMode.Skip;
        if (reader.Framing != HttpFraming.None && !TryAskMode(exchange.Request, out mode)) return false;

        long limit = mode == HttpBodyMode.Buffer ? _options.BufferedBodyLimitBytes : _options.BodyLimitBytes;
        exchange.Body = new HttpBodyReader(reader, _options.ReaderLimits with { BodyBytes = limit });
        if (reader.ContentLength > limit)
            return Refuse(HttpRule.BodyTooLarge, HttpRules.TextOfTooLarge(mode == HttpBodyMode.Buffer, _options));
        if (mode == HttpBodyMode.Stream && exchange.HasBody) exchange.Stream = new HttpBody(this, Loop.TimeMs);
        _saidAll = reader is { IsPersistent: false, Framing: HttpFraming.None } && !hasMore;
        if (mode != HttpBodyMode.Buffer) return Dispatch();
        SayContinue(hasMore);
        _phase = Phase.Body;
        return true;
    }

    /// <summary>Begins a response with the common fields. Returns true for a CORS preflight.</summary>
    private bool BeginResponse(ServerExchange exchange)
    {
        HttpReader reader = exchange.Head.Reader;
        exchange.Answer.Begin(reader.Verb == HttpVerb.Head, reader.MinorVersion == 0, reader.IsPersistent);
        return DressAnswer(hasRequest: true);
    }

    private bool IsAllowed(HttpVerb verb) => verb == HttpVerb.Trace && _options.AllowTrace;

    private bool TryAskMode(HttpRequest request, out HttpBodyMode mode)
    {
        mode = default;
        try
        {
            mode = OnHead(request);
            return true;
        }
        catch (Exception e)
        {
            HandlerThrew(e);
            return false;
        }
    }

    private bool KeepBody(ReadOnlySpan<byte> rest, ref int taken)
    {
        ref HttpBodyReader body = ref Exchange.Body;
        HttpReading reading = body.Read(rest, out int count);
        taken += count;
        switch (reading)
        {
            case HttpReading.Data:
                Exchange.Append(rest.Slice(body.Start, body.Length));
                return true;
            case HttpReading.Done:
                Exchange.SetTrailers(rest.Slice(body.Start, body.Length));
                _saidAll = !Exchange.Head.Reader.IsPersistent && count == rest.Length;
                return Dispatch();
            case HttpReading.Broken:
                return body.Rule == HttpRule.BodyTooLarge
                    ? Refuse(body.Rule, HttpRules.TextOfTooLarge(isKept: true, _options))
                    : Refuse(body.Rule);
            default:
                WatchBody();
                return false;
        }
    }

    /// <summary>Copies available bytes to the pending read. Returns true if the read has its result and can be
    /// completed.</summary>
    private bool GiveBody(HttpBody stream, ReadOnlySpan<byte> rest, out int taken)
    {
        taken = 0;
        ref HttpBodyReader body = ref Exchange.Body;
        if (stream.IsWaiting) Exchange.BodyWaitedMs += stream.TakePauseMs(Loop.TimeMs);
        while (stream.TryRoom(out Span<byte> room))
        {
            HttpReading reading = body.Read(rest[taken..], out int count, room.Length);
            ReadOnlySpan<byte> piece = reading is HttpReading.Data or HttpReading.Done
                ? rest[taken..].Slice(body.Start, body.Length)
                : default;
            taken += count;
            switch (reading)
            {
                case HttpReading.Data:
                    stream.Give(piece, body.IsDone);
                    continue;
                case HttpReading.Done:
                    Exchange.SetTrailers(piece);
                    stream.Give(default, isLast: true);
                    continue;
                case HttpReading.Broken:
                    BreakBody(stream, body.Rule);
                    CountRefused(HttpRules.StatusOf(body.Rule));
                    return false;
            }

            if (stream.HasSome) return true;
            if (_peerFinished)
            {
                FailBody(stream, new HttpProtocolException(HttpRule.Truncated));
                return false;
            }

            WatchBody();
            return false;
        }

        return stream.HasSome;
    }

    private void BreakBody(HttpBody stream, HttpRule rule)
    {
        HttpProtocolException error = rule == HttpRule.BodyTooLarge
            ? new(413, $"{HttpRules.TextOfTooLarge(isKept: false, _options)}.")
            : new(rule);
        ReportProtocolError(error);
        FailBody(stream, error);
    }

    private void FailBody(HttpBody stream, Exception exception)
    {
        _isLast = true;
        stream.Fail(exception);
    }

    private bool SkipBody(ReadOnlySpan<byte> rest, ref int taken)
    {
        ref HttpBodyReader body = ref Exchange.Body;
        HttpReading reading = body.Read(rest, out int count);
        taken += count;
        switch (reading)
        {
            case HttpReading.Data:
                Exchange.Skipped += body.Length;
                if (Exchange.Skipped <= _options.SkipLimitBytes) return true;
                Count(HttpCount.SkipLimits);
                End();
                return false;
            case HttpReading.Done:
                NextRequest();
                return true;
            case HttpReading.Broken:
                // The response was sent already, so no error response is possible.
                ReportProtocolError(new HttpProtocolException(body.Rule));
                CountRefused(HttpRules.StatusOf(body.Rule));
                End();
                return false;
            default:
                WatchBody();
                return false;
        }
    }

    private void NextRequest()
    {
        ReleaseExchange();
        _phase = Phase.Head;
        _quietSinceMs = Loop.TimeMs;
        if (BytesPending > LargeBytes) WatchSending();
    }

    private void HoldBack(int left)
    {
        if (left <= _options.PipelineLimitBytes || _isPaused) return;
        _isPaused = true;
        // Unread bytes of a body that the handler does not read are back-pressure, not pipelining.
        if (Exchange.Body.IsDone) Count(HttpCount.PipelinePauses);
        PauseReceiving();
    }

    /// <summary>Delivers unread bytes again without new data.</summary>
    private void Reoffer()
    {
        DeliverAgain();
        if (!_isPaused) return;
        _isPaused = false;
        ResumeReceiving();
    }

    /// <summary>Sends 100 (Continue) because the body is wanted, if the client waits for it: once, and not after the
    /// response. A client that has begun its body gets none.</summary>
    private void SayContinue(bool hasBegun)
    {
        if (_exchange is not { Head.Reader.ExpectsContinue: true } exchange) return;
        if (Interlocked.CompareExchange(ref exchange.Continuing, Saying, Unsaid) != Unsaid) return;
        if (!hasBegun)
        {
            Send("HTTP/1.1 100 Continue\r\n\r\n"u8);
            // On the pool it would be sent when this callback returns, and the client waits for it.
            if (!Loop.IsCurrent) Flush();
        }

        Volatile.Write(ref exchange.Continuing, Said);
    }

    // ------------------------------------------------------------------ a stream that is read

    /// <summary>Called when a read begins. Any thread.</summary>
    internal bool AskForBody() => Post(static s => ((HttpSession)s!).DeliverBody(), this);

    private void DeliverBody()
    {
        if (_phase != Phase.Answer || Exchange.Stream is not { } stream) return;
        SayContinue(UnreadCount > 0);
        if (UnreadCount > 0 || _isPaused) Reoffer();
        else if (GiveBody(stream, default, out _)) stream.Complete();
    }

    /// <summary>Called when a read is cancelled. Any thread.</summary>
    internal void CancelRead() => Post(static s => ((HttpSession)s!)._exchange?.Stream?.CancelRead(), this);
}
