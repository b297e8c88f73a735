using System.Net;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.Site;

// Behaviour that depends on TLS, over real sockets.
public sealed class TransportTests
{
    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(30);

    private static HttpClient Client(HttpServer server, string scheme) =>
        new(new SocketsHttpHandler
        {
            AllowAutoRedirect = false,
            UseProxy = false,
            SslOptions =
            {
                RemoteCertificateValidationCallback = static (_, certificate, _, _) =>
                    certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString()
            }
        })
        {
            Timeout = _patience,
            BaseAddress = new Uri($"{scheme}://127.0.0.1:{((IPEndPoint)server.EndPoint!).Port}"),
        };

    [Theory]
    [InlineData(true, false, "max-age=31536000")]
    [InlineData(true, true, "max-age=31536000; includeSubDomains")]
    [InlineData(false, true, null)]
    public async Task Answers_over_TLS_say_for_how_long_browsers_come_back_so(bool isTls, bool withSubdomains,
        string? expected)
    {
        TlsOptions? tls = isTls ? new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) } : null;
        string scheme = isTls ? "https" : "http";
        await using HttpServer web = new($"{scheme}://127.0.0.1:0",
            new HttpOptions { StrictTransport = TimeSpan.FromDays(365), StrictTransportForSubdomains = withSubdomains },
            tls);
        web.Get("/", static (_, response) => response.Text("x"));
        await web.StartAsync();
        using HttpClient client = Client(web, scheme);
        foreach (string path in (string[])["/", "/none"])
        {
            using HttpResponseMessage answer = await client.GetAsync(new Uri(path, UriKind.Relative));
            Assert.Equal(expected, answer.Headers.TryGetValues("Strict-Transport-Security",
                out IEnumerable<string>? values) ? Assert.Single(values) : null);
        }
    }

    [Theory]
    [InlineData(443, "GET", "/a/b?c=%20d", "https://host.test/a/b?c=%20d")]
    [InlineData(8443, "POST", "/", "https://host.test:8443/")]
    [InlineData(443, "DELETE", "//evil.test/x", "https://host.test//evil.test/x")]
    public async Task A_plain_server_beside_it_redirects_all_requests_to_https(int port, string method, string target,
        string expected)
    {
        await using HttpServer web = HttpServer.RedirectToHttps("http://127.0.0.1:0", port);
        await web.StartAsync();
        using HttpClient client = Client(web, "http");
        using HttpRequestMessage request = new(new HttpMethod(method),
            $"{client.BaseAddress!.GetLeftPart(UriPartial.Authority)}{target}")
        {
            Content = method == "POST" ? new StringContent("body") : null
        };
        request.Headers.Host = "host.test:80";
        using HttpResponseMessage answer = await client.SendAsync(request);
        Assert.Equal((308, expected), ((int)answer.StatusCode, answer.Headers.GetValues("Location").Single()));
    }
}
