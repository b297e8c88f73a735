using System.Net;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.Asking;

// Both clients with our own server, on each engine, plain and over TLS; the callback client also with thread-pool
// scheduling.
public sealed class EngineTests
{
    public static TheoryData<EngineKind, bool, Scheduling> Kinds => Serving.EngineTests.Kinds();

    public static TheoryData<EngineKind, bool> Engines
    {
        get
        {
            TheoryData<EngineKind, bool> kinds = [];
            foreach (EngineKind kind in (EngineKind[])[EngineKind.Epoll, EngineKind.Uring, EngineKind.Portable])
            {
                kinds.Add(kind, false);
                kinds.Add(kind, true);
            }

            return kinds;
        }
    }

    /// <summary>A server with its own engine, and everything clients need to connect to it.</summary>
    private sealed class Site : IAsyncDisposable
    {
        private readonly bool _isTls;

        internal Site(EngineKind kind, bool isTls, HttpOptions? options = null)
        {
            EngineSupport support = Engine.SupportFor(kind);
            Assert.SkipUnless(support.IsAvailable, support.Reason);
            _isTls = isTls;
            Engine = new Engine(new EngineOptions { Kind = kind, Loops = 2, OnDiagnosticEvent = static _ => { } });
            TlsOptions? tls = isTls
                ? new TlsOptions
                {
                    Certificate = TlsCertificate.From(TestCertificates.Server),
                    ApplicationProtocols = ["http/1.1"]
                }
                : null;
            Server = new HttpServer(
                new ServerOptions { Engine = Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls },
                options);
            Server.Get("/{x}", static (request, response) => response.Text(request.Route["x"]));
            Server.Post("/sum", static async (request, response, stop) =>
            {
                byte[] hash = await SHA256.HashDataAsync(request.Body, stop);
                response.Text(Convert.ToHexString(hash));
            });
            Server.Post("/echo",
                static (request, response, stop) => new ValueTask(request.Body.CopyToAsync(response.Body, stop)));
        }

        internal Engine Engine { get; }

        internal HttpServer Server { get; }

        internal TlsOptions? ClientTls =>
            _isTls ? new TlsOptions { Roots = TestCertificates.Roots, ApplicationProtocols = ["http/1.1"] } : null;

        internal string Host => $"127.0.0.1:{((IPEndPoint)Server.EndPoint!).Port}";

        internal string Url => $"{(_isTls ? "https" : "http")}://{Host}";

        internal HttpPool NewPool(int connections = 8) =>
            new(new HttpClientOptions { Engine = Engine, Tls = ClientTls, ConnectionLimit = connections });

        public async ValueTask DisposeAsync()
        {
            await Server.DisposeAsync();
            await Engine.DisposeAsync();
        }
    }

    private sealed class Asker(string host, int count, int ahead)
        : HttpClientSession(host, new HttpClientOptions { PipelineLimit = ahead })
    {
        private readonly StringBuilder _body = new();
        private int _sent;
        private int _got;

        internal TaskCompletionSource<string> Done { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        protected override void OnConnected() => Ask();

        private void Ask()
        {
            while (_sent < count && Request(HttpVerb.Get, Encoding.ASCII.GetBytes($"/{_sent}")) == SendResult.Queued)
                _sent++;
        }

        protected override void OnBody(ReadOnlySpan<byte> piece) => _body.Append(Encoding.ASCII.GetString(piece));

        protected override void OnResponseEnd(HttpResponseHead head)
        {
            _body.Append(' ');
            if (++_got == count) Done.TrySetResult(_body.ToString());
            else Ask();
        }

        protected override void OnRequestFailed(HttpClientException failure) => Done.TrySetException(failure);
    }

    [Fact]
    public async Task Where_TLS_options_name_no_application_protocol_it_is_that_of_HTTP_1_1()
    {
        await using Engine engine =
            new(new EngineOptions { Kind = EngineKind.Portable, Loops = 1, OnDiagnosticEvent = static _ => { } });
        TlsOptions offering = new() { Roots = TestCertificates.Roots };
        await using HttpServer server = new("https://127.0.0.1:0",
            tls: new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) });
        server.Get("/",
            static (request, response) => response.Text(request.Session.Tls!.ApplicationProtocol ?? "none"));
        await server.StartAsync();
        await using HttpPool pool = new(new HttpClientOptions { Engine = engine, Tls = offering });
        using HttpClientResponse response = await pool.SendAsync(new HttpClientRequest(HttpVerb.Get,
            $"https://127.0.0.1:{((IPEndPoint)server.EndPoint!).Port}/")).AsTask().WaitAsync(Script.Patience);
        Assert.Equal("http/1.1", await response.ReadTextAsync().AsTask().WaitAsync(Script.Patience));
        Assert.Empty(offering.ApplicationProtocols);
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Sessions_ask_one_by_one_and_ahead(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        await using Site site = new(kind, isTls);
        await site.Server.StartAsync();
        string expected = string.Concat(Enumerable.Range(0, 300).Select(static i => $"{i} "));
        foreach (int ahead in (int[])[1, 16])
        {
            Asker asker = new(site.Host, 300, ahead);
            await using Client client = new(new ClientOptions
            {
                Engine = site.Engine,
                EndPoint = site.Server.EndPoint,
                Tls = site.ClientTls,
                Scheduling = scheduling
            }, () => asker);
            await client.ConnectAsync();
            Assert.Equal(expected, await asker.Done.Task.WaitAsync(Script.Patience));
        }
    }

