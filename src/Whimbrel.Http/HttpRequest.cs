using System.Buffers;
using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// A request. What it gives as spans is valid until it is answered; then it is empty, and its members throw. Values are as they were
/// sent; strings are made when they are asked for.
/// </summary>
public sealed partial class HttpRequest
{
    private const int FirstBodyBytes = 16 * 1024;

    private readonly HttpSession _session;
    private ServerExchange? _exchange;

    internal HttpRequest(HttpSession session) => _session = session;

    /// <summary>The connection it came on.</summary>
    public HttpSession Session => _session;

    /// <summary>Its method, if that has a number.</summary>
    public HttpVerb Verb => Reader.Verb;

    /// <summary>Its method.</summary>
    public ReadOnlySpan<byte> Method => Head.Bytes[Reader.Method];

    /// <summary>The target, as it was sent.</summary>
    public ReadOnlySpan<byte> Target => Head.Bytes[Reader.Target];

    /// <summary>The path, with its percent signs: <c>/</c> at least, but for <c>OPTIONS *</c>, where it is empty.</summary>
    public ReadOnlySpan<byte> Path
    {
        get
        {
            ReadOnlySpan<byte> path = Head.Bytes[Reader.Path];
            return path.IsEmpty && !Target.SequenceEqual("*"u8) ? "/"u8 : path;
        }
    }

    /// <summary>Host and port the client asked for: of the target, or of Host. Empty for a client of HTTP/1.0 that says neither.</summary>
    public ReadOnlySpan<byte> Authority => Head.Bytes[Reader.Authority];

    /// <summary>1 for HTTP/1.1, 0 for HTTP/1.0.</summary>
    public int MinorVersion => Reader.MinorVersion;

    /// <summary>How many fields it has.</summary>
    public int FieldCount => Reader.Count;

    /// <summary>What the pattern of its route has taken from the path.</summary>
    public RouteValues Route => new(this);

    /// <summary>The value of the first field of this kind; empty when there is none.</summary>
    /// <param name="field">Any but <see cref="HttpField.Other"/>.</param>
    public ReadOnlySpan<byte> this[HttpField field] => TryGet(field, out ReadOnlySpan<byte> value) ? value : default;

    /// <summary>The value of the first field with this name as text, or null.</summary>
    /// <param name="name">In any case.</param>
    public string? this[string name] => Head.TextOf(name);

    /// <summary>The value of the first field of this kind.</summary>
    /// <param name="field">Any but <see cref="HttpField.Other"/>.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGet(HttpField field, out ReadOnlySpan<byte> value) => Head.TryGet(field, out value);

    /// <summary>The value of the first field with this name.</summary>
    /// <param name="name">In any case.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value) => Head.TryGet(name, out value);

    /// <summary>The name of a field, as it was sent.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> NameAt(int index) => Head.NameAt(index);

    /// <summary>The value of a field, without spaces around it.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> ValueAt(int index) => Head.ValueAt(index);

    /// <summary>Whether it asks to go on with another protocol, by Connection and Upgrade.</summary>
    /// <param name="protocol">Its name, in any case.</param>
    public bool AsksFor(ReadOnlySpan<byte> protocol)
    {
        if (!Reader.WantsUpgrade) return false;
        for (int index = Reader.IndexOf(HttpField.Upgrade); index >= 0; index = Reader.IndexOf(HttpField.Upgrade, index + 1))
        {
            ReadOnlySpan<byte> list = ValueAt(index);
            while (HttpBytes.TryNextElement(ref list, out ReadOnlySpan<byte> element))
            {
                if (Ascii.EqualsIgnoreCase(element, protocol)) return true;
            }
        }

        return false;
    }

    // ------------------------------------------------------------------ body

    /// <summary>Whether there is a body.</summary>
    public bool HasBody => Reader.Framing != HttpFraming.None;

    /// <summary>Content-Length; -1 when the body is chunked, 0 when there is none.</summary>
    public long BodyLength => Reader.Framing switch
    {
        HttpFraming.Length => Reader.ContentLength,
        HttpFraming.Chunked => -1,
        _ => 0,
    };

    /// <summary>The body in memory (<see cref="HttpBodyMode.Buffer"/>): handlers that are not awaited have it so, awaited ones after <see cref="ReadBodyAsync"/>. Empty when there is none.</summary>
    /// <exception cref="InvalidOperationException">The body is a stream, as in an awaited handler, and was not read by <see cref="ReadBodyAsync"/>.</exception>
    public ReadOnlySpan<byte> BodyBytes
    {
        get
        {
            ServerExchange exchange = Exchange;
            if (exchange.Stream is null) return exchange.Kept.AsSpan(0, exchange.KeptBytes);
            return exchange.Whole is { } whole ? whole.Span : throw new InvalidOperationException("The body of this request is a stream, because its handler is awaited: await ReadBodyAsync (or ReadFormAsync, or read Body).");
        }
    }

    /// <summary>The body as a stream: awaited handlers read it so. One read at a time, any thread.</summary>
    public Stream Body
    {
        get
        {
            if (Exchange.Whole is { } whole) return MemoryMarshal.TryGetArray(whole, out ArraySegment<byte> read) ? new MemoryStream(read.Array!, read.Offset, read.Count, writable: false) : System.IO.Stream.Null;
            if (Stream is { } stream) return stream;
            return Exchange.Kept is null ? System.IO.Stream.Null : new MemoryStream(Exchange.Kept, 0, Exchange.KeptBytes, writable: false);
        }
    }

