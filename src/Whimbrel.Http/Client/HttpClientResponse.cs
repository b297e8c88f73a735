using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// Response of an <see cref="HttpPool"/>: head, and body as a stream or read into memory. Dispose it, even if unread:
/// until then its connection serves no other request. One reader at a time, any thread.
/// </summary>
public sealed class HttpClientResponse : IDisposable
{
    private const int FirstBytes = 16 * 1024;

    private readonly HttpPool _pool;
    private readonly HttpClientBody _raw;
    private Stream _body;
    private bool _isTaken; // read by ReadBytesAsync

    internal HttpClientResponse(HttpPool pool, HttpClientRequest request, HttpResponseHead head, HttpClientBody body,
        HttpClientTimes times)
    {
        Times = times;
        _pool = pool;
        Request = request;
        Head = head;
        _body = _raw = body;
        BodyLength = request.IsHead ? 0 : head.BodyLength;
    }

    /// <summary>Request of this response; after redirects, the last one.</summary>
    public HttpClientRequest Request { get; }

    /// <summary>Status and fields, as received.</summary>
    public HttpResponseHead Head { get; }

    /// <summary>Durations of the steps up to the response.</summary>
    public HttpClientTimes Times { get; }

    /// <summary>200 to 599. A server that breaks the rules may send up to 999: from 600 on handle it as 500 (RFC 9110,
    /// 15).</summary>
    public int Status => Head.Status;

    /// <summary>Whether the status is 200 to 299.</summary>
    public bool IsSuccess => Status is >= 200 and < 300;

    /// <summary>Number of bytes of <see cref="Body"/>: -1 if unknown, as with chunks and with decompression.</summary>
    public long BodyLength { get; private set; }

    /// <summary>
    /// Body, decompressed if <see cref="HttpClientOptions.Decompress"/> is set. Without a read the server waits. A
    /// premature end throws <see cref="HttpClientException"/>. The body can be read once: at its end further reads
    /// return 0.
    /// </summary>
    /// <exception cref="InvalidOperationException"><see cref="ReadBytesAsync"/> or <see cref="ReadTextAsync"/> has read
    /// it.</exception>
    public Stream Body => _isTaken ? throw WasRead() : _body;

    /// <summary>Whether <see cref="Body"/> is decompressed.</summary>
    internal bool IsDecompressed => _body != _raw;

    /// <summary>Reads the body to its end into memory.</summary>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <exception cref="HttpClientException">The body exceeds <see cref="HttpClientOptions.BufferedBodyLimitBytes"/>,
    /// or is not complete.</exception>
    /// <exception cref="InvalidOperationException">The body was read before: by this method or
    /// <see cref="ReadTextAsync"/>, or to its end from <see cref="Body"/>.</exception>
    public async ValueTask<byte[]> ReadBytesAsync(CancellationToken cancellationToken = default)
    {
        int limit = _pool.Options.BufferedBodyLimitBytes;
        if (_isTaken || _raw.EndWasRead) throw WasRead();
        if (BodyLength > limit) throw TooLarge(limit);
        _isTaken = true;
        byte[] bytes = new byte[BodyLength >= 0 ? (int)Math.Min(BodyLength, FirstBytes) : FirstBytes];
        int length = 0;
        while (true)
        {
            if (length == bytes.Length && length == BodyLength) return bytes;
            if (length == bytes.Length)
                Array.Resize(ref bytes,
                    (int)Math.Min(Math.Max((long)length * 2, FirstBytes), Math.Min((long)limit + 1, Array.MaxLength)));
            int count = await _body.ReadAsync(bytes.AsMemory(length), cancellationToken).ConfigureAwait(false);
            if (count == 0) break;
            length += count;
            if (length > limit) throw TooLarge(limit);
        }

        return length == bytes.Length ? bytes : bytes[..length];
    }

    /// <summary>Reads the body to its end as text: in the charset of its Content-Type if .NET supports it, otherwise in
    /// UTF-8.</summary>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <exception cref="HttpClientException">As for <see cref="ReadBytesAsync"/>.</exception>
    /// <exception cref="InvalidOperationException">As for <see cref="ReadBytesAsync"/>.</exception>
    public async ValueTask<string> ReadTextAsync(CancellationToken cancellationToken = default)
    {
        byte[] bytes = await ReadBytesAsync(cancellationToken).ConfigureAwait(false);
        Encoding encoding = Encoding.UTF8;
        if (System.Net.Http.Headers.MediaTypeHeaderValue.TryParse(Head["Content-Type"], out var type)
            && type.CharSet is { } charset)
        {
            try
            {
                encoding = Encoding.GetEncoding(charset.Trim('"'));
            }
            catch (ArgumentException)
            {
                // An unknown charset is handled like a missing one.
            }
        }

        int mark = bytes.AsSpan().StartsWith(encoding.Preamble) ? encoding.Preamble.Length : 0;
        return encoding.GetString(bytes, mark, bytes.Length - mark);
    }

    private InvalidOperationException WasRead() =>
        new($"The body of {_raw.Peer} was read already, and comes once: keep what ReadBytesAsync or ReadTextAsync "
            + $"returned, or copy Body into memory and use the copy.");

    private HttpClientException TooLarge(int limit) => new(HttpClientFailure.TooLarge,
        $"The body of {_raw.Peer} is larger than {limit} bytes (BufferedBodyLimitBytes): read it as a stream.");

    /// <summary>Releases the connection. A small rest of the body is skipped, otherwise the connection is closed. Never
    /// blocks.</summary>
    public void Dispose() => _body.Dispose();

    // ------------------------------------------------------------------ for the pool

    /// <summary>Completes this response as the one that the caller gets.</summary>
    internal HttpClientResponse Final(CancellationTokenSource? whole)
    {
        if (whole is not null) _raw.Watch(whole);
        if (!_pool.Options.Decompress || BodyLength == 0
            || HttpInflater.CodingOf(Head[HttpField.ContentEncoding]) is not { } coding)
            return this;
        _body = new HttpInflater(_raw, BodyLength, Head.Head.Reader.Framing != Parsing.HttpFraming.UntilClose, coding,
            _pool.Options);
        BodyLength = -1;
        return this;
    }
}
