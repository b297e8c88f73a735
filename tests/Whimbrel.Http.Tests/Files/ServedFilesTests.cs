using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Conformance;
using Whimbrel.Http.Files;
using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.Files;

// Folders that are served, end to end.
public sealed class ServedFilesTests
{
    public static TheoryData<EngineKind, bool, Scheduling> Kinds() => EngineTests.Kinds();

    private static readonly HttpFileOptions _always = new() { Freshness = TimeSpan.Zero };

    /// <summary>Sends the requests unchanged, pipelined, and reads all responses.</summary>
    private static async Task<List<Answer>> AskAsync(EngineSite site, params string[] requests)
    {
        await using Stream stream = await site.ConnectAsync();
        string all = string.Concat(requests[..^1].Select(static r => r)) + requests[^1].Replace("\r\n\r\n",
            "\r\nConnection: close\r\n\r\n", StringComparison.Ordinal);
        Task sending = stream.WriteAsync(Encoding.Latin1.GetBytes(all)).AsTask();
        using MemoryStream answers = new();
        await stream.CopyToAsync(answers).WaitAsync(EngineSite.Patience);
        await sending;
        return Web.Read(answers.ToArray(), true,
            index => requests[Math.Min(index, requests.Length - 1)].StartsWith("HEAD", StringComparison.Ordinal));
    }

    private static async Task<Answer> AskOneAsync(EngineSite site, string request) =>
        Assert.Single(await AskAsync(site, request));

    [Theory, MemberData(nameof(Kinds))]
    public async Task Files_are_sent_whole_in_parts_or_not_at_all(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        using Folder folder = new();
        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Files("/", folder.Root);
        await site.StartAsync();
        foreach (int length in (int[])[0, 1, 1000, 20_000, 131_072, 131_073, 1_500_000])
        {
            byte[] bytes = Folder.Random(length, length);
            string text = Encoding.Latin1.GetString(bytes);
            folder.Write($"f{length}.bin", bytes);
            string path = $"/f{length}.bin";
            Answer first = await AskOneAsync(site, Web.Get(path));
            Assert.Equal((200, text), (first.Status, first.Body));
            Assert.Equal(("application/octet-stream", "bytes"), (first["Content-Type"], first["Accept-Ranges"]));
            Assert.Matches("^\"[0-9a-f-]+\"$", first["ETag"]);
            string tag = first["ETag"], date = first["Last-Modified"];
            // All of the following requests are cache hits and are pipelined on one connection.
            List<Answer> more = await AskAsync(
                site,
                Web.Get(path),
                Web.Get(path, verb: "HEAD"),
                Web.Get(path, $"If-None-Match: {tag}\r\n"),
                Web.Get(path, $"If-Modified-Since: {date}\r\n"),
                Web.Get(path, "If-Match: \"x\"\r\n"),
                Web.Get(path, $"Range: bytes={length / 2}-\r\nIf-Range: {tag}\r\n"),
                Web.Get(path, "Range: bytes=-1\r\nIf-Range: \"x\"\r\n"),
                Web.Get(path, $"Range: bytes={length}-\r\n"),
                Web.Get(path, $"Range: bytes=0-0,-1\r\n"),
                Web.Get(path, "Range: bytes=0-0\r\n", verb: "HEAD"));
            bool isEmpty = length == 0;
            Assert.Equal([200, 200, 304, 304, 412, isEmpty ? 200 : 206, 200, isEmpty ? 200 : 416,
                length > 1 ? 206 : 200, 200], more.Select(static a => a.Status));
            Assert.Equal((text, "", "", text[(length / 2)..], text),
                (more[0].Body, more[1].Body, more[2].Body, more[5].Body, more[6].Body));
            Assert.Equal(length.ToString(CultureInfo.InvariantCulture), more[1]["Content-Length"]);
            Assert.Equal((tag, ""), (more[2]["ETag"], more[2]["Content-Type"]));
            if (isEmpty) continue;
            Assert.Equal($"bytes {length / 2}-{length - 1}/{length}", more[5]["Content-Range"]);
            Assert.Equal($"bytes */{length}", more[7]["Content-Range"]);
            if (length > 1) AssertParts(more[8], (0, text[..1]), (length - 1, text[^1..]));
        }
    }

