using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// A request. What it gives as spans is valid until it is answered. Values are as they were sent; strings are made when they are asked for.
/// </summary>
/// <remarks>
/// A handle of one exchange, to be copied and kept at will. It ends with the exchange: when the answer is complete and the handler has ended. From then on each member throws
/// <see cref="InvalidOperationException"/>, and shows nothing of another request.
/// </remarks>
public readonly partial struct HttpRequest
{
    private const int FirstBodyBytes = 16 * 1024;

    private readonly ServerExchange? _exchange;
    private readonly long _generation;

    internal HttpRequest(ServerExchange exchange, long generation)
    {
        _exchange = exchange;
        _generation = generation;
    }

    /// <summary>The connection it came on.</summary>
    /// <exception cref="InvalidOperationException">The exchange has ended.</exception>
    public HttpSession Session
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.Session;
        }
    }

    /// <summary>Its method, if that has a number.</summary>
    public HttpVerb Verb
    {
        get
        {
            using RequestUse use = Enter();
            return use.Reader.Verb;
        }
    }

    /// <summary>Its method.</summary>
    public ReadOnlySpan<byte> Method
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.Bytes[use.Reader.Method];
        }
    }

    /// <summary>The target, as it was sent.</summary>
    public ReadOnlySpan<byte> Target
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.Bytes[use.Reader.Target];
        }
    }

    /// <summary>The path, with its percent signs: <c>/</c> at least, but for <c>OPTIONS *</c>, where it is empty.</summary>
    public ReadOnlySpan<byte> Path
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.Path;
        }
    }

    /// <summary>Host and port the client asked for: of the target, or of Host. Empty for a client of HTTP/1.0 that says neither.</summary>
    public ReadOnlySpan<byte> Authority
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.Bytes[use.Reader.Authority];
        }
    }

    /// <summary>1 for HTTP/1.1, 0 for HTTP/1.0.</summary>
    public int MinorVersion
    {
        get
        {
            using RequestUse use = Enter();
            return use.Reader.MinorVersion;
        }
    }

    /// <summary>How many fields it has.</summary>
    public int FieldCount
    {
        get
        {
            using RequestUse use = Enter();
            return use.Reader.Count;
        }
    }

    /// <summary>What the pattern of its route has taken from the path.</summary>
    public RouteValues Route => new(Checked);

    /// <summary>The value of the first field of this kind; empty when there is none.</summary>
    /// <param name="field">Any but <see cref="HttpField.Other"/>.</param>
    public ReadOnlySpan<byte> this[HttpField field] => TryGet(field, out ReadOnlySpan<byte> value) ? value : default;

    /// <summary>The value of the first field with this name as text, or null.</summary>
    /// <param name="name">In any case.</param>
    public string? this[string name]
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.TextOf(name);
        }
    }

    /// <summary>The value of the first field of this kind.</summary>
    /// <param name="field">Any but <see cref="HttpField.Other"/>.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGet(HttpField field, out ReadOnlySpan<byte> value)
    {
        using RequestUse use = Enter();
        return use.Head.TryGet(field, out value);
    }

    /// <summary>The value of the first field with this name.</summary>
    /// <param name="name">In any case.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        using RequestUse use = Enter();
        return use.Head.TryGet(name, out value);
    }

    /// <summary>The name of a field, as it was sent.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> NameAt(int index)
    {
        using RequestUse use = Enter();
        return use.Head.NameAt(index);
    }

    /// <summary>The value of a field, without spaces around it.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> ValueAt(int index)
    {
        using RequestUse use = Enter();
        return use.Head.ValueAt(index);
    }

    /// <summary>Whether it asks to go on with another protocol, by Connection and Upgrade.</summary>
    /// <param name="protocol">Its name, in any case.</param>
    public bool AsksFor(ReadOnlySpan<byte> protocol)
    {
        using RequestUse use = Enter();
        HttpReader reader = use.Reader;
        if (!reader.WantsUpgrade) return false;
        for (int index = reader.IndexOf(HttpField.Upgrade); index >= 0; index = reader.IndexOf(HttpField.Upgrade, index + 1))
        {
            ReadOnlySpan<byte> list = use.Head.ValueAt(index);
            while (HttpBytes.TryNextElement(ref list, out ReadOnlySpan<byte> element))
            {
                if (Ascii.EqualsIgnoreCase(element, protocol)) return true;
            }
        }

        return false;
    }

    // ------------------------------------------------------------------ body

    /// <summary>Whether there is a body.</summary>
    public bool HasBody
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.HasBody;
        }
    }

    /// <summary>Content-Length; -1 when the body is chunked, 0 when there is none.</summary>
    public long BodyLength
    {
        get
        {
            using RequestUse use = Enter();
            return use.Reader.Framing switch
            {
                HttpFraming.Length => use.Reader.ContentLength,
                HttpFraming.Chunked => -1,
                _ => 0,
            };
        }
    }

    /// <summary>The body in memory (<see cref="HttpBodyMode.Buffer"/>): handlers that are not awaited have it so, awaited ones after <see cref="ReadBodyAsync"/>. Empty when there is none.</summary>
    /// <exception cref="InvalidOperationException">The body is a stream, as in an awaited handler, and was not read by <see cref="ReadBodyAsync"/>; or the exchange has ended.</exception>
    public ReadOnlySpan<byte> BodyBytes
    {
        get
        {
            using RequestUse use = Enter();
            if (use.Exchange.Stream is null) return use.Exchange.KeptBody;
            return use.Exchange.Whole is { } whole ? whole.Span : throw new InvalidOperationException("The body of this request is a stream, because its handler is awaited: await ReadBodyAsync (or ReadFormAsync, or read Body).");
        }
    }

    /// <summary>The body as a stream: awaited handlers read it so. One read at a time, any thread. When the exchange ends its reads throw <see cref="InvalidOperationException"/>.</summary>
    public Stream Body
    {
        get
        {
            using RequestUse use = Enter();
            if (use.Exchange.Whole is { } whole) return MemoryMarshal.TryGetArray(whole, out ArraySegment<byte> read) ? new MemoryStream(read.Array!, read.Offset, read.Count, writable: false) : Stream.Null;
            if (use.Exchange.Stream is { } stream) return stream;
            return use.Exchange.KeptBody.IsEmpty ? Stream.Null : new HttpKeptBody(this);
        }
    }

    /// <summary>Reads the whole body of an awaited handler into memory, which stays valid. Again, as after a filter that has read it, it gives the same bytes.</summary>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="HttpProtocolException">It is larger than <see cref="HttpOptions.BufferedBodyLimitBytes"/>, or broken.</exception>
    /// <exception cref="InvalidOperationException">A part of <see cref="Body"/> was read before, or the exchange has ended.</exception>
    public async ValueTask<ReadOnlyMemory<byte>> ReadBodyAsync(CancellationToken cancellationToken = default)
    {
        if (KnownBody is { } known) return known;
        // What is kept goes back when the request is answered.
        if (StreamedBody is not { } stream) return BodyBytes.ToArray();
        if (stream.WasRead) throw new InvalidOperationException("A part of the body was read already, from Body: what is left is not the whole. Read it in one way.");
        HttpSession session = Session;
        long announced = BodyLength;
        int limit = session.Options.BufferedBodyLimitBytes;
        if (announced > limit) throw session.Mistake(413, HttpRules.TextOfTooLarge(isKept: true, session.Options));
        byte[] bytes = new byte[announced >= 0 ? (int)Math.Min(announced, FirstBodyBytes) : FirstBodyBytes];
        int length = 0;
        while (true)
        {
            if (length == bytes.Length)
            {
                if (length > limit) throw session.Mistake(413, HttpRules.TextOfTooLarge(isKept: true, session.Options));
                Array.Resize(ref bytes, (int)Math.Min((long)length * 2 + 1, (long)limit + 1));
            }

            int count = await stream.ReadAsync(bytes.AsMemory(length), cancellationToken).ConfigureAwait(false);
            if (count == 0) break;
            length += count;
        }

        if (length > limit) throw session.Mistake(413, HttpRules.TextOfTooLarge(isKept: true, session.Options));
        return Know(bytes.AsMemory(0, length));
    }

    /// <summary>The value of a field behind a chunked body, when the body was read to its end.</summary>
    /// <param name="name">In any case.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGetTrailer(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        using RequestUse use = Enter();
        return HttpLines.TryFind(use.Exchange.Trailers, name, out value);
    }

    // ------------------------------------------------------------------ for the site

    internal ReadOnlySpan<byte> QueryBytes
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.Bytes[use.Reader.Query];
        }
    }

    /// <summary>What the last name of a pattern has taken.</summary>
    internal ReadOnlySpan<byte> RouteRest
    {
        get
        {
            using RequestUse use = Enter();
            int last = use.Exchange.Places.Names!.Length - 1;
            return use.Exchange.Path.Slice(use.Exchange.Places.Starts[last], use.Exchange.Places.Lengths[last]);
        }
    }

    private ReadOnlyMemory<byte>? KnownBody
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.Whole;
        }
    }

    private ReadOnlyMemory<byte> Know(ReadOnlyMemory<byte> body)
    {
        using RequestUse use = Enter();
        use.Exchange.Whole = body;
        return body;
    }

    private HttpBody? StreamedBody
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.Stream;
        }
    }

    /// <summary>Copies what it can of a body that was kept, for a stream over it.</summary>
    internal int CopyBody(int from, Span<byte> into)
    {
        using RequestUse use = Enter();
        ReadOnlySpan<byte> body = use.Exchange.KeptBody[from..];
        int count = Math.Min(body.Length, into.Length);
        body[..count].CopyTo(into);
        return count;
    }

    // ------------------------------------------------------------------ the gate

    private HttpRequest Checked
    {
        get
        {
            Exchange.Check(_generation);
            return this;
        }
    }

    private ServerExchange Exchange => _exchange ?? throw new InvalidOperationException("This is default(HttpRequest), and no request: a handler or HttpSession.OnRequest gives one.");

    /// <summary>A member begins: until the end of its scope nothing of the exchange is used for another request.</summary>
    internal RequestUse Enter()
    {
        ServerExchange exchange = Exchange;
        return new RequestUse(exchange, exchange.EnterReader(_generation));
    }

    internal readonly ref struct RequestUse(ServerExchange exchange, bool isCounted)
    {
        internal ServerExchange Exchange => exchange;

        internal HttpHead Head => exchange.Head;

        internal HttpReader Reader => exchange.Head.Reader;

        public void Dispose()
        {
            if (isCounted) exchange.LeaveReader();
        }
    }
}
