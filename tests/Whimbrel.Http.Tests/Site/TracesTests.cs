using System.Diagnostics;
using System.Text;
using Whimbrel.Http.Tests.Asking;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Site;

/// <summary>Activities of requests: their parents, their children, and their status.</summary>
public sealed class TracesTests : IDisposable
{
    private const string Trace = "0af7651916cd43dd8448eb211c80319c";
    private const string Span = "b7ad6b7169203331";

    private readonly List<Activity> _ended = [];
    private ActivityListener? _listener;
    private bool _samplerThrows;

    public TracesTests()
    {
        HttpMetrics.Prepare();
        Assert.True(SpinWait.SpinUntil(static () => HttpMetrics.Current is not null, Script.Patience));
    }

    public void Dispose() => _listener?.Dispose();

    private void Listen()
    {
        _listener = new ActivityListener
        {
            ShouldListenTo = static source => source.Name == "Whimbrel",
            Sample = (ref ActivityCreationOptions<ActivityContext> _) => _samplerThrows
                ? throw new InvalidOperationException("a sampler") : ActivitySamplingResult.AllDataAndRecorded,
            ActivityStopped = activity =>
            {
                lock (_ended) _ended.Add(activity);
            },
        };
        ActivitySource.AddActivityListener(_listener);
    }

    /// <summary>Ended activities: <c>name status error</c>, dashes for missing values.</summary>
    private string[] Told()
    {
        lock (_ended) return [.. _ended.Select(static a => $"{a.Kind} {a.DisplayName} "
            + $"{a.GetTagItem("http.response.status_code") ?? "-"} {a.GetTagItem("error.type") ?? "-"} {a.Status}")];
    }

    // ------------------------------------------------------------------ servers

    [Fact]
    public void A_request_continues_the_trace_of_its_client_and_its_handler_runs_in_it()
    {
        Listen();
        using Activity outer = new Activity("what runs here").Start();
        List<Activity?> within = [];
        using Web web = new();
        web.Server.Get("/now/{id}", (_, response) => { within.Add(Activity.Current); response.Text("hello"); });
        web.Server.Get("/late", async (request, response, stop) =>
        {
            within.Add(Activity.Current);
            await request.Session.Loop.DelayAsync(TimeSpan.FromMilliseconds(100), stop);
            within.Add(Activity.Current);
            response.Text("late");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/now/1?secret=x", $"Traceparent: 00-{Trace}-{Span}-01\r\nTracestate: a=b\r\n") + Web.Get(
            "/late") + Web.Get("/now/2", $"Traceparent: 00-{Trace}-no\r\n") + Web.Get("/nowhere", verb: "BREW"));
        web.Network.Advance(TimeSpan.FromSeconds(1));
        Assert.Same(outer, Activity.Current);
        Assert.Equal(["200 hello", "200 late", "200 hello", "501 501 Not Implemented\r\n"], Web.Answers(peer));
        Assert.Equal(["Server GET /now/{id} 200 - Unset", "Server GET /late 200 - Unset",
            "Server GET /now/{id} 200 - Unset", "Server HTTP 501 501 Error"], Told());
        Assert.Equal((Trace, Span, "a=b"),
            (_ended[0].TraceId.ToHexString(), _ended[0].ParentSpanId.ToHexString(), _ended[0].TraceStateString));
        Assert.All(_ended[1..],
            static a => Assert.Equal((default, false), (a.ParentSpanId, a.TraceId.ToHexString() == Trace)));
        Assert.Equal([_ended[0], _ended[1], _ended[1], _ended[2]], within);
        Assert.Equal(("GET", "http", "/now/1", "a", 80), (_ended[0].GetTagItem("http.request.method"),
            _ended[0].GetTagItem("url.scheme"), _ended[0].GetTagItem("url.path"),
            _ended[0].GetTagItem("server.address"), _ended[0].GetTagItem("server.port")));
    }

    [Fact]
    public void A_request_that_fails_is_truncated_or_switches_protocols_ends_its_activity()
    {
        Listen();
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/never", static (_, _, _) => new ValueTask(new TaskCompletionSource().Task));
        web.Server.Get("/bad", static (_, _) => throw new InvalidOperationException("mine"));
        web.Server.WebSocket("/chat", static () => new Chat());
        TestPeer gone = web.Connect(), bad = web.Connect(), chat = web.Connect();
        gone.Send(Web.Get("/never"));
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        gone.Reset();
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        bad.Send(Web.Get("/bad"));
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        chat.Send(Web.Get("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
            + "13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"));
        web.Network.Advance(TimeSpan.FromMilliseconds(100));
        Assert.Equal(["Server GET /never - PeerReset Error",
            "Server GET /bad 500 System.InvalidOperationException Error", "Server GET /chat 101 - Unset"], Told());
        Assert.Null(Activity.Current);
    }

