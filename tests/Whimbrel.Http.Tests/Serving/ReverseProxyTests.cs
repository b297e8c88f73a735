using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Examples;
using Whimbrel.Http.Tests.Asking;

namespace Whimbrel.Http.Tests.Serving;

// The reverse proxy example, with one of our servers and with scripted ones as target.
public sealed class ReverseProxyTests
{
    private static readonly TimeSpan _patience = EngineSite.Patience;

    /// <summary>The proxy with its target.</summary>
    private sealed class Rig : IAsyncDisposable
    {
        private readonly HttpPool _pool = new(ReverseProxy.Habits);

        internal Rig(string target) => Proxy = ReverseProxy.Create("http://127.0.0.1:0", new Uri(target), _pool);

        internal HttpServer Proxy { get; }

        internal async Task<Stream> ConnectAsync()
        {
            if (!Proxy.IsAccepting) await Proxy.StartAsync();
            Socket socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            await socket.ConnectAsync(Proxy.EndPoint!);
            return new NetworkStream(socket, ownsSocket: true);
        }

        /// <summary>Everything that the proxy sends back.</summary>
        internal async Task<byte[]> AskAsync(string request)
        {
            await using Stream stream = await ConnectAsync();
            await stream.WriteAsync(Encoding.Latin1.GetBytes(request));
            using MemoryStream answer = new();
            await stream.CopyToAsync(answer).WaitAsync(_patience);
            return answer.ToArray();
        }

        public async ValueTask DisposeAsync()
        {
            await Proxy.DisposeAsync();
            await _pool.DisposeAsync();
        }
    }

    private static async Task<HttpServer> StartAsync(Action<HttpServer> routes)
    {
        HttpServer server = new("http://127.0.0.1:0", new HttpOptions { BodyLimitBytes = long.MaxValue });
        routes(server);
        await server.StartAsync();
        return server;
    }

    [Fact]
    public void The_example_has_at_most_sixty_lines()
    {
        string[] files = Directory.GetFiles(Path.Combine(SourceTree.Root, "examples", "ReverseProxy"), "*.cs");
        Assert.Equal(2, files.Length);
        Assert.InRange(files.Sum(static f => File.ReadLines(f).Count()), 1, 60);
    }

    [Fact]
    public async Task Sixty_four_MiB_go_each_way_and_a_receiver_that_does_not_read_holds_the_sender_back()
    {
        const int Length = 64 << 20;
        const int Block = 1 << 20;
        TaskCompletionSource reads = new(TaskCreationOptions.RunContinuationsAsynchronously);
        long given = 0;
        await using HttpServer target = await StartAsync(server => server.Post("/", async (request, response, stop) =>
        {
            await reads.Task.WaitAsync(stop);
            using IncrementalHash sum = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
            byte[] block = new byte[Block];
            for (int count; (count = await request.Body.ReadAsync(block, stop)) > 0;) sum.AppendData(block, 0, count);
            response.Add("X-Sum", Convert.ToHexString(sum.GetHashAndReset()));
            response.BodyLength = Length;
            for (int i = 0; i < Length / Block; i++)
            {
                Noise.Fill(block, i);
                await response.WriteAsync(block, stop);
                Interlocked.Add(ref given, Block);
            }
        }));
        await using Rig rig = new($"http://{target.EndPoint}");
        await using Stream stream = await rig.ConnectAsync();
        long sent = 0;
        using IncrementalHash sum = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        Task sending = Task.Run(async () =>
        {
            await stream.WriteAsync(Encoding.ASCII.GetBytes(
                $"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {Length}\r\n\r\n"));
            byte[] block = new byte[Block];
            for (int i = 0; i < Length / Block; i++)
            {
                Noise.Fill(block, ~i);
                sum.AppendData(block);
                await stream.WriteAsync(block);
                Interlocked.Add(ref sent, Block);
            }
        });
        Assert.InRange(await StandstillOfAsync(() => Interlocked.Read(ref sent)), 0, Length / 2);
        reads.SetResult();
        await sending.WaitAsync(_patience);
        Assert.InRange(await StandstillOfAsync(() => Interlocked.Read(ref given)), 1, Length / 2);

        byte[] head = new byte[4096];
        int length = 0;
        while (head.AsSpan(0, length).IndexOf("\r\n\r\n"u8) < 0)
            length += await stream.ReadAsync(head.AsMemory(length, 1)).AsTask().WaitAsync(_patience);
        string text = Encoding.ASCII.GetString(head, 0, length);
        Assert.StartsWith("HTTP/1.1 200 ", text, StringComparison.Ordinal);
        Assert.Contains($"Content-Length: {Length}\r\n", text, StringComparison.Ordinal);
        Assert.Contains($"X-Sum: {Convert.ToHexString(sum.GetHashAndReset())}\r\n", text, StringComparison.Ordinal);
        byte[] got = new byte[Block], expected = new byte[Block];
        for (int i = 0; i < Length / Block; i++)
        {
            await stream.ReadExactlyAsync(got).AsTask().WaitAsync(_patience);
            Noise.Fill(expected, i);
            Assert.True(got.AsSpan().SequenceEqual(expected), $"block {i}");
        }

        Assert.Equal(0, await stream.ReadAsync(got).AsTask().WaitAsync(_patience));
    }

