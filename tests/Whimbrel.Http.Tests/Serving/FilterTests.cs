using System.Text;
using Whimbrel.Http.Tests.WebSockets;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// Filters, groups and the error hook.
public sealed class FilterTests
{
    private static void Report(HttpRequest request, HttpResponse response, string what) => response.Add("X-Ran", what);

    private static string[] Ran(string answer) => [.. answer.Split("\r\n")
        .Where(static line => line.StartsWith("X-Ran: ", StringComparison.Ordinal)).Select(static line => line[7..])];

    [Fact]
    public void Filters_run_in_their_order_those_of_the_server_first_whatever_was_added_first()
    {
        using Web web = new();
        HttpRouteGroup api = web.Server.Group("/api/"), users = api.Group("/users/{user}");
        users.Get("/", static (request, response) => response.Text($"user {request.Route["user"]}"));
        users.Get("/posts/{post}", static async (request, response) =>
        {
            await Task.CompletedTask;
            response.Text($"post {request.Route["user"]} {request.Route["post"]}");
        });
        web.Server.Get("/open", static (_, response) => response.Text("open"));
        users.Use(static (request, response) => Report(request, response, "users"));
        api.Use(static async (request, response) => { await Task.CompletedTask; Report(request, response, "api 1"); });
        api.Use(static (request, response) => Report(request, response, "api 2"));
        web.Server.Use(static (request, response) => Report(request, response, "server"));
        api.Get("/x", static (_, response) => response.Text("x"));
        Assert.Equal(("/api", "/api/users/{user}"), (api.Prefix, users.Prefix));
        TestPeer peer = web.Connect();
        (string Path, string Answer, string[] Ran)[] cases =
        [
            ("/open", "open", ["server"]), ("/api/x", "x", ["server", "api 1", "api 2"]),
            ("/api/users/bob", "user bob", ["server", "api 1", "api 2", "users"]),
            ("/api/users/bob/posts/7", "post bob 7", ["server", "api 1", "api 2", "users"]),
            ("/none", "404 Not Found", ["server"]), ("/api/none", "404 Not Found", ["server"]),
            ("/api/users/bob/", "404 Not Found", ["server"]),
        ];
        foreach ((string path, string expected, string[] ran) in cases)
        {
            peer.Send(Web.Get(path));
            string answer = peer.ReceiveText();
            Assert.Equal(ran, Ran(answer));
            Assert.Equal(expected, answer[(answer.IndexOf("\r\n\r\n", StringComparison.Ordinal) + 4)..].TrimEnd());
        }

        Assert.Throws<InvalidOperationException>(() => api.Use(static (_, _) => { }));
        Assert.Throws<InvalidOperationException>(() => api.Get("/late", static (_, _) => { }));
        Assert.Throws<InvalidOperationException>(() => web.Server.OnError(static (_, _, _) => { }));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_filter_that_answers_has_answered_and_the_connection_continues(bool isAwaited)
    {
        using Web web = new();
        int handled = 0, later = 0;
        HttpRouteGroup safe = web.Server.Group("/safe");
        if (isAwaited)
        {
            safe.Use(static async (request, response) =>
            {
                await Task.CompletedTask;
                if (request["X-Key"] != "good") response.Fail(401);
            });
        }
        else
        {
            safe.Use(static (request, response) =>
            {
                if (request["X-Key"] != "good") response.Fail(401);
            });
        }

        safe.Use((_, _) => { later++; });
        safe.Get("/get", (_, response) => { handled++; response.Text("got"); });
        safe.Post("/post",
            async (request, response) => { handled++; response.Bytes((await request.ReadBodyAsync()).Span); });
        safe.Put("/put", (request, response) => { handled++; response.Bytes(request.BodyBytes); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/safe/get") + Web.Post("/safe/post", "body") + Web.Post("/safe/put", "body")
            .Replace("POST", "PUT", StringComparison.Ordinal) + Web.Get("/safe/get", "X-Key: bad\r\n"));
        Assert.Equal([401, 401, 401, 401], Web.Read(peer).Select(static a => a.Status));
        Assert.Equal((0, 0), (handled, later));
        peer.Send(Web.Get("/safe/get", "X-Key: good\r\n") + Web.Post("/safe/post", "body", "X-Key: good\r\n")
            + Web.Post("/safe/put", "body", "X-Key: good\r\n").Replace("POST", "PUT", StringComparison.Ordinal));
        Assert.Equal(["200 got", "200 body", "200 body"], Web.Answers(peer));
        Assert.Equal((3, 3), (handled, later));
    }

    [Fact]
    public void A_filter_that_waits_holds_the_request_back_and_the_handler_runs_on_the_loop_again()
    {
        using Web web = new();
        TaskCompletionSource<bool> verdict = new(TaskCreationOptions.RunContinuationsAsynchronously);
        bool ranOnLoop = false;
        web.Server.Use(async (request, response, stop) =>
        {
            if (!await verdict.Task.WaitAsync(stop)) response.Fail(403);
        });
        web.Server.Use(static (request, response) => Report(request, response, "second"));
        web.Server.Get("/", (request, response) =>
        {
            ranOnLoop = request.Session.Loop.IsCurrent;
            response.Text($"{request["X-Name"]}");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", "X-Name: a\r\n") + Web.Get("/", "X-Name: b\r\n"));
        Assert.Empty(peer.Receive());
        verdict.SetResult(true);
        List<Answer> answers = [];
        Assert.True(SpinWait.SpinUntil(() => { answers.AddRange(Web.Read(peer)); return answers.Count == 2; },
            EngineSite.Patience));
        Assert.Equal(["200 a second", "200 b second"], answers.Select(static a => $"{a.Status} {a.Body} {a["X-Ran"]}"));
        Assert.True(ranOnLoop);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_filter_that_throws_rejects_the_request(bool isLate)
    {
        using Web web = new();
        web.Network.RethrowsExceptions = false;
        TaskCompletionSource later = new();
        int handled = 0;
        web.Server.Use(async (_, _) =>
        {
            if (isLate) await later.Task;
            throw new InvalidOperationException("mine");
        });
        web.Server.Get("/", (_, response) => { handled++; response.Text("got"); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        later.SetResult();
        Assert.Equal(500, Web.One(peer).Status);
        Assert.Equal((0, 1L), (handled, web.Counters.HandlerErrors));
    }

    [Fact]
    public void A_client_that_goes_away_while_a_filter_waits_is_not_served()
    {
        using Web web = new();
        TaskCompletionSource later = new();
        int handled = 0;
        web.Server.Use(async (_, _) => await later.Task);
        web.Server.Get("/", (_, response) => { handled++; response.Text("got"); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        peer.Reset();
        later.SetResult();
        web.Network.Run();
        Assert.Equal((0, 0), (handled, web.Server.SessionCount));
    }

    [Theory]
    [InlineData("", 401)]
    [InlineData("X-Key: good\r\n", 101)]
    public void A_WebSocket_of_a_group_runs_after_its_filters_also_one_that_waits(string key, int status)
    {
        using Web web = new();
        TaskCompletionSource later = new();
        HttpRouteGroup safe = web.Server.Group("/safe");
        safe.Use(async (request, response) =>
        {
            await later.Task;
            if (request["X-Key"] != "good") response.Fail(401);
        });
        safe.WebSocket("/ws", static () => new WsSession());
        TestPeer peer = web.Connect();
        peer.Send(WsPeer.Ask("/safe/ws")
            .Replace("Upgrade: websocket", $"{key}Upgrade: websocket", StringComparison.OrdinalIgnoreCase));
        Assert.Empty(peer.Receive());
        later.SetResult();
        Assert.StartsWith($"HTTP/1.1 {status} ", peer.ReceiveText(), StringComparison.Ordinal);
    }

    [Fact]
    public void Files_of_a_group_run_after_its_filters_and_have_the_last_name_of_the_path()
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("whimbrel-");
        try
        {
            File.WriteAllText(Path.Combine(folder.FullName, "a.txt"), "file");
            using Web web = new();
            HttpRouteGroup safe = web.Server.Group("/{tenant}");
            safe.Use(static (request, response) =>
            {
                if (request.Route["tenant"] != "bob") response.Fail(403);
            });
            safe.Files("/files", folder.FullName);
            TestPeer peer = web.Connect();
            foreach ((string path, int status) in ((string, int)[])[("/eve/files/a.txt", 403),
                ("/bob/files/a.txt", 200), ("/bob/files/b.txt", 404), ("/eve/files", 403), ("/bob/files", 301)])
            {
                peer.Send(Web.Get(path));
                List<Answer> answers = [];
                Assert.True(SpinWait.SpinUntil(() => { answers.AddRange(Web.Read(peer)); return answers.Count == 1; },
                    EngineSite.Patience));
                Assert.Equal((path, status), (path, answers[0].Status));
            }
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    [Fact]
    public void A_folder_that_is_missing_throws_where_it_is_added_and_says_where_it_was_looked_for()
    {
        using Web web = new();
        string message =
            Assert.Throws<DirectoryNotFoundException>(() => web.Server.Files("/", "no-such-folder")).Message;
        Assert.Contains(Path.GetFullPath("no-such-folder"), message, StringComparison.Ordinal);
        Assert.Contains(Environment.CurrentDirectory, message, StringComparison.Ordinal);
        web.Server.Files("/", "no-such-folder", new HttpFileOptions { MayBeMissing = true });
    }

    [Theory]
    [InlineData("/sync", false)]
    [InlineData("/sync", true)]
    [InlineData("/async", false)]
    [InlineData("/async", true)]
    [InlineData("/form", false)]
    public void Fields_added_by_a_filter_are_in_the_answer_for_a_failure_and_those_of_the_handler_are_not(string path,
        bool hasHook)
    {
        TaskCompletionSource later = new();
        using Web web = Failing(later);
        web.Server.Use(static (request, response) => Report(request, response, "filter"));
        web.Server.Use(static async (request, response) =>
        {
            await Task.CompletedTask;
            response.Add("X-Long", new string('x', 1000));
            response.Add("Content-Type", "text/x-own");
        });
        web.Server.Post("/form", static (request, response) =>
        {
            Report(request, response, "handler");
            response.Text($"{request.Json<int>()}");
        });
        if (hasHook) web.Server.OnError(static (_, response, _) => response.Fail(404));
        TestPeer peer = web.Connect();
        peer.Send(path == "/form" ? Web.Post(path, "{", "Content-Type: application/json\r\n") : Web.Get(path));
        later.SetResult();
        string answer = peer.ReceiveText();
        Assert.StartsWith($"HTTP/1.1 {(path == "/form" ? 400 : hasHook ? 404 : 500)} ", answer,
            StringComparison.Ordinal);
        Assert.Equal(["filter"], Ran(answer));
        Assert.Contains($"X-Long: {new string('x', 1000)}\r\nContent-Type: text/x-own\r\n", answer,
            StringComparison.Ordinal);
        Assert.Equal(2, answer.Split("Content-Type: ").Length);
    }

    // ------------------------------------------------------------------ the error hook

    private static Web Failing(TaskCompletionSource later)
    {
        Web web = new();
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/sync", static (_, response) =>
        {
            response.Status = 201;
            Report(default, response, "handler");
            throw new KeyNotFoundException("mine");
        });
        web.Server.Get("/async", async (_, response) => { await later.Task; throw new KeyNotFoundException("mine"); });
        web.Server.Post("/body",
            static async (request, _) => { await Task.CompletedTask; throw new KeyNotFoundException("mine"); });
        web.Server.Get("/good", static (_, response) => response.Text("good"));
        return web;
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void The_error_hook_answers_for_a_handler_that_threw_and_the_connection_continues(bool isAwaited)
    {
        TaskCompletionSource later = new();
        using Web web = Failing(later);
        List<string> told = [];
        if (isAwaited)
        {
            web.Server.OnError(async (request, response, exception) =>
            {
                told.Add($"{Encoding.ASCII.GetString(request.Path)} {exception.Message}");
                await later.Task;
                response.Fail(404, "no such thing");
            });
        }
        else
        {
            web.Server.OnError((request, response, exception) =>
            {
                told.Add($"{Encoding.ASCII.GetString(request.Path)} {exception.Message}");
                response.Fail(404, "no such thing");
            });
        }

        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/sync") + Web.Get("/async") + Web.Post("/body", "body") + Web.Get("/good"));
        later.SetResult();
        List<Answer> answers = Web.Read(peer);
        Assert.Equal([404, 404, 404, 200], answers.Select(static a => a.Status));
        Assert.Equal(("", ""), (answers[0]["X-Ran"], answers[0]["Connection"]));
        Assert.Equal(["/sync mine", "/async mine", "/body mine"], told);
        Assert.Empty(web.Notices);
        Assert.Equal((3L, 0L), (web.Counters.HandlerErrors, web.Server.ReadCounters().UserExceptions));
        Assert.True(peer.IsConnected);
    }

    [Theory]
    [InlineData("/sync", false)]
    [InlineData("/sync", true)]
    [InlineData("/async", false)]
    [InlineData("/async", true)]
    public void An_exception_that_the_error_hook_leaves_alone_is_noted_and_answered_with_500(string path, bool throws)
    {
        TaskCompletionSource later = new();
        using Web web = Failing(later);
        web.Server.OnError(async (_, _, _) =>
        {
            await later.Task;
            if (throws) throw new InvalidOperationException("the hook's");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get(path) + Web.Get("/good"));
        later.SetResult();
        Answer answer = Web.One(peer);
        Assert.Equal((500, "close"), (answer.Status, answer["Connection"]));
        Assert.Contains(web.Notices, n => n.Message.StartsWith($"The handler of GET {path}", StringComparison.Ordinal));
        Assert.Equal(throws,
            web.Notices.Exists(static n => n.Message.StartsWith("The error hook", StringComparison.Ordinal)));
        Assert.Equal(1L, web.Counters.HandlerErrors);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void The_error_hook_sees_that_an_answer_had_begun_and_the_connection_is_aborted(bool isLate)
    {
        TaskCompletionSource later = new();
        using Web web = Failing(later);
        bool hadBegun = false;
        web.Server.OnError(async (_, response, _) =>
        {
            hadBegun = response.HasBegun;
            if (isLate) await later.Task;
        });
        web.Server.Get("/half", static async (_, response, stop) =>
        {
            await response.WriteAsync("half"u8.ToArray(), stop);
            await response.FlushAsync(stop);
            throw new InvalidOperationException("mine");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/half"));
        later.SetResult();
        Assert.DoesNotContain("0\r\n\r\n", peer.ReceiveText(), StringComparison.Ordinal);
        Assert.True(hadBegun && peer.IsReset);
        Assert.Single(web.Notices);
    }

    [Fact]
    public void Mistakes_of_the_client_do_not_come_to_the_error_hook()
    {
        using Web web = Failing(new TaskCompletionSource());
        int told = 0;
        web.Server.OnError((_, response, _) => { told++; response.Empty(204); });
        web.Server.Post("/form",
            static async (request, response) => response.Text($"{(await request.ReadFormAsync())["a"]}"));
        TestPeer peer = web.Connect();
        peer.Send(Web.Post("/form", "{}", "Content-Type: application/json\r\n"));
        Assert.Equal(415, Web.One(peer).Status);
        Assert.Equal((0, 0L), (told, web.Counters.HandlerErrors));
    }

    [Fact]
    public void A_filter_that_threw_comes_to_the_error_hook_and_a_server_has_one()
    {
        using Web web = Failing(new TaskCompletionSource());
        web.Server.Use(static (_, _) => throw new InvalidOperationException("a filter's"));
        web.Server.OnError(static (_, response, exception) => response.Fail(503, exception.Message));
        Assert.Throws<InvalidOperationException>(() => web.Server.OnError(static (_, _, _) => { }));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/good") + Web.Get("/none"));
        Assert.Equal([503, 503], Web.Read(peer).Select(static a => a.Status));
    }

    // ------------------------------------------------------------------ on real engines

    [Theory]
    [InlineData(EngineKind.Epoll, Scheduling.Inline)]
    [InlineData(EngineKind.Epoll, Scheduling.ThreadPool)]
    [InlineData(EngineKind.Uring, Scheduling.Inline)]
    [InlineData(EngineKind.Uring, Scheduling.ThreadPool)]
    [InlineData(EngineKind.Portable, Scheduling.Inline)]
    public async Task Filters_and_error_hooks_that_wait_answer_each_request_with_its_own(EngineKind kind,
        Scheduling scheduling)
    {
        await using EngineSite site = new(kind, isTls: false, scheduling);
        site.Server.Use(static async (request, response) =>
        {
            string? key = request["X-Key"];
            await Task.Yield();
            if (key is null) response.Fail(401);
        });
        site.Server.OnError(static async (request, response, exception) =>
        {
            await Task.Yield();
            response.Status = 404;
            response.Text(exception.Message);
        });
        site.Server.Get("/sync/{x}", static (request, response) => response.Text(request.Route["x"]));
        site.Server.Get("/async/{x}", static async (request, response) =>
        {
            string x = request.Route["x"];
            await Task.Yield();
            response.Text(x);
        });
        site.Server.Get("/bad/{x}",
            static (request, response) => throw new InvalidOperationException(request.Route["x"]));
        site.Server.Post("/worse/{x}", static async (request, response) =>
        {
            await Task.Yield();
            throw new InvalidOperationException(request.Route["x"]);
        });
        site.Server.Post("/body", static (request, response) => response.Bytes(request.BodyBytes));
        await site.StartAsync();
        string[] paths = ["sync", "async", "bad", "worse", "body"];
        await Parallel.ForAsync(0, 8, async (client, cancellation) =>
        {
            for (int i = 0; i < 30; i++)
            {
                string x = $"{client}-{i}", path = paths[i % paths.Length];
                bool hasKey = i % 7 != 0, isPost = path is "worse" or "body";
                using HttpRequestMessage request = new(isPost ? HttpMethod.Post : HttpMethod.Get,
                    path == "body" ? "/body" : $"/{path}/{x}")
                {
                    Content = isPost ? new StringContent(x) : null
                };
                if (hasKey) request.Headers.Add("X-Key", x);
                using HttpResponseMessage answer = await site.Client.SendAsync(request, cancellation);
                string text = await answer.Content.ReadAsStringAsync(cancellation);
                Assert.Equal((path, !hasKey ? 401 : path is "bad" or "worse" ? 404 : 200, true),
                    (path, (int)answer.StatusCode, !hasKey || text == x));
            }
        });
    }
}
