using System.Buffers;
using System.Diagnostics;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Connection of an <see cref="HttpPool"/>: one request at a time; the loop reads the response and offers its body to
/// the reader. It returns to the pool when the response is complete, the request was sent, and no byte is unread;
/// otherwise it is closed.
/// </summary>
internal sealed class PooledSession : Session
{
    // Bytes received with the head are copied, so that the connection of a small response is free before the response
    // is read.
    private const int PrefixBytes = 64 * 1024;
    private const int SmallHead = 1024;

    private readonly HttpPool _pool;
    private readonly HttpAnswerReader _reader;
    private HttpExchange? _exchange;
    private HttpExchange? _joining; // its response is complete, and its last bytes are being sent
    private HttpResponseHead? _response;
    private long _connectedMs;
    private long _handshakeAt;
    private long _readyAt; // 0 after its connect time was reported with a response

    internal PooledSession(HttpPool pool, HttpOrigin origin, HttpSlot slot)
    {
        _pool = pool;
        Origin = origin;
        Slot = slot;
        _reader = new HttpAnswerReader(pool.Options.ReaderLimits, pool.Options.InterimLimit);
    }

    private enum Phase
    {
        /// <summary>No request: any received byte ends the connection.</summary>
        Idle,

        /// <summary>Head of a response.</summary>
        Head,

        /// <summary>Body that is read as a stream.</summary>
        Body,

        /// <summary>No more requests are served.</summary>
        Over,
    }

    internal HttpOrigin Origin { get; }

    internal HttpSlot Slot { get; }

    /// <summary>Whether it is in the pool. Under the pool's gate.</summary>
    internal bool IsIdle { get; set; }

    internal string Peer => Origin.Text;

    /// <summary>Current phase. On the loop.</summary>
    private Phase Now
    {
        get;
        set
        {
            if ((field == Phase.Body) != (value == Phase.Body)) Origin.CountOpenBody(value == Phase.Body);
            field = value;
        }
    }

    internal bool IsOld => Loop.TimeMs - _connectedMs >= (long)_pool.Options.ConnectionLifetime.TotalMilliseconds;

    // ------------------------------------------------------------------ the request, on the loop

    internal void Begin(HttpExchange exchange)
    {
        if (exchange.IsClaimed)
        {
            // Cancelled before a byte of it was sent.
            if (Now == Phase.Idle && IsConnected) _pool.Return(this);
            return;
        }

        if (Now != Phase.Idle || !IsConnected)
        {
            exchange.TryFail(exchange.Lost());
            return;
        }

        _exchange = exchange;
        Now = Phase.Head;
        _reader.Begin(exchange.Request.IsHead);
        exchange.WasSent = true;
        exchange.SentAt = Stopwatch.GetTimestamp();
        SendRequest(exchange);
    }

    private void SendRequest(HttpExchange exchange)
    {
        HttpClientRequest request = exchange.Request;
        int room = request.HeadBytes(exchange.Cookies, exchange.Trace);
        byte[]? rented = null;
        Span<byte> head = room <= SmallHead ? stackalloc byte[SmallHead] : rented = ArrayPool<byte>.Shared.Rent(room);
        head = head[..request.WriteHead(head, _pool.Options.Decompress, exchange.Cookies, exchange.Trace)];
        bool isSmall = exchange.IsSmall;
        SendResult result = Send(Outgoing.Pieces(head, isSmall ? request.Body.Span : default));
        if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        if (result == SendResult.Full)
        {
            exchange.TryFail(new HttpClientException(HttpClientFailure.TooLarge,
                $"The head of {request.Method} to {Peer} is larger than what may be queued."));
            Finish(isAbort: true);
        }
        else if (isSmall)
        {
            exchange.IsPumped = true;
            BeginPhase(_pool.Options.HeadPhase);
        }
        else
        {
            EndPhase(); // the head timeout begins after the body
            exchange.StartPump();
        }
    }

    /// <summary>Called when the body of the request was sent.</summary>
    internal void Pumped(HttpExchange exchange)
    {
        exchange.IsPumped = true;
        if (_exchange == exchange && Now == Phase.Head) BeginPhase(_pool.Options.HeadPhase);
        if (_joining != exchange) return;
        _joining = null;
        if (Now == Phase.Idle) _pool.Return(this);
    }

    /// <summary>Called when the response is not wanted any more, or the request cannot be completed.</summary>
    internal void GiveUp(HttpExchange exchange)
    {
        if (_exchange == exchange || _joining == exchange) Finish(isAbort: true);
    }

