using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Asking;

namespace Whimbrel.Http.Tests.Programs;

// Our clients with servers of other vendors: nginx, Kestrel and Node serve the same small site, plain and over TLS.
public sealed class ServerTests
{
    private const int LargeBytes = 8 * 1024 * 1024;

    /// <summary>A program that serves the site, its ports, and the backends for the parts that it cannot serve
    /// itself.</summary>
    private sealed class Site(RealProgram program, HttpServer? behind, Script? cutting, int port, int portWithTls,
        byte[] large) : IAsyncDisposable
    {
        internal byte[] Large => large;

        internal int PortOf(bool isTls) => isTls ? portWithTls : port;

        internal string Url(bool isTls) => $"{(isTls ? "https" : "http")}://127.0.0.1:{PortOf(isTls)}";

        public async ValueTask DisposeAsync()
        {
            program.Dispose();
            if (behind is not null) await behind.DisposeAsync();
            if (cutting is not null) await cutting.DisposeAsync();
        }
    }

    private static async Task<Site> StartAsync(string name)
    {
        int port = RealProgram.FreePort(), portWithTls = RealProgram.FreePort();
        byte[] large = new byte[LargeBytes];
        Noise.Fill(large, 11);
        // Backend for the responses that nginx cannot produce itself.
        HttpServer? behind = name == "nginx" ? await ServeBehindAsync() : null;
        Script? cutting = name == "nginx" ? new Script(static async line =>
        {
            await line.HeadAsync();
            await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n0123456789");
        }) : null;
        RealProgram program = await RealProgram.ServeAsync(name == "kestrel" ? "dotnet" : name, portWithTls,
            directory =>
            {
                File.WriteAllBytes(Path.Combine(directory, "large"), large);
                File.WriteAllText(Path.Combine(directory, "text"), "hello");
                File.WriteAllText(Path.Combine(directory, "chunked"), "one two three");
                File.WriteAllText(Path.Combine(directory, "long"), new string('x', 100_000));
                File.WriteAllText(Path.Combine(directory, "certificate"),
                    TestCertificates.Server.ExportCertificatePem());
                using (ECDsa key = TestCertificates.Server.GetECDsaPrivateKey()!)
                    File.WriteAllText(Path.Combine(directory, "key"), key.ExportPkcs8PrivateKeyPem());
                string[] ports = [port.ToString(CultureInfo.InvariantCulture),
                    portWithTls.ToString(CultureInfo.InvariantCulture), directory];
                if (name == "kestrel") return [Path.Combine(AppContext.BaseDirectory, "KestrelSite.dll"), .. ports];
                if (name == "node") return [Path.Combine(AppContext.BaseDirectory, "node-site.js"), .. ports];
                string file = Path.Combine(directory, "conf");
                File.WriteAllText(file, OtherServers.Nginx(directory, port, $$"""
                    listen 127.0.0.1:{{portWithTls}} ssl; ssl_certificate {{directory}}/certificate; ssl_certificate_key {{directory}}/key;
                    root {{directory}}; client_max_body_size 0;
                    location = /chunked { add_trailer X-Sum 7; }
                    location = /long { gzip on; gzip_types *; }
                    location = /redirect { absolute_redirect off; return 302 /text; }
                    location = /nothing { return 444; }
                    location = /sum { proxy_pass http://127.0.0.1:{{((IPEndPoint)behind!.EndPoint!).Port}}; proxy_http_version 1.1; proxy_request_buffering off; }
                    location = /cut { proxy_pass {{cutting!.Url}}; proxy_buffering off; }
                    """));
                return ["-p", directory, "-e", "stderr", "-c", file];
            });
        return new Site(program, behind, cutting, port, portWithTls, large);
    }

    private static async Task<HttpServer> ServeBehindAsync()
    {
        HttpServer behind = new("http://127.0.0.1:0");
        behind.Post("/sum", static async (request, response, stop) =>
            response.Text(Convert.ToHexString(await SHA256.HashDataAsync(request.Body, stop))));
        await behind.StartAsync();
        return behind;
    }

    private static HttpClientOptions Options(bool isTls) =>
        new() { ConnectionLimit = 1, Tls = isTls ? new TlsOptions { Roots = TestCertificates.Roots } : null };

