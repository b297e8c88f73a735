using System.IO.Compression;
using System.Net;
using System.Net.Http.Headers;
using System.Text;

namespace Whimbrel.Http.Tests.Asking;

// .NET's HttpClient over our handler and over its own: the same requests to the same server must give the same
// observable results on both sides.
public sealed class HandlerTests
{
    private static HttpClient Ours() =>
        new(new WhimbrelHttpHandler(new HttpClientOptions { Cookies = new CookieContainer() }))
        {
            Timeout = Script.Patience
        };

    private static HttpClient Theirs() => new(new SocketsHttpHandler
    {
        AutomaticDecompression = DecompressionMethods.All,
        MaxAutomaticRedirections = 10,
        UseProxy = false
    })
    {
        Timeout = Script.Patience
    };

    private static readonly byte[] _zipped = Zip("hello");

    private static byte[] Zip(string text)
    {
        MemoryStream to = new();
        using (GZipStream zip = new(to, CompressionLevel.Optimal)) zip.Write(Encoding.ASCII.GetBytes(text));
        return to.ToArray();
    }

    // The path selects the server's behaviour; the request body is echoed.
    private static async Task ServeAsync(Script.Line line)
    {
        while (await line.HeadAsync() is { } head)
        {
            string path = head.Split(' ')[1], body = "";
            if (head.Contains("Expect:", StringComparison.Ordinal) && path != "/refuse")
                await line.SendAsync("HTTP/1.1 100 Continue\r\n\r\n");
            if (head.Contains("Transfer-Encoding: chunked", StringComparison.Ordinal))
                body = (await line.UntilAsync("0\r\n\r\n"))!;
            else if (head.Contains("Content-Length: 5", StringComparison.Ordinal) && path != "/refuse")
                body = (await line.UntilAsync("hello"))!;
            // which never has so many
            if (head.Contains("Content-Length: 9", StringComparison.Ordinal)) await line.EndAsync();
            bool isHead = head.StartsWith("HEAD", StringComparison.Ordinal);
            switch (path)
            {
                case "/chunked":
                    await line.SendAsync("HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nTrailer: "
                        + "X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n");
                    break;
                case "/none":
                    await line.SendAsync("HTTP/1.1 204 No Content\r\n\r\n");
                    break;
                case "/same":
                    await line.SendAsync("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\n");
                    break;
                case "/zip":
                    await line.SendAsync(
                        $"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {_zipped.Length}\r\n\r\n");
                    if (!isHead) await line.Stream.WriteAsync(_zipped);
                    break;
                case "/end":
                    await line.SendAsync("HTTP/1.1 200 OK\r\n\r\nuntil the end");
                    return;
                case "/old":
                    await line.SendAsync("HTTP/1.0 200 OK\r\n\r\nold");
                    return;
                case "/cut":
                    await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nok");
                    return;
                case "/lost":
                    return;
                case "/wrong":
                    await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok");
                    return;
                case "/301" or "/302" or "/303" or "/307" or "/308":
                    await line.SendAsync(
                        $"HTTP/1.1 {path[1..]} Go\r\nLocation: /there?x=y\r\nContent-Length: 0\r\n\r\n");
                    break;
                case "/loop":
                    await line.SendAsync("HTTP/1.1 302 Go\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n");
                    break;
                case "/cookie":
                    await line.SendAsync("HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n");
                    break;
                case "/refuse":
                    await line.SendAsync("HTTP/1.1 417 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                    await line.EndAsync();
                    return;
                case "/close":
                    await line.SendAsync("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
                    await line.EndAsync();
                    return;
                default:
                    await line.SendAsync(
                        $"HTTP/1.1 200 OK\r\nX-Two: a\r\nX-Two: b\r\nContent-Language: de\r\nContent-Type: text/plain; "
                        + $"charset=utf-8\r\nContent-Length: {body.Length}\r\n\r\n{(isHead ? "" : body)}");
                    break;
            }
        }
    }

    public static TheoryData<string, Func<string, HttpRequestMessage>> Requests
    {
        get
        {
            TheoryData<string, Func<string, HttpRequestMessage>> all = [];
            foreach (string path in (string[])["/", "/a%20b?c=d&e=%C3%A4#f", "/chunked", "/none", "/same", "/zip",
                "/end", "/old", "/cut", "/lost", "/wrong", "/301", "/302", "/303", "/307", "/308", "/loop",
                "/cookie", "/close"])
            {
                all.Add("GET " + path, url => new(HttpMethod.Get, url + path));
                if (path is "/" or "/zip" or "/none" or "/same" or "/303")
                    all.Add("HEAD " + path, url => new(HttpMethod.Head, url + path));
            }

            foreach (string path in (string[])["/", "/301", "/302", "/303", "/307", "/308"])
            {
                foreach (string method in (string[])["POST", "PUT"])
                {
                    all.Add($"{method} {path} text",
                        url => new(new HttpMethod(method), url + path) { Content = new StringContent("hello") });
                    all.Add($"{method} {path} chunks", url => new(new HttpMethod(method), url + path)
                    {
                        Content = new StreamContent(new MemoryStream("hello"u8.ToArray())),
                        Headers = { TransferEncodingChunked = true }
                    });
                }
            }

            all.Add("POST nothing", url => new(HttpMethod.Post, url));
            all.Add("DELETE with a body", url => new(HttpMethod.Delete, url) { Content = new StringContent("hello") });
            all.Add("a method of its own", url => new(new HttpMethod("M-SEARCH"), url));
            all.Add("expects", url => new(HttpMethod.Post, url)
            {
                Content = new StringContent("hello"),
                Headers = { ExpectContinue = true }
            });
            all.Add("expects, and is refused", url => new(HttpMethod.Post, url + "/refuse")
            {
                Content = new StringContent("hello"),
                Headers = { ExpectContinue = true }
            });
            all.Add("closes", url => new(HttpMethod.Get, url) { Headers = { ConnectionClose = true } });
            all.Add("fields", url =>
            {
                HttpRequestMessage request = new(HttpMethod.Get, url)
                {
                    Headers =
                    {
                        Host = "other.test",
                        Referrer = new Uri("http://a/"),
                        Authorization = new AuthenticationHeaderValue("Basic", "eDp5")
                    }
                };
                request.Headers.UserAgent.ParseAdd("a/1 (b) c/2");
                request.Headers.Accept.ParseAdd("text/html, */*;q=0.5");
                request.Headers.Add("X-Mine", ["1", "2"]);
                return request;
            });
            all.Add("fields of contents", url => new(HttpMethod.Put, url)
            {
                Content = new ByteArrayContent("hello"u8.ToArray())
                {
                    Headers =
                    {
                        ContentLanguage = { "en" },
                        ContentDisposition = new ContentDispositionHeaderValue("inline")
                    }
                }
            });
            all.Add("2.0 or lower", url => new(HttpMethod.Get, url)
            {
                Version = HttpVersion.Version20,
                VersionPolicy = HttpVersionPolicy.RequestVersionOrLower
            });
            all.Add("a letter in a field", url =>
            {
                HttpRequestMessage request = new(HttpMethod.Get, url);
                request.Headers.TryAddWithoutValidation("X-Mine", "\u00e4");
                return request;
            });
            all.Add("a content that throws", url => new(HttpMethod.Post, url) { Content = new Throwing() });
            all.Add("a content with too little", url => new(HttpMethod.Post, url)
            {
                Content = new StreamContent(new MemoryStream("hello"u8.ToArray())) { Headers = { ContentLength = 9 } }
            });
            return all;
        }
    }

    private sealed class Throwing : HttpContent
    {
        protected override Task SerializeToStreamAsync(Stream stream, TransportContext? context) =>
            throw new FormatException("mine");

        protected override bool TryComputeLength(out long length)
        {
            length = 5;
            return true;
        }
    }

    [Theory, MemberData(nameof(Requests))]
    public async Task Both_sides_see_the_same(string what, Func<string, HttpRequestMessage> make)
    {
        await using Script first = new(ServeAsync), second = new(ServeAsync);
        string ours = await SeeAsync(Ours(), first, make), theirs = await SeeAsync(Theirs(), second, make);
        // A listed difference that no longer exists must be removed from the list.
        if (Differences.TryGetValue(what, out string? reason))
            Assert.False(ours == theirs, $"no difference any more: {reason}");
        else Assert.Equal($"{what}: {theirs}", $"{what}: {ours}");
    }

    private static Dictionary<string, string> Differences { get; } = new()
    {
        ["GET /wrong"] = "two lengths: theirs takes one of them, ours refuses",
        ["HEAD /zip"] = "theirs takes away the fields of a coding also where there is no body",
    };

    private static async Task<string> SeeAsync(HttpClient client, Script script, Func<string, HttpRequestMessage> make)
    {
        StringBuilder seen = new();
        using (client)
        {
            // Twice, because cookies and pooled connections of the first request affect the second.
            for (int i = 0; i < 2; i++)
            {
                using HttpRequestMessage request = make(script.Url);
                try
                {
                    using HttpResponseMessage response = await client.SendAsync(request,
                        HttpCompletionOption.ResponseHeadersRead);
                    seen.AppendLine($"{(int)response.StatusCode} {response.ReasonPhrase} {response.Version} of "
                        + $"{response.RequestMessage!.RequestUri!.PathAndQuery}");
                    foreach ((string name, IEnumerable<string> values) in response.Headers
                        .Concat(response.Content.Headers).OrderBy(static h => h.Key, StringComparer.Ordinal))
                        seen.AppendLine($"{name}: {string.Join('|', values)}");
                    seen.AppendLine(await response.Content.ReadAsStringAsync());
                    foreach ((string name, IEnumerable<string> values) in response.TrailingHeaders)
                        seen.AppendLine($"behind it {name}: {string.Join('|', values)}");
                }
                catch (Exception e) when (e is not Xunit.Sdk.XunitException)
                {
                    // The wording may differ, the kind may not. Our message contains the cause.
                    seen.AppendLine(e.GetType().Name
                        + (e is HttpRequestException { HttpRequestError: var error } ? $" {error}" : ""));
                }
            }
        }

        // Whether and how often the server saw the head of a failed request depends on timing.
        if (seen.ToString().Contains("Exception", StringComparison.Ordinal)) return seen.ToString();
        lock (script.Heads)
        {
            foreach (string head in script.Heads)
            {
                string[] lines = head.TrimEnd().Split("\r\n");
                seen.AppendLine(lines[0]);
                foreach (string line in lines[1..].Order(StringComparer.Ordinal))
                {
                    // The order of the codings and the port number are irrelevant.
                    if (line.StartsWith("Accept-Encoding:", StringComparison.Ordinal))
                        seen.AppendLine(string.Join(",",
                            line[16..].Split(',').Select(static c => c.Trim()).Where(static c => c != "zstd").Order()));
                    else seen.AppendLine(line.Replace(script.Url[7..], "server", StringComparison.Ordinal));
                }
            }
        }

        return seen.ToString();
    }

    [Fact]
    public async Task Versions_are_lowered_or_refused()
    {
        await using Script script = new(line => line.AnswerAllAsync(Script.Ok));
        using HttpClient client = Ours();
        foreach ((string version, HttpVersionPolicy policy, bool isSpoken) in ((string, HttpVersionPolicy, bool)[])
        [
            ("1.1", HttpVersionPolicy.RequestVersionExact, true),
            ("1.1", HttpVersionPolicy.RequestVersionOrLower, true),
            ("1.1", HttpVersionPolicy.RequestVersionOrHigher, true),
            ("2.0", HttpVersionPolicy.RequestVersionOrLower, true),
            ("3.0", HttpVersionPolicy.RequestVersionOrLower, true),
            ("1.0", HttpVersionPolicy.RequestVersionOrHigher, true),
            ("2.0", HttpVersionPolicy.RequestVersionExact, false),
            ("2.0", HttpVersionPolicy.RequestVersionOrHigher, false),
            ("1.0", HttpVersionPolicy.RequestVersionExact, false),
            ("1.0", HttpVersionPolicy.RequestVersionOrLower, false),
        ])
        {
            using HttpRequestMessage request =
                new(HttpMethod.Get, script.Url) { Version = new Version(version), VersionPolicy = policy };
            if (isSpoken)
            {
                using HttpResponseMessage response = await client.SendAsync(request);
                Assert.Equal(HttpVersion.Version11, response.Version);
            }
            else
            {
                HttpRequestException e =
                    await Assert.ThrowsAsync<HttpRequestException>(() => client.SendAsync(request));
                Assert.Equal(HttpRequestError.VersionNegotiationError, e.HttpRequestError);
            }
        }
    }

    [Fact]
    public async Task Cancelled_and_timed_out_as_HttpClient_has_it_and_also_without_awaiting()
    {
        await using Script silent = new(line => line.EndAsync()), script = new(line => line.AnswerAllAsync(Script.Ok));
        using HttpClient client = new(new WhimbrelHttpHandler()) { Timeout = TimeSpan.FromMilliseconds(100) };
        TaskCanceledException e =
            await Assert.ThrowsAsync<TaskCanceledException>(() => client.GetAsync(new Uri(silent.Url)));
        Assert.IsType<TimeoutException>(e.InnerException);
        using HttpClient patient = Ours();
        using CancellationTokenSource stop = new(50);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(
            () => patient.GetAsync(new Uri(silent.Url), stop.Token));
        using HttpRequestMessage request = new(HttpMethod.Get, script.Url);
        using HttpResponseMessage response = await Task.Run(() => patient.Send(request));
        using StreamReader reader = new(response.Content.ReadAsStream());
        Assert.Equal("ok", reader.ReadToEnd());
    }
}
