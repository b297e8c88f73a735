using System.Diagnostics;
using System.IO.Compression;
using System.Net;
using System.Text;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Files;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Site;

// Responses that are compressed while they are generated.
public sealed class CompressionTests
{
    private const string Takes = "Accept-Encoding: gzip, br\r\n";

    private static readonly string _text = string.Concat(Enumerable.Range(0, 400)
        .Select(static i => $"line {i} of a text\n"));
    private static readonly string _large = string.Concat(Enumerable.Range(0, 16_000)
        .Select(static i => $"line {i * 7_919_777L} of a large text\n"));

    public static TheoryData<EngineKind, bool, Scheduling> Kinds() => EngineTests.Kinds();

    private static HttpOptions Compressing(int streams = 256) =>
        new() { Compression = new HttpCompression { StreamLimit = streams } };

    private static Stream Inflater(Stream from, string coding) => coding switch
    {
        "br" => new BrotliStream(from, CompressionMode.Decompress),
        "gzip" => new GZipStream(from, CompressionMode.Decompress),
        _ => from,
    };

    private static string Plain(Answer answer)
    {
        using StreamReader reader = new(Inflater(new MemoryStream(Encoding.Latin1.GetBytes(answer.Body)),
            answer["Content-Encoding"]));
        return reader.ReadToEnd();
    }

    private static Web NewWeb(HttpOptions? options = null)
    {
        Web web = new(options ?? Compressing());
        web.Server.Get("/text", static (_, response) => response.Text(_text));
        web.Server.Get("/large", static (_, response) => response.Text(_large));
        web.Server.Get("/pieces", static async (_, response, stop) =>
        {
            response.Add("Content-Type", "text/plain");
            for (int at = 0; at < _text.Length; at += 100)
                await response.WriteAsync(
                    Encoding.ASCII.GetBytes(_text.Substring(at, Math.Min(100, _text.Length - at))), stop);
        });
        web.Server.Get("/tagged", static (_, response) =>
        {
            if (response.MeetsConditions("\"v1\"")) response.Text(_text);
        });
        return web;
    }

    private static Answer Ask(Web web, string path, string fields = Takes)
    {
        TestPeer peer = web.Connect();
        peer.Send(Web.Get(path, fields));
        return Web.One(peer);
    }

    /// <summary>Waits for a response that is generated on the thread pool.</summary>
    private static Answer Await(Web web, string path, string fields = Takes)
    {
        TestPeer peer = web.Connect();
        peer.Send(Web.Get(path, fields));
        List<byte> bytes = [];
        Deadline(() =>
        {
            web.Network.Run();
            ReadOnlySpan<byte> more = peer.Receive();
            bytes.AddRange(more);
            return !more.IsEmpty && Web.Read(bytes.ToArray(), peer.IsSessionFinished) is [{ IsWhole: true }];
        });
        return Assert.Single(Web.Read(bytes.ToArray(), peer.IsSessionFinished));
    }

    private static void Deadline(Func<bool> isThere) => Assert.True(SpinWait.SpinUntil(isThere, EngineSite.Patience));

    // ------------------------------------------------------------------ which

    [Theory]
    [InlineData("", "")]
    [InlineData("Accept-Encoding: gzip", "gzip")]
    [InlineData("Accept-Encoding: gzip, deflate, br, zstd", "br")]
    [InlineData("Accept-Encoding: br;q=0.5, gzip;q=0.8", "gzip")]
    [InlineData("Accept-Encoding: identity;q=0", "")] // neither is named, so neither may be sent
    [InlineData("Accept-Encoding: *", "br")]
    [InlineData("Accept-Encoding: *;q=0.1, br;q=0", "gzip")]
    [InlineData("Accept-Encoding: gzip;q=0, br;q=0", "")]
    [InlineData("Accept-Encoding: identity, gzip;q=0.5", "")]
    public void The_client_chooses_and_caches_get_Vary(string fields, string coding)
    {
        using Web web = NewWeb();
        foreach (string path in (string[])["/text", "/pieces", "/large"])
        {
            Answer answer = Await(web, path, fields.Length == 0 ? "" : fields + "\r\n");
            Assert.Equal((200, coding, "Accept-Encoding"), (answer.Status, answer["Content-Encoding"], answer["Vary"]));
            Assert.Equal(path == "/large" ? _large : _text, Plain(answer));
            Assert.Equal(path == "/text" || (path == "/large" && coding == ""),
                answer.Fields.ContainsKey("Content-Length"));
            if (coding.Length > 0) Assert.True(answer.Body.Length < (path == "/large" ? _large : _text).Length / 2);
        }
    }