    private static async Task<(int Status, string Body)> FetchAsync(HttpPool pool, string url)
    {
        (int status, byte[] body) = await pool.FetchAsync(new HttpClientRequest(HttpVerb.Get, url)).AsTask()
            .WaitAsync(Script.Patience);
        return (status, Encoding.Latin1.GetString(body));
    }

    // Kestrel sends no trailers in HTTP/1.1.
    private static bool HasTrailers(string name) => name != "kestrel";

    public static TheoryData<string, bool> Servers => new()
    {
        { "nginx", false },
        { "nginx", true },
        { "kestrel", false },
        { "kestrel", true },
        { "node", false },
        { "node", true }
    };

    [Theory, MemberData(nameof(Servers))]
    public async Task A_pool_gets_what_is_there_over_one_connection(string name, bool isTls)
    {
        await using Site site = await StartAsync(name);
        await using HttpPool pool = new(Options(isTls));
        string url = site.Url(isTls);
        for (int i = 0; i < 3; i++) Assert.Equal((200, "hello"), await FetchAsync(pool, url + "/text"));
        using (HttpClientResponse chunked = await pool.GetAsync(url + "/chunked").AsTask().WaitAsync(Script.Patience))
        {
            Assert.Equal("chunked", chunked.Head["Transfer-Encoding"]);
            Assert.Equal("one two three", await chunked.ReadTextAsync());
            Assert.Equal(HasTrailers(name),
                chunked.Head.TryGetTrailer("x-sum"u8, out ReadOnlySpan<byte> sum) && sum.SequenceEqual("7"u8));
        }

        using (HttpClientResponse coded = await pool.GetAsync(url + "/long").AsTask().WaitAsync(Script.Patience))
        {
            Assert.Contains(coded.Head["Content-Encoding"], (string[])["br", "gzip", "deflate"]);
            Assert.Equal(new string('x', 100_000), await coded.ReadTextAsync());
        }

        Assert.Equal((200, "hello"), await FetchAsync(pool, url + "/redirect"));
        using (HttpClientResponse large = await pool.GetAsync(url + "/large").AsTask().WaitAsync(Script.Patience))
            Assert.Equal(SHA256.HashData(site.Large), await SHA256.HashDataAsync(large.Body));
        foreach (int length in (int[])[-1, LargeBytes])
        {
            HttpClientRequest sum = new(HttpVerb.Post, url + "/sum");
            sum.SetBody(new MemoryStream(site.Large), length: length);
            using HttpClientResponse answer = await pool.SendAsync(sum).AsTask().WaitAsync(Script.Patience);
            Assert.Equal(Convert.ToHexString(SHA256.HashData(site.Large)), await answer.ReadTextAsync(),
                ignoreCase: true);
        }

        // All requests used one connection, and no failure was counted.
        Assert.Equal((1L, 0L, 0L),
            (pool.ReadCounters().Connects, pool.ReadCounters().Repeats, pool.ReadCounters().Failures));
        foreach ((string path, HttpClientFailure failure) in ((string, HttpClientFailure)[])[
            ("/cut", HttpClientFailure.BodyCut), ("/nothing", HttpClientFailure.ConnectionLost)])
        {
            HttpClientException e = await Assert.ThrowsAsync<HttpClientException>(() => FetchAsync(pool, url + path));
            // Kestrel resets the connection, and a reset may overtake data that was sent before it.
            if (name != "kestrel") Assert.Equal((path, failure), (path, e.Failure));
            else Assert.Contains(e.Failure, (HttpClientFailure[])[failure, HttpClientFailure.ConnectionLost]);
            Assert.Equal((200, "hello"), await FetchAsync(pool, url + "/text"));
        }
    }

    [Theory, MemberData(nameof(Servers))]
    public async Task HttpClient_gets_over_our_handler_what_it_gets_over_its_own(string name, bool isTls)
    {
        await using Site site = await StartAsync(name);
        string url = site.Url(isTls);
        using HttpClient ours = new(new WhimbrelHttpHandler(Options(isTls))) { Timeout = Script.Patience };
        SocketsHttpHandler handler = new() { AutomaticDecompression = DecompressionMethods.All, UseProxy = false };
        handler.SslOptions.RemoteCertificateValidationCallback = static (_, certificate, _, _) =>
            certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString();
        using HttpClient theirs = new(handler) { Timeout = Script.Patience };
        foreach (string path in (string[])["/text", "/chunked", "/long", "/redirect", "/large", "/missing", "/nothing"])
        {
            if (path == "/missing" && name == "node") continue; // Node never sends this response
            Assert.Equal(await SeenAsync(theirs, HttpMethod.Get, url + path),
                await SeenAsync(ours, HttpMethod.Get, url + path));
        }

        foreach (bool isChunked in (bool[])[false, true])
            Assert.Equal(await SeenAsync(theirs, HttpMethod.Post, url + "/sum", site.Large, isChunked),
                await SeenAsync(ours, HttpMethod.Post, url + "/sum", site.Large, isChunked));
    }