    private sealed class Chat : WebSocketSession;

    [Fact]
    public void A_sampler_that_throws_harms_no_request_and_is_named()
    {
        _samplerThrows = true;
        Listen();
        using Activity outer = new Activity("what runs here").Start();
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/") + Web.Get("/"));
        Assert.Equal([404, 404], Web.Read(peer).Select(static a => a.Status));
        Assert.Contains(web.Notices, static n => n.Kind == DiagnosticEventKind.UserException
            && n.Message.Contains("activities", StringComparison.Ordinal));
        Assert.Same(outer, Activity.Current);
    }

    [Fact]
    public void Without_a_listener_a_handler_runs_in_what_ran_before()
    {
        Activity? within = null;
        using Activity outer = new Activity("what runs here").Start();
        using Web web = new();
        web.Server.Get("/", (_, response) => { within = Activity.Current; response.Text(""); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", $"Traceparent: 00-{Trace}-{Span}-01\r\n"));
        Assert.Equal(200, Web.One(peer).Status);
        Assert.Same(outer, within);
    }

    // ------------------------------------------------------------------ clients

    [Fact]
    public async Task A_pool_says_what_its_requests_are_a_part_of_each_redirect_as_a_part_of_its_own()
    {
        Listen();
        await using Script script = new(async line =>
        {
            while (await line.HeadAsync() is { } head)
            {
                if (head.StartsWith("GET /old", StringComparison.Ordinal))
                    await line.SendAsync("HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n");
                else if (head.StartsWith("GET /cut", StringComparison.Ordinal)) return;
                else await line.SendAsync("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
            }
        });
        using Activity outer = new Activity("what asks").Start();
        outer.TraceStateString = "a=b";
        await using HttpPool pool = new();
        Assert.Equal(404, (await pool.FetchAsync(new HttpClientRequest(HttpVerb.Get, script.Url + "/old?secret=x"))
            .AsTask().WaitAsync(Script.Patience)).Status);
        Assert.Same(outer, Activity.Current);
        await Assert.ThrowsAsync<HttpClientException>(() => pool
            .FetchAsync(new HttpClientRequest(HttpVerb.Get, script.Url + "/cut")).AsTask().WaitAsync(Script.Patience));
        Assert.Equal(["Client GET 302 - Unset", "Client GET 404 404 Error", "Client GET - ConnectionLost Error"],
            Told());
        Assert.All(_ended, a => Assert.Equal((outer.TraceId, outer.SpanId), (a.TraceId, a.ParentSpanId)));
        // The request on the cut connection may have been sent twice, within the same activity.
        Assert.Equal(_ended.Select(static a => a.Id),
            script.Heads.Select(static h => Value(h, "traceparent")).Distinct());
        Assert.All(script.Heads, static h => Assert.Equal("a=b", Value(h, "tracestate")));
        Assert.Equal($"{script.Url}/old?*", _ended[0].GetTagItem("url.full"));
    }

    [Fact]
    public async Task A_pool_without_a_trace_listener_passes_on_the_current_activity_unless_the_request_sets_a_trace()
    {
        await using Script script = new(static line => line.AnswerAllAsync(Script.Ok));
        await using HttpPool pool = new();
        await AskAsync(null);
        using (Activity outer = new Activity("what asks").Start())
        {
            outer.TraceStateString = "a=b\r\nX-Evil: 1";
            await AskAsync(null);
            await AskAsync("mine");
            Assert.Equal(["-", outer.Id, "mine"], script.Heads.Select(static h => Value(h, "traceparent")));
        }

        Assert.All(script.Heads, static h => Assert.DoesNotContain("Evil", h, StringComparison.Ordinal));

        async Task AskAsync(string? own)
        {
            HttpClientRequest request = new(HttpVerb.Get, script.Url);
            if (own is not null) request.Add("TraceParent", own);
            Assert.Equal(200, (await pool.FetchAsync(request).AsTask().WaitAsync(Script.Patience)).Status);
        }
    }

    private sealed class Asker(HttpClientOptions options) : HttpClientSession("a.test:8080", options)
    {
        internal List<string> Told { get; } = [];

        internal bool TakesOver { get; init; }

        internal SendResult Ask(HttpVerb verb, string target) => Request(verb, Encoding.ASCII.GetBytes(target));

        internal SendResult Ask(HttpClientRequest request) => Request(request);

        protected override void OnResponse(HttpResponseHead head) =>
            Told.Add($"{head.Status} in {Activity.Current?.OperationName}");

        protected override bool OnSwitched(HttpResponseHead head)
        {
            if (TakesOver) HandOver(new Chat());
            return TakesOver;
        }
    }

    [Fact]
    public void A_clients_session_says_what_its_requests_are_a_part_of_and_each_answer_ends_its_own()
    {
        using Activity outer = new Activity("what asks").Start();
        outer.TraceStateString = "a=b";
        Asker asker = new(new HttpClientOptions { PipelineLimit = 5 });
        using TestPeer peer = TestPeer.Accept(() => asker);
        HttpClientRequest own = new(HttpVerb.Get, "http://a.test:8080/own");
        own.Add("Traceparent", "mine");
        Ask(() => asker.Ask(HttpVerb.Get, "/before"), () => asker.Ask(own));
        Listen();
        Ask(() => asker.Ask(HttpVerb.Get, "/one?secret=x"),
            () => asker.Ask(new HttpClientRequest("BREW", new Uri("http://a.test:8080/two?secret=x"))),
            () => asker.Ask(own));
        peer.OnLoop(() => Assert.Equal(SendResult.Full, asker.Ask(HttpVerb.Get, "/beyond the limit")));
        string[] heads = peer.ReceiveText().Split("\r\n\r\n", StringSplitOptions.RemoveEmptyEntries);
        for (int i = 0; i < 4; i++) peer.Send($"HTTP/1.1 20{i} OK\r\nContent-Length: 0\r\n\r\n");
        Assert.Equal(["Client GET 202 - Unset", "Client HTTP 203 - Unset"], Told());
        peer.Reset();
        Assert.Equal("Client GET - ConnectionLost Error", Told()[^1]);
        Assert.Equal(["200 in what asks", "201 in what asks", "202 in what asks", "203 in what asks"], asker.Told);
        Assert.Equal([outer.Id, "mine", _ended[0].Id, _ended[1].Id, "mine"],
            heads.Select(static h => Value(h, "traceparent")));
        Assert.Equal(["a=b", "-", "a=b", "a=b", "-"], heads.Select(static h => Value(h, "tracestate")));
        Assert.All(_ended, a => Assert.Equal((outer.SpanId, "a.test", (object)8080),
            (a.ParentSpanId, a.GetTagItem("server.address"), a.GetTagItem("server.port"))));
        Assert.Equal(["http://a.test:8080/one?*", "http://a.test:8080/two?*", "http://a.test:8080/own"],
            _ended.Select(static a => a.GetTagItem("url.full")));
        Assert.Same(outer, Activity.Current);

        void Ask(params Func<SendResult>[] asks) => peer.OnLoop(() => Assert.All(asks, ask =>
        {
            Activity.Current = outer;
            Assert.Equal(SendResult.Queued, ask());
            Assert.Same(outer, Activity.Current);
        }));
    }

    [Theory]
    [InlineData(true, "Client GET 101 - Unset")]
    [InlineData(false, "Client GET - Protocol Error")]
    public void A_switch_to_another_protocol_ends_the_activity_of_what_asked_for_it(bool takesOver, string told)
    {
        Listen();
        Asker asker = new(new HttpClientOptions()) { TakesOver = takesOver };
        using TestPeer peer = TestPeer.Accept(() => asker);
        HttpClientRequest request = new(HttpVerb.Get, "http://a.test:8080/");
        request.Add("Upgrade", "other");
        peer.OnLoop(() => Assert.Equal(SendResult.Queued, asker.Ask(request)));
        peer.Send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n");
        Assert.Equal([told], Told());
    }

    [Fact]
    public void A_request_refused_by_the_send_queue_ends_its_activity_with_that_error()
    {
        Listen();
        Asker asker = new(new HttpClientOptions { PipelineLimit = 4 });
        using TestPeer peer = TestPeer.Accept(() => asker);
        HttpClientRequest large = new(HttpVerb.Post, "http://a.test:8080/");
        large.SetBody(new byte[700_000]); // more than half of the send queue
        peer.OnLoop(() =>
        {
            Assert.Equal(SendResult.Queued, asker.Ask(large));
            Assert.Equal(SendResult.Closed, asker.Ask(large));
        });
        Assert.Contains("Client POST - Closed Error", Told());
        Assert.Null(Activity.Current);
    }

    [Fact]
    public void A_sampler_that_throws_harms_no_request_of_a_client_either()
    {
        _samplerThrows = true;
        Listen();
        Asker asker = new(new HttpClientOptions());
        using TestPeer peer = TestPeer.Accept(() => asker);
        peer.Network.RethrowsExceptions = false;
        peer.OnLoop(() => Assert.Equal(SendResult.Queued, asker.Ask(HttpVerb.Get, "/")));
        peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        Assert.Equal(["200 in "], asker.Told);
        Assert.Equal(1, peer.Network.Engine.UserExceptionCount);
    }

    private static string Value(string head, string name) =>
        Assert.Single(head.Split("\r\n").Where(line => line.StartsWith(name + ":", StringComparison.OrdinalIgnoreCase))
            .DefaultIfEmpty(name + ":-"))[(name.Length + 1)..].Trim();
}