    [Theory, MemberData(nameof(Engines))]
    public async Task A_pool_gives_each_caller_its_own_answer(EngineKind kind, bool isTls)
    {
        await using Site site = new(kind, isTls);
        await site.Server.StartAsync();
        await using HttpPool pool = site.NewPool();
        await Parallel.ForAsync(0, 16, async (asker, stop) =>
        {
            for (int i = 0; i < 25; i++)
            {
                string x = $"{asker}-{i}";
                using HttpClientResponse response = await pool.GetAsync($"{site.Url}/{x}", stop);
                Assert.Equal(x, await response.ReadTextAsync(stop));
            }
        });
        HttpPoolCounters counters = pool.ReadCounters();
        Assert.Equal((400, 0), (counters.Requests, counters.Failures));
        Assert.InRange(counters.Connects, 1, 8);
    }

    [Theory, MemberData(nameof(Engines))]
    public async Task Large_bodies_go_both_ways_at_once_byte_by_byte(EngineKind kind, bool isTls)
    {
        const int Length = 4_000_000;
        await using Site site = new(kind, isTls);
        await site.Server.StartAsync();
        await using HttpPool pool = site.NewPool();
        byte[] body = new byte[Length];
        Noise.Fill(body, 7);
        HttpClientRequest fromMemory = new(HttpVerb.Post, site.Url + "/sum");
        fromMemory.SetBody(body);
        for (int i = 0; i < 2; i++)
        {
            (_, byte[] sum) = await pool.FetchAsync(fromMemory).AsTask().WaitAsync(Script.Patience);
            Assert.Equal(Convert.ToHexString(SHA256.HashData(body)), Encoding.ASCII.GetString(sum));
        }

        Assert.Equal(1, pool.ReadCounters().Connects);
        foreach (int length in (int[])[-1, Length])
        {
            HttpClientRequest echoed = new(HttpVerb.Post, site.Url + "/echo");
            echoed.SetBody(new MemoryStream(body), length: length);
            (_, byte[] back) = await pool.FetchAsync(echoed).AsTask().WaitAsync(Script.Patience);
            Assert.True(body.AsSpan().SequenceEqual(back));
        }
    }

    [Theory, InlineData(false), InlineData(true)]
    public async Task Bodies_of_64_MiB_stream_in_constant_memory_also_with_a_slow_reader(bool isTls)
    {
        bool isDeep = Depth.IsDeep;
        long length = isDeep ? 1L << 30 : 64L << 20;
        await using Site site = new(EngineKind.Epoll, isTls, new HttpOptions { BodyLimitBytes = length });
        await site.Server.StartAsync();
        await using HttpPool pool = site.NewPool();
        Gauge gauge = new(40 << 20); // socket buffers in both directions, and the copy in progress
        using IncrementalHash sent = IncrementalHash.CreateHash(HashAlgorithmName.SHA256),
            got = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        HttpClientRequest request = new(HttpVerb.Post, site.Url + "/echo");
        request.SetBody(
            async (to, stop) =>
            {
                byte[] piece = new byte[100_000];
                Random random = new(3);
                for (long left = length; left > 0;)
                {
                    random.NextBytes(piece);
                    int count = (int)Math.Min(left, piece.Length);
                    sent.AppendData(piece, 0, count);
                    await gauge.GiveAsync(to.WriteAsync(piece.AsMemory(0, count), stop), count);
                    left -= count;
                }

                gauge.End();
            },
            length: length);
        using HttpClientResponse response = await pool.SendAsync(request).AsTask().WaitAsync(Script.Patience);
        byte[] into = new byte[64 * 1024];
        long total = 0;
        for (int count; (count = await response.Body.ReadAsync(into).AsTask().WaitAsync(Script.Patience)) > 0;
            total += count)
        {
            got.AppendData(into, 0, count);
            await gauge.TakeAsync(count);
        }

        Assert.Equal(length, total);
        Assert.Equal(Convert.ToHexString(sent.GetHashAndReset()), Convert.ToHexString(got.GetHashAndReset()));
        Assert.InRange(gauge.Holds, 4, int.MaxValue);
    }

    [Fact]
    public async Task A_certificate_for_another_host_or_of_an_untrusted_issuer_is_refused()
    {
        await using Site site = new(EngineKind.Epoll, isTls: true);
        await site.Server.StartAsync();
        await using HttpPool strangers = new(new HttpClientOptions { Engine = site.Engine });
        HttpClientException e = await Assert.ThrowsAsync<HttpClientException>(() => strangers.GetAsync(site.Url + "/a")
            .AsTask().WaitAsync(Script.Patience));
        Assert.Equal(HttpClientFailure.Tls, e.Failure);
        await using HttpPool other = new(new HttpClientOptions
        {
            Engine = site.Engine,
            EndPoint = site.Server.EndPoint,
            Tls = new TlsOptions { Roots = TestCertificates.Roots, HostName = "another.test" }
        });
        e = await Assert.ThrowsAsync<HttpClientException>(() => other.GetAsync("https://another.test/a").AsTask()
            .WaitAsync(Script.Patience));
        Assert.Equal(HttpClientFailure.Tls, e.Failure);
    }

    [Fact]
    public async Task A_redirect_from_https_to_http_is_not_followed()
    {
        await using Site site = new(EngineKind.Epoll, isTls: true);
        site.Server.Get("/go/down", (_, response) =>
        {
            response.Add("Location", $"http://{site.Host}/a");
            response.Empty(302);
        });
        site.Server.Get("/go/on", (_, response) =>
        {
            response.Add("Location", "/a");
            response.Empty(302);
        });
        await site.Server.StartAsync();
        await using HttpPool pool = site.NewPool();
        Assert.Equal(302, (await pool.FetchAsync(new HttpClientRequest(HttpVerb.Get, site.Url + "/go/down"))).Status);
        Assert.Equal(200, (await pool.FetchAsync(new HttpClientRequest(HttpVerb.Get, site.Url + "/go/on"))).Status);
    }
}
