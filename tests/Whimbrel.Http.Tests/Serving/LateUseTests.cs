using System.Reflection;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// A request, its response and everything attached to them end with their exchange. Later use throws, and does not
// affect the next request of the connection.
public sealed class LateUseTests
{
    private const BindingFlags Public = BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly;

    private static readonly Dictionary<string, Action<HttpRequest>> _requestMembers = new()
    {
        ["Session"] = static r => _ = r.Session,
        ["Verb"] = static r => _ = r.Verb,
        ["Method"] = static r => _ = r.Method,
        ["Target"] = static r => _ = r.Target,
        ["Path"] = static r => _ = r.Path,
        ["Authority"] = static r => _ = r.Authority,
        ["MinorVersion"] = static r => _ = r.MinorVersion,
        ["FieldCount"] = static r => _ = r.FieldCount,
        ["Route"] = static r => _ = r.Route,
        ["Item"] = static r => _ = r["Host"],
        ["TryGet"] = static r => r.TryGet("Host"u8, out _),
        ["NameAt"] = static r => r.NameAt(0),
        ["ValueAt"] = static r => r.ValueAt(0),
        ["AsksFor"] = static r => r.AsksFor("websocket"u8),
        ["HasBody"] = static r => _ = r.HasBody,
        ["BodyLength"] = static r => _ = r.BodyLength,
        ["BodyBytes"] = static r => _ = r.BodyBytes,
        ["Body"] = static r => _ = r.Body,
        ["ReadBodyAsync"] = static r => Wait(r.ReadBodyAsync().AsTask()),
        ["TryGetTrailer"] = static r => r.TryGetTrailer("a"u8, out _),
        ["Query"] = static r => _ = r.Query,
        ["Form"] = static r => _ = r.Form,
        ["Cookies"] = static r => _ = r.Cookies,
        ["ReadFormAsync"] = static r => Wait(r.ReadFormAsync().AsTask()),
        ["Json"] = static r => r.Json(Number),
        ["ReadJsonAsync"] = static r => Wait(r.ReadJsonAsync(Number).AsTask()),
        ["ReadPartsAsync"] = static r => Wait(r.ReadPartsAsync().GetAsyncEnumerator().MoveNextAsync().AsTask()),
    };

    private static readonly Dictionary<string, Action<HttpResponse>> _responseMembers = new()
    {
        ["Status"] = static r => r.Status = 404,
        ["HasBegun"] = static r => _ = r.HasBegun,
        ["MayCompress"] = static r => _ = r.MayCompress,
        ["BodyLength"] = static r => _ = r.BodyLength,
        ["Body"] = static r => _ = r.Body,
        ["CloseAfter"] = static r => r.CloseAfter(),
        ["Add"] = static r => r.Add("X-Late", "1"),
        ["AddFieldsOf"] = static r => r.AddFieldsOf(null!),
        ["SetCookie"] = static r => r.SetCookie(new HttpCookie("late", "1")),
        ["MeetsConditions"] = static r => r.MeetsConditions("\"late\""),
        ["Text"] = static r => r.Text("late"),
        ["Bytes"] = static r => r.Bytes("late"u8),
        ["Json"] = static r => r.Json(1, Number),
        ["Redirect"] = static r => r.Redirect("/late"),
        ["Empty"] = static r => r.Empty(),
        ["Fail"] = static r => r.Fail(500),
        ["File"] = static r => r.File("late"),
        ["SwitchProtocol"] = static r => r.SwitchProtocol("late", new Echo()),
        ["WriteAsync"] = static r => Wait(r.WriteAsync("late"u8.ToArray()).AsTask()),
        ["FlushAsync"] = static r => Wait(r.FlushAsync().AsTask()),
        ["SendEventAsync"] = static r => Wait(r.SendEventAsync("late").AsTask()),
        ["AddTrailer"] = static r => r.AddTrailer("X-Late", "1"),
        ["EndAsync"] = static r => Wait(r.EndAsync().AsTask()),
    };

    private static JsonTypeInfo<int> Number =>
        JsonMetadataServices.CreateValueInfo<int>(new JsonSerializerOptions(), JsonMetadataServices.Int32Converter);

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    private static void Wait(Task task) => task.GetAwaiter().GetResult();

    private static void ExpectEnded(string member, Action use)
    {
        Exception? thrown = Record.Exception(use);
        Assert.True(thrown is InvalidOperationException && thrown.Message.Contains("has ended",
            StringComparison.Ordinal), $"{member}: {thrown?.ToString() ?? "nothing was thrown"}");
    }

    public static TheoryData<bool, Scheduling> Ways => new()
    {
        { false, Scheduling.Inline },
        { true, Scheduling.Inline },
        { false, Scheduling.ThreadPool },
        { true, Scheduling.ThreadPool }
    };

