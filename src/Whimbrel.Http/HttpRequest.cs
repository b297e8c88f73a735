using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// HTTP request. Spans are valid until the response is complete. Values are those received; strings are created on
/// demand.
/// </summary>
/// <remarks>
/// A handle of one exchange, which may be copied and kept. The exchange ends when the response is complete and the
/// handler has returned. After that each member throws <see cref="InvalidOperationException"/>, so no data of another
/// request is returned.
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

    /// <summary>Connection of the request.</summary>
    /// <exception cref="InvalidOperationException">The exchange has ended.</exception>
    public HttpSession Session
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.Session;
        }
    }

    /// <summary>Method; <see cref="HttpVerb.Other"/> for one without a value there.</summary>
    public HttpVerb Verb
    {
        get
        {
            using RequestUse use = Enter();
            return use.Reader.Verb;
        }
    }

    /// <summary>Name of the method.</summary>
    public ReadOnlySpan<byte> Method
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.Bytes[use.Reader.Method];
        }
    }

    /// <summary>Request target, as received.</summary>
    public ReadOnlySpan<byte> Target
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.Bytes[use.Reader.Target];
        }
    }

    /// <summary>Path, percent-encoded as received: at least <c>/</c>, except for <c>OPTIONS *</c>, where it is
    /// empty.</summary>
    public ReadOnlySpan<byte> Path
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.Path;
        }
    }

    /// <summary>Host and port of the target, or of the Host field. Empty for a client of HTTP/1.0 that sends
    /// neither.</summary>
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

    /// <summary>Number of fields.</summary>
    public int FieldCount
    {
        get
        {
            using RequestUse use = Enter();
            return use.Reader.Count;
        }
    }

    /// <summary>Values of the route pattern, taken from the path.</summary>
    public RouteValues Route => new(Checked);

    /// <summary>Value of the first field of this kind; empty if there is none.</summary>
    /// <param name="field">Any value except <see cref="HttpField.Other"/>.</param>
    public ReadOnlySpan<byte> this[HttpField field] => TryGet(field, out ReadOnlySpan<byte> value) ? value : default;

    /// <summary>Value of the first field with this name as text, or null.</summary>
    /// <param name="name">Name of the field, case-insensitive.</param>
    public string? this[string name]
    {
        get
        {
            using RequestUse use = Enter();
            return use.Head.TextOf(name);
        }
    }

    /// <summary>Gets the value of the first field of this kind.</summary>
    /// <param name="field">Any value except <see cref="HttpField.Other"/>.</param>
    /// <param name="value">Value without surrounding spaces.</param>
    public bool TryGet(HttpField field, out ReadOnlySpan<byte> value)
    {
        using RequestUse use = Enter();
        return use.Head.TryGet(field, out value);
    }

    /// <summary>Gets the value of the first field with this name.</summary>
    /// <param name="name">Name of the field, case-insensitive.</param>
    /// <param name="value">Value without surrounding spaces.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        using RequestUse use = Enter();
        return use.Head.TryGet(name, out value);
    }

    /// <summary>Returns the name of a field, as received.</summary>
    /// <param name="index">From 0 to less than <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> NameAt(int index)
    {
        using RequestUse use = Enter();
        return use.Head.NameAt(index);
    }

    /// <summary>Returns the value of a field, without surrounding spaces.</summary>
    /// <param name="index">From 0 to less than <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> ValueAt(int index)
    {
        using RequestUse use = Enter();
        return use.Head.ValueAt(index);
    }

    /// <summary>Returns whether the request asks for an upgrade to a protocol, by Connection and Upgrade.</summary>
    /// <param name="protocol">Name of the protocol, case-insensitive.</param>
    public bool AsksFor(ReadOnlySpan<byte> protocol)
    {
        using RequestUse use = Enter();
        HttpReader reader = use.Reader;
        if (!reader.WantsUpgrade) return false;
        for (int index = reader.IndexOf(HttpField.Upgrade); index >= 0;
            index = reader.IndexOf(HttpField.Upgrade, index + 1))
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

    /// <summary>Whether the request has a body.</summary>
    public bool HasBody
    {
        get
        {
            using RequestUse use = Enter();
            return use.Exchange.HasBody;
        }
    }

    /// <summary>Content-Length in bytes; -1 if the body is chunked, 0 if there is none.</summary>
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

    /// <summary>Body in memory (<see cref="HttpBodyMode.Buffer"/>): always in handlers that are not awaited, in awaited
    /// ones after <see cref="ReadBodyAsync"/>. Empty if there is none.</summary>
    /// <exception cref="InvalidOperationException">The body is a stream, as in an awaited handler, and
    /// <see cref="ReadBodyAsync"/> has not completed; or the exchange has ended.</exception>
    public ReadOnlySpan<byte> BodyBytes
    {
        get
        {
            using RequestUse use = Enter();
            if (use.Exchange.Stream is null) return use.Exchange.KeptBody;
            return use.Exchange.Whole is { } whole
                ? whole.Span
                : throw new InvalidOperationException("The body of this request is a stream, because its handler is "
                    + "awaited: await ReadBodyAsync (or ReadFormAsync, or read Body).");
        }
    }

    /// <summary>Body as a stream, for awaited handlers. One read at a time, any thread. After the end of the exchange
    /// reads throw <see cref="InvalidOperationException"/>.</summary>
    public Stream Body
    {
        get
        {
            using RequestUse use = Enter();
            if (use.Exchange.Whole is { } whole)
                return MemoryMarshal.TryGetArray(whole, out ArraySegment<byte> read)
                    ? new MemoryStream(read.Array!, read.Offset, read.Count, writable: false)
                    : Stream.Null;
            if (use.Exchange.Stream is { } stream) return stream;
            return use.Exchange.KeptBody.IsEmpty ? Stream.Null : new HttpKeptBody(this);
        }
    }

    /// <summary>Reads the whole body of an awaited handler into memory, which stays valid. A second call, for example
    /// after one of a filter, returns the same bytes.</summary>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <exception cref="HttpProtocolException">The body exceeds <see cref="HttpOptions.BufferedBodyLimitBytes"/>, or is
    /// malformed.</exception>
    /// <exception cref="InvalidOperationException">A part of <see cref="Body"/> was read before, or the exchange has
    /// ended.</exception>
    public async ValueTask<ReadOnlyMemory<byte>> ReadBodyAsync(CancellationToken cancellationToken = default)
    {
        if (KnownBody is { } known) return known;
        // A copy, because the buffered body is returned to the pool after the response.
        if (StreamedBody is not { } stream) return BodyBytes.ToArray();
        if (stream.WasRead)
            throw new InvalidOperationException(
                "A part of the body was read already, from Body: what is left is not the whole. Read it in one way.");
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

    /// <summary>Gets the value of a trailer field of a chunked body. Only after the body was read to its end.</summary>
    /// <param name="name">Name of the field, case-insensitive.</param>
    /// <param name="value">Value without surrounding spaces.</param>
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

    /// <summary>Part of the path matched by the last name of the pattern.</summary>
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

    /// <summary>Copies from a buffered body, for a stream over it.</summary>
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

    private ServerExchange Exchange => _exchange ?? throw new InvalidOperationException(
        "This is default(HttpRequest), and no request: a handler or HttpSession.OnRequest gives one.");

    /// <summary>Enters a member: until the end of its scope the exchange is not reused for another request.</summary>
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
