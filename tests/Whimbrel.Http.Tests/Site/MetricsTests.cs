using System.Diagnostics.Metrics;
using System.Text;
using Whimbrel.Http.Tests.Asking;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Site;

/// <summary>The HTTP instruments as a MeterListener sees them: names, tags, and exact values on a simulated
/// clock.</summary>
public sealed class MetricsTests : IDisposable
{
    private const string Server = "http.server.request.duration";
    private const string Active = "http.server.active_requests";
    private const string Client = "http.client.request.duration";

    private readonly MeterListener _listener = new();
    private readonly ManualResetEventSlim _isMade = new();
    private readonly List<(string Name, double Value, SortedDictionary<string, string> Tags)> _seen = [];
    private readonly HashSet<string> _wanted = [];
    private Func<string, bool>? _throwsFor;
    private Instrument? _active;

    public MetricsTests()
    {
        HttpMetrics.Prepare();
        _listener.InstrumentPublished = (instrument, listener) =>
        {
            // Two meters have this name; only the one of this package counts. Its last instrument shows that all have
            // been published.
            if (instrument.Meter.Name != "Whimbrel" || !instrument.Name.StartsWith("http.", StringComparison.Ordinal))
                return;
            lock (_seen)
            {
                Assert.Equal(instrument.Name == Active ? "{request}" : "s", instrument.Unit);
                if (_wanted.Count == 0 || _wanted.Contains(instrument.Name))
                    listener.EnableMeasurementEvents(instrument);
            }

            if (instrument.Name == Active) _active = instrument;
            if (instrument.Name == Server) _isMade.Set();
        };
        _listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => See(instrument.Name, value, tags));
        _listener.SetMeasurementEventCallback<double>(
            (instrument, value, tags, _) => See(instrument.Name, value, tags));
    }

    public void Dispose() => _listener.Dispose();

    private void See(string name, double value, ReadOnlySpan<KeyValuePair<string, object?>> tags)
    {
        SortedDictionary<string, string> all = new(StringComparer.Ordinal);
        foreach ((string tag, object? what) in tags)
        {
            Assert.True(what is string || tag is "http.response.status_code" or "server.port", tag);
            all.Add(tag, $"{what}");
        }

        lock (_seen) _seen.Add((name, value, all));
        if (_throwsFor?.Invoke(name) == true) throw new InvalidOperationException("a listener");
    }

    private void Listen(params string[] only)
    {
        _wanted.UnionWith(only);
        _listener.Start();
        Assert.True(_isMade.Wait(Script.Patience), "there are no instruments");
    }

    /// <summary>Measurements of an instrument, as <c>seconds method status route error</c>, dashes for missing
    /// values.</summary>
    private string[] Told(string name)
    {
        string[] names = ["http.response.status_code", "http.route", "error.type"];
        lock (_seen)
        {
            return [.. _seen.Where(m => m.Name == name).Select(m => FormattableString.Invariant(
                $"{m.Value:0.###} {m.Tags["http.request.method"]} ")
                + string.Join(' ', names.Select(n => m.Tags.GetValueOrDefault(n, "-"))))];
        }
    }

    private double Sum(string name)
    {
        lock (_seen) return _seen.Where(m => m.Name == name).Sum(m => m.Value);
    }

    private static async ValueTask Wait(HttpRequest request, HttpResponse response, int ms)
    {
        await request.Session.Loop.DelayAsync(TimeSpan.FromMilliseconds(ms));
        response.Text("late");
    }

    // ------------------------------------------------------------------ servers

    [Fact]
    public void Each_request_is_recorded_once_with_its_time_status_and_route()
    {
        Listen();
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/now/{id}", static (_, response) => response.Text("hello"));
        web.Server.Get("/late", static (request, response, _) => Wait(request, response, 250));
        web.Server.Post("/body", static (request, response) => response.Bytes(request.BodyBytes));
        web.Server.Get("/bad", static (_, _) => throw new InvalidOperationException("mine"));
        web.Server.Get("/busy", static (_, response) => response.Fail(503));
        web.Server.Get("/large", static (_, response) => response.Bytes(new byte[300_000]));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/now/1?x=y") + Web.Get("/now/2", verb: "HEAD") + Web.Get("/late") + Web.Get("/nowhere")
            + Web.Get("/late", verb: "PUT") + Web.Get("/now/3", verb: "BREW") + Web.Get("/busy") + Web.Get("/large"));
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        Assert.Equal(1, Sum(Active));
        web.Network.Advance(TimeSpan.FromSeconds(1));
        peer.Receive();
        Assert.Equal(0, Sum(Active));
        // Receiving the head does not count as duration of the request, receiving the body does.
        peer.Send("POST /body HTTP/1.1\r\nHo");
        web.Network.Advance(TimeSpan.FromMilliseconds(300));
        peer.Send("st: a\r\nContent-Length: 4\r\n\r\nab");
        web.Network.Advance(TimeSpan.FromMilliseconds(70));
        peer.Send("cd");
        peer.Send("GET /now/4 HTTP/1.0\r\n\r\n");
        TestPeer bad = web.Connect(), broken = web.Connect();
        bad.Send(Web.Get("/bad"));
        broken.Send("GET /evil HTTP/1.1\n\n"); // not a request: its method and target are unknown
        web.Connect().Send(Web.Get("/now/5") + Web.Get("/now/6", verb: "TRACE")); // rejected before routing
        peer.Receive();

        Assert.Equal(
        [
            "0 GET 200 /now/{id} -",
            "0 HEAD 200 /now/{id} -",
            "0.25 GET 200 /late -",
            "0 GET 404 - -",
            "0 PUT 405 - -",
            "0 _OTHER 501 - 501",
            "0 GET 503 /busy 503",
            "0 GET 200 /large -",
            "0.07 POST 200 /body -",
            "0 GET 200 /now/{id} -",
            "0 GET 500 /bad System.InvalidOperationException",
            "0 GET 200 /now/{id} -",
            "0 TRACE 405 - -",
        ], Told(Server));
        Assert.Equal((0, 26), (Sum(Active), Told(Active).Length));
        lock (_seen)
        {
            Assert.All(_seen, static m => Assert.Equal("http", m.Tags["url.scheme"]));
            Assert.Equal(["1.0", "1.1"], _seen.Where(static m => m.Name == Server)
                .Select(static m => m.Tags["network.protocol.version"]).Distinct().Order());
        }
    }

    [Fact]
    public void A_truncated_request_is_recorded_with_the_cause_and_is_no_longer_active()
    {
        Listen();
        using Web web =
            new(new HttpOptions { BodyTimeout = TimeSpan.FromSeconds(2), RateGrace = TimeSpan.FromSeconds(1) });
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/never", static async (_, _, stop) => await new TaskCompletionSource().Task.WaitAsync(stop));
        web.Server.Get("/deaf", static (_, _, _) => new ValueTask(new TaskCompletionSource().Task));
        web.Server.Get("/begun", static async (_, response, stop) =>
        {
            await response.WriteAsync(new byte[5], stop);
            await new TaskCompletionSource().Task.WaitAsync(stop);
        });
        web.Server.Get("/mine", static (request, _, _) =>
        {
            request.Session.Abort();
            return new ValueTask(new TaskCompletionSource().Task);
        });
        web.Server.Post("/body", static (request, response) => response.Bytes(request.BodyBytes));
        TestPeer[] peers = [.. Enumerable.Range(0, 7).Select(_ => web.Connect())];
        peers[0].Send(Web.Get("/never"));
        peers[1].Send(Web.Get("/deaf"));
        peers[2].Send(Web.Get("/begun"));
        foreach (TestPeer uploads in peers[3..6])
            uploads.Send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 400\r\n\r\nab");
        peers[6].Send(Web.Get("/mine"));
        web.Network.Advance(TimeSpan.FromMilliseconds(500));
        Assert.Equal((6, 1), (Sum(Active), Told(Server).Length));
        peers[0].Finish();
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        peers[1].Reset();
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        peers[2].Reset();
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        peers[3].Finish();
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        peers[4].Reset();
        web.Network.Advance(TimeSpan.FromSeconds(20)); // the last one is too slow
        Assert.Equal(
        [
            "0 GET - /mine LocalAbort",
            "0.5 GET - /never PeerClosed",
            "0.6 GET - /deaf PeerReset",
            "0.7 GET 200 /begun PeerReset",
            "0.8 POST - /body PeerClosed",
            "0.9 POST - /body PeerReset",
        ], Told(Server)[..6]);
        Assert.EndsWith(" POST 408 /body -", Assert.Single(Told(Server)[6..]), StringComparison.Ordinal);
        Assert.Equal(0, Sum(Active));
    }

    [Fact]
    public void A_connection_that_continues_with_another_protocol_is_recorded_at_the_switch()
    {
        Listen();
        using Web web = new();
        web.Server.WebSocket("/chat", static () => new Chat());
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
            + "13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"));
        web.Network.Advance(TimeSpan.FromSeconds(3));
        peer.Reset();
        web.Network.Advance(TimeSpan.FromSeconds(1));
        Assert.Equal(["0 GET 101 /chat -"], Told(Server));
        Assert.Equal(0, Sum(Active));
    }

    private sealed class Chat : WebSocketSession;

    [Fact]
    public void A_request_begun_without_a_listener_is_not_recorded_and_an_end_without_one_does_no_harm()
    {
        using Web web = new();
        web.Server.Get("/late", static (request, response, _) => Wait(request, response, 250));
        TestPeer before = web.Connect(), meanwhile = web.Connect();
        before.Send(Web.Get("/late"));
        web.Network.Advance(TimeSpan.FromMilliseconds(200));
        Listen();
        meanwhile.Send(Web.Get("/late"));
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        Assert.Equal("200 late", Assert.Single(Web.Answers(before)));
        Assert.Equal(([], 1d), (Told(Server), Sum(Active)));
        _listener.Dispose();
        web.Network.Advance(TimeSpan.FromMilliseconds(500));
        Assert.Equal("200 late", Assert.Single(Web.Answers(meanwhile)));
        Assert.Empty(Told(Server));
    }

    [Fact]
    public void An_end_is_counted_only_for_what_was_counted_when_it_began()
    {
        Listen(Server);
        using Web web = new();
        web.Server.Get("/late", static (request, response, _) => Wait(request, response, 250));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/late"));
        _listener.EnableMeasurementEvents(_active!);
        web.Network.Advance(TimeSpan.FromSeconds(1));
        Assert.Equal(200, Web.One(peer).Status);
        lock (_seen) Assert.Equal(Server, Assert.Single(_seen).Name);
    }

    [Theory]
    [InlineData(Server)]
    [InlineData(Active)]
    public void A_listener_that_throws_harms_no_request_and_is_named(string instrument)
    {
        _throwsFor = name => name == instrument;
        Listen();
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/") + Web.Get("/"));
        Assert.Equal([404, 404], Web.Read(peer).Select(static a => a.Status));
        Assert.Contains(web.Notices, static n => n.Kind == DiagnosticEventKind.UserException
            && n.Message.Contains("listener of the meter", StringComparison.Ordinal));
    }

    // ------------------------------------------------------------------ clients

    private sealed class Asker(HttpClientOptions options) : HttpClientSession("a.test:8080", options)
    {
        internal SendResult Ask(HttpVerb verb) => Request(verb, "/"u8);

        internal SendResult Ask(HttpClientRequest request) => Request(request);
    }

    [Fact]
    public void A_session_records_each_answer_in_order_and_those_that_never_came()
    {
        Asker asker = new(new HttpClientOptions { PipelineLimit = 4, HeadTimeout = TimeSpan.FromSeconds(30) });
        using TestPeer peer = TestPeer.Accept(() => asker);
        Ask(() => asker.Ask(HttpVerb.Get)); // its head arrives before the listener starts
        Ask(() => asker.Ask(HttpVerb.Get)); // sent before the listener starts
        peer.Advance(TimeSpan.FromMilliseconds(10));
        peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
        peer.Advance(TimeSpan.FromMilliseconds(10));
        Listen();
        Ask(() => asker.Ask(HttpVerb.Delete));
        peer.Advance(TimeSpan.FromMilliseconds(100));
        Ask(() => asker.Ask(new HttpClientRequest("BREW", new Uri("http://a.test:8080/"))));
        peer.Send("okHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 Not "
            + "Found\r\nContent-Length: 2\r\n\r\n");
        peer.Advance(TimeSpan.FromMilliseconds(100));
        Assert.Equal(["0.1 DELETE 404 - 404"], Told(Client));
        peer.Send("noHTTP/1.0 201 Created\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n");
        peer.Advance(TimeSpan.FromMilliseconds(100));
        for (int i = 0; i < 3; i++) Ask(() => asker.Ask(HttpVerb.Get));
        peer.Advance(TimeSpan.FromMilliseconds(100));
        peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
        peer.Reset();
        peer.Advance(TimeSpan.FromMilliseconds(100));
        Assert.Equal(["0.1 DELETE 404 - 404", "0.1 _OTHER 201 - -", "0.1 GET 200 - -", "0.1 GET - - ConnectionLost",
            "0.1 GET - - ConnectionLost"], Told(Client));
        lock (_seen)
            Assert.All(_seen, static m => Assert.Equal(("a.test", "8080", "http"),
                (m.Tags["server.address"], m.Tags["server.port"], m.Tags["url.scheme"])));

        void Ask(Func<SendResult> ask) => peer.OnLoop(() => Assert.Equal(SendResult.Queued, ask()));
    }

    [Theory]
    [InlineData("example.org", false, "example.org", 80)]
    [InlineData("example.org", true, "example.org", 443)]
    [InlineData("example.org:8443", true, "example.org", 8443)]
    [InlineData("[::1]", false, "::1", 80)]
    [InlineData("[::1]:81", false, "::1", 81)]
    public void A_peer_is_named_by_host_and_port(string authority, bool isSecure, string address, int port)
    {
        HttpMetricsPeer peer = HttpMetricsPeer.Of(authority, isSecure);
        Assert.Equal((address, port), (peer.Address, (int)peer.Port));
    }

    [Fact]
    public async Task A_pool_records_each_request_also_redirected_refused_and_cancelled_ones()
    {
        Listen();
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                if (head.StartsWith("GET /old ", StringComparison.Ordinal))
                    await line.SendAsync("HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n");
                else if (head.StartsWith("GET /new ", StringComparison.Ordinal)) await line.OkAsync();
                else if (head.StartsWith("GET /bad ", StringComparison.Ordinal))
                    await line.SendAsync("no answer\r\n\r\n");
                else await line.EndAsync();
            }
        });
        string closed;
        await using (Script gone = new(static line => line.EndAsync())) closed = gone.Url;
        await using (HttpPool pool = new())
        await using (HttpPool hasty = new(new HttpClientOptions { RequestTimeout = TimeSpan.FromMilliseconds(50) }))
        {
            Assert.Equal(200, (await pool.FetchAsync(new HttpClientRequest(HttpVerb.Get, script.Url + "/old")).AsTask()
                .WaitAsync(Script.Patience)).Status);
            await Assert.ThrowsAsync<HttpClientException>(() => pool.GetAsync(script.Url + "/bad").AsTask()
                .WaitAsync(Script.Patience));
            await Assert.ThrowsAsync<HttpClientException>(() => hasty.GetAsync(script.Url + "/never").AsTask()
                .WaitAsync(Script.Patience));
            using CancellationTokenSource given = new();
            Task<HttpClientResponse> up = pool.GetAsync(script.Url + "/never", given.Token).AsTask();
            given.Cancel();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => up.WaitAsync(Script.Patience));
            await Assert.ThrowsAsync<HttpClientException>(() => pool.GetAsync(closed + "/").AsTask()
                .WaitAsync(Script.Patience));
        }

        string[] told = [.. Told(Client)
            .Select(static line => line[(line.IndexOf(' ', StringComparison.Ordinal) + 1)..])];
        Assert.Equal(["GET 302 - -", "GET 200 - -", "GET - - Protocol", "GET - - RequestTimeout",
            "GET - - System.OperationCanceledException", "GET - - Refused"], told);
        lock (_seen)
        {
            Assert.All(_seen, static m => Assert.InRange(m.Value, 1e-7, Script.Patience.TotalSeconds));
            Assert.InRange(_seen[3].Value, 0.01, Script.Patience.TotalSeconds);
            Assert.All(_seen[..5],
                m => Assert.Equal(new Uri(script.Url).Port.ToString(System.Globalization.CultureInfo.InvariantCulture),
                    m.Tags["server.port"]));
        }
    }

    [Fact]
    public async Task A_listener_that_throws_harms_no_request_of_a_pool_and_is_named()
    {
        TaskCompletionSource noticed = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using Engine engine = new(new EngineOptions { Loops = 1, OnDiagnosticEvent = Noticed });
        _throwsFor = static name => name == Client;
        Listen();
        await using Script script = new(static line => line.AnswerAllAsync(Script.Ok));
        await using HttpPool pool = new(new HttpClientOptions { Engine = engine });
        Assert.Equal("ok", Encoding.ASCII.GetString((await pool
            .FetchAsync(new HttpClientRequest(HttpVerb.Get, script.Url)).AsTask().WaitAsync(Script.Patience)).Body));
        await noticed.Task.WaitAsync(Script.Patience);

        // On a busy machine there are other diagnostic events, about a delayed loop.
        void Noticed(DiagnosticEvent notice)
        {
            if (notice.Message.Contains("listener of the meter", StringComparison.Ordinal)) noticed.TrySetResult();
        }
    }
}