    private static void AssertParts(Answer answer, params (int Start, string Bytes)[] parts)
    {
        string boundary = answer["Content-Type"]["multipart/byteranges; boundary=".Length..];
        string expected = string.Concat(parts.Select(part => $"\r\n--{boundary}\r\nContent-Type: "
            + $"application/octet-stream\r\nContent-Range: bytes {part.Start}-{part.Start + part.Bytes.Length - 1}/"));
        string[] pieces = answer.Body.Split($"\r\n--{boundary}");
        Assert.Equal(parts.Length + 2, pieces.Length);
        Assert.Equal(("", "--\r\n"), (pieces[0], pieces[^1]));
        Assert.NotEmpty(expected);
        foreach (((int start, string bytes), string piece) in parts.Zip(pieces[1..^1]))
        {
            Assert.Contains($"\r\nContent-Range: bytes {start}-{start + bytes.Length - 1}/", piece,
                StringComparison.Ordinal);
            Assert.Equal(bytes, piece[(piece.IndexOf("\r\n\r\n", StringComparison.Ordinal) + 4)..]);
        }
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_large_file_goes_byte_by_byte_to_a_slow_reader_and_memory_stays_flat(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        long length = Depth.IsDeep ? 1L << 30 : 64L << 20;
        if (!Depth.IsDeep && scheduling == Scheduling.ThreadPool) return; // the same bytes by the same way
        using Folder folder = new();
        using (FileStream made = File.Create(folder["large"]))
        {
            byte[] block = Folder.Random(1 << 20, 5);
            for (long at = 0; at < length; at += block.Length)
            {
                BitConverter.TryWriteBytes(block, at);
                made.Write(block);
            }
        }

        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Files("/", folder.Root);
        await site.StartAsync();
        long before = GC.GetTotalMemory(true), most = 0, got = 0;
        using IncrementalHash hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        using HttpResponseMessage answer = await site.Client.GetAsync(new Uri("/large", UriKind.Relative),
            HttpCompletionOption.ResponseHeadersRead);
        await using Stream body = await answer.Content.ReadAsStreamAsync();
        // The peer does not read until the server makes no more progress: the server sends what fits the socket buffers
        // and nothing more.
        for (long sent = -1, still = 0; still < 10; still = site.Server.BytesSent == sent ? still + 1 : 0)
        {
            sent = site.Server.BytesSent;
            await Task.Delay(5); // tidy: waits because nothing is what is looked for
        }

        Assert.InRange(site.Server.BytesSent, 1, 24L << 20);
        most = GC.GetTotalMemory(true);
        byte[] buffer = new byte[256 * 1024];
        for (int count, turn = 0;
            (count = await body.ReadAsync(buffer).AsTask().WaitAsync(EngineSite.Patience)) > 0; turn++)
        {
            hash.AppendData(buffer, 0, count);
            got += count;
            if (turn % 64 == 0) most = Math.Max(most, GC.GetTotalMemory(false));
            if (turn % 256 == 0) await Task.Yield();
        }

        Assert.Equal(length, got);
        await using FileStream file = File.OpenRead(folder["large"]);
        Assert.Equal(await SHA256.HashDataAsync(file), hash.GetHashAndReset());
        Assert.InRange(most - before, long.MinValue, 24L << 20);
    }

    [Fact]
    public async Task No_path_leads_out_of_the_root()
    {
        using Folder folder = new();
        folder.Write("index.html", "home");
        folder.Write("a/b/c.txt", "inside");
        folder.Write(".htpasswd", Folder.Secret);
        folder.Write(".git/config", Folder.Secret);
        folder.Write("a/.hidden", Folder.Secret);
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root);
        site.Server.Files("/static/", folder.Root, new HttpFileOptions { ServesDotFiles = true, IndexPages = [] });
        await site.StartAsync();
        foreach (var row in FilePathTests.Attacks())
        {
            foreach (string prefix in (string[])["/", "/static/"])
            {
                List<Answer> answers = await AskAsync(site, $"GET {prefix}{row.Data} HTTP/1.1\r\n{Web.Host}\r\n");
                Answer answer = Assert.Single(answers);
                // a dot file, which is asked for
                if (prefix == "/static/" && FilePathTests.Read(row.Data, allowsDots: true) is { } name
                    && File.Exists(folder[name]))
                    continue;
                Assert.True(answer.Status is 400 or 404, $"{prefix}{row.Data}: {answer.Status}");
                Assert.DoesNotContain(Folder.Secret, answer.Body, StringComparison.Ordinal);
            }
        }

        Assert.Equal("inside", (await AskOneAsync(site, Web.Get("/a/b/c.txt"))).Body);
        Assert.Equal("inside", (await AskOneAsync(site, Web.Get("/%61/%62/c%2etxt"))).Body);
        Assert.Equal(Folder.Secret, (await AskOneAsync(site, Web.Get("/static/.htpasswd"))).Body);
    }