    /// <summary>All that a caller of .NET's client sees of an answer, or how it fails.</summary>
    private static async Task<string> SeenAsync(HttpClient client, HttpMethod method, string url, byte[]? body = null,
        bool isChunked = false)
    {
        using HttpRequestMessage request = new(method, url);
        if (body is not null)
        {
            request.Content = new ByteArrayContent(body);
            request.Headers.TransferEncodingChunked = isChunked;
        }

        try
        {
            using HttpResponseMessage response = await client.SendAsync(request,
                HttpCompletionOption.ResponseHeadersRead);
            await using Stream content = await response.Content.ReadAsStreamAsync();
            byte[] hash = await SHA256.HashDataAsync(content);
            string fields = string.Join('\n', response.Headers.Concat(response.Content.Headers)
                .Where(static f => f.Key is not ("Date" or "Accept-Ranges"))
                .Select(static f => $"{f.Key}: {string.Join(", ", f.Value)}").Order());
            string trailers = string.Join('\n',
                response.TrailingHeaders.Select(static f => $"{f.Key}: {string.Join(", ", f.Value)}"));
            return $"{method} {url}\n{response.StatusCode}\n{fields}\n{Convert.ToHexString(hash)}\n{trailers}";
        }
        catch (Exception e) when (e is HttpRequestException or HttpIOException)
        {
            HttpRequestError error =
                e is HttpRequestException failed ? failed.HttpRequestError : ((HttpIOException)e).HttpRequestError;
            // .NET's HttpClient reports a reset as Unknown.
            return $"{method} {url}\n{(error == HttpRequestError.Unknown ? HttpRequestError.ResponseEnded : error)}";
        }
    }

    /// <summary>Asks for one after the other on one connection.</summary>
    private sealed class Asker(string host, params string[] paths) : HttpClientSession(host)
    {
        private readonly StringBuilder _told = new();
        private int _asked;

        internal TaskCompletionSource<string> Told { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        protected override void OnConnected() => Ask();

        private void Ask() => Request(HttpVerb.Get, Encoding.ASCII.GetBytes(paths[_asked++]));

        protected override void OnResponse(HttpResponseHead head) => _told.Append(head.Status).Append(' ');

        protected override void OnBody(ReadOnlySpan<byte> piece) => _told.Append(Encoding.Latin1.GetString(piece));

        protected override void OnResponseEnd(HttpResponseHead head)
        {
            if (head.TryGetTrailer("x-sum"u8, out ReadOnlySpan<byte> sum))
                _told.Append(' ').Append(Encoding.Latin1.GetString(sum));
            _told.Append('\n');
            if (_asked < paths.Length) Ask();
            else Told.TrySetResult(_told.ToString());
        }

        protected override void OnRequestFailed(HttpClientException failure) =>
            Told.TrySetResult($"{_told} {failure.Failure}");
    }

    [Theory, MemberData(nameof(Servers))]
    public async Task A_session_gets_one_after_the_other_over_its_connection(string name, bool isTls)
    {
        await using Site site = await StartAsync(name);
        foreach ((string path, string end) in ((string, string)[])[("/text", "200 hello\n"),
            ("/nothing", " ConnectionLost")])
        {
            Asker asker = new($"127.0.0.1:{site.PortOf(isTls)}", "/text", "/chunked", "/long", "/large", path);
            await using Client client = new(new ClientOptions
            {
                EndPoint = new IPEndPoint(IPAddress.Loopback, site.PortOf(isTls)),
                Tls = isTls ? TestCertificates.ClientOptions : null
            }, () => asker);
            await client.ConnectAsync();
            Assert.Equal($"200 hello\n200 one two three{(HasTrailers(name) ? " 7" : "")}\n200 "
                + $"{new string('x', 100_000)}\n200 {Encoding.Latin1.GetString(site.Large)}\n{end}",
                await asker.Told.Task.WaitAsync(Script.Patience));
        }
    }
}
