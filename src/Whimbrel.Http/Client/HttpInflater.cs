using Whimbrel.Http.Compression;

namespace Whimbrel.Http;

/// <summary>
/// Body without its content coding. The output is counted inside the loop that inflates, for all codings: against the
/// body limit and, beyond its first MiB, against the input. The end is that of the body, so a truncated body is
/// reported even if its coding was complete.
/// </summary>
internal sealed class HttpInflater : OneWayStream
{
    private const int FreeBytes = 1024 * 1024;
    private const int InputBytes = 8 * 1024;

    private readonly HttpClientBody _body;
    private readonly HttpClientOptions _options;
    private readonly string _coding;
    private readonly byte[] _input;
    private readonly bool _isFramed;
    private BodyDecoder? _decoder;
    private int _start; // of bytes not consumed by the decoder
    private int _end;
    private long _total;

    /// <summary>Creates a decoder of one body.</summary>
    /// <param name="body">Body as received.</param>
    /// <param name="length">Its length in bytes; -1 if unknown.</param>
    /// <param name="isFramed">Whether the body has an end of its own, so that an empty one is complete.</param>
    /// <param name="coding">Name of the coding, from <see cref="CodingOf"/>.</param>
    /// <param name="options">Limits.</param>
    internal HttpInflater(HttpClientBody body, long length, bool isFramed, string coding, HttpClientOptions options)
        : base(isRead: true)
    {
        _body = body;
        _isFramed = isFramed;
        _coding = coding;
        _options = options;
        _input = new byte[length is > 0 and < InputBytes ? length : InputBytes];
    }

    public override bool CanRead => _body.CanRead;

    /// <summary>Returns the supported coding, or null.</summary>
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
        if (buffer.IsEmpty) return 0;
        while (true)
        {
            int count = Decode(buffer.Span);
            if (count > 0) return count;
            if (Take(await _body.ReadAsync(_input, cancellationToken).ConfigureAwait(false))) return 0;
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
        if (count == 0) return 0;
        while (true)
        {
            int read = Decode(buffer.AsSpan(offset, count));
            if (read > 0) return read;
            if (Take(_body.Read(_input, 0, _input.Length))) return 0;
        }
    }

    private int Decode(Span<byte> into)
    {
        if (_decoder is null) return 0; // no byte was received
        try
        {
            int count = _decoder.Decode(_input.AsSpan(_start.._end), into, out int taken);
            _start += taken;
            return Count(count);
        }
        catch (InvalidDataException e)
        {
            throw Malformed(e.Message, e);
        }
    }

    /// <summary>Takes the next input. Returns true at the end of a complete body.</summary>
    private bool Take(int count)
    {
        _start = 0;
        _end = count;
        if (count > 0)
        {
            _decoder ??= new BodyDecoder(_coding, _input[0]);
            return false;
        }

        if (!(_decoder?.IsWhole ?? _isFramed)) throw Malformed("it ends too early");
        return true;
    }

    private HttpClientException Malformed(string why, Exception? inner = null) =>
        new(HttpClientFailure.Decompression,
            $"The body of {_body.Peer} is not what its Content-Encoding says ({_coding}): {why}.", inner);

    private int Count(int count)
    {
        _total += count;
        if (_total > _options.BodyLimitBytes)
            throw new HttpClientException(HttpClientFailure.TooLarge,
                $"The body of {_body.Peer} becomes larger than {_options.BodyLimitBytes} bytes (BodyLimitBytes).");
        if (_total > FreeBytes && _total / _options.DecompressionRatioLimit > _body.Received)
            throw new HttpClientException(HttpClientFailure.Decompression, $"The body of {_body.Peer} becomes more "
                + $"than {_options.DecompressionRatioLimit} times larger than it was sent (DecompressionRatioLimit).");
        return count;
    }

    protected override void Dispose(bool disposing)
    {
        if (disposing)
        {
            _body.Dispose();
            _decoder?.Dispose();
        }

        base.Dispose(disposing);
    }
}
