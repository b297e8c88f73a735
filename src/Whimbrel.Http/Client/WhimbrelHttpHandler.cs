using System.Globalization;
using System.Net;
using System.Net.Http.Headers;
using System.Runtime.ExceptionServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Handler for .NET's own <see cref="HttpClient"/> on Whimbrel connections: <c>new HttpClient(new
/// WhimbrelHttpHandler())</c>. It supports HTTP/1.1; other versions are lowered to it or rejected by the request's
/// <see cref="HttpRequestMessage.VersionPolicy"/>. Failures are those of SocketsHttpHandler, with an inner
/// <see cref="HttpClientException"/>.
/// </summary>
public sealed class WhimbrelHttpHandler : HttpMessageHandler
{
    private const int SmallContent = 64 * 1024;

    /// <summary>Creates a handler with its own pool.</summary>
    /// <param name="options">Redirects, cookies, decompression, connections, timeouts; null for the defaults. The
    /// defaults are those of <see cref="HttpPool"/>, not of SocketsHttpHandler.</param>
    /// <exception cref="ArgumentException">Options are out of range; the message names all of them.</exception>
    public WhimbrelHttpHandler(HttpClientOptions? options = null) => Pool = new HttpPool(options);

    /// <summary>Pool of the handler; disposed with it.</summary>
    public HttpPool Pool { get; }

    /// <inheritdoc/>
    protected override HttpResponseMessage Send(HttpRequestMessage request, CancellationToken cancellationToken)
    {
        if (Loop.Current is not null)
            throw new InvalidOperationException("Send would block the loop: await SendAsync.");
        return SendAsync(request, cancellationToken).GetAwaiter().GetResult();
    }