    [Theory]
    [InlineData("small")]
    [InlineData("empty")]
    [InlineData("picture")]
    [InlineData("no type")]
    [InlineData("encoded")]
    [InlineData("digest")]
    [InlineData("noise")]
    [InlineData("not this one")]
    [InlineData("part")]
    [InlineData("announced small")]
    public void A_body_that_gains_nothing_or_must_not_change_is_sent_uncompressed(string what)
    {
        using Web web = new(Compressing());
        byte[] noise = new byte[5000];
        new Random(5).NextBytes(noise);
        byte[] bytes = what switch
        {
            "small" => "small"u8.ToArray(),
            "empty" => [],
            "noise" => noise,
            _ => Encoding.ASCII.GetBytes(_text)
        };
        web.Server.Get("/", (_, response) =>
        {
            if (what == "encoded") response.Add("content-encoding", "zstd");
            if (what == "digest") response.Add("Repr-Digest", "sha-256=:abc=:");
            if (what == "not this one") response.MayCompress = false;
            if (what == "part") response.Status = 206;
            response.Bytes(bytes,
                what switch { "picture" => "image/png"u8, "no type" => default, _ => "text/plain"u8 });
        });
        web.Server.Get("/pieces", async (_, response, stop) =>
        {
            if (what == "encoded") response.Add("Content-Encoding", "zstd");
            if (what == "digest") response.Add("Content-Digest", "sha-256=:abc=:");
            if (what is not "no type") response.Add("Content-Type", what == "picture" ? "image/png" : "text/plain");
            if (what == "not this one") response.MayCompress = false;
            if (what is "small" or "empty" or "announced small")
                response.BodyLength = what == "announced small" ? 1023 : bytes.Length;
            if (what == "part") response.Status = 206;
            await response.WriteAsync(what == "announced small" ? bytes.AsMemory(0, 1023) : bytes, stop);
        });
        string expected = Encoding.Latin1.GetString(bytes);
        if (what != "announced small")
            Assert.Equal((expected, what == "encoded" ? "zstd" : ""),
                (Ask(web, "/").Body, Ask(web, "/")["Content-Encoding"]));
        if (what != "noise")
            Assert.Equal((what == "announced small" ? expected[..1023] : expected, what == "encoded" ? "zstd" : ""),
                (Ask(web, "/pieces").Body, Ask(web, "/pieces")["Content-Encoding"]));
    }

    [Fact]
    public void A_client_that_refuses_an_uncompressed_body_gets_even_a_small_one_compressed()
    {
        using Web web = new(Compressing());
        web.Server.Get("/", static (_, response) => response.Text("small"));
        Answer answer = Ask(web, "/", "Accept-Encoding: gzip, identity;q=0\r\n");
        Assert.Equal(("gzip", "small"), (answer["Content-Encoding"], Plain(answer)));
    }

