using System.Net.Http.Headers;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Acme;

/// <summary>A response of the authority.</summary>
internal sealed record AcmeReply(string Request, int Status, byte[] Body, string? Nonce, string? Location,
    TimeSpan? RetryAfter);

/// <summary>
/// Requests to the authority, with limits: no redirects, 256 KiB of a body, a time limit that includes the body, HTTPS
/// only. All failures are <see cref="AcmeException"/> with the URL.
/// </summary>
internal sealed class AcmeTransport : IDisposable
{
    internal const int MostBytes = 256 * 1024;

    private readonly HttpClient _http;

    internal AcmeTransport(AcmeOptions options)
    {
        SocketsHttpHandler handler = new()
        {
            AllowAutoRedirect = false,
            UseCookies = false,
            ConnectTimeout = options.RequestTimeout,
            PooledConnectionLifetime = TimeSpan.FromMinutes(5),
        };
        if (options.Roots is { } roots)
        {
            X509ChainPolicy policy = new()
            {
                TrustMode = X509ChainTrustMode.CustomRootTrust,
                RevocationMode = X509RevocationMode.NoCheck,
            };
            policy.CustomTrustStore.AddRange(roots);
            handler.SslOptions = new SslClientAuthenticationOptions { CertificateChainPolicy = policy };
        }

        _http = new HttpClient(handler) { Timeout = options.RequestTimeout, MaxResponseContentBufferSize = MostBytes };
        _http.DefaultRequestHeaders.UserAgent.Add(new ProductInfoHeaderValue("Whimbrel.Acme",
            typeof(AcmeTransport).Assembly.GetName().Version?.ToString(3)));
        _http.DefaultRequestHeaders.AcceptLanguage.Add(new StringWithQualityHeaderValue("en"));
    }

    /// <summary>Sends a request, and reads the whole response.</summary>
    /// <param name="method">Method.</param>
    /// <param name="url">Absolute URL with https.</param>
    /// <param name="body">Signed body, or null.</param>
    /// <param name="stop">Cancels the request.</param>
    internal async Task<AcmeReply> SendAsync(HttpMethod method, string? url, byte[]? body, CancellationToken stop)
    {
        if (!Uri.TryCreate(url, UriKind.Absolute, out Uri? target) || target.Scheme != Uri.UriSchemeHttps)
            throw new AcmeException($"The authority gave '{url}', which is no https:// URL.");
        string request = $"{method} {target}";
        try
        {
            using HttpRequestMessage message = new(method, target);
            if (body is not null)
            {
                message.Content = new ByteArrayContent(body);
                message.Content.Headers.ContentType = new MediaTypeHeaderValue("application/jose+json");
            }

            using HttpResponseMessage response = await _http.SendAsync(message, stop).ConfigureAwait(false);
            int status = (int)response.StatusCode;
            if (status is >= 300 and < 400)
                throw new AcmeException($"{request} was answered by a redirect ({status}) to "
                    + $"'{response.Headers.Location}', which is not followed: give the directory's own URL.");
            byte[] content = await response.Content.ReadAsByteArrayAsync(stop).ConfigureAwait(false);
            return new AcmeReply(request, status, content, First(response, "Replay-Nonce"), First(response, "Location"),
                WaitOf(response));
        }
        catch (Exception e) when (e is HttpRequestException or IOException)
        {
            throw new AcmeException($"{request} failed: {TextOf(e)}.", e);
        }
        catch (OperationCanceledException e) when (!stop.IsCancellationRequested)
        {
            throw new AcmeException($"{request} was not answered within {_http.Timeout.TotalSeconds:n0} s.", e);
        }
    }

    private static string? First(HttpResponseMessage response, string name) =>
        response.Headers.TryGetValues(name, out IEnumerable<string>? values) ? values.FirstOrDefault() : null;

    private static TimeSpan? WaitOf(HttpResponseMessage response) =>
        response.Headers.RetryAfter is { } wait ? wait.Delta ?? wait.Date - AcmeTime.Now : null;

    private static string TextOf(Exception e)
    {
        string text = e.Message.TrimEnd('.');
        return e.InnerException is { } inner && inner.Message.TrimEnd('.') != text
            ? $"{text}: {inner.Message.TrimEnd('.')}"
            : text;
    }

    public void Dispose() => _http.Dispose();
}