    /// <summary>Reads the whole body of an awaited handler into memory. Again, as behind a filter that has read it, it gives the same bytes.</summary>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="HttpProtocolException">It is larger than <see cref="HttpOptions.BufferedBodyLimitBytes"/>, or broken.</exception>
    /// <exception cref="InvalidOperationException">A part of <see cref="Body"/> was read before.</exception>
    public async ValueTask<ReadOnlyMemory<byte>> ReadBodyAsync(CancellationToken cancellationToken = default)
    {
        if (Exchange.Whole is { } known) return known;
        if (Stream is not { } stream) return Exchange.Kept.AsMemory(0, Exchange.KeptBytes);
        if (stream.WasRead) throw new InvalidOperationException("A part of the body was read already, from Body: what is left is not the whole. Read it in one way.");
        int limit = _session.Options.BufferedBodyLimitBytes;
        if (BodyLength > limit) throw _session.Mistake(413, HttpRules.TextOf(HttpRule.BodyTooLarge));
        byte[] bytes = new byte[BodyLength >= 0 ? (int)Math.Min(BodyLength, FirstBodyBytes) : FirstBodyBytes];
        int length = 0;
        while (true)
        {
            if (length == bytes.Length)
            {
                if (length > limit) throw _session.Mistake(413, HttpRules.TextOf(HttpRule.BodyTooLarge));
                Array.Resize(ref bytes, (int)Math.Min((long)length * 2 + 1, (long)limit + 1));
            }

            int count = await stream.ReadAsync(bytes.AsMemory(length), cancellationToken).ConfigureAwait(false);
            if (count == 0) break;
            length += count;
        }

        if (length > limit) throw _session.Mistake(413, HttpRules.TextOf(HttpRule.BodyTooLarge));
        ReadOnlyMemory<byte> body = bytes.AsMemory(0, length);
        if (_exchange is { } exchange && exchange.Stream == stream) exchange.Whole = body;
        return body;
    }

    /// <summary>The value of a field behind a chunked body, when the body was read to its end.</summary>
    /// <param name="name">In any case.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGetTrailer(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value) => HttpLines.TryFind(Exchange.Trailers, name, out value);

    // ------------------------------------------------------------------ for the session

    internal HttpBody? Stream => _exchange?.Stream;

    internal ref RoutePlaces Places => ref Exchange.Places;

    /// <summary>It has not been answered yet.</summary>
    internal bool IsThere => _exchange is not null;

    /// <summary>What the last name of a pattern has taken.</summary>
    internal ReadOnlySpan<byte> RouteRest => Path.Slice(Places.Starts[Places.Names!.Length - 1], Places.Lengths[Places.Names.Length - 1]);

    /// <summary>It is GET, and asks for parts by the one Range that it has.</summary>
    internal bool IsPartial => Reader.Verb == HttpVerb.Get && Reader.IndexOf(HttpField.Range) is >= 0 and int index && Reader.IndexOf(HttpField.Range, index + 1) < 0;

    internal RangeWish ReadRanges(long length, Span<HttpRange> parts, out int count) => HttpRanges.Read(this[HttpField.Range], length, parts, out count);

    internal ConditionVerdict Judge(ReadOnlySpan<byte> tag, long modified) => HttpConditions.Judge(Reader, Head.Bytes, tag, modified, DateTimeOffset.UtcNow.ToUnixTimeSeconds());

    internal bool MaySendParts(ReadOnlySpan<byte> tag, long modified) => HttpConditions.MaySendParts(Reader, Head.Bytes, tag, modified, DateTimeOffset.UtcNow.ToUnixTimeSeconds());

    internal HttpCoding ChooseCoding(bool hasGzip, bool hasBrotli, out bool refusesIdentity) => HttpCodings.Choose(Reader, Head.Bytes, hasGzip, hasBrotli, out refusesIdentity);

    private ServerExchange Exchange => _exchange ?? throw new InvalidOperationException("The request was answered: nothing can be read of it any more.");

    private HttpHead Head => Exchange.Head;

    internal HttpReader Reader => Head.Reader;

    /// <summary>Whether a field is for whoever answers in the end, and not for this connection.</summary>
    internal bool GoesOn(int index) => HttpForwarding.GoesOn(Head, index);

    internal void Begin(ServerExchange exchange)
    {
        _exchange = exchange;
        exchange.Places = default;
    }

    internal void BeginBody(HttpBodyMode mode)
    {
        if (mode == HttpBodyMode.Stream && HasBody) Exchange.Stream = new HttpBody(_session, _session.Loop.TimeMs);
    }

    internal void Append(ReadOnlySpan<byte> piece)
    {
        // It grows with what has come, and not with what was announced.
        ServerExchange exchange = Exchange;
        int needed = exchange.KeptBytes + piece.Length;
        if (exchange.Kept is null || exchange.Kept.Length < needed) Grow(exchange, needed);
        piece.CopyTo(exchange.Kept.AsSpan(exchange.KeptBytes));
        exchange.KeptBytes = needed;
    }

    private void Grow(ServerExchange exchange, int needed)
    {
        byte[] larger = ArrayPool<byte>.Shared.Rent(Math.Max(needed, Math.Min(exchange.KeptBytes * 2, _session.Options.BufferedBodyLimitBytes)));
        if (exchange.Kept is { } old)
        {
            old.AsSpan(0, exchange.KeptBytes).CopyTo(larger);
            ArrayPool<byte>.Shared.Return(old);
        }

        exchange.Kept = larger;
    }

    internal void SetTrailers(ReadOnlySpan<byte> trailers) => Exchange.Trailers = trailers.IsEmpty ? null : trailers.ToArray();

    /// <summary>It was answered.</summary>
    internal void Release()
    {
        if (_exchange is not { } exchange) return;
        _exchange = null;
        if (exchange.Kept is { } body) ArrayPool<byte>.Shared.Return(body);
        exchange.Kept = exchange.Trailers = null;
        exchange.KeptBytes = 0;
        exchange.Stream = null;
        exchange.Whole = null;
    }
}
