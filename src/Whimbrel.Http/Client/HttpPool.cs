using System.Diagnostics;
using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// Awaitable client that sends requests and keeps connections for later ones, several per origin. Its options control
/// redirects, decompression and cookies. Create one and keep it. Any thread.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Each request completes once: with the head of its response, with an <see cref="HttpClientException"/> that has
/// the kind of failure, or with <see cref="OperationCanceledException"/>. Later failures of the body are thrown by its
/// reads.</item>
/// <item>A connection is reused only if the response is complete, the request was sent, and no byte is unread. Bytes
/// without a request end it.</item>
/// <item>A request is sent again, at most three times, only if a reused connection turns out to have ended. Either
/// nothing of the request was sent. Or no byte of a response was received, the method is idempotent (GET, HEAD,
/// OPTIONS, TRACE, PUT, DELETE), and the body can be repeated.</item>
/// <item>The token cancels at any time until the head is received; reads of the body have tokens of their own.</item>
/// <item>Awaits resume on the thread pool, even if the call was made on a loop.</item>
/// </list>
/// </remarks>
public sealed partial class HttpPool : IAsyncDisposable
{
    private long _requests;
    private long _failures;
    private long _connects;
    private long _repeats;
    private long _redirects;

    /// <summary>Creates a pool. The first request opens the first connection.</summary>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    /// <exception cref="ArgumentException">Options are out of range; the message names all of them.</exception>
    public HttpPool(HttpClientOptions? options = null)
    {
        Options = options ?? new HttpClientOptions();
        Options.Check();
        HttpMetrics.Prepare();
    }

    /// <summary>Options of the pool.</summary>
    public HttpClientOptions Options { get; }

    /// <summary>Sends a request, and completes with the head of the response.</summary>
    /// <param name="request">The request; must not change during the call.</param>
    /// <param name="cancellationToken">Cancels the request until the head is received.</param>
    /// <returns>The response; must be disposed.</returns>
    /// <exception cref="HttpClientException">The request has failed.</exception>
    public async ValueTask<HttpClientResponse> SendAsync(HttpClientRequest request,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(request);
        cancellationToken.ThrowIfCancellationRequested();
        Interlocked.Increment(ref _requests);
        CancellationTokenSource? whole = null;
        if (Options.RequestTimeout != Timeout.InfiniteTimeSpan)
        {
            whole = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
            whole.CancelAfter(Options.RequestTimeout);
        }

        long since = 0;
        Activity? activity = null;
        try
        {
            for (int followed = 0; ; followed++)
            {
                since = HttpMetrics.Current is { IsClientHeard: true } ? Stopwatch.GetTimestamp() : 0;
                activity = StartActivity(request);
                HttpClientResponse response = await SendOnceAsync(request, HttpTraces.FieldsFor(request),
                    whole?.Token ?? cancellationToken).ConfigureAwait(false);
                if (since != 0) TellTime(since, request, response, null);
                if (activity is not null) EndActivity(activity, response.Status, null);
                since = 0;
                activity = null;
                if (followed >= Options.RedirectLimit || HttpRedirect.Next(request, response) is not { } next)
                    return response.Final(whole);
                response.Dispose();
                request = next;
                Interlocked.Increment(ref _redirects);
            }
        }
        catch (Exception e)
        {
            Interlocked.Increment(ref _failures);
            bool isTimeout = e is OperationCanceledException && whole is { IsCancellationRequested: true }
                && !cancellationToken.IsCancellationRequested;
            whole?.Dispose();
            string? error = isTimeout ? nameof(HttpClientFailure.RequestTimeout) : ErrorOf(e);
            if (since != 0) TellTime(since, request, null, error);
            if (activity is not null) EndActivity(activity, 0, error);
            if (isTimeout)
                throw new HttpClientException(HttpClientFailure.RequestTimeout, $"{request} has no answer within "
                    + $"{Options.RequestTimeout} (RequestTimeout).{(e.InnerException is null ? "" : $" {e.Message}")}",
                    e);
            if (e is OperationCanceledException && cancellationToken.IsCancellationRequested)
                throw new OperationCanceledException(e.Message, e, cancellationToken);
            throw;
        }
    }

