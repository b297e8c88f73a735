using System.Globalization;
using System.Net;
using System.Text;
using System.Text.RegularExpressions;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.Programs;

// The server tested with other programs: curl, wrk, h2load, a browser, .NET's client, nginx as a reverse proxy.
public sealed partial class ClientTests
{
    private const int Mebi = 1024 * 1024;

    private static async Task<HttpServer> ServeAsync(bool isTls = false)
    {
        TlsOptions? tls = isTls
            ? new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                ApplicationProtocols = ["http/1.1"]
            }
            : null;
        HttpServer web = new($"{(isTls ? "https" : "http")}://127.0.0.1:0",
            new HttpOptions { BodyLimitBytes = long.MaxValue }, tls);
        web.Get("/hello/{name}", static (request, response) => response.Text($"Hello {request.Route["name"]}"));
        web.Post("/echo",
            static async (request, response, stop) => await request.Body.CopyToAsync(response.Body, stop));
        web.Map(HttpVerb.Put, "/echo",
            static async (request, response, stop) => await request.Body.CopyToAsync(response.Body, stop));
        web.Get("/cookie", static (request, response) =>
        {
            response.SetCookie(new HttpCookie("seen",
                $"{int.Parse(request.Cookies["seen"] ?? "0", CultureInfo.InvariantCulture) + 1}"));
            response.Text(request.Cookies["seen"] ?? "none");
        });
        web.Post("/form", static (request, response) => response.Text($"{request.Form["a b"]}"));
        web.Post("/parts", static async (request, response, stop) =>
        {
            StringBuilder list = new();
            await foreach (HttpPart part in request.ReadPartsAsync(stop)) list.Append(CultureInfo.InvariantCulture,
                $"{part.Name}/{part.FileName}/{part.ContentType}/{await part.ReadTextAsync(cancellationToken: stop)};");
            response.Text(list.ToString());
        });
        await web.StartAsync();
        return web;
    }

    /// <summary>One MiB that differs for each number.</summary>
    private static byte[] Pattern(int number)
    {
        byte[] bytes = new byte[Mebi];
        new Random(number).NextBytes(bytes);
        return bytes;
    }

    private static int PortOf(HttpServer web) => ((IPEndPoint)web.EndPoint!).Port;

    private static Task<string> CurlAsync(params string[] arguments) =>
        RealProgram.RunAsync("curl", ["-sS", "--noproxy", "*", "--max-time", "50", .. arguments]);

    [Fact]
    public async Task Curl_is_served()
    {
        RealProgram.Find("curl");
        await using HttpServer web = await ServeAsync();
        string site = $"http://127.0.0.1:{PortOf(web)}",
            directory = Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        string body = Path.Combine(directory, "body"), jar = Path.Combine(directory, "jar"),
            back = Path.Combine(directory, "back");
        try
        {
            // One connection for three requests.
            Assert.Equal("Hello a 1\nHello b 0\nHello c 0\n", Regex.Replace(await CurlAsync("-w", " %{num_connects}\n",
                $"{site}/hello/a", $"{site}/hello/b", $"{site}/hello/c"), "\n+", "\n"));
            Assert.Contains("Content-Length: 7", await CurlAsync("-I", $"{site}/hello/a"), StringComparison.Ordinal);
            byte[] bytes = Pattern(1);
            await File.WriteAllBytesAsync(body, bytes);
            foreach (string[] way in (string[][])[["-T", body], ["--data-binary", $"@{body}"],
                ["-T", body, "-H", "Transfer-Encoding: chunked"], ["--data-binary", $"@{body}", "-H",
                    "Transfer-Encoding: chunked", "-H", "Expect: 100-continue", "--expect100-timeout", "40"]])
            {
                string said = await CurlAsync(["-v", "-o", back, .. way, $"{site}/echo"]);
                Assert.True((await File.ReadAllBytesAsync(back)).AsSpan().SequenceEqual(bytes), string.Join(' ', way));
                if (way.Contains("Expect: 100-continue"))
                    Assert.Contains("HTTP/1.1 100 Continue", said, StringComparison.Ordinal);
            }

            foreach (string expected in (string[])["none", "1", "2"])
                Assert.Equal(expected, (await CurlAsync("-b", jar, "-c", jar, $"{site}/cookie")).Trim());
            Assert.Equal("c & d", (await CurlAsync("--data-urlencode", "a b=c & d", $"{site}/form")).Trim());
            await File.WriteAllTextAsync(body, "file --text");
            Assert.Equal("a///value;f/x y.txt/text/html/file --text;", (await CurlAsync("-F", "a=value", "-F",
                $"f=@{body};filename=\"x y.txt\";type=text/html", $"{site}/parts")).Trim());
            await using HttpServer secure = await ServeAsync(isTls: true);
            Assert.Equal("Hello tls 1.1 200", (await CurlAsync("-k", "-w", " %{http_version} %{http_code}",
                $"https://127.0.0.1:{PortOf(secure)}/hello/tls")).Trim());
        }
        finally
        {
            Directory.Delete(directory, recursive: true);
        }
    }

    [Fact]
    public async Task Load_programs_get_all_their_answers()
    {
        await using HttpServer web = await ServeAsync();
        string url = $"http://127.0.0.1:{PortOf(web)}/hello/x";
        string wrk = await RealProgram.RunAsync("wrk", "-t1", "-c50", "-d1s", url);
        Assert.Contains("Requests/sec", wrk, StringComparison.Ordinal);
        Assert.DoesNotContain("Socket errors", wrk, StringComparison.Ordinal);
        Assert.DoesNotContain("Non-2xx", wrk, StringComparison.Ordinal);
        string h2load = await RealProgram.RunAsync("h2load", "--h1", "-n5000", "-c20", "-m10", url);
        Assert.Contains("5000 succeeded", h2load, StringComparison.Ordinal);
        Assert.Equal((0, 0), (web.Http.ReadCounters().Refused, web.Http.ReadCounters().HandlerErrors));
    }

    [Fact]
    public async Task A_browser_loads_a_page_with_a_hundred_files()
    {
        await using HttpServer web = new("http://127.0.0.1:0");
        web.Get("/", static (_, response) =>
        {
            response.Add("Content-Type", "text/html");
            response.Text("<!doctype html><title>t</title><script>let n = 0</script>"
                + string.Concat(Enumerable.Range(0, 100).Select(static i => $"<script src=\"/{i}.js\"></script>"))
                + "<p id=p></p><script>p.textContent = `loaded ${n}`</script>");
        });
        web.Get("/{file}", static (request, response) =>
        {
            response.Add("Content-Type", "text/javascript");
            response.Text($"/* {request.Route["file"]} {new string('x', 10_000)} */ n++");
        });
        await web.StartAsync();
        string chromium = RealProgram.Find("chromium"),
            profile = Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        try
        {
            string page = await RealProgram.RunAsync(chromium, "--headless", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-proxy-server", $"--user-data-dir={profile}", "--dump-dom",
                $"http://127.0.0.1:{PortOf(web)}/");
            Assert.Contains("loaded 100", page, StringComparison.Ordinal);
            Assert.True(web.Http.ReadCounters().Requests >= 101);
        }
        finally
        {
            Directory.Delete(profile, recursive: true);
        }
    }

    [Fact]
    public async Task A_hundred_callers_of_one_client_each_get_their_own()
    {
        await using HttpServer web = await ServeAsync();
        using HttpClient client = new(new SocketsHttpHandler { UseProxy = false })
        {
            Timeout = RealProgram.Patience,
            BaseAddress = new Uri($"http://127.0.0.1:{PortOf(web)}")
        };
        await Task.WhenAll(Enumerable.Range(0, 100).Select(async caller =>
        {
            for (int i = 0; i < 20; i++)
            {
                string x = $"{caller}-{i}";
                Assert.Equal($"Hello {x}", await client.GetStringAsync(new Uri($"/hello/{x}", UriKind.Relative)));
                using HttpResponseMessage echo = await client.PostAsync(new Uri("/echo", UriKind.Relative),
                    new StringContent(x));
                Assert.Equal(x, await echo.Content.ReadAsStringAsync());
            }
        }));
        Assert.Equal(4000, web.Http.ReadCounters().Requests);
        Assert.InRange(web.AcceptedCount, 1, 400); // it opens a few more connections than it uses
    }

    [Fact]
    public async Task With_nginx_as_a_proxy_connections_are_kept_and_bodies_are_chunked_both_ways()
    {
        RealProgram.Find("nginx");
        await using HttpServer web = await ServeAsync();
        int port = RealProgram.FreePort();
        using RealProgram nginx = await RealProgram.ServeAsync("nginx", port, directory =>
        {
            string file = Path.Combine(directory, "conf");
            File.WriteAllText(file, OtherServers.Nginx(directory, port,
                "client_max_body_size 0; location / { proxy_pass http://site; proxy_http_version 1.1; proxy_set_header "
                + "Connection \"\"; proxy_request_buffering off; proxy_buffering off; }",
                $"upstream site {{ server 127.0.0.1:{PortOf(web)}; keepalive 8; }}"));
            return ["-p", directory, "-e", "stderr", "-c", file];
        });
        using HttpClient client = new(new SocketsHttpHandler { UseProxy = false, MaxConnectionsPerServer = 4 })
        {
            Timeout = RealProgram.Patience,
            BaseAddress = new Uri($"http://127.0.0.1:{port}")
        };
        await Parallel.ForAsync(0, 200, new ParallelOptions { MaxDegreeOfParallelism = 4 }, async (i, stop) =>
            Assert.Equal($"Hello {i}", await client.GetStringAsync(new Uri($"/hello/{i}", UriKind.Relative), stop)));
        byte[] body = [.. Pattern(1), .. Pattern(2)];
        using HttpRequestMessage request = new(HttpMethod.Post, "/echo") { Content = new ByteArrayContent(body) };
        request.Headers.TransferEncodingChunked = true;
        using HttpResponseMessage answer = await client.SendAsync(request);
        Assert.True(answer.Headers.TransferEncodingChunked);
        byte[] back = await answer.Content.ReadAsByteArrayAsync();
        Assert.True(back.AsSpan().SequenceEqual(body));
        Assert.InRange(web.AcceptedCount, 1, 20);
        Assert.Equal(0, web.Http.ReadCounters().Refused);
    }
}
