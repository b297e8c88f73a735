namespace Whimbrel.Http.Parsing;

/// <summary>
/// Reads a body as pieces of the given bytes, without its framing. Unconsumed bytes are passed again, followed by new
/// ones, as by <see cref="Session.OnData"/>. The result does not depend on how they are split. After a broken rule no
/// more can be read.
/// </summary>
/// <remarks>
/// Trailers are read when all have arrived, so that their offsets are in one block; the limits of a head apply. In a
/// lenient response one may be folded: the caller replaces the line ends (<see cref="HttpLines.Unfold"/>). Trailers are
/// never merged with the fields of the head, and must not contain framing or routing fields.
/// </remarks>
internal struct HttpBodyReader
{
    /// <summary>Largest extensions of one chunk, in bytes.</summary>
    internal const int ExtensionBytes = 256;

    /// <summary>Largest extensions of all chunks of a body, in bytes.</summary>
    internal const int AllExtensionBytes = 4 * 1024;

    private const int SizeDigits = 16;

    private readonly HttpReaderLimits _limits;
    private readonly int _headFields;
    private readonly bool _isLenient;
    private Expected _expected;
    private long _left;
    private long _total;
    private int _extensionBytes;
    private int _scanned;
    private int _lineStart;
    private int _trailers;

    /// <summary>Begins the body of a message.</summary>
    /// <param name="head">Complete head.</param>
    /// <param name="limits">Limits of the head.</param>
    internal HttpBodyReader(HttpReader head, in HttpReaderLimits limits)
    {
        _limits = limits;
        _headFields = head.Count;
        _isLenient = limits.IsLenient && head.IsResponse;
        _left = head.Framing == HttpFraming.Length ? head.ContentLength : 0;
        _expected = head.Framing switch
        {
            HttpFraming.Length => Expected.Bytes,
            HttpFraming.Chunked => Expected.ChunkLine,
            HttpFraming.UntilClose => Expected.BytesUntilClose,
            _ => Expected.Nothing,
        };
    }

    private enum Expected
    {
        Nothing,
        Bytes,
        BytesUntilClose,
        ChunkLine,
        ChunkBytes,
        ChunkEnd,
        Trailers,
    }

    /// <summary>Broken rule.</summary>
    internal HttpRule Rule { get; private set; }

    /// <summary>Offset of the piece, or of the trailers, in the bytes of the last call.</summary>
    internal int Start { get; private set; }

    /// <summary>Length of the piece, or of the trailers without the empty line.</summary>
    internal int Length { get; private set; }

    /// <summary>Whether everything was read.</summary>
    internal readonly bool IsDone => _expected == Expected.Nothing;

    /// <summary>Number of body bytes read.</summary>
    internal readonly long Total => _total;

    /// <summary>Known number of missing bytes: of the body, or of its chunk.</summary>
    internal readonly long Left => _left;

    /// <summary>Signals the end of the sender's data, which ends a body without other framing.</summary>
    internal HttpReading Finish()
    {
        if (Rule != HttpRule.None) return HttpReading.Broken;
        if (_expected == Expected.BytesUntilClose) _expected = Expected.Nothing;
        return _expected == Expected.Nothing ? HttpReading.Done : Break(HttpRule.Truncated);
    }

    /// <summary>Continues to read.</summary>
    /// <param name="unread">Bytes that the last call did not consume, followed by new bytes.</param>
    /// <param name="taken">Number of bytes consumed, which are not passed again; with <see cref="HttpReading.Data"/>
    /// including the piece.</param>
    /// <param name="most">Largest wanted piece.</param>
    internal HttpReading Read(ReadOnlySpan<byte> unread, out int taken, int most = int.MaxValue)
    {
        taken = 0;
        Start = Length = 0;
        if (Rule != HttpRule.None) return HttpReading.Broken;
        while (true)
        {
            ReadOnlySpan<byte> rest = unread[taken..];
            switch (_expected)
            {
                case Expected.Nothing:
                    return HttpReading.Done;
                case Expected.Bytes or Expected.ChunkBytes or Expected.BytesUntilClose:
                    return TakePiece(rest.Length, most, ref taken);
                case Expected.ChunkLine:
                    if (!ReadChunkLine(rest, ref taken))
                        return Rule == HttpRule.None ? HttpReading.NeedMore : HttpReading.Broken;
                    break;
                case Expected.ChunkEnd:
                    if (rest.Length > 0 && rest[0] != '\r') return Break(HttpRule.BadChunkEnd);
                    if (rest.Length > 1 && rest[1] != '\n') return Break(HttpRule.BadChunkEnd);
                    if (rest.Length < 2) return HttpReading.NeedMore;
                    taken += 2;
                    _expected = Expected.ChunkLine;
                    break;
                default:
                    return ReadTrailers(rest, ref taken);
            }
        }
    }

    private HttpReading Break(HttpRule rule)
    {
        Rule = rule;
        return HttpReading.Broken;
    }

    private HttpReading TakePiece(int available, int most, ref int taken)
    {
        if (available == 0) return HttpReading.NeedMore;
        if (_expected == Expected.BytesUntilClose)
        {
            if (available > _limits.BodyBytes - _total) return Break(HttpRule.BodyTooLarge);
            Length = Math.Min(available, most);
        }
        else
        {
            Length = (int)Math.Min(Math.Min(available, most), _left);
            _left -= Length;
            if (_left == 0) _expected = _expected == Expected.Bytes ? Expected.Nothing : Expected.ChunkEnd;
        }

        Start = taken;
        taken += Length;
        _total += Length;
        return HttpReading.Data;
    }

