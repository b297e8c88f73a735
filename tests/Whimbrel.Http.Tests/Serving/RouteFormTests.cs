using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// The permitted signatures of handlers, and methods that have one.
public sealed class RouteFormTests
{
    private static void Sync(HttpRequest request, HttpResponse response) => response.Text("answer");

    private static async Task Later(HttpRequest request, HttpResponse response)
    {
        await Task.CompletedTask;
        response.Text("answer");
    }

    private static async ValueTask ValueLater(HttpRequest request, HttpResponse response)
    {
        await Task.CompletedTask;
        response.Text("answer");
    }

    private static async Task<int> Counting(HttpRequest request, HttpResponse response)
    {
        await Later(request, response);
        return 1;
    }

    private static Task LaterWithToken(HttpRequest request, HttpResponse response, CancellationToken stop) =>
        Later(request, response);

    private static ValueTask ValueLaterWithToken(HttpRequest request, HttpResponse response, CancellationToken stop) =>
        ValueLater(request, response);

#pragma warning disable CA1849, S3168, VSTHRD100 // the mistake that is tested
    private static async void AsyncVoid(HttpRequest request, HttpResponse response)
    {
        await Task.Yield();
        response.Text("late");
    }

    private static async void AsyncVoidHook(HttpRequest request, HttpResponse response, Exception exception)
    {
        await Task.Yield();
        response.Text("late");
    }
#pragma warning restore

    private static readonly Dictionary<string, (bool IsAwaited, Action<HttpServer> Add)> s_forms = new()
    {
        ["expression"] = (false, static web => web.Get("/", static (_, response) => response.Text("answer"))),
        ["block"] = (false, static web => web.Get("/", static (_, response) => { response.Text("answer"); })),
        ["method"] = (false, static web => web.Get("/", Sync)),
        ["async block"] = (true, static web => web.Get("/",
            static async (_, response) => { await Task.CompletedTask; response.Text("answer"); })),
        ["async expression"] = (true,
            static web => web.Get("/", static async (_, response) => response.Text(await Task.FromResult("answer")))),
        ["async with token"] = (true, static web => web.Get("/",
            static async (_, response, stop) => { await Task.CompletedTask; response.Text("answer"); })),
        ["expression of a task"] = (true,
            static web => web.Get("/", static (request, response) => Later(request, response))),
        ["expression of a value task"] = (true,
            static web => web.Get("/", static (_, response) => response.WriteAsync("answer"u8.ToArray()))),
        ["expression of a task with a result"] = (true,
            static web => web.Get("/", static (request, response) => Counting(request, response))),
        ["default"] = (true,
            static web => web.Get("/", static (_, response) => { response.Text("answer"); return default; })),
        ["default with token"] = (true,
            static web => web.Get("/", static (_, response, _) => { response.Text("answer"); return default; })),
        ["completed task"] = (true, static web => web.Get("/",
            static (_, response) => { response.Text("answer"); return Task.CompletedTask; })),
        ["method of a task"] = (true, static web => web.Get("/", Later)),
        ["method of a value task"] = (true, static web => web.Get("/", ValueLater)),
        ["method of a task with a result"] = (true, static web => web.Get("/", Counting)),
        ["method of a task with token"] = (true, static web => web.Get("/", LaterWithToken)),
        ["method of a value task with token"] = (true, static web => web.Get("/", ValueLaterWithToken)),
        ["variable"] = (true, static web => web.Get("/", (Func<HttpRequest, HttpResponse, Task>)Later)),
    };

    public static TheoryData<string> Forms => [.. s_forms.Keys];