    /// <summary>Value of a counter when it no longer changes.</summary>
    private static async Task<long> StandstillOfAsync(Func<long> counter)
    {
        long last = -1;
        for (int same = 0; same < 10;)
        {
            long now = counter();
            same = now == last && now > 0 ? same + 1 : 0;
            last = now;
            // tidy: waits because the absence of an event has no event
            await Task.Delay(20, TestContext.Current.CancellationToken);
        }

        return last;
    }

    [Fact]
    public async Task Fields_of_a_connection_stay_on_it()
    {
        TaskCompletionSource<string> asked = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using Script target = new(async line =>
        {
            asked.SetResult((await line.HeadAsync())!);
            await line.SendAsync("HTTP/1.1 203 Fine\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: "
                + "timeout=5\r\nX-End: caf\u00e9\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nProxy-Authenticate: "
                + "Basic\r\nContent-Length: 2\r\n\r\nok");
        });
        await using Rig rig = new(target.Url);
        string answer = Encoding.Latin1.GetString(await rig.AskAsync(
            "GET //other.test/a/../b%2e?c=%20d HTTP/1.1\r\nHost: front.test\r\nConnection: close, X-Mine\r\nX-Mine: "
            + "1\r\nX-Kept: caf\u00e9\r\nTE: trailers\r\nProxy-Authorization: Basic x\r\nProxy-Connection: "
            + "close\r\nKeep-Alive: 5\r\nUpgrade: x\r\n\r\n"));
        Assert.Equal($"GET //other.test/a/../b%2e?c=%20d HTTP/1.1\r\nHost: {target.Url[7..]}\r\nX-Kept: "
            + $"caf\u00e9\r\nX-Forwarded-Host: front.test\r\n\r\n", await asked.Task.WaitAsync(_patience));
        string[] lines = answer.Split("\r\n");
        Assert.StartsWith("HTTP/1.1 203 ", lines[0], StringComparison.Ordinal);
        Assert.Equal(["X-End: caf\u00e9", "Set-Cookie: a=1", "Set-Cookie: b=2", "Connection: close",
            "Content-Length: 2", "", "ok"], lines[2..]);
    }

    [Fact]
    public async Task Statuses_lengths_and_HEAD_responses_equal_those_of_the_target()
    {
        await using HttpServer target = await StartAsync(static server =>
        {
            server.Get("/length", static (_, response) => response.Text("12345"));
            server.Get("/chunks", static async (_, response, stop) =>
            {
                await response.FlushAsync(stop);
                await response.WriteAsync("12345"u8.ToArray(), stop);
            });
            server.Get("/zero", static (_, response) => response.Bytes(default));
            server.Get("/empty", static async (_, response, stop) => await response.FlushAsync(stop));
            server.Get("/tag",
                static (_, response) => { if (response.MeetsConditions("\"v\"")) response.Text("12345"); });
            server.Map(HttpVerb.Delete, "/gone", static (_, response) => response.Empty(204));
        });
        await using Rig rig = new($"http://{target.EndPoint}");
        foreach ((string request, string expected, string framing) in ((string, string, string)[])
        [
            ("GET /length", "200 12345", "Content-Length"), ("HEAD /length", "200 ", "Content-Length"),
            ("GET /chunks", "200 12345", "Transfer-Encoding"),
            ("HEAD /chunks", "200 ", "Transfer-Encoding"), ("GET /zero", "200 ", "Content-Length"),
            ("GET /empty", "200 ", "Transfer-Encoding"),
            ("GET /tag", "304 ", ""), ("DELETE /gone", "204 ", ""),
            ("GET /none", "404 404 Not Found\r\n", "Content-Length"),
        ])
        {
            byte[] answer = await rig.AskAsync(
                $"{request} HTTP/1.1\r\nHost: a\r\nIf-None-Match: W/\"v\"\r\nConnection: close\r\n\r\n");
            Answer read =
                Assert.Single(Web.Read(answer, true, _ => request.StartsWith("HEAD", StringComparison.Ordinal)));
            Assert.Equal((expected, true), ($"{read.Status} {read.Body}", read.IsWhole));
            Assert.Equal(framing,
                string.Concat(read.Fields.Keys.Where(static k => k is "Content-Length" or "Transfer-Encoding")));
            if (framing == "Content-Length" && request.EndsWith("/length", StringComparison.Ordinal))
                Assert.Equal("5", read["Content-Length"]);
        }
    }