    [Theory]
    [InlineData(HttpFileLinks.Inside)]
    [InlineData(HttpFileLinks.Refused)]
    [InlineData(HttpFileLinks.Anywhere)]
    public async Task Links_do_what_the_option_says(HttpFileLinks links)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Symbolic links need privileges on this system.");
        using Folder folder = new();
        folder.Write("a/file", "inside");
        File.CreateSymbolicLink(folder["in"], "a/file");
        File.CreateSymbolicLink(folder["a/up"], "../a/file");
        Directory.CreateSymbolicLink(folder["folder"], "a");
        File.CreateSymbolicLink(folder["out"], "../secret");
        File.CreateSymbolicLink(folder["absolute"], Path.Combine(folder.Path, "secret"));
        Directory.CreateSymbolicLink(folder["outside"], "../etc");
        Directory.CreateSymbolicLink(folder["outAndIn"], "../served/a");
        File.CreateSymbolicLink(folder["loop"], "loop");
        File.CreateSymbolicLink(folder["self"], "/proc/self/environ");
        File.CreateSymbolicLink(folder["nowhere"], "nothing");
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root, new HttpFileOptions { Links = links });
        await site.StartAsync();
        async Task<int> StatusOf(string path)
        {
            Answer answer = await AskOneAsync(site, Web.Get(path));
            if (links != HttpFileLinks.Anywhere)
                Assert.DoesNotContain(Folder.Secret, answer.Body, StringComparison.Ordinal);
            return answer.Status;
        }

        int inside = links == HttpFileLinks.Refused ? 404 : 200, outside = links == HttpFileLinks.Anywhere ? 200 : 404;
        foreach (string path in (string[])["/in", "/a/up", "/folder/file"])
            Assert.Equal((path, inside), (path, await StatusOf(path)));
        foreach (string path in (string[])["/out", "/absolute", "/outside/passwd"])
            Assert.Equal((path, outside), (path, await StatusOf(path)));
        if (links != HttpFileLinks.Anywhere) Assert.Equal(404, await StatusOf("/outAndIn/file"));
        if (links != HttpFileLinks.Anywhere) Assert.Equal(404, await StatusOf("/self"));
        foreach (string path in (string[])["/loop", "/nowhere", "/file"])
            Assert.Equal((path, 404), (path, await StatusOf(path)));
    }

    [Fact]
    public async Task A_pipe_is_not_served_and_blocks_no_request()
    {
        using Folder folder = new();
        Assert.SkipUnless(Folder.TryMakePipe(folder["pipe"]), "This system has no named pipes.");
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root);
        await site.StartAsync();
        Assert.Equal(404, (await AskOneAsync(site, Web.Get("/pipe"))).Status);
        Assert.Equal(0, folder.OpenFiles());
    }

    [Fact]
    public async Task A_change_on_disk_is_noticed()
    {
        using Folder folder = new();
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root, _always);
        await site.StartAsync();
        async Task<(int Status, string Body, string Tag)> Get(string path)
        {
            Answer answer = await AskOneAsync(site, Web.Get(path));
            return (answer.Status, answer.Body, answer["ETag"]);
        }

        Assert.Equal(404, (await Get("/a.txt")).Status);
        folder.Write("a.txt", "one");
        (int status, string body, string tag) = await Get("/a.txt");
        Assert.Equal((200, "one"), (status, body));
        folder.Write("a.txt", "two");
        Assert.Equal((200, "two"), ((await Get("/a.txt")).Status, (await Get("/a.txt")).Body));
        Assert.NotEqual(tag, (await Get("/a.txt")).Tag);
        folder.Write("a.txt", "one");
        Assert.Equal(tag, (await Get("/a.txt")).Tag); // the same bytes
        folder.Write("b", "replaced");
        File.Move(folder["b"], folder["a.txt"], overwrite: true);
        Assert.Equal("replaced", (await Get("/a.txt")).Body);
        File.AppendAllText(folder["a.txt"], ", longer");
        Assert.Equal("replaced, longer", (await Get("/a.txt")).Body);
        folder.Write("a.txt", new string('x', 300_000)); // from memory to the disk
        Assert.Equal(300_000, (await Get("/a.txt")).Body.Length);
        tag = (await Get("/a.txt")).Tag;
        folder.Write("a.txt", new string('y', 300_000));
        Assert.Equal(new string('y', 300_000), (await Get("/a.txt")).Body);
        Assert.NotEqual(tag, (await Get("/a.txt")).Tag);
        File.Delete(folder["a.txt"]);
        Assert.Equal(404, (await Get("/a.txt")).Status);
        Directory.CreateDirectory(folder["a.txt"]);
        Assert.Equal(301, (await Get("/a.txt")).Status);
        folder.Write("a.txt/index.html", "now a folder");
        Assert.Equal("now a folder", (await Get("/a.txt/")).Body);
        Directory.Move(folder.Root, folder.Root + ".old");
        Assert.Equal(404, (await Get("/a.txt/")).Status);
        Assert.Equal(0, folder.OpenFiles());
        Directory.Move(folder.Root + ".old", folder.Root);
        Assert.Equal("now a folder", (await Get("/a.txt/")).Body);
    }

    [Fact]
    public async Task While_it_is_fresh_the_disk_is_not_asked()
    {
        using Folder folder = new();
        folder.Write("a.txt", "one");
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root, new HttpFileOptions { Freshness = TimeSpan.FromHours(1) });
        await site.StartAsync();
        Assert.Equal("one", (await AskOneAsync(site, Web.Get("/a.txt"))).Body);
        folder.Write("a.txt", "two");
        Assert.All(await AskAsync(site, [.. Enumerable.Repeat(Web.Get("/a.txt"), 50)]),
            static answer => Assert.Equal("one", answer.Body));
    }

    [Theory]
    [InlineData(EngineKind.Epoll, false)]
    [InlineData(EngineKind.Uring, false)]
    [InlineData(EngineKind.Portable, false)]
    [InlineData(EngineKind.Epoll, true)]
    public async Task A_file_that_is_cut_off_while_it_is_sent_ends_that_connection(EngineKind kind, bool isTls)
    {
        const int Length = 64 << 20;
        using Folder folder = new();
        folder.Write("large", new byte[Length]);
        folder.Write("small", "small");
        await using EngineSite site = new(kind, isTls, Scheduling.Inline);
        site.Server.Files("/", folder.Root);
        await site.StartAsync();
        await using Stream stream = await site.ConnectAsync();
        await stream.WriteAsync(Encoding.ASCII.GetBytes(Web.Get("/large")));
        byte[] buffer = new byte[64 * 1024];
        long got = await stream.ReadAsync(buffer).AsTask().WaitAsync(EngineSite.Patience);
        using (FileStream file = new(folder["large"], FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
            file.SetLength(1000);
        try
        {
            for (int count; (count = await stream.ReadAsync(buffer).AsTask().WaitAsync(EngineSite.Patience)) > 0;)
                got += count;
        }
        catch (IOException)
        {
            // The connection is reset, because the promised content length was not reached.
        }

        Assert.InRange(got, 1, Length - 1);
        Assert.Equal("small", (await AskOneAsync(site, Web.Get("/small"))).Body);
    }

    private sealed class Noting(HttpOptions options, RouteTable routes) : HttpSession(options, routes)
    {
        internal TaskCompletionSource<CloseReason> Ended { get; } =
            new(TaskCreationOptions.RunContinuationsAsynchronously);

        protected override void OnDisconnected(CloseReason reason)
        {
            base.OnDisconnected(reason);
            Ended.TrySetResult(reason);
        }
    }

    [Theory]
    [InlineData(EngineKind.Epoll, false)]
    [InlineData(EngineKind.Uring, false)]
    [InlineData(EngineKind.Portable, false)]
    [InlineData(EngineKind.Epoll, true)]
    public async Task A_connection_with_a_truncated_file_gives_that_as_its_reason(EngineKind kind, bool isTls)
    {
        using Folder folder = new();
        folder.Write("large", new byte[64 << 20]);
        await using EngineSite site = new(kind, isTls, Scheduling.Inline);
        using FileSite files = new(folder.Root, _always);
        RouteTable routes = new();
        routes.Add((int)HttpVerb.Get, routes.Scope, "/{*file}", default, files);
        Noting session = new(new HttpOptions(), routes);
        await using Server server = new(new ServerOptions
        {
            Engine = site.Server.Engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Tls = isTls ? TestCertificates.ServerOptions : null
        }, () => session);
        await server.StartAsync();
        await using Stream stream = await EngineSite.ConnectAsync(server.EndPoint!, isTls);
        await stream.WriteAsync(Encoding.ASCII.GetBytes(Web.Get("/large")));
        byte[] buffer = new byte[64 * 1024];
        await stream.ReadExactlyAsync(buffer).AsTask().WaitAsync(EngineSite.Patience);
        using (FileStream file = new(folder["large"], FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
            file.SetLength(1000);
        try
        {
            while (await stream.ReadAsync(buffer).AsTask().WaitAsync(EngineSite.Patience) > 0)
            {
            }
        }
        catch (IOException)
        {
            // The connection is reset, because the promised content length was not reached.
        }

        CloseReason reason = await session.Ended.Task.WaitAsync(EngineSite.Patience);
        Assert.Equal((CloseCause.FileFailed, CloseInitiator.Local), (reason.Cause, reason.Initiator));
    }

    [Theory]
    [InlineData(EngineKind.Epoll, 100)]
    [InlineData(EngineKind.Uring, 2_000_000_000)]
    [InlineData(EngineKind.Portable, 1)]
    public async Task Many_requests_over_more_files_than_are_kept_get_each_its_own(EngineKind kind, long limitBytes)
    {
        const int Files = 2000, Requests = 4_000, Clients = 8, Kept = 300;
        using Folder folder = new();
        for (int i = 0; i < Files; i++) folder.Write($"{i % 10}/{i}", Text(i));
        HttpFileOptions options = new() { CacheLimitFiles = Kept, CacheLimitBytes = limitBytes, SmallFileBytes = 3000 };
        await using (EngineSite site = new(kind, false, Scheduling.Inline))
        {
            site.Server.Files("/", folder.Root, options);
            await site.StartAsync();
            await Parallel.ForAsync(0, Clients, async (client, cancellation) =>
            {
                Random random = new(client);
                for (int i = 0; i < Requests / Clients; i++)
                {
                    int file = random.Next(random.Next(4) == 0 ? Files : 200);
                    Assert.Equal(Text(file), await site.Client.GetStringAsync(
                        new Uri($"/{file % 10}/{file}", UriKind.Relative), cancellation));
                }
            });
            Assert.Equal(Requests, site.Server.Http.ReadCounters().Requests);
            Assert.InRange(folder.OpenFiles(), 0, Kept);
        }

        Assert.Equal(0, folder.OpenFiles());

        // Small files are cached in memory, large ones as open descriptors.
        static string Text(int i) => string.Concat(Enumerable.Repeat($"file {i} ", 1 + i % 700));
    }

    [Fact]
    public async Task Folders_have_index_pages_and_a_slash()
    {
        using Folder folder = new();
        folder.Write("index.html", "root");
        folder.Write("a/home.htm", "second");
        folder.Write("empty/x", "x");
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root, new HttpFileOptions
        {
            IndexPages = ["index.html", "home.htm"],
            CacheControl = "max-age=60",
            ContentTypes = new Dictionary<string, string> { [".HTM"] = "text/x-own" }
        });
        site.Server.Files("/under/it", folder.Root);
        site.Server.Get("/api/{x}", static (request, response) => response.Text(request.Route["x"]));
        await site.StartAsync();
        List<Answer> answers = await AskAsync(
            site, Web.Get("/"), Web.Get("/a/"), Web.Get("/a?b=c"), Web.Get("/empty/"), Web.Get("/empty"),
            Web.Get("/under/it?x"), Web.Get("/under/it/"), Web.Get("/api/1"), Web.Get("/api/1/2"),
            Web.Get("/index.html/"));
        Assert.Equal([200, 200, 301, 404, 301, 301, 200, 200, 404, 404], answers.Select(static a => a.Status));
        Assert.Equal(("root", "text/html; charset=utf-8", "max-age=60"),
            (answers[0].Body, answers[0]["Content-Type"], answers[0]["Cache-Control"]));
        Assert.Equal(("second", "text/x-own"), (answers[1].Body, answers[1]["Content-Type"]));
        Assert.Equal(("/a/?b=c", "/empty/", "/under/it/?x"),
            (answers[2]["Location"], answers[4]["Location"], answers[5]["Location"]));
        Assert.Equal(("root", "1"), (answers[6].Body, answers[7].Body));
        foreach (string verb in (string[])["POST", "PUT", "DELETE", "PATCH"])
        {
            Answer refused = await AskOneAsync(site, Web.Get("/index.html", verb: verb));
            Assert.Equal((405, "GET, HEAD, OPTIONS"), (refused.Status, refused["Allow"]));
        }
    }

    [Fact]
    public async Task Compressed_neighbours_are_sent_to_clients_that_accept_them()
    {
        using Folder folder = new();
        folder.Write("a.js", "plain");
        folder.Write("a.js.gz", "gzipped");
        folder.Write("a.js.br", "brotli");
        folder.Write("b.js", "plain");
        folder.Write("c.js.gz", "alone");
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root, _always);
        await site.StartAsync();
        List<Answer> answers = await AskAsync(
            site,
            Web.Get("/a.js"),
            Web.Get("/a.js", "Accept-Encoding: gzip\r\n"),
            Web.Get("/a.js", "Accept-Encoding: gzip, br\r\n"),
            Web.Get("/a.js", "Accept-Encoding: br;q=0, gzip;q=0.1\r\n"),
            Web.Get("/b.js", "Accept-Encoding: br\r\n"),
            Web.Get("/c.js", "Accept-Encoding: gzip\r\n"),
            Web.Get("/a.js", "Accept-Encoding: gzip\r\nRange: bytes=0-2\r\n"));
        Assert.Equal(["200 plain", "200 gzipped", "200 brotli", "200 gzipped", "200 plain", "404 404 Not Found\r\n",
            "206 gzi"], answers.Select(static a => $"{a.Status} {a.Body}"));
        Assert.Equal(["", "gzip", "br", "gzip", "", "", "gzip"], answers.Select(static a => a["Content-Encoding"]));
        Assert.Equal(["Accept-Encoding", "Accept-Encoding", "Accept-Encoding", "Accept-Encoding", "", "",
            "Accept-Encoding"], answers.Select(static a => a["Vary"]));
        Assert.All(answers.Take(4), static a => Assert.Equal("text/javascript; charset=utf-8", a["Content-Type"]));
        Assert.Equal(3, answers.Take(3).Select(static a => a["ETag"]).Distinct().Count());
        File.Delete(folder["a.js.br"]);
        Assert.Equal("gzip",
            (await AskOneAsync(site, Web.Get("/a.js", "Accept-Encoding: gzip, br\r\n")))["Content-Encoding"]);
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_handler_answers_with_a_file(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        using Folder folder = new();
        byte[] bytes = Folder.Random(400_000, 1);
        folder.Write("a.png", bytes);
        folder.Write("lost.html", "lost");
        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Get("/loop", (_, response) => response.File(folder["a.png"]));
        site.Server.Get("/awaited", async (_, response, stop) =>
        {
            await Task.Run(static () => { }, stop);
            response.File(folder["a.png"], "image/x-own");
        });
        site.Server.Get("/missing", (_, response) => { response.Add("X-Own", "1"); response.File(folder["nothing"]); });
        site.Server.Get("/status", (_, response) => { response.Status = 404; response.File(folder["lost.html"]); });
        await site.StartAsync();
        string text = Encoding.Latin1.GetString(bytes);
        List<Answer> answers = await AskAsync(
            site, Web.Get("/loop"), Web.Get("/awaited"), Web.Get("/missing"), Web.Get("/loop", "Range: bytes=5-9\r\n"),
            Web.Get("/status", "Range: bytes=0-0\r\n"), Web.Get("/loop", verb: "HEAD"), Web.Get("/awaited"));
        Assert.Equal([200, 200, 404, 206, 404, 200, 200], answers.Select(static a => a.Status));
        Assert.Equal((text, text, text[5..10], "lost", "", text),
            (answers[0].Body, answers[1].Body, answers[3].Body, answers[4].Body, answers[5].Body, answers[6].Body));
        Assert.Equal(("image/png", "image/x-own", "400000"),
            (answers[0]["Content-Type"], answers[1]["Content-Type"], answers[5]["Content-Length"]));
        List<Answer> again = await AskAsync(site, Web.Get("/loop", $"If-None-Match: {answers[0]["ETag"]}\r\n"),
            Web.Get("/status", $"If-None-Match: *\r\n"));
        Assert.Equal([304, 404], again.Select(static a => a.Status));
        await site.Server.StopAsync(EngineSite.Patience);
        Assert.Equal(0, folder.OpenFiles());
    }

    [Fact]
    public async Task A_client_that_goes_away_leaves_no_file_open()
    {
        using Folder folder = new();
        folder.Write("large", new byte[8 << 20]);
        await using (EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline))
        {
            site.Server.Files("/", folder.Root);
            site.Server.Get("/handler", (_, response) => response.File(folder["large"]));
            await site.StartAsync();
            foreach (string path in (string[])["/large", "/handler"])
            {
                using Socket socket =
                    new(SocketType.Stream, ProtocolType.Tcp) { LingerState = new LingerOption(true, 0) };
                await socket.ConnectAsync(site.Server.EndPoint!);
                await socket.SendAsync(Encoding.ASCII.GetBytes(Web.Get(path)));
                await socket.ReceiveAsync(new byte[1000]);
            }
        }

        Assert.Equal(0, folder.OpenFiles());
    }

    [Theory]
    [InlineData(1000, 0)]
    [InlineData(1001, 1)]
    public async Task A_file_up_to_SmallFileBytes_is_kept_in_memory_and_a_larger_one_open(int length, int open)
    {
        using Folder folder = new();
        folder.Write("f", new byte[length]);
        await using EngineSite site = new(EngineKind.Portable, false, Scheduling.Inline);
        site.Server.Files("/", folder.Root, new HttpFileOptions { SmallFileBytes = 1000 });
        await site.StartAsync();
        Assert.Equal(length, (await AskOneAsync(site, Web.Get("/f"))).Body.Length);
        Assert.Equal(OperatingSystem.IsLinux() ? open : 0, folder.OpenFiles());
    }

    [Fact]
    public async Task Invalid_options_and_prefixes_are_refused()
    {
        await using HttpServer server = new("http://127.0.0.1:0");
        Assert.Throws<ArgumentException>(() => server.Files("static", "x"));
        Assert.Throws<ArgumentException>(() => server.Files("/{a}", "x"));
        Assert.Throws<ArgumentException>(() => server.Files("/", ""));
        foreach (HttpFileOptions wrong in (HttpFileOptions[])
        [
            new() { CacheLimitFiles = 0 }, new() { CacheLimitBytes = -1 }, new() { SmallFileBytes = (16 << 20) + 1 },
            new() { Freshness = TimeSpan.FromSeconds(-1) }, new() { IndexPages = ["../x"] },
            new() { IndexPages = [""] },
            new() { ContentTypes = new Dictionary<string, string> { ["html"] = "x/y" } },
            new() { ContentTypes = new Dictionary<string, string> { [".x"] = "x/y\r\nA: b" } },
            new() { CacheControl = "a\nb" }, new() { Links = (HttpFileLinks)9 },
        ]) Assert.Throws<ArgumentException>(() => server.Files("/", "x", wrong));
        HttpFileOptions later = new() { MayBeMissing = true };
        server.Files("/", "x", later);
        Assert.Throws<ArgumentException>(() => server.Files("/", "y", later));
    }
}