    /// <inheritdoc/>
    protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request,
        CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(request);
        if (!CanSpeak(request.Version, request.VersionPolicy))
            throw new HttpRequestException(HttpRequestError.VersionNegotiationError,
                $"HTTP/{request.Version} was asked for with {request.VersionPolicy}: only HTTP/1.1 is spoken here.");
        try
        {
            HttpClientRequest ours = await TranslateAsync(request, cancellationToken).ConfigureAwait(false);
            return Translate(request, await Pool.SendAsync(ours, cancellationToken).ConfigureAwait(false));
        }
        catch (HttpClientException e)
        {
            throw Explain(e);
        }
    }

    /// <inheritdoc/>
    protected override void Dispose(bool disposing)
    {
        if (disposing) _ = Pool.DisposeAsync().AsTask();
        base.Dispose(disposing);
    }

    private static bool CanSpeak(Version version, HttpVersionPolicy policy) =>
        version == HttpVersion.Version11
        || policy == (version > HttpVersion.Version11
            ? HttpVersionPolicy.RequestVersionOrLower : HttpVersionPolicy.RequestVersionOrHigher);

    // ------------------------------------------------------------------ there

    private static async ValueTask<HttpClientRequest> TranslateAsync(HttpRequestMessage request,
        CancellationToken cancellationToken)
    {
        HttpRequestHeaders headers = request.Headers;
        HttpClientRequest ours;
        try
        {
            ours = new HttpClientRequest(request.Method.Method,
                request.RequestUri ?? throw new InvalidOperationException("The request has no URI."))
            {
                CloseAfter = headers.ConnectionClose == true,
                ExpectContinue = headers.ExpectContinue == true && request.Content is not null,
            };
            Copy(headers.NonValidated, ours);
            if (request.Content is { } content) Copy(content.Headers.NonValidated, ours);
        }
        catch (ArgumentException e)
        {
            throw new HttpRequestException(e.Message, e);
        }

        if (request.Content is { } body)
            await SetBodyAsync(ours, body, headers.TransferEncodingChunked == true, cancellationToken)
                .ConfigureAwait(false);
        return ours;
    }

    private static void Copy(HttpHeadersNonValidated headers, HttpClientRequest ours)
    {
        foreach ((string name, HeaderStringValues values) in headers)
        {
            // Properties of the request, and its body, determine these fields.
            if (Is(name, "Connection") || Is(name, "Expect") || Is(name, "Transfer-Encoding")
                || Is(name, "Content-Length"))
                continue;
            ours.Add(name, values.ToString().Trim(' '));
        }
    }

    private static async ValueTask SetBodyAsync(HttpClientRequest ours, HttpContent content, bool isChunked,
        CancellationToken cancellationToken)
    {
        long? length = isChunked ? null : content.Headers.ContentLength;
        if (length <= SmallContent && content is ByteArrayContent)
            ours.SetBody(await content.ReadAsByteArrayAsync(cancellationToken).ConfigureAwait(false));
        else ours.SetBody((to, stop) => content.CopyToAsync(to, stop), null, length ?? -1);
        // Content that cannot be written twice throws on the second write.
        ours.CanWriteAgain = true;
    }

    // ------------------------------------------------------------------ and back

    private static HttpResponseMessage Translate(HttpRequestMessage request, HttpClientResponse ours)
    {
        HttpResponseHead head = ours.Head;
        HttpResponseMessage response = new((HttpStatusCode)head.Status)
        {
            Version = head.MinorVersion == 1 ? HttpVersion.Version11 : HttpVersion.Version10,
            RequestMessage = request,
        };
        // .NET has it
        if (head.Status != 200 || !head.Reason.SequenceEqual("OK"u8))
            response.ReasonPhrase = Encoding.Latin1.GetString(head.Reason);
        response.Content = new StreamContent(new Body(ours, response));
        for (int i = 0; i < head.FieldCount; i++)
        {
            string name = KnownFields.TextOf(head.Head.Reader[i].Field, head.NameAt(i));
            // These fields describe the compressed body.
            if (ours.IsDecompressed && (Is(name, "Content-Encoding") || Is(name, "Content-Length"))) continue;
            string value = Encoding.Latin1.GetString(head.ValueAt(i));
            if (head.Head.Reader[i].Field == HttpField.ContentLength)
            {
                // A repeated Content-Length has one number.
                if (i != head.Head.Reader.IndexOf(HttpField.ContentLength)) continue;
                if (value.Contains(',', StringComparison.Ordinal))
                    value = head.Head.Reader.ContentLength.ToString(CultureInfo.InvariantCulture);
            }

            if (!response.Headers.TryAddWithoutValidation(name, value))
                response.Content.Headers.TryAddWithoutValidation(name, value);
        }

        request.RequestUri = ours.Request.Uri;
        return response;
    }

    private static Exception Explain(HttpClientException e)
    {
        switch (e.Failure)
        {
            case HttpClientFailure.ConnectTimeout or HttpClientFailure.HeadTimeout or HttpClientFailure.RequestTimeout:
                return new TaskCanceledException(e.Message, new TimeoutException(e.Message, e));
            case HttpClientFailure.RequestBody
                when e.InnerException is { } users and not (IOException or InvalidOperationException):
                ExceptionDispatchInfo.Throw(users);
                return users;
            case HttpClientFailure.Closed:
                return new ObjectDisposedException(nameof(WhimbrelHttpHandler), e);
            default:
                return new HttpRequestException(ErrorOf(e.Failure), e.Message, e);
        }
    }

    private static HttpRequestError ErrorOf(HttpClientFailure failure) => failure switch
    {
        HttpClientFailure.UnknownHost => HttpRequestError.NameResolutionError,
        HttpClientFailure.Refused or HttpClientFailure.Unreachable => HttpRequestError.ConnectionError,
        HttpClientFailure.Tls => HttpRequestError.SecureConnectionError,
        HttpClientFailure.ConnectionLost or HttpClientFailure.BodyCut => HttpRequestError.ResponseEnded,
        HttpClientFailure.Protocol or HttpClientFailure.Decompression => HttpRequestError.InvalidResponse,
        HttpClientFailure.TooLarge or HttpClientFailure.TooManyWaiting => HttpRequestError.ConfigurationLimitExceeded,
        _ => HttpRequestError.Unknown,
    };

    private static bool Is(string name, string other) => name.Equals(other, StringComparison.OrdinalIgnoreCase);

    /// <summary>Body stream that sets the trailers of the response at its end, and throws the exceptions of
    /// .NET.</summary>
    private sealed class Body(HttpClientResponse ours, HttpResponseMessage response) : OneWayStream(isRead: true)
    {
        private bool _isOver;

        public override bool CanRead => ours.Body.CanRead;

        public override async ValueTask<int> ReadAsync(Memory<byte> buffer,
            CancellationToken cancellationToken = default)
        {
            try
            {
                return See(buffer.Length, await ours.Body.ReadAsync(buffer, cancellationToken).ConfigureAwait(false));
            }
            catch (HttpClientException e)
            {
                throw Told(e);
            }
        }

        public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
        {
            ValidateBufferArguments(buffer, offset, count);
            return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
        }

        public override int Read(byte[] buffer, int offset, int count)
        {
            try
            {
                return See(count, ours.Body.Read(buffer, offset, count));
            }
            catch (HttpClientException e)
            {
                throw Told(e);
            }
        }

        private static HttpIOException Told(HttpClientException e) => new(ErrorOf(e.Failure), e.Message, e);

        private int See(int wanted, int count)
        {
            if (count > 0 || wanted == 0 || _isOver) return count;
            _isOver = true;
            ReadOnlySpan<byte> rest = ours.Head.Trailers;
            while (HttpLines.TryNext(ref rest, out ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value))
                response.TrailingHeaders.TryAddWithoutValidation(Encoding.ASCII.GetString(name),
                    Encoding.Latin1.GetString(value));
            return count;
        }

        protected override void Dispose(bool disposing)
        {
            if (disposing) ours.Dispose();
            base.Dispose(disposing);
        }
    }
}