    /// <summary>Called when the body is not wanted any more.</summary>
    internal void GiveUp(HttpClientBody body)
    {
        if (_exchange?.Body == body)
            Fail(body.Failure
                ?? HttpClientException.OfEnd(new CloseReason(CloseCause.LocalAbort), isInBody: true, Peer));
    }

    // ------------------------------------------------------------------ the answer

    protected override void OnTlsHandshakeStarting() => _handshakeAt = Stopwatch.GetTimestamp();

    protected override void OnConnected()
    {
        _connectedMs = Loop.TimeMs;
        _readyAt = Stopwatch.GetTimestamp();
    }

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (true)
        {
            switch (Now)
            {
                case Phase.Head:
                    if (!ReadHead(unread, ref taken)) return taken;
                    break;
                case Phase.Body:
                    if (!ReadBody(unread, ref taken)) return taken;
                    break;
                default:
                    // Bytes without a request: the next request would take them for its response.
                    if (taken == unread.Length || Now == Phase.Over) return unread.Length;
                    _pool.MayDrop(this);
                    Finish(isAbort: true);
                    return unread.Length;
            }
        }
    }

    private bool ReadHead(ReadOnlySpan<byte> unread, ref int taken)
    {
        HttpExchange exchange = _exchange!;
        if (taken < unread.Length)
        {
            exchange.WasAnswered = true;
            if (exchange.AnsweredAt == 0) exchange.AnsweredAt = Stopwatch.GetTimestamp();
        }

        HttpMessagePart part = _reader.Read(unread[taken..], out int count);
        taken += count;
        switch (part)
        {
            case HttpMessagePart.NeedMore:
                return false;
            case HttpMessagePart.Interim:
                exchange.AnsweredAt = 0;
                if (_reader.Head.Reader.Status == 100) exchange.Continue(isWanted: true);
                return true;
            case HttpMessagePart.Head:
                exchange.Continue(isWanted: false);
                if (exchange.TryClaim()) return TakeHead(exchange, unread, ref taken);
                Now = Phase.Over; // cancelled in this moment, which ends the connection
                return true;
            case HttpMessagePart.Switched:
                Break(HttpRule.BadSwitch);
                return true;
            default:
                Break(_reader.Rule);
                return true;
        }
    }

    /// <summary>Completes the claimed exchange with its response.</summary>
    private bool TakeHead(HttpExchange exchange, ReadOnlySpan<byte> unread, ref int taken)
    {
        HttpReader head = _reader.Head.Reader;
        long wanted =
            head.Framing switch { HttpFraming.None => 0, HttpFraming.Length => head.ContentLength, _ => PrefixBytes };
        byte[] prefix = [];
        int most = (int)Math.Min(Math.Min(wanted, PrefixBytes), unread.Length - taken);
        if (most > 0) prefix = new byte[most];
        _response = new HttpResponseHead(_reader.TakeHead());
        int length = 0;
        HttpMessagePart part;
        while (true)
        {
            part = _reader.Read(unread[taken..], out int count, most - length);
            ReadOnlySpan<byte> piece = part is HttpMessagePart.Data or HttpMessagePart.Done
                ? unread.Slice(taken + _reader.Start, _reader.Length)
                : default;
            taken += count;
            if (part == HttpMessagePart.Done) _response.SetTrailers(piece);
            if (part != HttpMessagePart.Data || piece.IsEmpty) break;
            piece.CopyTo(prefix.AsSpan(length));
            length += piece.Length;
        }

        HttpClientBody body = new(this, prefix.AsMemory(0, length));
        HttpClientResponse response = new(_pool, exchange.Request, _response, body, TimesOf(exchange));
        if (part == HttpMessagePart.Broken)
        {
            body.Fail(new HttpClientException(_reader.Rule, Peer));
            Finish(isAbort: true);
        }
        else if (part == HttpMessagePart.Done)
        {
            AnswerIsWhole(taken < unread.Length);
        }
        else
        {
            Now = Phase.Body;
            exchange.Body = body;
            body.GoesOn(StartBody(_pool.Options.SkipLimitBytes));
            BeginPhase(_pool.Options.BodyPhase);
        }

        // After the return to the pool, so that the caller's next request finds this connection.
        exchange.Complete(response);
        return true;
    }

    private HttpClientTimes TimesOf(HttpExchange exchange)
    {
        TimeSpan firstByte = Stopwatch.GetElapsedTime(exchange.SentAt, exchange.AnsweredAt);
        if (_readyAt == 0) return new HttpClientTimes(default, default, firstByte);
        long connectedAt = _handshakeAt == 0 ? _readyAt : _handshakeAt;
        HttpClientTimes times = new(Stopwatch.GetElapsedTime(Slot.ConnectStartedAt, connectedAt),
            Stopwatch.GetElapsedTime(connectedAt, _readyAt), firstByte);
        _readyAt = 0;
        return times;
    }

    /// <summary>Offers the wanted bytes to the reader, and leaves the rest unread. Returns false when the reader wants
    /// no more for now.</summary>
    private bool ReadBody(ReadOnlySpan<byte> unread, ref int taken)
    {
        HttpBodyReader mark = _reader.Mark();
        ReadOnlySpan<byte> rest = unread[taken..];
        HttpMessagePart part = _reader.Read(rest, out int count);
        switch (part)
        {
            case HttpMessagePart.Data:
                int length = _reader.Length, wanted = DeliverBody(rest.Slice(_reader.Start, length));
                if (wanted < length)
                {
                    _reader.GoBack(mark);
                    count = 0;
                    if (wanted > 0) _reader.Read(rest, out count, wanted);
                }

                taken += count;
                return wanted == length;
            case HttpMessagePart.NeedMore:
                taken += count;
                return false;
            case HttpMessagePart.Done:
                taken += count;
                _response!.SetTrailers(rest.Slice(_reader.Start, _reader.Length));
                AnswerIsWhole(taken < unread.Length);
                return true;
            default:
                Break(_reader.Rule);
                return true;
        }
    }

    private void AnswerIsWhole(bool hasMore)
    {
        HttpExchange exchange = _exchange!;
        bool isStreamed = Now == Phase.Body;
        _exchange = null;
        _response = null;
        exchange.Body = null;
        // Bytes without a request, or a response to a request that was not sent completely.
        bool isBroken = hasMore || (!exchange.IsPumped && !exchange.IsAllGiven);
        if (isBroken || !_reader.IsReusable || exchange.Request.CloseAfter)
        {
            if (isStreamed) EndBody();
            exchange.StopPump();
            Finish(isBroken);
            return;
        }

        Now = Phase.Idle;
        EndPhase();
        if (exchange.IsPumped) _pool.Return(this);
        else _joining = exchange;
        // After the return to the pool, so that the caller's next request finds this connection.
        if (isStreamed) EndBody();
    }

    /// <summary>Called when it is in the pool.</summary>
    internal void Rest() => BeginPhase(_pool.Options.IdlePhase);

    /// <summary>Called when the pool does not keep it.</summary>
    internal void Retire() => Finish(isAbort: false);

    // ------------------------------------------------------------------ the end

    protected override void OnEndOfStream()
    {
        if (Now == Phase.Idle)
        {
            _pool.MayDrop(this);
            Finish(isAbort: false);
        }
        else if (Now == Phase.Over)
        {
            Close();
        }
        else if (Now == Phase.Body && _reader.Finish() == HttpMessagePart.Done)
        {
            AnswerIsWhole(hasMore: false);
        }
        else
        {
            Fail(HttpClientException.OfEnd(new CloseReason(CloseCause.PeerClosed), Now == Phase.Body, Peer));
        }
    }

    protected override void OnTimeout(CloseReason reason)
    {
        if (reason.Cause != CloseCause.PhaseTimeout) base.OnTimeout(reason);
        else if (Now != Phase.Idle) Fail(HttpClientException.OfEnd(reason, Now == Phase.Body, Peer));
        else if (_pool.MayDrop(this)) Finish(isAbort: false);
    }

    protected override void OnConnectFailed(CloseReason reason) => _pool.Ended(this);

    protected override void OnDisconnected(CloseReason reason)
    {
        Phase phase = Now;
        Now = Phase.Over;
        _pool.MayDrop(this);
        _pool.Ended(this);
        _exchange?.StopPump();
        _exchange?.TryFail(HttpClientException.OfEnd(reason, phase == Phase.Body, Peer));
        _exchange = _joining = null;
    }

    private void Break(HttpRule rule) => Fail(new HttpClientException(rule, Peer));

    private void Fail(HttpClientException failure)
    {
        if (Now == Phase.Body) EndBody(failure);
        _exchange!.TryFail(failure);
        if (failure.IsPeers) ReportProtocolError(failure);
        Finish(isAbort: true);
    }

    private void Finish(bool isAbort)
    {
        Now = Phase.Over;
        _exchange?.StopPump();
        _exchange = _joining = null;
        if (isAbort) Abort();
        else Close();
    }
}