    /// <summary>Sends GET, and completes with the head of the response, whatever its status.</summary>
    /// <param name="url">URL.</param>
    /// <param name="cancellationToken">Cancels the request until the head is received.</param>
    /// <returns>The response; must be disposed.</returns>
    /// <exception cref="HttpClientException">The request has failed.</exception>
    public ValueTask<HttpClientResponse> GetAsync(string url, CancellationToken cancellationToken = default) =>
        SendAsync(new HttpClientRequest(HttpVerb.Get, url), cancellationToken);

    /// <summary>Sends a request and reads the whole body of the response, whatever its status.</summary>
    /// <param name="request">The request; must not change during the call.</param>
    /// <param name="cancellationToken">Cancels the request until the last byte.</param>
    /// <returns>Status and body.</returns>
    /// <exception cref="HttpClientException">The response is not complete, or exceeds
    /// <see cref="HttpClientOptions.BufferedBodyLimitBytes"/>.</exception>
    public async ValueTask<(int Status, byte[] Body)> FetchAsync(HttpClientRequest request,
        CancellationToken cancellationToken = default)
    {
        using HttpClientResponse response = await SendAsync(request, cancellationToken).ConfigureAwait(false);
        return (response.Status, await response.ReadBytesAsync(cancellationToken).ConfigureAwait(false));
    }

    private async ValueTask<HttpClientResponse> SendOnceAsync(HttpClientRequest request, byte[]? trace,
        CancellationToken stop)
    {
        string? cookies = CookiesFor(request);
        for (int repeats = 0; ; repeats++)
        {
            (PooledSession session, bool isReused) = await RentAsync(request.Uri, repeats == MostRepeats, stop)
                .ConfigureAwait(false);
            HttpExchange exchange = new(this, session, request, cookies, trace, stop);
            try
            {
                HttpClientResponse response = await exchange.SendAsync().ConfigureAwait(false);
                KeepCookies(request, response);
                return response;
            }
            catch (HttpClientException e) when (isReused && e.Failure == HttpClientFailure.ConnectionLost
                && (!exchange.WasSent || (request.IsRepeatable && !exchange.WasAnswered)))
            {
                Interlocked.Increment(ref _repeats);
            }
        }
    }

    // ------------------------------------------------------------------ the meter

    private void TellTime(long since, HttpClientRequest request, HttpClientResponse? response, string? error)
    {
        try
        {
            (int status, int minor) =
                response is null ? (0, 0) : (response.Status, response.Head.Head.Reader.MinorVersion);
            HttpMetrics.Current!.AnswerCame((since, Stopwatch.GetTimestamp()), HttpMetrics.NameOf(request.Method),
                HttpMetricsPeer.Of(request.Uri), status, minor, error);
        }
        catch (Exception e)
        {
            HttpMetrics.Report(Options.Engine, e);
        }
    }

    private Activity? StartActivity(HttpClientRequest request)
    {
        try
        {
            return HttpTraces.Asks(request);
        }
        catch (Exception e)
        {
            HttpMetrics.Report(Options.Engine, e);
            return null;
        }
    }

    private void EndActivity(Activity activity, int status, string? error)
    {
        try
        {
            HttpTraces.Answered(activity, status, error);
        }
        catch (Exception e)
        {
            HttpMetrics.Report(Options.Engine, e);
        }
    }

    private static string? ErrorOf(Exception exception) => exception switch
    {
        HttpClientException failed => failed.Failure.ToString(),
        OperationCanceledException => typeof(OperationCanceledException).FullName,
        _ => exception.GetType().FullName,
    };

    // ------------------------------------------------------------------ cookies

    private string? CookiesFor(HttpClientRequest request)
    {
        if (Options.Cookies is not { } jar) return null;
        string cookies = jar.GetCookieHeader(request.Uri);
        return cookies.Length > 0 && !cookies.AsSpan().ContainsAnyExceptInRange(' ', '~') ? cookies : null;
    }

    private void KeepCookies(HttpClientRequest request, HttpClientResponse response)
    {
        if (Options.Cookies is not { } jar) return;
        HttpResponseHead head = response.Head;
        for (int index = head.Head.Reader.IndexOf(HttpField.SetCookie); index >= 0;
            index = head.Head.Reader.IndexOf(HttpField.SetCookie, index + 1))
        {
            try
            {
                jar.SetCookies(request.Uri, Encoding.UTF8.GetString(head.ValueAt(index)));
            }
            catch (System.Net.CookieException)
            {
                // A cookie that the container rejects is ignored; the response is still valid.
            }
        }
    }
}
