using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.Serving;

// The same server on each engine, plain and over TLS, with inline and thread-pool scheduling, requested by .NET's
// client and by a raw socket.
public sealed class EngineTests
{
    private static readonly TimeSpan _patience = EngineSite.Patience;
    private static readonly EngineKind[] s_engines = [EngineKind.Epoll, EngineKind.Uring, EngineKind.Portable];
    private static readonly Scheduling[] s_schedulings = [Scheduling.Inline, Scheduling.ThreadPool];

    public static TheoryData<EngineKind, bool, Scheduling> Kinds() =>
        new MatrixTheoryData<EngineKind, bool, Scheduling>(s_engines, [false, true], s_schedulings);

    public static TheoryData<EngineKind, Scheduling> PlainKinds() =>
        new MatrixTheoryData<EngineKind, Scheduling>(s_engines, s_schedulings);

    [Theory, MemberData(nameof(Kinds))]
    public async Task Requests_of_many_clients_are_answered_each_with_its_own(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Get("/sync/{x}", static (request, response) => response.Text(request.Route["x"]));
        site.Server.Get("/async/{x}", static async (request, response, stop) =>
        {
            string x = request.Route["x"];
            await Task.Run(static () => { }, stop); // continues on another thread
            response.Text(x);
        });
        site.Server.Get("/pieces/{x}", static async (request, response, stop) =>
        {
            foreach (char c in request.Route["x"])
            {
                await response.WriteAsync(new[] { (byte)c }, stop);
                await response.FlushAsync(stop);
            }
        });
        await site.StartAsync();
        await Parallel.ForAsync(0, 16, async (client, cancellation) =>
        {
            for (int i = 0; i < 25; i++)
            {
                string x = $"{client}-{i}";
                string path = (i % 3) switch { 0 => "sync", 1 => "async", _ => "pieces" };
                Assert.Equal(x,
                    await site.Client.GetStringAsync(new Uri($"/{path}/{x}", UriKind.Relative), cancellation));
            }
        });
        Assert.Equal(400, site.Server.Http.ReadCounters().Requests);
        Assert.InRange(site.Server.AcceptedCount, 1, 16);
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Large_bodies_go_both_ways_byte_by_byte(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        const int Length = 4_000_000;
        byte[] body = new byte[Length];
        Noise.Fill(body, 7);
        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Post("/stream", static async (request, response, stop) =>
        {
            response.BodyLength = request.BodyLength;
            await request.Body.CopyToAsync(response.Body, stop);
        });
        site.Server.Post("/pool", static async (request, response, stop) =>
        {
            await Task.Run(static () => { }, stop);
            ReadOnlyMemory<byte> all = await request.ReadBodyAsync(stop);
            response.Bytes(all.Span);
        });
        await site.StartAsync();
        foreach (bool isChunked in (bool[])[false, true])
        {
            using HttpRequestMessage request = new(HttpMethod.Post, "/stream") { Content = new ByteArrayContent(body) };
            request.Headers.TransferEncodingChunked = isChunked;
            request.Headers.ExpectContinue = true;
            using HttpResponseMessage response = await site.Client.SendAsync(request,
                HttpCompletionOption.ResponseHeadersRead);
            Assert.Equal(isChunked ? null : Length, response.Content.Headers.ContentLength);
            Assert.Equal(body, await response.Content.ReadAsByteArrayAsync());
        }

        byte[] part = body[..900_000];
        using HttpResponseMessage kept = await site.Client.PostAsync(new Uri("/pool", UriKind.Relative),
            new ByteArrayContent(part));
        Assert.Equal(part, await kept.Content.ReadAsByteArrayAsync());
    }

    /// <summary>Its callback continues after its response was sent: then no pending operation would deliver the unread
    /// data.</summary>
    private sealed class Patient : HttpSession
    {
        protected override void OnRequest(HttpRequest request)
        {
            Respond(200, default, request.Path);
            Flush();
            // Awaited on another thread, because here it would wait for this callback. With thread-pool scheduling
            // blocking is permitted.
            Assert.True(Task.Run(async () => await SentAsync()).Wait(_patience));
        }
    }

    // With thread-pool scheduling each pipelined request gets its own callback.
    [Theory, InlineData(EngineKind.Epoll), InlineData(EngineKind.Uring), InlineData(EngineKind.Portable)]
    public async Task On_the_pool_pipelined_requests_are_served_though_each_answer_has_left_before_the_next_is_read(
        EngineKind kind)
    {
        EngineSupport support = Engine.SupportFor(kind);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        await using Engine engine =
            new(new EngineOptions { Kind = kind, Loops = 1, OnDiagnosticEvent = static _ => { } });
        await using Server server = new(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Scheduling = Scheduling.ThreadPool
        }, static () => new Patient());
        await server.StartAsync();
        await using Stream stream = await EngineSite.ConnectAsync(server.EndPoint!, isTls: false);
        await stream.WriteAsync(Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(0, 50)
            .Select(static i => Web.Get($"/{i}", i == 49 ? "Connection: close\r\n" : "")))));
        using MemoryStream answers = new();
        await stream.CopyToAsync(answers).WaitAsync(_patience);
        Assert.Equal(Enumerable.Range(0, 50).Select(static i => $"/{i}"),
            Web.Read(answers.ToArray(), true).Select(static a => a.Body));
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Requests_sent_ahead_are_answered_in_their_order(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        const int Count = 2000;
        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Get("/{x}", static (request, response) => response.Text(request.Route["x"]));
        site.Server.Get("/a/{x}", static async (request, response, _) =>
        {
            string x = request.Route["x"];
            await Task.Yield();
            response.Text(x);
        });
        await site.StartAsync();
        await using Stream stream = await site.ConnectAsync();
        byte[] requests = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(0, Count).Select(
            static i => Web.Get(i % 10 == 0 ? $"/a/{i}" : $"/{i}", i == Count - 1 ? "Connection: close\r\n" : ""))));
        Task sending = stream.WriteAsync(requests).AsTask();
        using MemoryStream answers = new();
        // Many responses are sequential, each by way of the pool and the loop, which takes time while other programs
        // run.
        await stream.CopyToAsync(answers).WaitAsync(4 * _patience);
        await sending;
        Assert.Equal(Enumerable.Range(0, Count).Select(static i => i.ToString(CultureInfo.InvariantCulture)),
            Web.Read(answers.ToArray(), true).Select(static a => a.Body));
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_client_that_gives_up_cancels_its_handler(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        await using EngineSite site = new(kind, isTls, scheduling);
        TaskCompletionSource begun = new(TaskCreationOptions.RunContinuationsAsynchronously),
            cancelled = new(TaskCreationOptions.RunContinuationsAsynchronously);
        site.Server.Get("/", async (_, _, stop) =>
        {
            await using CancellationTokenRegistration registration = stop.Register(cancelled.SetResult);
            begun.SetResult();
            await cancelled.Task;
        });
        await site.StartAsync();
        using CancellationTokenSource patience = new();
        Task<string> asking = site.Client.GetStringAsync(new Uri("/", UriKind.Relative), patience.Token);
        await begun.Task.WaitAsync(_patience);
        await patience.CancelAsync();
        await cancelled.Task.WaitAsync(_patience);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => asking);
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_client_that_sends_too_much_reads_why(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        await using EngineSite site = new(kind, isTls, scheduling, new HttpOptions { BufferedBodyLimitBytes = 1000 });
        site.Server.Post("/", static (_, response) => response.Text("taken"));
        await site.StartAsync();
        await using Stream stream = await site.ConnectAsync();
        await stream.WriteAsync(Encoding.ASCII.GetBytes(Web.Post("/", new string('x', 20_000))));
        using MemoryStream answer = new();
        await stream.CopyToAsync(answer).WaitAsync(_patience);
        Assert.Equal(413, Assert.Single(Web.Read(answer.ToArray(), true)).Status);
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_client_that_asked_for_the_end_reads_the_answer_and_is_not_waited_for(EngineKind kind,
        bool isTls, Scheduling scheduling)
    {
        Assert.SkipWhen(isTls, "TLS ends with close_notify, which the client must send first.");
        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Get("/", static (_, response) => response.Bytes(new byte[5_000_000]));
        site.Server.Get("/later", static async (_, response, _) =>
        {
            await Task.Yield();
            response.Bytes(new byte[5_000_000]);
        });
        await site.StartAsync();
        foreach (string path in (string[])["/", "/later"])
        {
            await using Stream stream = await site.ConnectAsync();
            await stream.WriteAsync(Encoding.ASCII.GetBytes(Web.Get(path, "Connection: close\r\n")));
            using MemoryStream answer = new();
            await stream.CopyToAsync(answer).WaitAsync(_patience);
            Assert.Equal(5_000_000, Assert.Single(Web.Read(answer.ToArray(), true)).Body.Length);
            // The server would wait five seconds for the peer.
            Stopwatch time = Stopwatch.StartNew();
            while (site.Server.SessionCount > 0 && time.Elapsed < _patience) await Task.Yield();
            Assert.InRange(time.ElapsedMilliseconds, 0, 4_000);
        }
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_client_that_sends_on_after_an_answer_that_closes_reads_it_and_is_not_reset(EngineKind kind,
        bool isTls, Scheduling scheduling)
    {
        // The server ends it, not the client.
        await using EngineSite site = new(kind, isTls, scheduling, new HttpOptions { RequestLimit = 1 });
        site.Server.Get("/", static (_, response) => response.Bytes(new byte[100_000]));
        await site.StartAsync();
        await using Stream stream = await site.ConnectAsync();
        await stream.WriteAsync(Encoding.ASCII.GetBytes(Web.Get("/")));
        byte[] first = new byte[1];
        await stream.ReadExactlyAsync(first).AsTask().WaitAsync(_patience);
        // The server has closed or is about to: these bytes are discarded.
        for (int i = 0; i < 30; i++) await stream.WriteAsync(new byte[1000]);
        using MemoryStream answer = new();
        answer.Write(first);
        await stream.CopyToAsync(answer).WaitAsync(_patience);
        Assert.Equal(100_000, Assert.Single(Web.Read(answer.ToArray(), true)).Body.Length);
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_100_continue_is_never_sent_after_the_answer(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        await using EngineSite site = new(kind, isTls, scheduling);
        site.Server.Post("/kept", static (request, response) =>
        {
            // Another thread responds while the callback that read the body still runs.
            Thread other = new(() => response.Text("kept"));
            other.Start();
            other.Join();
        });
        site.Server.Post("/read", static async (request, response, stop) =>
        {
            ValueTask<int> reading = request.Body.ReadAsync(new byte[100], stop);
            await Task.Run(() => response.Text("read"), stop);
            await reading;
        });
        await site.StartAsync();
        for (int i = 0; i < 20; i++)
        {
            foreach (string path in (string[])["kept", "read"])
            {
                await using Stream stream = await site.ConnectAsync();
                await stream.WriteAsync(Encoding.ASCII.GetBytes(Web.Post($"/{path}", "body",
                    "Expect: 100-continue\r\nConnection: close\r\n")));
                using MemoryStream answers = new();
                await stream.CopyToAsync(answers).WaitAsync(_patience);
                List<Answer> read = Web.Read(answers.ToArray(), true);
                Assert.True(read is [.., { Status: 200 }] && read[^1].Body == path,
                    string.Join(", ", read.Select(static a => a.Status)));
            }
        }
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_stop_lets_answers_end_and_closes_idle_connections(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        // A loop informs all its sessions before it closes the first. With thread-pool scheduling each session learns
        // of the stop at its own time.
        await using EngineSite site = new(kind, isTls, scheduling, loops: 1);
        TaskCompletionSource begun = new(TaskCreationOptions.RunContinuationsAsynchronously),
            go = new(TaskCreationOptions.RunContinuationsAsynchronously);
        site.Server.Get("/", async (_, response, _) => { begun.SetResult(); await go.Task; response.Text("late"); });
        await site.StartAsync();
        await using Stream idle = await site.ConnectAsync(), asking = await site.ConnectAsync();
        await asking.WriteAsync(Encoding.ASCII.GetBytes(Web.Get("/")));
        await begun.Task.WaitAsync(_patience);
        Task<StopReport> stopping = site.Server.StopAsync(_patience).AsTask();
        Assert.Equal(0, await idle.ReadAsync(new byte[1]).AsTask().WaitAsync(_patience));
        // The idle connection may be closed before the next session learns of the stop, so the test waits for the end
        // of that loop iteration.
        await site.Server.Engine.GetLoop(0).PostAsync(static () => { }).AsTask().WaitAsync(_patience);
        go.SetResult();
        using MemoryStream answer = new();
        await asking.CopyToAsync(answer).WaitAsync(_patience);
        Answer last = Assert.Single(Web.Read(answer.ToArray(), true));
        Assert.Equal("late", last.Body);
        if (scheduling == Scheduling.Inline) Assert.Equal("close", last["Connection"]);
        await asking.DisposeAsync();
        await idle.DisposeAsync();
        Assert.True((await stopping).IsComplete);
    }

    [Fact]
    public async Task A_unix_socket_serves_as_well()
    {
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-http-{Guid.NewGuid():N}");
        await using HttpServer server = new($"unix:{path}");
        server.Get("/", static (_, response) => response.Text("unix"));
        await server.StartAsync();
        using SocketsHttpHandler handler = new()
        {
            ConnectCallback = async (_, cancellation) =>
            {
                Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
                await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), cancellation);
                return new NetworkStream(socket, ownsSocket: true);
            },
        };
        using HttpClient client = new(handler) { Timeout = _patience };
        Assert.Equal("unix", await client.GetStringAsync(new Uri("http://localhost/")));
    }

    [Fact]
    public void Application_protocols_without_http_are_refused() =>
        Assert.Throws<ArgumentException>(static () => new HttpServer("https://127.0.0.1:0", tls: new TlsOptions
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            ApplicationProtocols = ["h2"]
        }));
}