    // ------------------------------------------------------------------ chunks

    private bool ReadChunkLine(ReadOnlySpan<byte> rest, ref int taken)
    {
        // Limit for the size, the extensions and the CR.
        int end = HttpLines.FindEnd(rest, ref _scanned, SizeDigits + ExtensionBytes, out HttpRule rule);
        if (end < 0)
        {
            Rule = rule == HttpRule.HeadTooLarge ? HttpRule.ChunkExtensionTooLong : rule;
            return false;
        }

        _scanned = 0;
        Rule = UnderstandChunk(rest[..end]);
        if (Rule != HttpRule.None) return false;
        taken += end + 2;
        _lineStart = 0;
        _expected = _left == 0 ? Expected.Trailers : Expected.ChunkBytes;
        return true;
    }

    private HttpRule UnderstandChunk(ReadOnlySpan<byte> line)
    {
        int digits = 0;
        ulong size = 0;
        while (digits < line.Length && HttpBytes.HexOf(line[digits]) is >= 0 and int digit)
        {
            if (++digits > SizeDigits) return HttpRule.BadChunkSize;
            size = (size << 4) | (uint)digit;
        }

        if (digits == 0 || size > long.MaxValue) return HttpRule.BadChunkSize;
        ReadOnlySpan<byte> extensions = line[digits..];
        if (!extensions.IsEmpty)
        {
            if (extensions[0] != ';') return HttpRule.BadChunkSize;
            if (extensions.Length > ExtensionBytes) return HttpRule.ChunkExtensionTooLong;
            if (!AreExtensions(extensions)) return HttpRule.BadChunkExtension;
            _extensionBytes += extensions.Length;
            if (_extensionBytes > AllExtensionBytes) return HttpRule.ChunkExtensionTooLong;
        }

        if (size > (ulong)(_limits.BodyBytes - _total)) return HttpRule.BodyTooLarge;
        _left = (long)size;
        return HttpRule.None;
    }

    // ;name ;name=token ;name="text", without the optional (bad) whitespace of the RFC.
    private static bool AreExtensions(ReadOnlySpan<byte> text)
    {
        while (!text.IsEmpty)
        {
            if (text[0] != ';') return false;
            text = text[1..];
            if (!SkipToken(ref text)) return false;
            if (text.IsEmpty || text[0] != '=') continue;
            text = text[1..];
            if (!SkipToken(ref text) && !SkipQuoted(ref text)) return false;
        }

        return true;
    }

    private static bool SkipToken(ref ReadOnlySpan<byte> text)
    {
        int length = text.IndexOfAnyExcept(HttpBytes.Token);
        if (length < 0) length = text.Length;
        text = text[length..];
        return length > 0;
    }

    private static bool SkipQuoted(ref ReadOnlySpan<byte> text)
    {
        if (text.IsEmpty || text[0] != '"') return false;
        for (int at = 1; at < text.Length; at++)
        {
            if (text[at] == '\\') at++;
            else if (text[at] == '"')
            {
                text = text[(at + 1)..];
                return true;
            }
        }

        return false;
    }

    // ------------------------------------------------------------------ trailers

    private HttpReading ReadTrailers(ReadOnlySpan<byte> rest, ref int taken)
    {
        while (true)
        {
            int end = HttpLines.FindEnd(rest, ref _scanned, _limits.HeadBytes - 2, out HttpRule rule);
            if (rule != HttpRule.None) return Break(rule);
            if (end < 0) return HttpReading.NeedMore;
            ReadOnlySpan<byte> line = rest[_lineStart..end];
            if (line.IsEmpty)
            {
                Start = taken;
                Length = _lineStart;
                taken += end + 2;
                _expected = Expected.Nothing;
                return HttpReading.Done;
            }

            rule = CheckTrailer(line);
            if (rule != HttpRule.None) return Break(rule);
            _lineStart = _scanned = end + 2;
        }
    }

    private HttpRule CheckTrailer(ReadOnlySpan<byte> line)
    {
        if (line[0] is (byte)' ' or (byte)'\t')
        {
            if (_trailers == 0) return HttpRule.LeadingSpace;
            return _isLenient ? HttpRule.None : HttpRule.FoldedField;
        }

        HttpRule rule = HttpLines.Split(line, 0, out HttpFieldPlace place);
        if (rule != HttpRule.None) return rule;
        if (_headFields + ++_trailers > _limits.Fields) return HttpRule.TooManyFields;
        return MayTrail(place.Field) ? HttpRule.None : HttpRule.ForbiddenTrailer;
    }

    /// <summary>Returns whether a field may be a trailer: not one for framing, routing or authentication.</summary>
    internal static bool MayTrail(HttpField field) =>
        field is not (HttpField.ContentLength or HttpField.TransferEncoding or HttpField.Host or HttpField.Trailer
            or HttpField.Connection or HttpField.Upgrade or HttpField.Expect or HttpField.Te
            or HttpField.ContentEncoding or HttpField.ContentType
            or HttpField.ContentRange or HttpField.Range or HttpField.Authorization or HttpField.ProxyAuthorization
            or HttpField.ProxyAuthenticate
            or HttpField.WwwAuthenticate or HttpField.Cookie or HttpField.SetCookie or HttpField.CacheControl);
}
