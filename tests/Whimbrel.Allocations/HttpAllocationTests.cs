using System.Diagnostics.Metrics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading.Tasks.Sources;
using Whimbrel.Http;

namespace Whimbrel.Allocations;

// A request on a kept-alive connection allocates nothing, with each kind of handler.
public sealed class HttpAllocationTests
{
    private const int Rounds = 400;
    private const int LargestAnswer = 400_000;

    public static TheoryData<string> Engines => Rig.Engines;

    private sealed class Api : HttpSession
    {
        protected override void OnRequest(HttpRequest request) => Respond(200, "text/plain"u8, "hello"u8);
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_request_answered_in_the_callback_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, static () => new Api());
        Measure(rig, rig.Server.EndPoint!, "request in a callback",
            "GET /a HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n");
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_request_through_routes_allocates_nothing_also_with_a_body_or_an_awaited_handler(string engine)
    {
        byte[] text = "hello"u8.ToArray();
        using Rig rig = new(engine, static () => new Api());
        HttpServer server =
            new(new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                new HttpOptions { RequestLimit = int.MaxValue });
        server.Get("/sync/{name}",
            (request, response) => response.Bytes(request.Route.GetBytes("name"), "text/plain"u8));
        server.Post("/body", static (request, response) => response.Bytes(request.BodyBytes, "text/plain"u8));
        server.Get("/fields", static (_, response) =>
        {
            response.Add("X-One", "1");
            response.Add("X-Two", "2");
            response.Text("hello");
        });
        server.Get("/asked", static (request, response) =>
            response.Bytes(request.Query.TryGet("long name"u8, out ReadOnlySpan<byte> value)
                && request.Cookies.TryGet("b"u8, out value) ? value : default, "text/plain"u8));
        server.Post("/form", static (request, response) =>
            response.Bytes(request.Form.TryGet("b"u8, out ReadOnlySpan<byte> value) ? value : default, "text/plain"u8));
        server.Get("/async", (_, response, _) => { response.Bytes(text, "text/plain"u8); return default; });
        server.Get("/later", static (request, response, _) => Later(request, response));
        HttpRouteGroup filtered = server.Group("/filtered");
        filtered.Use(static (request, response) => response.Add("X-One", "1"));
        filtered.Use(static (_, _) => ValueTask.CompletedTask);
        filtered.Get("/", static (_, response) => response.Text("hello"));
        server.Map("PURGE", "/own", static (_, response) => response.Text("gone"));
        Rig.Wait(server.StartAsync().AsTask());
        try
        {
            Measure(rig, server.EndPoint!, "request after filters", "GET /filtered HTTP/1.1\r\nHost: a\r\n\r\n");
            Measure(rig, server.EndPoint!, "method without a number", "PURGE /own HTTP/1.1\r\nHost: a\r\n\r\n");
            Measure(rig, server.EndPoint!, "request by a route",
                "GET /sync/abc?d=e HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nCookie: a=b\r\n\r\n");
            Measure(rig, server.EndPoint!, "request with a body",
                "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + new string('x', 100));
            Measure(rig, server.EndPoint!, "query and cookies",
                "GET /asked?a=b&long+name=%20 HTTP/1.1\r\nHost: a\r\nCookie: a=b; b=c\r\n\r\n");
            Measure(rig, server.EndPoint!, "form", "POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: "
                + "application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\na=b&%62=c+d");
            Measure(rig, server.EndPoint!, "answer with fields", "GET /fields HTTP/1.1\r\nHost: a\r\n\r\n");
            Measure(rig, server.EndPoint!, "awaited handler", "GET /async HTTP/1.1\r\nHost: a\r\n\r\n");
            Measure(rig, server.EndPoint!, "awaited handler that waits", "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        finally
        {
            Rig.Wait(server.StopAsync(TimeSpan.Zero).AsTask());
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_answer_of_a_compressing_site_allocates_nothing_with_or_without_compression(string engine)
    {
        byte[] text = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat("hello ", 1000)));
        using Rig rig = new(engine, static () => new Api());
        HttpOptions options = new() { RequestLimit = int.MaxValue, Compression = new HttpCompression() };
        HttpServer server =
            new(new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, options);
        server.Get("/", (_, response) => response.Bytes(text, "text/plain"u8));
        Rig.Wait(server.StartAsync().AsTask());
        try
        {
            Measure(rig, server.EndPoint!, "answer as it is", "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            Measure(rig, server.EndPoint!, "compressed answer",
                "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=0.9, br\r\n\r\n");
        }
        finally
        {
            Rig.Wait(server.StopAsync(TimeSpan.Zero).AsTask());
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_cached_file_allocates_nothing(string engine)
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("whimbrel-");
        try
        {
            foreach (int length in (int[])[200, 100_000, 300_000])
                File.WriteAllBytes(Path.Combine(folder.FullName, $"{length}.txt"), new byte[length]);
            File.WriteAllText(Path.Combine(folder.FullName, "200.txt.gz"), "gzipped");
            using Rig rig = new(engine, static () => new Api());
            HttpServer server =
                new(new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                    new HttpOptions { RequestLimit = int.MaxValue });
            server.Files("/", folder.FullName, new HttpFileOptions { Freshness = TimeSpan.FromDays(1) });
            Rig.Wait(server.StartAsync().AsTask());
            try
            {
                const string Fields = " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=0.9, br\r\n";
                Measure(rig, server.EndPoint!, "small file", $"GET /20%30.txt{Fields}\r\n");
                Measure(rig, server.EndPoint!, "file without a copy", $"GET /100000.txt{Fields}\r\n");
                Measure(rig, server.EndPoint!, "file by the system", $"GET /300000.txt{Fields}\r\n");
                Measure(rig, server.EndPoint!, "part of a file",
                    $"GET /300000.txt{Fields}Range: bytes=5-300\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n");
                Measure(rig, server.EndPoint!, "file that was changed since",
                    $"GET /200.txt{Fields}If-None-Match: \"x\", W/\"y\"\r\n\r\n");
            }
            finally
            {
                Rig.Wait(server.StopAsync(TimeSpan.Zero).AsTask());
            }
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    /// <summary>Sends the next request after each response, up to a number of requests.</summary>
    private sealed class Asker() : HttpClientSession("a.test")
    {
        private readonly HttpClientRequest _made = Made();
        private int _left;

        internal SemaphoreSlim Done { get; } = new(0);

        private static HttpClientRequest Made()
        {
            HttpClientRequest request = new(HttpVerb.Post, "http://a.test/b");
            request.Add("X-One", "1");
            request.SetBody("hello"u8.ToArray(), "text/plain");
            return request;
        }

        internal void Begin(int count)
        {
            _left = count;
            Post(static session => ((Asker)session!).Ask(), this);
        }

        private void Ask()
        {
            if (_left % 2 == 0) Request(HttpVerb.Get, "/a?b=c"u8);
            else Request(_made);
        }

        protected override void OnResponseEnd(HttpResponseHead head)
        {
            if (--_left > 0) Ask();
            else Done.Release();
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_request_by_callbacks_allocates_nothing_on_the_side_of_the_client(string engine)
    {
        const int AtATime = 10;
        using Rig rig = new(engine, static () => new Api());
        Asker asker = new();
        Client client = new(new ClientOptions { Engine = rig.Engine, EndPoint = rig.Server.EndPoint }, () => asker);
        Rig.Wait(client.ConnectAsync().AsTask());
        rig.Meter.ExpectNone("request of a client", Rounds / AtATime, () =>
        {
            asker.Begin(AtATime);
            Assert.True(asker.Done.Wait(LoopMeter.Patience));
        });
        Rig.Wait(client.DisconnectAsync().AsTask());
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_recorded_request_allocates_nothing_on_either_side(string engine)
    {
        const int AtATime = 10;
        using Rig rig = new(engine, static () => new Api());
        HttpServer server =
            new(new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                new HttpOptions { RequestLimit = int.MaxValue });
        server.Get("/a/{name}",
            static (request, response) => response.Bytes(request.Route.GetBytes("name"), "text/plain"u8));
        server.Get("/busy", static (_, response) => response.Empty(503));
        using MeterListener listener = new();
        using ManualResetEventSlim isMade = new();
        int times = 0, active = 0;
        listener.InstrumentPublished = (instrument, l) =>
        {
            if (!instrument.Name.StartsWith("http.", StringComparison.Ordinal)) return;
            l.EnableMeasurementEvents(instrument);
            if (instrument.Name == "http.server.request.duration") isMade.Set(); // the last one
        };
        listener.SetMeasurementEventCallback<double>((_, _, _, _) => Interlocked.Increment(ref times));
        listener.SetMeasurementEventCallback<long>((_, _, _, _) => Interlocked.Increment(ref active));
        listener.Start();
        Assert.True(isMade.Wait(LoopMeter.Patience));
        Rig.Wait(server.StartAsync().AsTask());
        try
        {
            Measure(rig, server.EndPoint!, "recorded request", "GET /a/b HTTP/1.1\r\nHost: a\r\n\r\n");
            Measure(rig, server.EndPoint!, "recorded error", "GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.True(times >= 2 * Rounds && active >= 4 * Rounds, $"{times} times, {active} changes");
        }
        finally
        {
            Rig.Wait(server.StopAsync(TimeSpan.Zero).AsTask());
        }

        Asker asker = new();
        Client client = new(new ClientOptions { Engine = rig.Engine, EndPoint = rig.Server.EndPoint }, () => asker);
        Rig.Wait(client.ConnectAsync().AsTask());
        rig.Meter.ExpectNone("recorded request of a client", Rounds / AtATime, () =>
        {
            asker.Begin(AtATime);
            Assert.True(asker.Done.Wait(LoopMeter.Patience));
        });
        Rig.Wait(client.DisconnectAsync().AsTask());
    }

    // Awaits the loop's next iteration, and writes its response in pieces.
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private static async ValueTask Later(HttpRequest request, HttpResponse response)
    {
        await s_step.WaitAsync(request.Session.Loop);
        await response.WriteAsync(s_piece);
    }

    private static readonly byte[] s_piece = "hello"u8.ToArray();
    private static readonly Step s_step = new();

    // An awaitable that allocates nothing.
    private sealed class Step : IValueTaskSource
    {
        private ManualResetValueTaskSourceCore<bool> _core;

        internal ValueTask WaitAsync(Loop loop)
        {
            _core.Reset();
            loop.Post(static step => ((Step)step!)._core.SetResult(true), this);
            return new ValueTask(this, _core.Version);
        }

        public void GetResult(short token) => _core.GetResult(token);

        public ValueTaskSourceStatus GetStatus(short token) => _core.GetStatus(token);

        public void OnCompleted(Action<object?> continuation, object? state, short token,
            ValueTaskSourceOnCompletedFlags flags) => _core.OnCompleted(continuation, state, token, flags);
    }

    /// <summary>Bytes that a connection for one request may allocate on the loop's thread, including its
    /// session.</summary>
    private const double ShortConnectionLimitBytes = 512;

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_connection_for_one_request_allocates_little(string engine)
    {
        byte[] text = "hello"u8.ToArray();
        using Rig rig = new(engine, static () => new Api());
        HttpServer server =
            new(new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) });
        server.Get("/sync/{name}",
            (request, response) => response.Bytes(request.Route.GetBytes("name"), "text/plain"u8));
        server.Get("/async", (_, response, _) => { response.Bytes(text, "text/plain"u8); return default; });
        server.Get("/later", static (request, response, _) => Later(request, response));
        Rig.Wait(server.StartAsync().AsTask());
        try
        {
            ExpectLittle(rig, server, "answered in a callback of a class of one's own", rig.Server.EndPoint!,
                "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            ExpectLittle(rig, server, "answered by a route", server.EndPoint!,
                "GET /sync/abc HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            ExpectLittle(rig, server, "with a body", server.EndPoint!,
                "GET /sync/abc HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
            ExpectLittle(rig, server, "by an awaited handler", server.EndPoint!,
                "GET /async HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            ExpectLittle(rig, server, "by an awaited handler that waits", server.EndPoint!,
                "GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        }
        finally
        {
            Rig.Wait(server.StopAsync(TimeSpan.Zero).AsTask());
        }
    }

    private static void ExpectLittle(Rig rig, HttpServer server, string what, EndPoint address, string request)
    {
        byte[] message = Encoding.ASCII.GetBytes(request), answer = new byte[1024];
        double bytes = rig.Meter.BytesPerRound(Rounds, Rounds, () =>
        {
            using (Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
            {
                ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds
            })
            {
                client.Connect(address);
                client.Send(message);
                int length = 0, count;
                while ((count = client.Receive(answer, length, answer.Length - length, SocketFlags.None)) > 0)
                    length += count;
                Assert.True(answer.AsSpan(0, length).StartsWith("HTTP/1.1 200 "u8));
            }

            Assert.True(SpinWait.SpinUntil(() => rig.Server.SessionCount == 0 && server.SessionCount == 0,
                LoopMeter.Patience));
        });
        string line = string.Create(System.Globalization.CultureInfo.InvariantCulture, $"connection for one request, "
            + $"{what}: {bytes:0} bytes allocated on the loop's thread (limit {ShortConnectionLimitBytes})");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(bytes <= ShortConnectionLimitBytes, line);
    }

    private static void Measure(Rig rig, EndPoint server, string what, string request)
    {
        using Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            NoDelay = true,
            ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds
        };
        client.Connect(server);
        byte[] message = Encoding.ASCII.GetBytes(request), answer = new byte[LargestAnswer];
        client.Send(message);
        int length = ReadFirst(client, answer);
        rig.Meter.ExpectNone(what, Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, length);
        });
    }

    // All responses of a kind have the same length, because the Date field has.
    private static int ReadFirst(Socket client, byte[] answer)
    {
        int length = 0;
        while (!IsWhole(answer.AsSpan(0, length)))
            length += client.Receive(answer, length, answer.Length - length, SocketFlags.None);
        return length;
    }

    private static bool IsWhole(ReadOnlySpan<byte> answer)
    {
        int head = answer.IndexOf("\r\n\r\n"u8);
        if (head < 0) return false;
        if (answer.IndexOf("chunked"u8) >= 0) return answer.EndsWith("0\r\n\r\n"u8);
        ReadOnlySpan<byte> digits = answer[(answer.IndexOf("Content-Length: "u8) + 16)..];
        return int.Parse(digits[..digits.IndexOf((byte)'\r')], System.Globalization.CultureInfo.InvariantCulture)
            == answer.Length - head - 4;
    }
}
