using System.Diagnostics;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using Whimbrel.Clusters;

namespace Whimbrel.Dashboard.Tests;

// What an open page gets.
public class ViewTests
{
    private static readonly DashboardOptions _fast = new() { Interval = TimeSpan.FromMilliseconds(100) };

    private static Task<int> SendAsync(Socket socket, string text) =>
        socket.SendAsync(Encoding.UTF8.GetBytes(text), Site.End).AsTask();

    private static Socket NewSocket() => new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);

    private static List<long> Ids(JsonElement message) =>
        [.. message.GetProperty("rows").EnumerateArray().Select(static r => r.GetProperty("id").GetInt64())];

    [Fact]
    public async Task Nothing_is_sampled_without_a_viewer()
    {
        DashboardSite dashboard = new(_fast);
        await using Http.HttpServer web = new("http://127.0.0.1:0");
        dashboard.AddTo(web, "/d");
        await web.StartAsync(Site.End);
        Assert.False(dashboard.Viewers.IsRunning);
        Assert.Equal(0, dashboard.Viewers.Samples);
        using (Page page = await Page.OpenAsync($"ws://{web.EndPoint}/d/live"))
        {
            for (int i = 0; i < 3; i++) await page.NextAsync();
            Assert.True(dashboard.Viewers.IsRunning);
        }

        await Site.UntilAsync(() => !dashboard.Viewers.IsRunning, "the end of the sampler");
        long samples = dashboard.Viewers.Samples;
        Assert.InRange(samples, 3, 100);
        // tidy: waits because several intervals without a sample are the point
        await Task.Delay(500, Site.End);
        Assert.Equal(samples, dashboard.Viewers.Samples);

        using Page again = await Page.OpenAsync($"ws://{web.EndPoint}/d/live");
        Assert.NotNull(await again.NextAsync());
    }

    [Fact]
    public async Task The_overview_has_engine_loops_with_load_and_lag_and_servers()
    {
        await using Site site = await Site.StartAsync(_fast);
        (Socket socket, _) = await site.ConnectAsync();
        using Page page = await site.OpenAsync();
        JsonElement message = await page.ShowAsync(new { view = "overview" }, "overview");
        JsonElement engine = message.GetProperty("engines")[0];
        Assert.Equal(site.Engine.KindName, engine.GetProperty("engine").GetProperty("kind").GetString());
        Assert.Equal(2, engine.GetProperty("loops").GetArrayLength());
        Assert.Equal(2, engine.GetProperty("lagMs").GetArrayLength());
        Assert.All(engine.GetProperty("lagMs").EnumerateArray(), static l => Assert.InRange(l.GetDouble(), 0, 10_000));
        if (OperatingSystem.IsLinux())
            Assert.All(engine.GetProperty("loops").EnumerateArray(),
                static l => Assert.True(l.GetProperty("cpuMs").GetInt64() >= 0));
        Assert.Equal(2, engine.GetProperty("servers").GetArrayLength());
        Assert.Empty(message.GetProperty("actions").EnumerateArray());
        socket.Dispose();
    }

    [Fact]
    public async Task Servers_of_an_engine_that_is_not_named_are_counted()
    {
        await using Engine first = new(), second = new();
        await using Server one = new(new ServerOptions { Address = "tcp://127.0.0.1:0", Engine = first },
            static () => new Upstream());
        await using Server two = new(new ServerOptions { Address = "tcp://127.0.0.1:0", Engine = second },
            static () => new Upstream());
        await one.StartAsync(Site.End);
        await two.StartAsync(Site.End);
        await using Site site = await Site.StartAsync(new DashboardOptions
        {
            Interval = _fast.Interval, Engines = [first]
        });
        using Page page = await site.OpenAsync();
        JsonElement message = await page.ShowAsync(new { view = "overview" }, "overview");
        Assert.Equal(1, message.GetProperty("serversOfOtherEngines").GetInt32());
        Assert.Equal(2, message.GetProperty("engines").GetArrayLength());
    }

    [Fact]
    public async Task A_blocked_loop_delays_no_update_and_shows_as_lag_with_the_code_that_runs()
    {
        await using Site site = await Site.StartAsync(_fast);
        (Socket socket, Session session) = await site.ConnectAsync();
        int loop = session.Loop.Index;
        // The page lives on the other loop.
        using Page first = await site.OpenAsync(), second = await site.OpenAsync();
        await first.NextAsync();
        await second.NextAsync();
        List<JsonElement> rows = [.. (await first.ShowAsync(new { view = "connections", filter = "WebSocket" },
            "connections")).GetProperty("rows").EnumerateArray()];
        Assert.Equal(2, rows.Count);
        Page other = rows.OrderBy(static r => r.GetProperty("id").GetInt64()).First().GetProperty("loop").GetInt32()
            == loop ? second : first;
        await SendAsync(socket, "block");
        JsonElement message = await other.UntilAsync(new { view = "overview" }, m =>
            m.GetProperty("engines")[0].GetProperty("lagMs")[loop].GetDouble() > 600
            && m.GetProperty("engines")[0].GetProperty("loops")[loop].TryGetProperty("running", out _));
        Assert.Contains("OnReceived of Echo", message.GetProperty("engines")[0].GetProperty("loops")[loop]
            .GetProperty("running").GetString(), StringComparison.Ordinal);
        Assert.InRange(message.GetProperty("engines")[0].GetProperty("lagMs")[1 - loop].GetDouble(), 0, 500);
    }

    [Fact]
    public async Task Connections_are_sorted_and_paged_on_the_server()
    {
        await using Site site = await Site.StartAsync(_fast);
        List<Session> sessions = [];
        List<Socket> sockets = [];
        for (int i = 0; i < 60; i++)
        {
            (Socket socket, Session session) = await site.ConnectAsync();
            sockets.Add(socket);
            sessions.Add(session);
        }

        Session slow = sessions[40], busy = sessions[20];
        await SendAsync(sockets[40], "flood");
        await SendAsync(sockets[20], new string('x', 5000));
        using Page page = await site.OpenAsync();

        // The page's own connection belongs to another server and does not match.
        JsonElement byQueue = await page.UntilAsync(
            new { view = "connections", sort = "queue", filter = "Echo", rows = 25 },
            m => m.GetProperty("view").GetString() == "connections" && Ids(m)[0] == slow.Id
                && m.GetProperty("rows")[0].GetProperty("pending").GetInt64() > 0);
        Assert.Equal((60, 3, 0), (byQueue.GetProperty("matching").GetInt32(), byQueue.GetProperty("pages").GetInt32(),
            byQueue.GetProperty("page").GetInt32()));
        Assert.Equal(25, byQueue.GetProperty("rows").GetArrayLength());

        JsonElement slowest = await page.UntilAsync(new { view = "connections", sort = "slowest", filter = "Echo" },
            m => Ids(m)[0] == slow.Id && !m.GetProperty("rows")[0].TryGetProperty("drainSeconds", out _));
        Assert.Equal(64 << 20, slowest.GetProperty("rows")[0].GetProperty("limit").GetInt32());

        JsonElement byBytes = await page.UntilAsync(
            new { view = "connections", sort = "bytes", filter = "Echo", rows = 2 },
            m => Ids(m).Count == 2 && Ids(m)[1] == busy.Id);
        Assert.Equal(5002, byBytes.GetProperty("rows")[1].GetProperty("received").GetInt64());

        // The oldest first; a page after the last one is the last one.
        JsonElement byAge = await page.UntilAsync(
            new { view = "connections", sort = "age", filter = "Echo", rows = 25, page = 99 },
            m => m.GetProperty("page").GetInt32() == 2);
        Assert.Equal(sessions.OrderBy(static s => s.ConnectedAt).ThenBy(static s => s.Id).Skip(50)
            .Select(static s => s.Id), Ids(byAge));
        JsonElement youngest = await page.UntilAsync(
            new { view = "connections", sort = "age", ascending = true, filter = "Echo", rows = 1 },
            m => Ids(m).Count == 1);
        Assert.Equal(sessions.OrderByDescending(static s => s.ConnectedAt).ThenBy(static s => s.Id).First().Id,
            Ids(youngest)[0]);

        string peer = sockets[7].LocalEndPoint!.ToString()!;
        JsonElement one = await page.UntilAsync(new { view = "connections", filter = peer }, m => Ids(m).Count == 1);
        Assert.Equal(sessions[7].Id, Ids(one)[0]);
        await page.UntilAsync(new { view = "connections", filter = "no such peer" }, m => Ids(m).Count == 0
            && m.GetProperty("pages").GetInt32() == 1);
    }

    [Fact]
    public async Task One_connection_is_shown_with_its_groups_and_after_its_end_with_the_reason()
    {
        await using Site site = await Site.StartAsync(_fast);
        (Socket socket, Session session) = await site.ConnectAsync();
        await SendAsync(socket, "join blue");
        using Page page = await site.OpenAsync();
        JsonElement open = await page.UntilAsync(new { view = "connection", id = session.Id },
            m => m.TryGetProperty("groups", out JsonElement groups) && groups.GetArrayLength() == 1);
        Assert.Equal("open", open.GetProperty("state").GetString());
        Assert.Equal("blue", open.GetProperty("groups")[0].GetString());
        Assert.Equal(socket.LocalEndPoint!.ToString(), open.GetProperty("peer").GetString());
        Assert.Equal("Echo", open.GetProperty("type").GetString());
        await SendAsync(socket, "bye");
        JsonElement ended = await page.UntilAsync(new { view = "connection", id = session.Id },
            m => m.GetProperty("state").GetString() == "ended");
        Assert.Equal("UserException", ended.GetProperty("cause").GetString());
        Assert.Contains("asked for", ended.GetProperty("reason").GetString(), StringComparison.Ordinal);
        Assert.False(ended.GetProperty("isGraceful").GetBoolean());
        await page.UntilAsync(new { view = "connection", id = 987_654_321 },
            m => m.GetProperty("state").GetString() == "unknown");
    }

    [Fact]
    public async Task Ended_connections_are_listed_with_cause_while_a_page_is_open()
    {
        await using Site site = await Site.StartAsync(_fast);
        (Socket early, _) = await site.ConnectAsync();
        early.Dispose();
        using Page page = await site.OpenAsync();
        await page.NextAsync();
        (Socket socket, Session session) = await site.ConnectAsync();
        socket.Shutdown(SocketShutdown.Send);
        JsonElement ended = await page.UntilAsync(new { view = "ended", filter = "PeerClosed" },
            m => m.GetProperty("view").GetString() == "ended" && Ids(m).Contains(session.Id));
        JsonElement row = ended.GetProperty("rows").EnumerateArray()
            .First(r => r.GetProperty("id").GetInt64() == session.Id);
        Assert.True(row.GetProperty("isGraceful").GetBoolean());
        Assert.Equal(2, row.GetProperty("received").GetInt64());
        await page.UntilAsync(new { view = "ended", filter = "no such cause" }, m => Ids(m).Count == 0);
    }

    [Fact]
    public async Task Of_ended_connections_the_last_256_are_kept()
    {
        await using Site site = await Site.StartAsync(_fast);
        (_, Session session) = await site.ConnectAsync();
        EndedSessions ended = new();
        for (int i = 0; i < EndedSessions.Most + 3; i++) ended.Add(session, new CloseReason(CloseCause.LocalClose, i));
        List<EndedSession> kept = ended.Read();
        Assert.Equal(EndedSessions.Most, kept.Count);
        Assert.Equal((EndedSessions.Most + 2, 3), (kept[0].Reason.ErrorCode, kept[^1].Reason.ErrorCode));
    }

    [Fact]
    public async Task Groups_are_listed_by_size_and_a_group_shows_its_members()
    {
        await using Site site = await Site.StartAsync(_fast);
        const string Nasty = "<img src=x onerror=alert(1)>";
        List<long> members = [];
        for (int i = 0; i < 5; i++)
        {
            (Socket socket, Session session) = await site.ConnectAsync();
            await SendAsync(socket, i < 3 ? $"join {Nasty}" : "join small");
            if (i < 3) members.Add(session.Id);
        }

        using Page page = await site.OpenAsync();
        JsonElement groups = await page.UntilAsync(new { view = "groups" }, m =>
            m.GetProperty("view").GetString() == "groups" && m.GetProperty("rows").GetArrayLength() == 2
            && m.GetProperty("rows")[0].GetProperty("members").GetInt32() == 3);
        JsonElement row = groups.GetProperty("rows")[0];
        Assert.Equal(Nasty, row.GetProperty("name").GetString());
        Assert.Equal(3, row.GetProperty("loops").EnumerateArray().Sum(static l => l.GetInt32()));
        JsonElement list = await page.UntilAsync(new
        {
            view = "connections", group = Nasty, server = row.GetProperty("server").GetInt64()
        }, m => m.GetProperty("view").GetString() == "connections" && Ids(m).Count == 3);
        Assert.Equal(members.Order(), Ids(list).Order());
        await page.UntilAsync(new { view = "connections", group = "none", server = 1 }, m => Ids(m).Count == 0);
        await page.UntilAsync(new { view = "groups", filter = "SMALL" },
            m => m.GetProperty("matching").GetInt32() == 1);
    }

    [Fact]
    public async Task Connections_of_clients_are_listed_without_a_server_and_shown_until_after_their_end()
    {
        await using Site site = await Site.StartAsync(_fast);
        await using Connector connector = new(new ClientOptions
        {
            Engine = site.Engine, EndPoint = site.Server.EndPoint!, Scheduling = Scheduling.ThreadPool,
        });
        Session client = await connector.ConnectAsync(static () => new Upstream(), cancellationToken: Site.End);
        client.Send("hello");
        using Page page = await site.OpenAsync();
        JsonElement list = await page.UntilAsync(new { view = "connections", filter = nameof(Upstream) },
            m => Ids(m).Count == 1 && m.GetProperty("rows")[0].GetProperty("received").GetInt64() == 5);
        JsonElement row = list.GetProperty("rows")[0];
        Assert.Equal((client.Id, 0, site.Server.EndPoint!.ToString()), (row.GetProperty("id").GetInt64(),
            row.GetProperty("server").GetInt64(), row.GetProperty("peer").GetString()));
        JsonElement open = await page.UntilAsync(new { view = "connection", id = client.Id },
            m => m.GetProperty("state").GetString() == "open");
        Assert.Equal("ThreadPool", open.GetProperty("scheduling").GetString());
        connector.DisconnectAll();
        JsonElement ended = await page.UntilAsync(new { view = "connection", id = client.Id },
            m => m.GetProperty("state").GetString() == "ended");
        Assert.Equal("LocalClose", ended.GetProperty("cause").GetString());
        await page.UntilAsync(new { view = "connections", filter = nameof(Upstream) }, m => Ids(m).Count == 0);
    }

    private sealed class Upstream : Session;

    [Fact]
    public async Task Groups_of_a_cluster_have_the_members_of_all_nodes()
    {
        MemoryBus bus = new();
        await using Engine other = new();
        await using Server near = new("tcp://127.0.0.1:0", static () => new Member());
        await using Server far = new(new ServerOptions { Address = "tcp://127.0.0.1:0", Engine = other },
            static () => new Member());
        await using Cluster here = await Cluster.JoinAsync(near, bus.Connect(), OptionsOf("here"));
        await far.StartAsync(Site.End);
        await using Cluster there = await Cluster.JoinAsync(far, bus.Connect(), OptionsOf("there"));
        near.State = here;
        far.State = there;
        await near.StartAsync(Site.End);
        await using Http.HttpServer web = new("http://127.0.0.1:0");
        web.AddDashboard("/d", _fast);
        await web.StartAsync(Site.End);
        using Socket one = NewSocket(), two = NewSocket(), three = NewSocket();
        await one.ConnectAsync(near.EndPoint!, Site.End);
        await two.ConnectAsync(far.EndPoint!, Site.End);
        await three.ConnectAsync(far.EndPoint!, Site.End);
        await SendAsync(three, "x"); // joins a group without members on the node of the dashboard
        using Page page = await Page.OpenAsync($"ws://{web.EndPoint}/d/live");
        JsonElement message = await page.UntilAsync(new { view = "groups" }, m =>
            m.GetProperty("view").GetString() == "groups" && m.GetProperty("rows").GetArrayLength() == 2
            && m.GetProperty("rows")[0].GetProperty("members").GetInt32() == 3);
        Assert.Equal([("everyone", "here: 1, there: 2"), ("away", "here: 0, there: 1")],
            message.GetProperty("rows").EnumerateArray().Select(static r => (r.GetProperty("name").GetString()!,
                string.Join(", ", r.GetProperty("nodes").EnumerateArray().Select(static n =>
                    $"{n.GetProperty("node").GetString()}: {n.GetProperty("members").GetInt32()}")))));
        JsonElement node = message.GetProperty("clusters")[0];
        Assert.Equal((1, "dashboard/here", "Healthy", true), (message.GetProperty("clusters").GetArrayLength(),
            node.GetProperty("node").GetString(), node.GetProperty("state").GetString(),
            node.GetProperty("hasPresence").GetBoolean()));
        JsonElement members = await page.UntilAsync(
            new { view = "connections", group = "everyone", node = "dashboard/here" },
            m => m.GetProperty("view").GetString() == "connections" && Ids(m).Count == 1);
        Assert.Equal(one.LocalEndPoint!.ToString(), members.GetProperty("rows")[0].GetProperty("peer").GetString());
    }

    [Fact]
    public async Task Without_presence_a_node_is_marked_and_its_groups_have_its_own_members_until_it_leaves()
    {
        await using Server server = new("tcp://127.0.0.1:0", static () => new Member());
        await server.StartAsync(Site.End);
        await using Cluster cluster = await Cluster.JoinAsync(server, new ClusterOptions { Application = "alone" });
        server.State = cluster;
        await using Http.HttpServer web = new("http://127.0.0.1:0");
        web.AddDashboard("/d", _fast);
        await web.StartAsync(Site.End);
        using Socket socket = NewSocket();
        await socket.ConnectAsync(server.EndPoint!, Site.End);
        using Page page = await Page.OpenAsync($"ws://{web.EndPoint}/d/live");
        JsonElement message = await page.UntilAsync(new { view = "groups" },
            m => m.GetProperty("rows")[0].GetProperty("members").GetInt32() == 1);
        Assert.False(message.GetProperty("clusters")[0].GetProperty("hasPresence").GetBoolean());
        await cluster.DisposeAsync();
        await page.UntilAsync(new { view = "groups" }, m => m.GetProperty("clusters").GetArrayLength() == 0
            && m.GetProperty("rows").GetArrayLength() == 0);
    }

    private static ClusterOptions OptionsOf(string node) => new()
    {
        Application = "dashboard", NodeId = node, PresenceInterval = TimeSpan.FromMilliseconds(100)
    };

    private sealed class Member : Session
    {
        protected override void OnConnected() => ((Cluster)Server!.State!).Group("everyone").Join(this);

        protected override void OnReceived(ReadOnlySpan<byte> data) =>
            ((Cluster)Server!.State!).Group("away").Join(this);
    }

    [Fact]
    public async Task Notices_are_shown_with_their_page_also_those_from_before()
    {
        await using Site site = await Site.StartAsync(_fast);
        site.Server.Report(new DiagnosticEvent(DiagnosticEventKind.Protocol, "something <b>odd</b>",
            "protocol-mismatch.md"));
        using Page page = await site.OpenAsync();
        JsonElement message = await page.ShowAsync(new { view = "notices" }, "notices");
        JsonElement row = message.GetProperty("rows")[0];
        Assert.Equal(("Protocol", "something <b>odd</b>", "protocol-mismatch"), (row.GetProperty("kind").GetString(),
            row.GetProperty("message").GetString(), row.GetProperty("page").GetString()));
    }

    public static TheoryData<string, string> WrongViews() => new()
    {
        { "no json", "No JSON" },
        { "[]", "a view is an object" },
        { "{\"view\":\"everything\"}", "there is no such view" },
        { "{\"view\":\"1\"}", "there is no such view" },
        { "{\"sort\":\"colour\"}", "there is no such sort" },
        { "{\"page\":-1}", "page is no number from 0 to 1000000" },
        { "{\"rows\":101}", "rows is no number from 1 to 100" },
        { "{\"id\":\"5\"}", "id is no number" },
        { $"{{\"filter\":\"{new string('f', 301)}\"}}", "filter is no text of at most 300 characters" },
    };

    [Theory, MemberData(nameof(WrongViews))]
    public async Task A_view_that_is_none_closes_the_page_with_the_reason(string message, string reason)
    {
        await using Site site = await Site.StartAsync(_fast);
        using Page page = await site.OpenAsync();
        await page.SendAsync(Encoding.UTF8.GetBytes(message));
        while (await page.NextAsync() is not null)
        {
        }

        Assert.StartsWith(reason, page.CloseText, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_message_of_a_page_above_4_KiB_closes_it()
    {
        await using Site site = await Site.StartAsync(_fast);
        using Page page = await site.OpenAsync();
        string view = "{\"view\":\"overview\"}";
        await page.SendAsync(Encoding.ASCII.GetBytes(view.PadRight(View.MostBytes)));
        Assert.NotNull(await page.NextAsync());
        await page.SendAsync(Encoding.ASCII.GetBytes(view.PadRight(View.MostBytes + 1)));
        while (await page.NextAsync() is not null)
        {
        }

        Assert.Equal(1009, (int)page.CloseStatus!);
    }

    [Fact]
    public async Task Views_that_change_all_the_time_are_updated_ten_times_a_second_at_most()
    {
        await using Site site = await Site.StartAsync(new DashboardOptions { Interval = TimeSpan.FromMinutes(1) });
        using Page page = await site.OpenAsync();
        Assert.NotNull(await page.NextAsync());
        long begin = Stopwatch.GetTimestamp();
        for (int i = 0; i < 5; i++)
        {
            for (int j = 0; j < 10; j++) await page.AskAsync(new { view = "connections", page = j });
            Assert.NotNull(await page.NextAsync());
        }

        Assert.True(Stopwatch.GetElapsedTime(begin) >= TimeSpan.FromMilliseconds(4 * 95));
    }

    [Fact]
    public async Task A_page_that_does_not_read_misses_updates_and_costs_no_more_memory()
    {
        await using Site site = await Site.StartAsync(_fast);
        for (int i = 0; i < 100; i++)
            site.Server.Report(new DiagnosticEvent(DiagnosticEventKind.System, new string('n', 2000),
                "accept-failed.md"));
        using Socket deaf = NewSocket();
        deaf.ReceiveBufferSize = 4096;
        await deaf.ConnectAsync(site.Web.EndPoint!, Site.End);
        await SendAsync(deaf, $"GET /whimbrel/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            + "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n");
        // A masked text frame with the mask 0.
        byte[] view = Encoding.ASCII.GetBytes("{\"view\":\"notices\"}");
        await deaf.SendAsync((byte[])[0x81, (byte)(0x80 | view.Length), 0, 0, 0, 0, .. view], Site.End);
        // The buffers of the system take megabytes first.
        long pending = 0, since = 0;
        await Site.UntilAsync(() =>
        {
            long now = site.Web.BytesPending;
            if (now != pending) (pending, since) = (now, Stopwatch.GetTimestamp());
            return pending > 64 * 1024 && Stopwatch.GetElapsedTime(since) > TimeSpan.FromSeconds(1);
        }, "a queue that is full");
        using Page other = await site.OpenAsync();
        for (int i = 0; i < 5; i++) await other.NextAsync();
        Assert.InRange(pending, 64 * 1024, 64 * 1024 + 200_000);
        await Site.UntilAsync(() => site.Web.BytesPending == pending, "the same queue as before");
    }

    [Fact]
    public async Task A_viewer_above_the_limit_is_closed_with_1013_and_gets_the_next_free_place()
    {
        await using Site site =
            await Site.StartAsync(new DashboardOptions { MaxViewers = 2, Interval = _fast.Interval });
        using Page one = await site.OpenAsync();
        Page two = await site.OpenAsync();
        Assert.NotNull(await one.NextAsync());
        Assert.NotNull(await two.NextAsync());
        using (Page third = await site.OpenAsync())
        {
            Assert.Null(await third.NextAsync());
            Assert.Equal(1013, (int)third.CloseStatus!);
            Assert.Contains("DashboardOptions.MaxViewers", third.CloseText, StringComparison.Ordinal);
        }

        two.Dispose();
        while (true)
        {
            using Page next = await site.OpenAsync();
            if (await next.NextAsync() is not null) return;
        }
    }
}