    [Fact]
    public void Nothing_is_compressed_unless_it_is_asked_for_by_the_site_or_by_the_answer()
    {
        using Web web = NewWeb(new HttpOptions());
        web.Server.Get("/asked", static (_, response) =>
        {
            response.MayCompress = true;
            response.Text(_text);
        });
        Answer plain = Ask(web, "/text"), asked = Ask(web, "/asked");
        Assert.Equal((_text, "", ""), (plain.Body, plain["Content-Encoding"], plain["Vary"]));
        Assert.Equal(("br", _text), (asked["Content-Encoding"], Plain(asked)));
    }

    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, true)]
    public async Task Compression_over_TLS_must_be_enabled_separately(bool overTls, bool isCompressed)
    {
        HttpOptions options = new() { Compression = new HttpCompression { OverTls = overTls } };
        await using EngineSite site = new(EngineKind.Portable, isTls: true, Scheduling.Inline, options);
        site.Server.Get("/site", static (_, response) => response.Text(_text));
        site.Server.Get("/answer", static (_, response) =>
        {
            response.MayCompress = true;
            response.Text(_text);
        });
        await site.StartAsync();
        using HttpRequestMessage request = new(HttpMethod.Get, isCompressed && !overTls ? "/answer" : "/site")
        {
            Headers = { { "Accept-Encoding", "gzip" } }
        };
        using HttpResponseMessage response = await site.Client.SendAsync(request);
        Assert.Equal(isCompressed ? ["gzip"] : [], response.Content.Headers.ContentEncoding);
    }

    // ------------------------------------------------------------------ tags, conditions, HEAD

    [Fact]
    public void A_strong_tag_becomes_weak_and_is_known_again_so()
    {
        using Web web = NewWeb();
        Answer coded = Ask(web, "/tagged"), plain = Ask(web, "/tagged", "");
        Assert.Equal(("br", "W/\"v1\"", ""), (coded["Content-Encoding"], coded["ETag"], coded["Accept-Ranges"]));
        Assert.Equal(("", "\"v1\"", "bytes", "Accept-Encoding"),
            (plain["Content-Encoding"], plain["ETag"], plain["Accept-Ranges"], plain["Vary"]));
        foreach (string tag in (string[])["W/\"v1\"", "\"v1\""])
        {
            Answer same = Ask(web, "/tagged", $"{Takes}If-None-Match: {tag}\r\n");
            Assert.Equal((304, "W/\"v1\"", "Accept-Encoding", ""),
                (same.Status, same["ETag"], same["Vary"], same["Content-Encoding"]));
        }

        Assert.Equal((304, "\"v1\""), (Ask(web, "/tagged", "If-None-Match: W/\"v1\"\r\n").Status,
            Ask(web, "/tagged", "If-None-Match: W/\"v1\"\r\n")["ETag"]));
        // A weak match is not enough here.
        Assert.Equal(412, Ask(web, "/tagged", $"{Takes}If-Match: W/\"v1\"\r\n").Status);
    }

    [Fact]
    public void Parts_are_those_of_the_body_as_it_is()
    {
        using Web web = NewWeb();
        Answer part = Ask(web, "/tagged", $"{Takes}Range: bytes=5-9\r\n");
        Assert.Equal((206, _text[5..10], "", "\"v1\""),
            (part.Status, part.Body, part["Content-Encoding"], part["ETag"]));
        // The tag of the compressed body does not identify bytes, so a range cannot be appended to what the client has.
        Answer whole = Ask(web, "/tagged", $"{Takes}Range: bytes=5-9\r\nIf-Range: W/\"v1\"\r\n");
        Assert.Equal((200, "br", _text), (whole.Status, whole["Content-Encoding"], Plain(whole)));
    }

    [Theory]
    [InlineData("/text")]
    [InlineData("/pieces")]
    [InlineData("/tagged")]
    [InlineData("/large")]
    public void HEAD_has_the_fields_of_GET(string path)
    {
        using Web web = NewWeb();
        Answer get = Await(web, path);
        TestPeer peer = web.Connect();
        peer.Send(Web.Get(path, Takes, "HEAD"));
        List<byte> bytes = [];
        Deadline(() =>
        {
            web.Network.Run();
            bytes.AddRange(peer.Receive());
            return bytes.Count > 0;
        });
        Answer head = Assert.Single(Web.Read(bytes.ToArray(), false, static _ => true));
        Assert.Equal(FieldsOf(get), FieldsOf(head));
        Assert.Equal("", head.Body);
        peer.Send(Web.Get("/text", ""));
        Assert.Equal(_text, Web.One(peer).Body); // nothing of a body is in between

        static string[] FieldsOf(Answer answer) => [.. answer.Fields.Where(static f => f.Key != "Date")
            .Select(static f => $"{f.Key}: {f.Value}").Order()];
    }

    // ------------------------------------------------------------------ pieces

    [Theory]
    [InlineData("gzip")]
    [InlineData("br")]
    public async Task A_flush_sends_everything_written_so_far(string coding)
    {
        using Web web = new(Compressing());
        SemaphoreSlim next = new(0);
        web.Server.Get("/", async (_, response, stop) =>
        {
            for (int i = 0; i < 5; i++)
            {
                await response.SendEventAsync($"event {i}", cancellationToken: stop);
                await next.WaitAsync(stop);
            }
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", $"Accept-Encoding: {coding}\r\n"));
        List<byte> bytes = [];
        string expected = "";
        for (int i = 0; i < 5; i++)
        {
            expected += $"data: event {i}\n\n";
            bytes.AddRange(peer.Receive());
            Answer answer = Assert.Single(Web.Read(bytes.ToArray(), false));
            Assert.Equal((coding, "text/event-stream", false),
                (answer["Content-Encoding"], answer["Content-Type"], answer.IsWhole));
            byte[] room = new byte[1000];
            // Reads only the available bytes, because the stream has not ended yet.
            await using Stream plain = Inflater(new MemoryStream(Encoding.Latin1.GetBytes(answer.Body)), coding);
            int length = await plain.ReadAtLeastAsync(room, expected.Length, throwOnEndOfStream: false);
            Assert.Equal(expected, Encoding.ASCII.GetString(room, 0, length));
            next.Release();
            Deadline(() =>
            {
                web.Network.Run();
                bytes.AddRange(peer.Receive());
                return Assert.Single(Web.Read(bytes.ToArray(), false)) is var now
                    && (now.IsWhole || now.Body.Length > answer.Body.Length);
            });
        }

        Answer last = Assert.Single(Web.Read(bytes.ToArray(), false));
        Assert.True(last.IsWhole);
        Assert.Equal(expected, Plain(last));
        Assert.Equal(0, web.Server.Http.Compression!.Streams);
    }

    [Fact]
    public void Trailers_and_HTTP_1_0_clients_work_with_compression()
    {
        using Web web = NewWeb();
        web.Server.Get("/trailer", static async (_, response, stop) =>
        {
            response.Add("Content-Type", "text/plain");
            await response.WriteAsync(Encoding.ASCII.GetBytes(_text), stop);
            response.AddTrailer("X-Sum", "1");
        });
        Answer trailed = Ask(web, "/trailer");
        Assert.Equal((_text, "X-Sum: 1\r\n"), (Plain(trailed), trailed.Trailers));
        TestPeer old = web.Connect();
        old.Send($"GET /pieces HTTP/1.0\r\n{Takes}\r\n");
        Answer answer = Web.One(old);
        Assert.Equal((_text, "br", true), (Plain(answer), answer["Content-Encoding"], answer.IsWhole));
    }

    [Theory]
    [InlineData(-1)]
    [InlineData(1)]
    public void A_length_that_was_announced_holds_for_what_is_written(int off)
    {
        using Web web = new(Compressing());
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/right", static (_, response, stop) => Write(response, 0, stop));
        web.Server.Get("/wrong", (_, response, stop) => Write(response, off, stop));
        Answer right = Ask(web, "/right");
        Assert.Equal((_text, "chunked"), (Plain(right), right["Transfer-Encoding"]));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/wrong", Takes));
        peer.Receive();
        Assert.True(peer.IsReset || peer.IsSessionFinished);
        Assert.Equal(1, web.Counters.HandlerErrors);
        Assert.Equal(0, web.Server.Http.Compression!.Streams);

        static async ValueTask Write(HttpResponse response, int off, CancellationToken stop)
        {
            response.Add("Content-Type", "text/plain");
            response.BodyLength = _text.Length - off;
            await response.WriteAsync(Encoding.ASCII.GetBytes(_text[..100]), stop);
            await response.FlushAsync(stop);
            await response.WriteAsync(Encoding.ASCII.GetBytes(_text[100..]), stop);
        }
    }

    [Fact]
    public void Above_the_limit_of_streams_answers_are_uncompressed_and_a_client_that_leaves_frees_a_place()
    {
        using Web web = new(Compressing(streams: 2));
        List<TaskCompletionSource> waiting = [];
        web.Server.Get("/", async (_, response, stop) =>
        {
            response.Add("Content-Type", "text/plain");
            await response.WriteAsync("begun"u8.ToArray(), stop);
            await response.FlushAsync(stop);
            TaskCompletionSource end = new();
            waiting.Add(end);
            await end.Task.WaitAsync(stop);
        });
        HttpCompression compression = web.Server.Http.Compression!;
        TestPeer[] peers = [Begin("br"), Begin("br"), Begin("")];
        Assert.Equal(2, compression.Streams);
        waiting[0].SetResult();
        Assert.Equal(1, compression.Streams);
        peers[1].Reset();
        Deadline(() =>
        {
            web.Network.Run();
            return compression.Streams == 0;
        });
        Begin("br");
        Begin("br");
        Begin("");

        TestPeer Begin(string coding)
        {
            TestPeer peer = web.Connect();
            peer.Send(Web.Get("/", Takes));
            Answer answer = Web.One(peer);
            Assert.Equal((coding, "Accept-Encoding"), (answer["Content-Encoding"], answer["Vary"]));
            return peer;
        }
    }

    [Fact]
    public void An_answer_that_is_forgotten_gives_its_memory_back()
    {
        using Web web = new(Compressing());
        for (int i = 0; i < 4; i++) BeginAndForget(web);
        Deadline(() =>
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
            return web.Server.Http.Compression!.Streams == 0;
        });

        static void BeginAndForget(Web web)
        {
            using TestNetwork network = new();
            Server server = new(new ServerOptions { Engine = network.Engine, EndPoint = network.NewEndPoint() },
                () => new Forgetful(web.Server.Http));
            TestPeer peer = network.Connect(server);
            peer.Send(Web.Get("/", Takes));
            Assert.Equal("br", Web.One(peer)["Content-Encoding"]);
        }
    }

    private sealed class Forgetful(HttpOptions options) : HttpSession(options)
    {
        protected override void OnRequest(HttpRequest request)
        {
            Response.Add("Content-Type", "text/plain");
            Response.FlushAsync().AsTask().GetAwaiter().GetResult(); // and never more
        }
    }

    // ------------------------------------------------------------------ files

    [Fact]
    public async Task Small_files_of_text_are_compressed_once_and_large_ones_are_not()
    {
        using Folder folder = new();
        folder.Write("a.txt", Encoding.ASCII.GetBytes(_text));
        folder.Write("b.png", Encoding.ASCII.GetBytes(_text));
        folder.Write("c.txt", Encoding.ASCII.GetBytes(_large));
        folder.Write("d.txt", "small"u8.ToArray());
        folder.Write("e.txt", Encoding.ASCII.GetBytes(_text));
        folder.Write("e.txt.gz", "neighbour"u8.ToArray());
        await using EngineSite site = new(EngineKind.Portable, isTls: false, Scheduling.Inline, Compressing());
        site.Server.Files("/", folder.Root);
        await site.StartAsync();
        List<string> tags = [];
        foreach (string coding in (string[])["", "gzip", "br"])
        {
            (string body, HttpResponseMessage answer) = await AskAsync("/a.txt", coding);
            Assert.Equal((_text, coding), (body, answer.Content.Headers.ContentEncoding.SingleOrDefault("")));
            Assert.Equal("Accept-Encoding", Assert.Single(answer.Headers.Vary));
            tags.Add(answer.Headers.ETag!.ToString());
            Assert.Equal("\"", tags[^1][..1]);
            Assert.Equal(coding == "" ? _text.Length : answer.Content.Headers.ContentLength,
                answer.Content.Headers.ContentLength);
            answer.Dispose();
            foreach (string other in (string[])["/b.png", "/c.txt", "/d.txt"])
            {
                (_, HttpResponseMessage plain) = await AskAsync(other, coding);
                Assert.Empty(plain.Content.Headers.ContentEncoding);
                plain.Dispose();
            }
        }

        Assert.Equal(3, tags.Distinct().Count());
        using HttpRequestMessage request =
            new(HttpMethod.Get, "/e.txt") { Headers = { { "Accept-Encoding", "gzip" } } };
        using HttpResponseMessage neighbour = await site.Client.SendAsync(request);
        Assert.Equal("neighbour", await neighbour.Content.ReadAsStringAsync());

        async Task<(string Body, HttpResponseMessage Answer)> AskAsync(string path, string coding)
        {
            using HttpRequestMessage request = new(HttpMethod.Get, path);
            if (coding.Length > 0) request.Headers.Add("Accept-Encoding", coding);
            HttpResponseMessage answer = await site.Client.SendAsync(request);
            using StreamReader reader = new(Inflater(await answer.Content.ReadAsStreamAsync(),
                answer.Content.Headers.ContentEncoding.SingleOrDefault("")));
            return (await reader.ReadToEndAsync(), answer);
        }
    }

    // ------------------------------------------------------------------ engines and others' clients

    [Theory, MemberData(nameof(Kinds))]
    public async Task Bodies_of_any_length_arrive_as_they_were_given(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        HttpOptions options = new() { Compression = new HttpCompression { OverTls = true } };
        await using EngineSite site = new(kind, isTls, scheduling, options);
        site.Server.Get("/whole/{length}",
            static (request, response) => response.Text(_large[..int.Parse(request.Route["length"], null)]));
        site.Server.Get("/pieces/{length}", static async (request, response, stop) =>
        {
            int length = int.Parse(request.Route["length"], null);
            response.Add("Content-Type", "text/plain");
            Random random = new(length);
            for (int at = 0, count; at < length; at += count)
            {
                count = Math.Min(random.Next(1, 60_000), length - at);
                await response.WriteAsync(Encoding.ASCII.GetBytes(_large, at, count), stop);
                if (random.Next(3) == 0) await response.FlushAsync(stop);
            }
        });
        await site.StartAsync();
        foreach (string path in (string[])["whole", "pieces"])
        {
            foreach (string coding in (string[])["gzip", "br", "identity"])
            {
                foreach (int length in (int[])[1, 1024, 20_000, 131_072, 131_073, 400_000])
                {
                    using HttpRequestMessage request =
                        new(HttpMethod.Get, $"/{path}/{length}") { Headers = { { "Accept-Encoding", coding } } };
                    using HttpResponseMessage answer = await site.Client.SendAsync(request,
                        HttpCompletionOption.ResponseHeadersRead);
                    string sent = answer.Content.Headers.ContentEncoding.SingleOrDefault("identity");
                    if (coding == "identity" || path == "pieces" || length >= 1024) Assert.Equal(coding, sent);
                    using StreamReader reader = new(Inflater(await answer.Content.ReadAsStreamAsync(), sent));
                    Assert.Equal(_large[..length], await reader.ReadToEndAsync());
                }
            }
        }

        Assert.Equal(0, options.Compression.Streams);
    }

    // A large piece is compressed on the pool. If that was complete before the loop checked, the loop continued
    // immediately and sent the following piece before the large one.
    [Theory, MemberData(nameof(Kinds))]
    public async Task Data_that_a_handler_sends_after_a_large_piece_stays_after_it(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        const int large = 300_000;
        await using EngineSite site = new(kind, isTls, scheduling,
            new HttpOptions { Compression = new HttpCompression { OverTls = true } });
        site.Server.Get("/", static async (request, response, stop) =>
        {
            response.Add("Content-Type", "text/plain");
            ValueTask writing = response.WriteAsync(Encoding.ASCII.GetBytes(_large, 0, large), stop);
            // The thread is delayed, as it may be on a busy machine.
            SpinWait.SpinUntil(() => writing.IsCompleted, TimeSpan.FromMilliseconds(300));
            await writing;
            await response.WriteAsync(Encoding.ASCII.GetBytes(_large, large, 1_000), stop);
            await response.FlushAsync(stop);
        });
        await site.StartAsync();
        using HttpRequestMessage request = new(HttpMethod.Get, "/") { Headers = { { "Accept-Encoding", "gzip" } } };
        using HttpResponseMessage answer = await site.Client.SendAsync(request,
            HttpCompletionOption.ResponseHeadersRead);
        using StreamReader reader = new(Inflater(await answer.Content.ReadAsStreamAsync(),
            answer.Content.Headers.ContentEncoding.Single()));
        Assert.Equal(_large[..(large + 1_000)], await reader.ReadToEndAsync());
    }

    [Fact]
    public async Task Curl_reads_it()
    {
        Assert.SkipUnless(File.Exists("/usr/bin/curl"), "curl is not installed.");
        await using HttpServer server = new("http://127.0.0.1:0", Compressing());
        server.Get("/text", static (_, response) => response.Text(_text));
        server.Get("/large", static (_, response) => response.Text(_large));
        server.Get("/pieces", static async (_, response, stop) =>
        {
            response.Add("Content-Type", "application/json");
            await response.WriteAsync(Encoding.ASCII.GetBytes(_text), stop);
        });
        await server.StartAsync();
        foreach (string path in (string[])["text", "large", "pieces"])
        {
            using Process curl = Process.Start(new ProcessStartInfo("/usr/bin/curl", ["--silent", "--show-error",
                "--max-time", "30", "--compressed", "--dump-header", "-", $"http://{server.EndPoint}/{path}"])
            {
                RedirectStandardOutput = true
            })!;
            string output = await curl.StandardOutput.ReadToEndAsync();
            await curl.WaitForExitAsync();
            string[] parts = output.Split("\r\n\r\n", 2);
            Assert.Matches("Content-Encoding: (br|gzip)", parts[0]);
            Assert.Equal(path == "large" ? _large : _text, parts[1]);
        }
    }

    [Fact]
    public void Options_are_checked()
    {
        ArgumentException wrong =
            Assert.Throws<ArgumentException>(static () => new HttpServer("http://127.0.0.1:0", new HttpOptions
            {
                Compression =
                    new HttpCompression { BrotliLevel = 12, GzipLevel = 0, MinimumBytes = -1, StreamLimit = -1 },
            }));
        foreach (string name in (string[])["BrotliLevel", "GzipLevel", "MinimumBytes", "StreamLimit"])
            Assert.Contains($"Compression.{name}", wrong.Message, StringComparison.Ordinal);
    }
}
