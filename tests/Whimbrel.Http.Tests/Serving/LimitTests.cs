using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// Each limit just below and just above, with its status and its counter. Time is virtual.
public sealed class LimitTests
{
    private static readonly TimeSpan _moment = TimeSpan.FromMilliseconds(1);

    private static Web Serve(HttpOptions options)
    {
        Web web = new(options);
        web.Server.Get("/{*any}", static (_, response) => response.Text("ok"));
        web.Server.Post("/kept", static (request, response) => response.Text($"{request.BodyBytes.Length}"));
        web.Server.Post("/stream", static async (request, response, stop) =>
        {
            long length = 0;
            byte[] piece = new byte[1000];
            for (int count; (count = await request.Body.ReadAsync(piece, stop)) > 0; length += count)
            {
            }

            response.Text($"{length}");
        });
        return web;
    }

    private static (int Status, bool IsKept) Ask(Web web, string request)
    {
        TestPeer peer = web.Connect();
        peer.Send(request);
        return (Web.One(peer).Status, peer.IsConnected);
    }

    [Theory]
    [InlineData("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", true)]
    [InlineData("PROXY UNKNOWN\r\n", true)]
    [InlineData("\r\n\r\n\0\r\nQUIT\n!\u0011\0\f", true)]
    [InlineData("PROXYX a\r\n", false)]
    [InlineData("\r\n\r\n", false)]
    public void A_PROXY_header_gets_400_and_one_diagnostic_event_that_names_ProxySession(string sent, bool isNamed)
    {
        using Web web = new();
        for (int i = 0; i < 2; i++)
        {
            TestPeer peer = web.Connect();
            peer.Send(sent + Web.Get("/"));
            Assert.Equal(400, Web.One(peer).Status);
        }

        Assert.Equal(isNamed ? 1 : 0, web.Notices.Count);
        if (!isNamed) return;
        Assert.Equal((DiagnosticEventKind.Protocol, "protocol-mismatch.md"),
            (web.Notices[0].Kind, web.Notices[0].Page));
        Assert.Contains("ProxySession (package Whimbrel.Relays)", web.Notices[0].Message, StringComparison.Ordinal);
        Assert.Contains("docs/guide/proxy-protocol.md", web.Notices[0].Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Sizes_of_the_head_are_held_to_the_byte()
    {
        using Web web = Serve(new HttpOptions { RequestLineLimitBytes = 100, HeadLimitBytes = 300, FieldLimit = 5 });
        Assert.Equal((200, true), Ask(web, Web.Get("/" + new string('a', 100 - 14))));
        Assert.Equal((414, false), Ask(web, Web.Get("/" + new string('a', 101 - 14))));
        string head = Web.Get("/", "X: \r\n");
        Assert.Equal((200, true), Ask(web, Web.Get("/", $"X: {new string('x', 300 - head.Length)}\r\n")));
        Assert.Equal((431, false), Ask(web, Web.Get("/", $"X: {new string('x', 301 - head.Length)}\r\n")));
        Assert.Equal((200, true), Ask(web, Web.Get("/", "A: b\r\nA: b\r\nA: b\r\nA: b\r\n")));
        Assert.Equal((431, false), Ask(web, Web.Get("/", "A: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n")));
        Assert.Equal((6L, 3L), (web.Counters.Requests + web.Counters.TooLarge, web.Counters.TooLarge));
    }

    [Fact]
    public void Sizes_of_bodies_are_held_to_the_byte_announced_or_not()
    {
        using Web web = Serve(new HttpOptions { BufferedBodyLimitBytes = 20, BodyLimitBytes = 30 });
        foreach ((string path, int limit) in ((string, int)[])[("/kept", 20), ("/stream", 30)])
        {
            Assert.Equal((200, true), Ask(web, Web.Post(path, new string('x', limit))));
            Assert.Equal((413, false), Ask(web, Web.Post(path, new string('x', limit + 1))));
            Assert.Equal((200, true), Ask(web, $"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                + $"chunked\r\n\r\n{limit:x}\r\n{new string('x', limit)}\r\n0\r\n\r\n"));
            Assert.Equal((413, false), Ask(web, $"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                + $"chunked\r\n\r\n{limit:x}\r\n{new string('x', limit)}\r\n1\r\nx\r\n0\r\n\r\n"));
        }

        Assert.Equal(4, web.Counters.TooLarge);
    }

    [Theory]
    [InlineData("/kept", "HttpOptions.BufferedBodyLimitBytes is 20 bytes")]
    [InlineData("/read", "HttpOptions.BufferedBodyLimitBytes is 20 bytes")]
    [InlineData("/stream", "HttpOptions.BodyLimitBytes is 30 bytes")]
    public void The_answer_413_names_the_option_that_refused(string path, string named)
    {
        using Web web = new(new HttpOptions { BufferedBodyLimitBytes = 20, BodyLimitBytes = 30 });
        web.Server.Post("/kept", static (_, response) => response.Text("kept"));
        web.Server.Post("/read", static async (request, response, stop) =>
        {
            await request.ReadBodyAsync(stop);
            response.Text("read");
        });
        web.Server.Post("/stream", static async (request, response, stop) =>
        {
            await request.Body.CopyToAsync(Stream.Null, stop);
            response.Text("streamed");
        });
        string large = new('x', path == "/stream" ? 31 : 21);
        foreach (string body in (string[])[$"Content-Length: {large.Length}\r\n\r\n{large}",
            $"Transfer-Encoding: chunked\r\n\r\n{large.Length:x}\r\n{large}\r\n0\r\n\r\n"])
        {
            TestPeer peer = web.Connect();
            peer.Send($"POST {path} HTTP/1.1\r\n{Web.Host}{body}");
            Answer answer = Web.One(peer);
            Assert.Equal(413, answer.Status);
            Assert.Contains(named, answer.Body, StringComparison.Ordinal);
        }
    }

    [Fact]
    public void A_head_has_its_time_from_its_first_byte_on_however_it_trickles()
    {
        using Web web = Serve(
            new HttpOptions { HeadTimeout = TimeSpan.FromSeconds(10), KeepAliveTimeout = TimeSpan.FromSeconds(60) });
        TestPeer peer = web.Connect();
        web.Network.Advance(TimeSpan.FromSeconds(30));
        foreach (char c in "GET / HTT")
        {
            peer.Send(c.ToString());
            web.Network.Advance(TimeSpan.FromSeconds(1));
        }

        web.Network.Advance(TimeSpan.FromSeconds(1) - _moment);
        Assert.Equal("", peer.ReceiveText());
        web.Network.Advance(2 * _moment);
        Assert.Equal(408, Web.One(peer).Status);
        Assert.False(peer.IsConnected);
        Assert.Equal(1, web.Counters.HeadTimeouts);
    }

    [Fact]
    public void A_head_that_comes_in_time_is_served_and_the_next_one_has_its_own_time()
    {
        using Web web = Serve(new HttpOptions { HeadTimeout = TimeSpan.FromSeconds(10) });
        TestPeer peer = web.Connect();
        for (int i = 0; i < 5; i++)
        {
            peer.Send("GET / HTTP/1.1\r\n");
            web.Network.Advance(TimeSpan.FromSeconds(9));
            peer.Send("Host: a\r\n\r\n");
            Assert.Equal(["200 ok"], Web.Answers(peer));
        }
    }

    [Fact]
    public void A_connection_without_requests_is_closed_not_early_and_not_late()
    {
        using Web web = Serve(new HttpOptions { KeepAliveTimeout = TimeSpan.FromSeconds(60) });
        TestPeer silent = web.Connect(), used = web.Connect();
        web.Network.Advance(TimeSpan.FromSeconds(50));
        used.Send(Web.Get("/"));
        Assert.Equal(["200 ok"], Web.Answers(used));
        web.Network.Advance(TimeSpan.FromSeconds(10) - _moment);
        Assert.True(silent.IsConnected);
        web.Network.Advance(2 * _moment);
        Assert.False(silent.IsConnected);
        Assert.Equal("", silent.ReceiveText());
        web.Network.Advance(TimeSpan.FromSeconds(50) - 3 * _moment);
        Assert.True(used.IsConnected);
        web.Network.Advance(4 * _moment);
        Assert.False(used.IsConnected);
        Assert.Equal(2, web.Counters.IdleClosed);
    }

    [Theory]
    [InlineData("/kept")]
    [InlineData("/stream")]
    public void A_body_that_is_too_slow_is_refused(string path)
    {
        using Web web = Serve(new HttpOptions
        {
            MinBytesPerSecond = 100,
            RateGrace = TimeSpan.FromSeconds(5),
            BodyTimeout = TimeSpan.FromSeconds(60)
        });
        TestPeer good = web.Connect(), slow = web.Connect();
        string head = $"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n";
        good.Send(head);
        slow.Send(head);
        for (int second = 0; second < 19; second++)
        {
            web.Network.Advance(TimeSpan.FromSeconds(1));
            good.Send(new string('x', 100));
            if (slow.IsConnected) slow.Send(new string('x', 50));
        }

        Assert.Equal(408, Web.One(slow).Status);
        Assert.False(slow.IsConnected);
        good.Send(new string('x', 100));
        Assert.Equal(["200 2000"], Web.Answers(good));
        Assert.Equal(1, web.Counters.BodyTimeouts);
    }

    [Fact]
    public void A_body_has_a_time_in_all_though_it_comes_fast_enough()
    {
        using Web web = Serve(new HttpOptions { MinBytesPerSecond = 1, BodyTimeout = TimeSpan.FromSeconds(60) });
        TestPeer peer = web.Connect();
        peer.Send("POST /kept HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n");
        for (int second = 0; second < 59; second++)
        {
            peer.Send(new string('x', 50));
            web.Network.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.True(peer.IsConnected);
        web.Network.Advance(TimeSpan.FromSeconds(1.1));
        Assert.Equal(408, Web.One(peer).Status);
    }

    [Fact]
    public void Time_in_which_the_handler_does_not_read_does_not_count_against_the_peer()
    {
        using Web web = new(new HttpOptions { MinBytesPerSecond = 100, RateGrace = TimeSpan.FromSeconds(5) });
        TaskCompletionSource go = new();
        web.Server.Post("/", async (request, response, stop) =>
        {
            await go.Task;
            response.Text($"{(await request.ReadBodyAsync(stop)).Length}");
        });
        TestPeer peer = web.Connect();
        peer.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
        web.Network.Advance(TimeSpan.FromSeconds(100));
        peer.OnLoop(go.SetResult);
        web.Network.Advance(TimeSpan.FromSeconds(4));
        Assert.True(peer.IsConnected);
        peer.Send("0123456789");
        Assert.Equal(["200 10"], Web.Answers(peer));
    }

    [Fact]
    public void After_so_many_requests_the_answer_closes()
    {
        using Web web = Serve(new HttpOptions { RequestLimit = 3 });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/") + Web.Get("/") + Web.Get("/") + Web.Get("/"));
        List<Answer> answers = Web.Read(peer);
        Assert.Equal(["", "", "close"], answers.Select(a => a["Connection"]));
        Assert.False(peer.IsConnected);
        Assert.Equal(1, web.Counters.RequestLimits);
    }

    [Fact]
    public void A_connection_that_is_old_is_closed_by_its_next_answer()
    {
        using Web web = Serve(new HttpOptions { ConnectionLifetime = TimeSpan.FromSeconds(100) });
        TestPeer peer = web.Connect();
        foreach (int seconds in (int[])[50, 49, 1])
        {
            web.Network.Advance(TimeSpan.FromSeconds(seconds));
            peer.Send(Web.Get("/"));
            Assert.Equal(seconds == 1 ? "close" : "", Web.One(peer)["Connection"]);
        }

        Assert.False(peer.IsConnected);
        Assert.Equal(1, web.Counters.RequestLimits);
    }

    [Fact]
    public void Pipelined_data_of_a_client_is_buffered_up_to_a_limit()
    {
        using Web web = new();
        TaskCompletionSource ready = new();
        int served = 0;
        web.Server.Get("/", async (_, response, _) => { await ready.Task; served++; response.Text("x"); });
        TestPeer peer = web.Connect();
        string request = Web.Get("/", $"X: {new string('x', 1000)}\r\n");
        int count = 4000;
        peer.Send(string.Concat(Enumerable.Repeat(request, count)));
        Assert.True(peer.IsPaused);
        Assert.True(peer.BytesUnsent > 3_000_000);
        Assert.Equal(1, web.Counters.PipelinePauses);
        peer.OnLoop(ready.SetResult);
        Assert.Equal(count, Web.Answers(peer).Length);
        Assert.Equal(count, served);
    }

    [Theory]
    [InlineData(2000, 0)]
    [InlineData(2001, 1)]
    public void Pipelined_data_pauses_the_peer_just_above_the_limit(int ahead, int pauses)
    {
        using Web web = new(new HttpOptions { PipelineLimitBytes = 2000 });
        TaskCompletionSource ready = new();
        web.Server.Get("/", async (_, response, _) => { await ready.Task; response.Text("x"); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        string second = Web.Get("/", "X: \r\n");
        peer.Send(Web.Get("/", $"X: {new string('x', ahead - second.Length)}\r\n"));
        Assert.Equal(pauses, web.Counters.PipelinePauses);
        Assert.Equal(pauses > 0, peer.IsPaused);
        peer.OnLoop(ready.SetResult);
        Assert.Equal(2, Web.Answers(peer).Length);
        Assert.False(peer.IsPaused);
    }

    [Fact]
    public void Questions_of_a_peer_that_takes_no_answers_wait()
    {
        using Web web = new();
        int served = 0;
        string body = new('x', 10_000);
        web.Server.Get("/", (_, response) => { served++; response.Text(body); });
        TestPeer peer = web.Connect();
        peer.IsReading = false;
        peer.Send(string.Concat(Enumerable.Repeat(Web.Get("/"), 1000)));
        Assert.InRange(served, 20, 60);
        peer.IsReading = true;
        Assert.Equal(1000, Web.Answers(peer).Length);
    }

    [Theory]
    [InlineData(1000, true)]
    [InlineData(1001, false)]
    public void The_rest_of_a_body_is_discarded_up_to_a_limit(int length, bool isKept)
    {
        using Web web = Serve(new HttpOptions { SkipLimitBytes = 1000 });
        Assert.Equal((405, isKept), Ask(web, Web.Post("/none", new string('x', length))));
        TestPeer chunked = web.Connect();
        chunked.Send($"POST /none HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
            + $"chunked\r\n\r\n{length:x}\r\n{new string('x', length)}\r\n0\r\n\r\n");
        Assert.Equal(405, Web.One(chunked).Status);
        Assert.Equal(isKept, chunked.IsConnected);
        Assert.Equal(isKept ? 0 : 1, web.Counters.SkipLimits);
    }

    [Fact]
    public void A_peer_that_takes_nothing_of_its_answer_is_reset()
    {
        using Web web = new(new HttpOptions { SendTimeout = TimeSpan.FromSeconds(30), MinBytesPerSecond = 0 });
        CancellationToken seen = default;
        web.Server.Get("/",
            async (_, response, stop) => { seen = stop; await response.WriteAsync(new byte[3_000_000], stop); });
        TestPeer peer = web.Connect();
        peer.IsReading = false;
        peer.Send(Web.Get("/"));
        web.Network.Advance(TimeSpan.FromSeconds(29));
        Assert.True(peer.IsConnected);
        web.Network.Advance(TimeSpan.FromSeconds(3));
        Assert.False(peer.IsConnected);
        Assert.True(seen.IsCancellationRequested);
        Assert.Equal(1, web.Counters.SendTimeouts);
    }

    [Fact]
    public void A_handler_of_a_reset_peer_keeps_its_request_until_it_has_ended()
    {
        using Web web = new(new HttpOptions { SendTimeout = TimeSpan.FromSeconds(30), MinBytesPerSecond = 0 });
        TaskCompletionSource goesOn = new();
        string? seen = null;
        web.Server.Get("/late", async (request, response, _) =>
        {
            await Assert.ThrowsAnyAsync<Exception>(async () => await response.WriteAsync(new byte[3_000_000],
                CancellationToken.None));
            await goesOn.Task;
            seen = Encoding.ASCII.GetString(request.Target);
        });
        web.Server.Get("/", static (request, response) => response.Text(request["X-Secret"] ?? "none"));
        TestPeer late = web.Connect(), other = web.Connect();
        late.IsReading = false;
        late.Send(Web.Get("/late?a"));
        web.Network.Advance(TimeSpan.FromSeconds(32));
        Assert.Equal((false, 1), (late.IsConnected, web.Counters.SendTimeouts));
        // The state of the reset connection is not reused while it is in use, nor after it has ended.
        for (int i = 0; i < 3; i++)
        {
            other.Send(Web.Get("/", "X-Secret: b\r\n"));
            Assert.Equal(["200 b"], Web.Answers(other));
            if (i != 1) continue;
            goesOn.SetResult();
            web.Network.Run();
            Assert.Equal("/late?a", seen);
        }
    }

    [Fact]
    public void A_peer_that_takes_its_answer_below_the_least_rate_is_reset_and_one_at_the_rate_is_not()
    {
        using Web web = new(new HttpOptions
        {
            MinBytesPerSecond = 1000,
            RateGrace = TimeSpan.FromSeconds(5),
            SendTimeout = TimeSpan.FromSeconds(30)
        });
        web.Server.Get("/", static (_, response) => response.Bytes(new byte[1_000_000]));
        TestPeer good = web.Connect(), slow = web.Connect();
        good.IsReading = slow.IsReading = false;
        good.Send(Web.Get("/"));
        slow.Send(Web.Get("/"));
        int lasted = 0;
        for (int second = 1; second <= 200; second++)
        {
            web.Network.Advance(TimeSpan.FromSeconds(1));
            good.ReadAtMost(1000);
            slow.ReadAtMost(950);
            if (slow.IsConnected) lasted = second;
        }

        // The rate is 50 bytes per second too low, and the grace is 5,000 bytes.
        Assert.InRange(lasted, 95, 105);
        Assert.True(slow.IsReset);
        Assert.True(good.IsConnected);
        Assert.Equal(1, web.Counters.SendTimeouts);
    }

    [Fact]
    public void Options_are_checked_all_at_once()
    {
        ArgumentException e =
            Assert.Throws<ArgumentException>(static () => new HttpServer("http://127.0.0.1:0", new HttpOptions
            {
                HeadLimitBytes = 1,
                FieldLimit = 0,
                HeadTimeout = TimeSpan.Zero,
                SendTimeout = TimeSpan.FromDays(8),
                Hosts = ["a:80"]
            }));
        foreach (string name in (string[])["HeadLimitBytes", "FieldLimit", "HeadTimeout", "SendTimeout", "\"a:80\""])
            Assert.Contains(name, e.Message, StringComparison.Ordinal);
    }
}
