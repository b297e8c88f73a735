using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// An answer to a request of an <see cref="HttpPool"/>: its head, and its body as a stream or read into memory. Dispose it, also unread: its
/// connection serves nobody else before. One reader at a time, any thread.
/// </summary>
public sealed class HttpClientResponse : IDisposable
{
    private const int FirstBytes = 16 * 1024;

    private readonly HttpPool _pool;
    private readonly HttpClientBody _raw;
    private Stream _body;
    private bool _isTaken; // by ReadBytesAsync

    internal HttpClientResponse(HttpPool pool, HttpClientRequest request, HttpResponseHead head, HttpClientBody body, HttpClientTimes times)
    {
        Times = times;
        _pool = pool;
        Request = request;
        Head = head;
        _body = _raw = body;
        BodyLength = request.IsHead ? 0 : head.BodyLength;
    }

    /// <summary>What was asked: behind redirects, the last of the requests.</summary>
    public HttpClientRequest Request { get; }

    /// <summary>Status and fields, as they were sent.</summary>
    public HttpResponseHead Head { get; }

    /// <summary>How long it took to get so far.</summary>
    public HttpClientTimes Times { get; }

    /// <summary>200 up to 599. A server that breaks the rules may send up to 999: from 600 on it means what 500 means (RFC 9110, 15).</summary>
    public int Status => Head.Status;

    /// <summary>200 up to 299.</summary>
    public bool IsSuccess => Status is >= 200 and < 300;

    /// <summary>How many bytes <see cref="Body"/> will give: -1 when it is not known, as of one in chunks, and of one that is decompressed.</summary>
    public long BodyLength { get; private set; }

    /// <summary>
    /// The body, decompressed if <see cref="HttpClientOptions.Decompress"/> says so. While nobody reads, the server waits. What ends it too early is an
    /// <see cref="HttpClientException"/>. The body comes once: at its end further reads give 0.
    /// </summary>
    /// <exception cref="InvalidOperationException"><see cref="ReadBytesAsync"/> or <see cref="ReadTextAsync"/> has read it.</exception>
    public Stream Body => _isTaken ? throw WasRead() : _body;

    /// <summary>Whether <see cref="Body"/> is another than was sent: a content coding was taken away.</summary>
    internal bool IsDecompressed => _body != _raw;

    /// <summary>Reads the body to its end into memory.</summary>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="HttpClientException">It is larger than <see cref="HttpClientOptions.BufferedBodyLimitBytes"/>, or did not come to its end.</exception>
    /// <exception cref="InvalidOperationException">It was read before: by this method or <see cref="ReadTextAsync"/>, or to its end from <see cref="Body"/>.</exception>
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
            if (length == bytes.Length) Array.Resize(ref bytes, (int)Math.Min(Math.Max((long)length * 2, FirstBytes), Math.Min((long)limit + 1, Array.MaxLength)));
            int count = await _body.ReadAsync(bytes.AsMemory(length), cancellationToken).ConfigureAwait(false);
            if (count == 0) break;
            length += count;
            if (length > limit) throw TooLarge(limit);
        }

        return length == bytes.Length ? bytes : bytes[..length];
    }

    /// <summary>Reads the body to its end as text: in the charset of its Content-Type, if .NET knows that, else in UTF-8.</summary>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="HttpClientException">As of <see cref="ReadBytesAsync"/>.</exception>
    /// <exception cref="InvalidOperationException">As of <see cref="ReadBytesAsync"/>.</exception>
    public async ValueTask<string> ReadTextAsync(CancellationToken cancellationToken = default)
    {
        byte[] bytes = await ReadBytesAsync(cancellationToken).ConfigureAwait(false);
        Encoding encoding = Encoding.UTF8;
        if (System.Net.Http.Headers.MediaTypeHeaderValue.TryParse(Head["Content-Type"], out var type) && type.CharSet is { } charset)
        {
            try
            {
                encoding = Encoding.GetEncoding(charset.Trim('"'));
            }
            catch (ArgumentException)
            {
                // A name that nobody knows is as good as none.
            }
        }

        int mark = bytes.AsSpan().StartsWith(encoding.Preamble) ? encoding.Preamble.Length : 0;
        return encoding.GetString(bytes, mark, bytes.Length - mark);
    }

    private InvalidOperationException WasRead() =>
        new($"The body of {_raw.Peer} was read already, and comes once: keep what ReadBytesAsync or ReadTextAsync returned, or copy Body into memory and use the copy.");

    private HttpClientException TooLarge(int limit) => new(HttpClientFailure.TooLarge, $"The body of {_raw.Peer} is larger than {limit} bytes (BufferedBodyLimitBytes): read it as a stream.");

    /// <summary>Nobody reads the rest of the body. Never blocks.</summary>
    public void Dispose() => _body.Dispose();

    // ------------------------------------------------------------------ for the pool

    /// <summary>It is the one that the caller gets.</summary>
    internal HttpClientResponse Final(CancellationTokenSource? whole)
    {
        if (whole is not null) _raw.Watch(whole);
        if (!_pool.Options.Decompress || BodyLength == 0 || HttpInflater.CodingOf(Head[HttpField.ContentEncoding]) is not { } coding) return this;
        _body = new HttpInflater(_raw, BodyLength, Head.Head.Reader.Framing != Parsing.HttpFraming.UntilClose, coding, _pool.Options);
        BodyLength = -1;
        return this;
    }
}