    [Theory, MemberData(nameof(Ways))]
    public void Each_member_throws_after_the_exchange_has_ended_and_the_next_request_gets_nothing_of_it(bool isAwaited,
        Scheduling scheduling)
    {
        using Web web = new(scheduling: scheduling);
        List<(HttpRequest Request, HttpResponse Response)> kept = [];
        List<(RouteValues Route, HttpPairs Query, HttpCookies Cookies, Stream RequestBody, Stream ResponseBody)> parts =
            [];
        TaskCompletionSource later = new();
        void Keep(HttpRequest request, HttpResponse response)
        {
            kept.Add((request, response));
            parts.Add((request.Route, request.Query, request.Cookies, request.Body, response.Body));
        }

        if (isAwaited)
        {
            web.Server.Post("/{name}", async (request, response, _) =>
            {
                Keep(request, response);
                await later.Task;
            });
        }
        else
        {
            web.Server.Post("/{name}", Keep);
        }

        // Another request of the same connection reuses the objects of the first one; the late uses also happen inside
        // its handler.
        web.Server.Post("/", (request, response) =>
        {
            UseAll();
            response.Text($"own {request["X-Own"]}");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Post("/first?q=1", "body", "Cookie: a=b\r\n"));
        later.SetResult();
        peer.Run();
        Assert.Equal(["204 "], Web.Answers(peer));
        UseAll();
        peer.Send(Web.Post("/", "body", "X-Own: mine\r\n"));
        Answer answer = Web.One(peer);
        Assert.Equal((200, "own mine", ""), (answer.Status, answer.Body, answer["X-Late"]));
        UseAll();
        Assert.Empty(peer.Receive());

        void UseAll()
        {
            (HttpRequest request, HttpResponse response) = kept[0];
            foreach ((string member, Action<HttpRequest> use) in _requestMembers)
                ExpectEnded($"request.{member}", () => use(request));
            foreach ((string member, Action<HttpResponse> use) in _responseMembers)
                ExpectEnded($"response.{member}", () => use(response));
            (RouteValues route, HttpPairs query, HttpCookies cookies, Stream requestBody, Stream responseBody) =
                parts[0];
            ExpectEnded("Route[]", () => _ = route["name"]);
            ExpectEnded("Route.GetBytes", () => route.GetBytes("name"));
            ExpectEnded("Query[]", () => _ = query["q"]);
            ExpectEnded("Query.Bytes", () => _ = query.Bytes);
            ExpectEnded("Query.IsEmpty", () => _ = query.IsEmpty);
            ExpectEnded("Query.TryGet", () => query.TryGet("q"u8, out _));
            ExpectEnded("Query.GetEnumerator", () => query.GetEnumerator());
            ExpectEnded("Query.ToString", () => _ = query.ToString());
            ExpectEnded("Cookies[]", () => _ = cookies["a"]);
            ExpectEnded("Cookies.TryGet", () => cookies.TryGet("a"u8, out _));
            ExpectEnded("request.Body.ReadAsync", () => Wait(requestBody.ReadAsync(new byte[8]).AsTask()));
            ExpectEnded("response.Body.WriteAsync", () => Wait(responseBody.WriteAsync(new byte[8]).AsTask()));
            ExpectEnded("response.Body.FlushAsync", () => Wait(responseBody.FlushAsync()));
        }
    }

    [Fact]
    public void The_lists_of_this_class_have_each_public_member()
    {
        Assert.Equal(NamesOf(typeof(HttpRequest)), _requestMembers.Keys.Order());
        Assert.Equal(NamesOf(typeof(HttpResponse)), _responseMembers.Keys.Order());
        static IEnumerable<string> NamesOf(Type type) => type.GetMembers(Public)
            .Where(static m => m is not ConstructorInfo and not MethodInfo { IsSpecialName: true })
            .Select(static m => m.Name).Distinct().Order();
    }

    [Fact]
    public void An_object_that_never_was_a_request_throws_a_clear_message()
    {
        Assert.Contains("default(HttpRequest)",
            Assert.Throws<InvalidOperationException>(static () => _ = default(HttpRequest).Verb).Message,
            StringComparison.Ordinal);
        Assert.Contains("default(HttpResponse)",
            Assert.Throws<InvalidOperationException>(static () => default(HttpResponse).Text("x")).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void A_read_left_pending_by_a_handler_ends_with_the_exchange()
    {
        using Web web = new();
        Task<int>? read = null;
        web.Server.Post("/", (request, _) =>
        {
            read = request.Body.ReadAsync(new byte[8]).AsTask();
            return default(ValueTask);
        });
        TestPeer peer = web.Connect();
        peer.Send($"POST / HTTP/1.1\r\n{Web.Host}Content-Length: 5\r\n\r\n");
        Assert.Equal(204, Web.One(peer).Status);
        ExpectEnded("the read", () => Wait(read!));
    }

    private sealed class Own : HttpSession
    {
        internal HttpResponse Kept { get; private set; }

        internal void UseLater() => Response.Status = 404;

        internal void RespondLater() => Respond(200, default, "late"u8);

        protected override void OnRequest(HttpRequest request)
        {
            Response.Status = 201; // by reference, because otherwise it does not compile
            Kept = Response;
        }
    }

    [Fact]
    public void The_response_of_a_session_is_given_inside_of_OnRequest_and_may_be_kept()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Own());
        Own session = (Own)peer.Session;
        peer.Send(Web.Get("/"));
        Assert.Contains("HttpResponse response = Response",
            Assert.Throws<InvalidOperationException>(session.UseLater).Message, StringComparison.Ordinal);
        Assert.Throws<InvalidOperationException>(session.RespondLater);
        HttpResponse first = session.Kept;
        first.Text("kept");
        Assert.Equal(["201 kept"], Web.Answers(peer));
        peer.Send(Web.Get("/"));
        ExpectEnded("a second answer", () => first.Text("late"));
        session.Kept.Empty();
        Assert.Equal(["201 "], Web.Answers(peer));
    }

    [Fact]
    public void Two_calls_at_a_time_are_refused()
    {
        using Web web = new();
        Exception? thrown = null;
        web.Server.Get("/", async (_, response) =>
        {
            await response.FlushAsync();
            ValueTask first = response.WriteAsync(new byte[4_000_000]); // more than the send queue holds
            thrown = await Record.ExceptionAsync(async () => await response.WriteAsync("x"u8.ToArray()));
            await first;
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.Contains("Await each write", Assert.IsType<InvalidOperationException>(thrown).Message,
            StringComparison.Ordinal);
        Assert.Equal(4_000_000, Web.One(peer).Body.Length);
    }
}