    [Theory, MemberData(nameof(Forms))]
    public void Each_form_of_a_handler_is_recognized_and_answers(string form)
    {
        using Web web = new();
        (bool isAwaited, Action<HttpServer> add) = s_forms[form];
        add(web.Server);
        Assert.Equal(isAwaited, Assert.Single(((IHttpRoutes)web.Server).Scope.Table.Routes).IsAwaitable);
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/") + Web.Get("/"));
        Assert.Equal(["200 answer", "200 answer"], Web.Answers(peer));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void An_async_lambda_without_a_token_is_waited_for_and_its_answer_is_not_that_of_the_next_request(
        bool throws)
    {
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        TaskCompletionSource ready = new();
        web.Server.Get("/slow", async (_, response) =>
        {
            await ready.Task;
            if (throws) throw new InvalidOperationException("mine");
            response.Text("slow");
        });
        web.Server.Get("/fast", static (_, response) => response.Text("fast"));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/slow") + Web.Get("/fast"));
        Assert.Empty(peer.Receive());
        ready.SetResult();
        Assert.Equal(throws ? [500] : [200, 200], Web.Read(peer).Select(static a => a.Status));
    }

    [Fact]
    public void A_lambda_that_only_throws_is_answered_with_500()
    {
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/", static (_, _) => throw new InvalidOperationException("mine"));
        web.Server.Get("/null", static (_, _) => (Task)null!);
        foreach (string path in (string[])["/", "/null"])
        {
            TestPeer peer = web.Connect();
            peer.Send(Web.Get(path));
            Assert.Equal(500, Web.One(peer).Status);
        }

        Assert.Contains(web.Notices,
            static n => n.Message.Contains("returned null instead of a task", StringComparison.Ordinal));
    }

    [Fact]
    public void A_method_that_is_async_void_throws_where_it_is_added()
    {
        using Web web = new();
        Action<HttpRequest, HttpResponse> lambda =
            static async (_, response) => { await Task.Yield(); response.Text("late"); };
        Action[] mistakes =
        [
            () => web.Server.Get("/", AsyncVoid), () => web.Server.Post("/", lambda),
            () => web.Server.Map("X", "/", AsyncVoid), () => web.Server.Use(AsyncVoid), () => web.Server.Use(lambda),
            () => web.Server.OnError(AsyncVoidHook),
            () => web.Server.WebSocket("/", static () => new WebSocketSession(),
                visitors: static async (_, response) => { await Task.Yield(); response.Text("late"); }),
        ];
        foreach (Action mistake in mistakes)
            Assert.Contains("async void", Assert.Throws<ArgumentException>(mistake).Message, StringComparison.Ordinal);
    }

    // ------------------------------------------------------------------ methods

    [Fact]
    public void Each_method_has_routes_also_one_without_a_number()
    {
        using Web web = new();
        web.Server.Put("/a", static (_, response) => response.Text("put"));
        web.Server.Delete("/a", static async (_, response) => { await Task.CompletedTask; response.Text("delete"); });
        web.Server.Patch("/a", static (_, response) => response.Text("patch"));
        web.Server.Map("PURGE", "/a", static (_, response) => response.Text("purge"));
        web.Server.Map("M-SEARCH", "/b/{x}", static async (request, response, _) =>
        {
            await Task.CompletedTask;
            response.Text($"search {request.Route["x"]}");
        });
        web.Server.Map("GET", "/a", static (_, response) => response.Text("get"));
        TestPeer peer = web.Connect();
        (string Method, string Path, string Answer, string Allow)[] cases =
        [
            ("PUT", "/a", "200 put", ""), ("DELETE", "/a", "200 delete", ""), ("PATCH", "/a", "200 patch", ""),
            ("PURGE", "/a", "200 purge", ""), ("GET", "/a", "200 get", ""),
            ("M-SEARCH", "/b/1", "200 search 1", ""),
            ("M-SEARCH", "/a", "405", "GET, HEAD, PUT, DELETE, OPTIONS, PATCH, PURGE"),
            ("PURGE", "/b/1", "405", "OPTIONS, M-SEARCH"),
            ("PURGE", "/none", "404", ""), ("GET", "/b/1", "405", "OPTIONS, M-SEARCH"),
            ("OPTIONS", "/b/1", "204", "OPTIONS, M-SEARCH"), ("BREW", "/a", "501", ""), ("purge", "/a", "501", ""),
            ("put", "/a", "501", ""),
        ];
        foreach ((string method, string path, string expected, string allow) in cases)
        {
            peer.Send(Web.Get(path, verb: method));
            Answer answer = Web.One(peer);
            Assert.Equal((method, path, expected, allow),
                (method, path, $"{answer.Status} {answer.Body}"[..expected.Length], answer["Allow"]));
        }

        Assert.True(peer.IsConnected);
    }

    [Fact]
    public void A_method_that_could_never_be_served_throws_where_it_is_added()
    {
        using Web web = new();
        foreach (string method in (string[])["", "GET ", "A B", "get", "Delete", "ä"])
            Assert.Throws<ArgumentException>(() => web.Server.Map(method, "/", Sync));
        foreach (string method in (string[])["CONNECT", "TRACE"])
            Assert.Throws<ArgumentOutOfRangeException>(() => web.Server.Map(method, "/", Sync));
        foreach (HttpVerb verb in (HttpVerb[])[HttpVerb.Other, HttpVerb.Connect, HttpVerb.Trace, (HttpVerb)77])
            Assert.Throws<ArgumentOutOfRangeException>(() => web.Server.Map(verb, "/", Sync));
        for (int i = 0; i < 54; i++) web.Server.Map($"OWN{i}", "/", Sync);
        Assert.Throws<ArgumentException>(() => web.Server.Map("OWN54", "/", Sync));
        Assert.Throws<ArgumentException>(() => web.Server.Map("OWN53", "/", Sync));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", verb: "OWN53") + Web.Get("/", verb: "OWN54"));
        Assert.Equal([200, 501], Web.Read(peer).Select(static a => a.Status));
    }

    // ------------------------------------------------------------------ redirects, JSON by reflection

    [Theory]
    [InlineData("/users/7", 302, "/users/7")]
    [InlineData("https://other.example/a?b=c#d", 301, "https://other.example/a?b=c#d")]
    [InlineData("/wünsche/zwei teile", 303, "/w%C3%BCnsche/zwei%20teile")]
    [InlineData("/a%20b", 307, "/a%20b")]
    [InlineData("?page=2", 308, "?page=2")]
    public void A_redirect_says_where_and_has_no_body(string location, int status, string expected)
    {
        using Web web = new();
        web.Server.Get("/", (_, response) => response.Redirect(location, status));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Answer answer = Web.One(peer);
        Assert.Equal((status, expected, "", "0"),
            (answer.Status, answer["Location"], answer.Body, answer["Content-Length"]));
        Assert.True(peer.IsConnected);
    }

    [Fact]
    public void An_invalid_redirect_throws_and_the_request_can_be_answered_otherwise()
    {
        using Web web = new();
        int thrown = 0;
        web.Server.Get("/", (_, response) =>
        {
            foreach ((string location, int status) in ((string, int)[])[("/a\r\nSet-Cookie: x=y", 302), ("/a\0", 302),
                ("", 302), ("/a", 200), ("/a", 304), ("/a", 404)])
            {
                try
                {
                    response.Redirect(location, status);
                }
                catch (ArgumentException)
                {
                    thrown++;
                }
            }

            response.Text("here");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Answer answer = Web.One(peer);
        Assert.Equal((6, 200, "here", ""), (thrown, answer.Status, answer.Body, answer["Location"]));
    }

    private class Animal
    {
        public string Name { get; init; } = "";
    }

    private sealed class Dog : Animal
    {
        public int LegCount { get; init; }
    }

    [Fact]
    public void Any_object_is_answered_as_JSON_with_the_members_of_its_class()
    {
        using Web web = new();
        int count = 2;
        Animal dog = new Dog { Name = "Rex", LegCount = 4 };
        web.Server.Get("/anonymous",
            (_, response) => response.Json(new { UserName = "bob", Tags = (int[])[1, count] }));
        web.Server.Get("/derived", (_, response) => response.Json(dog));
        web.Server.Get("/null", static (_, response) => response.Json(null));
        web.Server.Get("/options", (_, response) => response.Json(dog,
            new System.Text.Json.JsonSerializerOptions { WriteIndented = true, NewLine = "\n" }));
        web.Server.Get("/status", static (_, response) => { response.Status = 201; response.Json(7); });
        TestPeer peer = web.Connect();
        foreach ((string path, string expected) in ((string, string)[])[
            ("/anonymous", """200 {"userName":"bob","tags":[1,2]}"""),
            ("/derived", """200 {"legCount":4,"name":"Rex"}"""), ("/null", "200 null"),
            ("/options", "200 {\n  \"LegCount\": 4,\n  \"Name\": \"Rex\"\n}"), ("/status", "201 7")])
        {
            peer.Send(Web.Get(path));
            Answer answer = Web.One(peer);
            Assert.Equal((expected, "application/json"), ($"{answer.Status} {answer.Body}", answer["Content-Type"]));
        }
    }
}
