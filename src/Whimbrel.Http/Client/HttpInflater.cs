using System.IO.Compression;

namespace Whimbrel.Http;

/// <summary>
/// A body without its content coding. What comes out is counted inside the loop that inflates, whatever the coding: against the limit of bodies,
/// and, above its first MiB, against what went in.
/// </summary>
internal sealed class HttpInflater : OneWayStream
{
    private const int FreeBytes = 1024 * 1024;

    private readonly HttpClientBody _body;
    private readonly HttpClientOptions _options;
    private readonly string _coding;
    private readonly Source _source;
    private Stream? _plain;
    private long _total;

    internal HttpInflater(HttpClientBody body, string coding, HttpClientOptions options)
        : base(isRead: true)
    {
        _body = body;
        _source = new Source(body);
        _coding = coding;
        _options = options;
    }

    public override bool CanRead => _body.CanRead;

    /// <summary>The coding it can take away, or null.</summary>
    internal static string? CodingOf(ReadOnlySpan<byte> contentEncoding)
    {
        foreach (string coding in (ReadOnlySpan<string>)["gzip", "br", "deflate", "x-gzip"])
        {
            if (System.Text.Ascii.EqualsIgnoreCase(contentEncoding, coding)) return coding;
        }

        return null;
    }

    public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        try
        {
            if (_plain is null && _coding == "deflate") await _source.PeekAsync(cancellationToken).ConfigureAwait(false);
            Stream plain = _plain ??= Open();
            return Count(buffer.Length, await plain.ReadAsync(buffer, cancellationToken).ConfigureAwait(false));
        }
        catch (Exception e) when (e is InvalidDataException or (InvalidOperationException and not ObjectDisposedException))
        {
            throw Malformed(e);
        }
    }

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        try
        {
            if (_plain is null && _coding == "deflate") _source.Peek();
            Stream plain = _plain ??= Open();
            return Count(count, plain.Read(buffer, offset, count));
        }
        catch (Exception e) when (e is InvalidDataException or (InvalidOperationException and not ObjectDisposedException))
        {
            throw Malformed(e);
        }
    }

    private HttpClientException Malformed(Exception e) => new(HttpClientFailure.Decompression, $"The body of {_body.Peer} is not what its Content-Encoding says ({_coding}): {e.Message}", e);

    private int Count(int wanted, int count)
    {
        if (count == 0 && wanted > 0 && IsCut()) throw new InvalidDataException("it ends too early.");
        _total += count;
        if (_total > _options.BodyLimitBytes) throw new HttpClientException(HttpClientFailure.TooLarge, $"The body of {_body.Peer} becomes larger than {_options.BodyLimitBytes} bytes (BodyLimitBytes).");
        if (_total > FreeBytes && _total / _options.DecompressionRatioLimit > _body.Received)
            throw new HttpClientException(HttpClientFailure.Decompression, $"The body of {_body.Peer} becomes more than {_options.DecompressionRatioLimit} times larger than it was sent (DecompressionRatioLimit).");
        return count;
    }

    // .NET takes a cut body for a whole one. Those of br and deflate know their end, and ask for nothing behind it. One of gzip may be followed by
    // another, so it asks; what its last four bytes say, the length of what came out last, cannot be more than came out in all.
    private bool IsCut() => _source.IsOver && _body.Received > 0 && (_coding.EndsWith("gzip", StringComparison.Ordinal) ? _source.Tail > (ulong)_total && _total < uint.MaxValue : true);

    // What is called deflate is mostly zlib around it, and sometimes bare: zlib's first byte says 8.
    private Stream Open() => _coding switch
    {
        "br" => new BrotliStream(_source, CompressionMode.Decompress),
        "deflate" when (_source.First & 0x0F) == 8 => new ZLibStream(_source, CompressionMode.Decompress),
        "deflate" => new DeflateStream(_source, CompressionMode.Decompress),
        _ => new GZipStream(_source, CompressionMode.Decompress),
    };

    protected override void Dispose(bool disposing)
    {
        if (disposing)
        {
            _plain?.Dispose();
            _body.Dispose();
        }

        base.Dispose(disposing);
    }

    /// <summary>The body as the inflater sees it: with a first byte that was looked at, and a last word.</summary>
    private sealed class Source(HttpClientBody body) : OneWayStream(isRead: true)
    {
        private readonly byte[] _first = new byte[1];
        private bool _hasFirst;

        internal byte First => _first[0];

        /// <summary>It was asked for more than there is.</summary>
        internal bool IsOver { get; private set; }

        /// <summary>The last four bytes.</summary>
        internal uint Tail { get; private set; }

        internal void Peek() => _hasFirst = body.Read(_first, 0, 1) > 0;

        internal async ValueTask PeekAsync(CancellationToken cancellationToken) => _hasFirst = await body.ReadAsync(_first, cancellationToken).ConfigureAwait(false) > 0;

        public override int Read(byte[] buffer, int offset, int count) => TryGiveFirst(buffer.AsSpan(offset, count)) ? 1 : See(buffer.AsSpan(offset), body.Read(buffer, offset, count));

        public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
        {
            if (TryGiveFirst(buffer.Span)) return 1;
            int count = await body.ReadAsync(buffer, cancellationToken).ConfigureAwait(false);
            return See(buffer.Span, count);
        }

        private bool TryGiveFirst(Span<byte> into)
        {
            if (!_hasFirst || into.IsEmpty) return false;
            _hasFirst = false;
            into[0] = First;
            return true;
        }

        private int See(ReadOnlySpan<byte> buffer, int count)
        {
            if (count == 0 && !buffer.IsEmpty) IsOver = true;
            // In the order of the wire, the lowest byte first.
            foreach (byte b in buffer[Math.Max(0, count - 4)..count]) Tail = (Tail >> 8) | ((uint)b << 24);
            return count;
        }
    }
}