    [Fact]
    public async Task Events_come_through_one_by_one()
    {
        SemaphoreSlim next = new(0);
        await using HttpServer target = await StartAsync(server => server.Get("/", async (_, response, stop) =>
        {
            for (int i = 0; i < 3; i++)
            {
                await response.SendEventAsync($"{i}", cancellationToken: stop);
                await next.WaitAsync(stop);
            }
        }));
        await using Rig rig = new($"http://{target.EndPoint}");
        await using Stream stream = await rig.ConnectAsync();
        await stream.WriteAsync("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray());
        StringBuilder seen = new();
        byte[] room = new byte[1000];
        for (int i = 0; i < 3; i++)
        {
            while (!seen.ToString().Contains($"data: {i}\n\n", StringComparison.Ordinal))
                seen.Append(Encoding.ASCII.GetString(room, 0,
                    await stream.ReadAsync(room).AsTask().WaitAsync(_patience)));
            next.Release();
        }
    }

    [Fact]
    public async Task A_client_that_goes_away_ends_the_work_of_the_target()
    {
        TaskCompletionSource begun = new(TaskCreationOptions.RunContinuationsAsynchronously),
            cancelled = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using HttpServer target = await StartAsync(server => server.Get("/", async (_, _, stop) =>
        {
            await using CancellationTokenRegistration registration = stop.Register(cancelled.SetResult);
            begun.SetResult();
            await cancelled.Task;
        }));
        await using Rig rig = new($"http://{target.EndPoint}");
        await using (Stream stream = await rig.ConnectAsync())
        {
            await stream.WriteAsync("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray());
            await begun.Task.WaitAsync(_patience);
        }

        await cancelled.Task.WaitAsync(_patience);
    }

    [Fact]
    public async Task A_target_that_is_gone_is_502_and_one_that_breaks_off_is_cut_off_here_too()
    {
        HttpServer gone =
            await StartAsync(static server => server.Get("/", static (_, response) => response.Text("x")));
        string url = $"http://{gone.EndPoint}";
        await gone.DisposeAsync();
        await using (Rig rig = new(url))
        {
            foreach (string request in (string[])["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"])
            {
                Answer refused = Assert.Single(Web.Read(await rig.AskAsync(request), true));
                Assert.Equal((502, "502 Bad Gateway: Refused.\r\n"), (refused.Status, refused.Body));
            }
        }

        TaskCompletionSource seen = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using Script target = new(async line =>
        {
            await line.HeadAsync();
            await line.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
            await seen.Task;
        });
        await using Rig cut = new(target.Url);
        await using Stream stream = await cut.ConnectAsync();
        await stream.WriteAsync("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray());
        StringBuilder text = new();
        byte[] room = new byte[1000];
        while (!text.ToString().EndsWith("half", StringComparison.Ordinal))
            text.Append(Encoding.ASCII.GetString(room, 0, await stream.ReadAsync(room).AsTask().WaitAsync(_patience)));
        seen.SetResult();
        // a reset, so that the truncated response does not look complete
        await Assert.ThrowsAsync<IOException>(() => stream.ReadAsync(room).AsTask().WaitAsync(_patience));
    }
}
