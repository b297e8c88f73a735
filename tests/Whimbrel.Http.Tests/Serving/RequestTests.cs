using System.Globalization;
using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.Parsing;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// Responses of a server to valid and invalid requests.
public sealed class RequestTests
{
    private static Web Echoing(HttpOptions? options = null)
    {
        Web web = new(options);
        web.Server.Get("/hello/{name}", static (request, response) => response.Text($"Hello {request.Route["name"]}"));
        web.Server.Post("/echo", static (request, response) => response.Bytes(request.BodyBytes));
        return web;
    }

    [Fact]
    public void A_request_is_answered_and_the_connection_kept()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/hello/world"));
        Answer answer = Web.One(peer);
        Assert.Equal((200, "Hello world"), (answer.Status, answer.Body));
        Assert.Equal("text/plain; charset=utf-8", answer["Content-Type"]);
        Assert.Equal("11", answer["Content-Length"]);
        Assert.InRange(DateTime.ParseExact(answer["Date"], "R", CultureInfo.InvariantCulture,
            DateTimeStyles.AssumeUniversal | DateTimeStyles.AdjustToUniversal),
            DateTime.UtcNow.AddSeconds(-60), DateTime.UtcNow.AddSeconds(2));
        Assert.Equal("", answer["Connection"]);
        Assert.True(peer.IsConnected);
        peer.Send(Web.Get("/hello/b%20c%2Fd"));
        Assert.Equal(["200 Hello b c%2Fd"], Web.Answers(peer));
        Assert.Equal(2, web.Counters.Requests);
    }

    [Fact]
    public void A_request_with_a_higher_minor_version_is_answered_as_one_of_1_1()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send("GET /hello/world HTTP/1.7\r\nHost: a\r\n\r\n");
        Assert.Equal(["200 Hello world"], Web.Answers(peer));
        Assert.True(peer.IsConnected);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Requests_sent_ahead_are_answered_in_their_order(bool isSplit)
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.SplitEveryByte = isSplit;
        peer.Send(string.Concat(Enumerable.Range(0, 20)
            .Select(i => i % 3 == 0 ? Web.Post("/echo", $"body {i}") : Web.Get($"/hello/{i}"))));
        Assert.Equal(Enumerable.Range(0, 20).Select(i => i % 3 == 0 ? $"200 body {i}" : $"200 Hello {i}"),
            Web.Answers(peer));
        peer.Send("\r\n" + Web.Get("/hello/last"));
        Assert.Equal(["200 Hello last"], Web.Answers(peer));
    }

    [Fact]
    public void A_body_in_chunks_is_whole_when_the_handler_sees_it()
    {
        using Web web = Echoing();
        string? trailer = null;
        web.Server.Post("/trailer", (request, response) =>
        {
            Assert.True(request.TryGetTrailer("x-sum"u8, out ReadOnlySpan<byte> value));
            trailer = Encoding.Latin1.GetString(value);
            Assert.False(request.TryGet("X-Sum"u8, out _));
            response.Empty();
        });
        TestPeer peer = web.Connect();
        peer.SplitEveryByte = true;
        peer.Send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
            + "chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n" + Web.Get("/hello/x"));
        Assert.Equal(["200 abcde", "200 Hello x"], Web.Answers(peer));
        peer.Send("POST /trailer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum:  42 \r\n\r\n");
        Assert.Equal(["204 "], Web.Answers(peer));
        Assert.Equal("42", trailer);
    }

    // ------------------------------------------------------------------ mistakes

    [Fact]
    public void Every_message_that_breaks_a_rule_gets_one_answer_with_its_status_and_nothing_after_it_is_served()
    {
        HttpOptions options = new()
        {
            RequestLineLimitBytes = 100,
            HeadLimitBytes = 400,
            FieldLimit = 10,
            BufferedBodyLimitBytes = 1000,
            BodyLimitBytes = 1000
        };
        List<string> wrong = [];
        int count = 0;
        foreach (Vectors.Vector vector in Vectors.All.Where(v => !v.IsResponse && v.Outcome is not ("Ok" or "Wait")))
        {
            int served = 0;
            using Web web = new(options);
            foreach (HttpVerb verb in Enum.GetValues<HttpVerb>())
            {
                if (verb is not (HttpVerb.Other or HttpVerb.Options or HttpVerb.Connect or HttpVerb.Trace))
                    web.Server.Map(verb, "/{*any}", (_, response) => { served++; response.Text("served"); });
            }

            TestPeer peer = web.Connect();
            byte[] bad = vector.Bytes;
            int cut = bad.Length / 2;
            try
            {
                peer.Send(bad.AsSpan(0, cut));
                peer.Send([.. bad.AsSpan(cut), .. "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"u8]);
            }
            catch (IOException)
            {
                // It was rejected at its first half.
            }

            List<Answer> answers = Web.Read(peer.Receive(), true);
            int expected = HttpRules.StatusOf(Enum.Parse<HttpRule>(vector.Outcome));
            count++;
            if (answers is not [{ } answer] || answer.Status != expected || answer["Connection"] != "close"
                || !answer.IsWhole || served != 0 || peer.IsConnected || !peer.IsSessionFinished)
                wrong.Add($"{vector}: {string.Join(", ", answers.Select(a => a.Status))}, expected {expected}, "
                    + $"served {served}");
        }

        Assert.True(wrong.Count == 0, string.Join('\n', wrong));
        Assert.True(count > 600, $"{count} vectors");
    }

    [Fact]
    public void Every_good_message_of_the_vectors_is_answered_and_the_next_one_too()
    {
        HttpOptions options = new() { RequestLineLimitBytes = 100, HeadLimitBytes = 400, FieldLimit = 10 };
        foreach (Vectors.Vector vector in Vectors.All.Where(v => !v.IsResponse && v.Outcome == "Ok"))
        {
            string text = Encoding.Latin1.GetString(vector.Bytes);
            if (text.Contains("HTTP/1.0", StringComparison.Ordinal) || text.Contains("close", StringComparison.Ordinal)
                || text.Contains("CONNECT", StringComparison.Ordinal)
                || text.Contains("TRACE", StringComparison.Ordinal)
                || text.Contains("continue\r\nContent-Length", StringComparison.OrdinalIgnoreCase))
                continue;
            using Web web = new(options);
            TestPeer peer = web.Connect();
            peer.Send(vector.Bytes);
            peer.Send(Web.Get("/next"));
            List<Answer> answers = [.. Web.Read(peer.Receive(), false,
                i => i == 0 && text.StartsWith("HEAD", StringComparison.Ordinal)).Where(a => a.Status != 100)];
            Assert.True(answers.Count == 2 && answers[1].Status == 404,
                $"{vector}: {string.Join(", ", answers.Select(a => a.Status))}");
        }
    }

    [Fact]
    public void A_client_that_sends_on_after_its_mistake_still_sees_the_answer()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send("GET / HTTP/1.1\nHost: a\n\n");
        peer.Finish();
        Assert.Equal(400, Web.One(peer).Status);
        Assert.False(peer.IsReset);
        Assert.Equal(CloseCause.ProtocolError, peer.CloseReason!.Value.Cause);
        Assert.Equal(1, web.Counters.Refused);
    }

    [Theory]
    [InlineData(400, "GET / HTTP/1.1\r\n\r\n")]
    [InlineData(411, "POST /echo HTTP/1.0\r\nHost: a\r\n\r\nbody")]
    [InlineData(413, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n")]
    [InlineData(414,
        "GET /01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890 "
        + "HTTP/1.1\r\nHost: a\r\n\r\n")]
    [InlineData(417, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx")]
    [InlineData(421, "GET /hello/x HTTP/1.1\r\nHost: other\r\n\r\n")]
    [InlineData(421, "GET http://other/hello/x HTTP/1.1\r\nHost: other\r\n\r\n")]
    [InlineData(421, "GET /hello/x HTTP/1.0\r\n\r\n")]
    [InlineData(431, "GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\nD:\r\nE:\r\n\r\n")]
    [InlineData(501, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n")]
    [InlineData(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")]
    public void A_request_that_cannot_be_served_gets_a_specific_status_and_the_connection_ends(int status,
        string request)
    {
        using Web web =
            Echoing(new HttpOptions { Hosts = ["a", "[::1]"], RequestLineLimitBytes = 100, FieldLimit = 5 });
        TestPeer peer = web.Connect();
        peer.Send(request + Web.Get("/hello/evil"));
        Answer answer = Web.One(peer);
        Assert.Equal((status, "close"), (answer.Status, answer["Connection"]));
        Assert.False(peer.IsConnected);
        Assert.Equal(1, web.Counters.Refused + web.Counters.TooLarge);
    }

    [Fact]
    public void Hosts_are_served_with_any_port_and_in_any_case()
    {
        using Web web = Echoing(new HttpOptions { Hosts = ["Example.org", "[::1]"] });
        TestPeer peer = web.Connect();
        foreach (string host in (string[])["example.org", "EXAMPLE.ORG:8080", "[::1]", "[::1]:80"])
            peer.Send($"GET /hello/x HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Assert.Equal([200, 200, 200, 200], Web.Read(peer).Select(a => a.Status));
    }

    [Fact]
    public void A_message_does_not_end_at_an_empty_line_of_its_body()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send(Web.Post("/echo", "a\r\n\r\nGET /evil HTTP/1.1\r\n\r\n") + Web.Get("/hello/x"));
        Assert.Equal(["200 a\r\n\r\nGET /evil HTTP/1.1\r\n\r\n", "200 Hello x"], Web.Answers(peer));
    }

    // ------------------------------------------------------------------ methods

    [Fact]
    public void HEAD_is_answered_like_GET_without_a_body()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/hello/world", verb: "HEAD") + Web.Get("/hello/you"));
        List<Answer> answers = Web.Read(peer.Receive(), false, static i => i == 0);
        Assert.Equal(["200 ", "200 Hello you"], answers.Select(a => $"{a.Status} {a.Body}"));
        Assert.Equal("11", answers[0]["Content-Length"]);
        peer.Send(Web.Get("/nothing", verb: "HEAD"));
        Assert.Equal("404 ",
            Assert.Single(Web.Read(peer.Receive(), false, static _ => true).Select(a => $"{a.Status} {a.Body}")));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void HEAD_answered_in_pieces_has_no_body_and_the_next_request_is_served(bool isSplit)
    {
        using Web web = new();
        web.Server.Get("/{length}", static async (request, response, stop) =>
        {
            if (request.Route["length"] == "known") response.BodyLength = 40_000;
            else response.AddTrailer("X-Sum", "1");
            for (int i = 0; i < 4; i++)
            {
                await response.WriteAsync(new byte[10_000], stop);
                await response.FlushAsync(stop);
            }
        });
        web.Server.Get("/", static (_, response) => response.Text("next"));
        TestPeer peer = web.Connect();
        peer.SplitEveryByte = isSplit;
        peer.Send(Web.Get("/known", verb: "HEAD") + Web.Get("/") + Web.Get("/chunked", verb: "HEAD") + Web.Get("/"));
        List<Answer> answers = Web.Read(peer.Receive(), false, static i => i is 0 or 2);
        Assert.Equal(["200 ", "200 next", "200 ", "200 next"], answers.Select(static a => $"{a.Status} {a.Body}"));
        Assert.Equal(("40000", "chunked"), (answers[0]["Content-Length"], answers[2]["Transfer-Encoding"]));
    }

    [Fact]
    public void A_request_without_a_handler_gets_404_or_the_permitted_methods()
    {
        using Web web = Echoing();
        web.Server.Map(HttpVerb.Put, "/hello/{name}", static (_, response) => response.Empty());
        TestPeer peer = web.Connect();
        (string Request, int Status, string Allow)[] cases =
        [
            (Web.Get("/nothing"), 404, ""), (Web.Get("/hello"), 404, ""), (Web.Get("/hello/"), 404, ""),
            (Web.Get("/hello/a/b"), 404, ""), (Web.Get("/"), 404, ""),
            (Web.Get("/echo"), 405, "POST, OPTIONS"),
            (Web.Get("/hello/x", verb: "DELETE"), 405, "GET, HEAD, PUT, OPTIONS"),
            (Web.Get("/hello/x", verb: "OPTIONS"), 204, "GET, HEAD, PUT, OPTIONS"),
            (Web.Get("*", verb: "OPTIONS"), 204, "GET, HEAD, OPTIONS"),
            (Web.Get("/nothing", verb: "OPTIONS"), 404, ""), (Web.Get("/hello/x", verb: "BREW"), 501, ""),
        ];
        foreach ((string request, int status, string allow) in cases)
        {
            peer.Send(request);
            Answer answer = Web.One(peer);
            Assert.Equal((request, status, allow), (request, answer.Status, answer["Allow"]));
        }

        Assert.True(peer.IsConnected);
    }

    [Theory]
    [InlineData(false, 405)]
    [InlineData(true, 200)]
    public void TRACE_is_served_only_when_it_is_allowed(bool isAllowed, int status)
    {
        using Web web = new(new HttpOptions { AllowTrace = isAllowed });
        if (isAllowed) web.Server.Map(HttpVerb.Trace, "/", static (_, response) => response.Text("x"));
        else web.Server.Get("/", static (_, response) => response.Text("x"));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", verb: "TRACE"));
        Assert.Equal(status, Web.One(peer).Status);
        Assert.Equal(isAllowed, peer.IsConnected);
    }

    [Fact]
    public void CONNECT_is_not_served()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
        Assert.Equal(501, Web.One(peer).Status);
        Assert.False(peer.IsConnected);
    }

    // ------------------------------------------------------------------ versions and connections

    [Theory]
    [InlineData("GET /hello/x HTTP/1.0\r\n\r\n", "close", false)]
    [InlineData("GET /hello/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive", true)]
    [InlineData("GET /hello/x HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "close", false)]
    [InlineData("GET /hello/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close", false)]
    [InlineData("GET /hello/x HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", "close", false)]
    [InlineData("GET /hello/x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", "", true)]
    public void The_connection_stays_or_ends_as_the_client_wants(string request, string connection, bool isKept)
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send(request + Web.Get("/hello/y"));
        List<Answer> answers = Web.Read(peer);
        Assert.Equal(connection, answers[0]["Connection"]);
        Assert.Equal(isKept ? 2 : 1, answers.Count);
        Assert.Equal(isKept, peer.IsConnected);
        Assert.False(peer.IsReset);
    }

    // RFC 9112, 9.6: a client that requests the close sends nothing more. For all other clients the server waits for
    // the end, so that late data does not cause a reset.
    [Theory]
    [InlineData("GET /hello/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false)]
    [InlineData("GET /hello/x HTTP/1.0\r\n\r\n", false)]
    [InlineData("POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", false)]
    [InlineData("POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: "
        + "chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", false)]
    [InlineData("GET /hello/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nG", true)]
    [InlineData("POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbodyG", true)]
    [InlineData("GET /hello/x HTTP/1.1\r\nHost: a\r\n\r\n", true)]
    [InlineData("GET /hello/x HTTP/1.1\r\n\r\n", true)]
    public void Only_a_peer_that_asked_for_the_end_is_not_waited_for(string request, bool isWaitedFor)
    {
        using Web web = new(new HttpOptions { RequestLimit = 1 });
        web.Server.Get("/hello/x", static (_, response) => response.Text("Hello x"));
        web.Server.Post("/echo", static (asked, response) => response.Bytes(asked.BodyBytes));
        TestPeer peer = web.Connect();
        // A peer that has not read the FIN does not respond to it.
        peer.IsReading = false;
        peer.Send(request);
        Assert.Equal(isWaitedFor ? 1 : 0, web.Server.SessionCount);
        peer.IsReading = true;
        Assert.Equal("close", Web.One(peer)["Connection"]);
        Assert.False(peer.IsReset);
        Assert.Equal(0, web.Server.SessionCount);
    }

    [Theory]
    [InlineData("")]
    [InlineData("G")]
    public void A_peer_that_asked_for_the_end_is_waited_for_when_it_sends_while_its_answer_is_made(string more)
    {
        TaskCompletionSource made = new();
        using Web web = new();
        web.Server.Get("/", async (_, response, _) =>
        {
            await made.Task;
            response.Text("later");
        });
        TestPeer peer = web.Connect();
        peer.IsReading = false;
        peer.Send(Web.Get("/", "Connection: close\r\n"));
        if (more.Length > 0) peer.Send(more);
        made.SetResult();
        peer.Run();
        Assert.Equal(more.Length, web.Server.SessionCount);
        peer.IsReading = true;
        Assert.Equal("later", Web.One(peer).Body);
        Assert.False(peer.IsReset);
    }

    [Fact]
    public void A_client_that_finishes_sending_still_gets_its_answers()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/hello/a") + Web.Get("/hello/b"));
        peer.Finish();
        Assert.Equal(["200 Hello a", "200 Hello b"], Web.Answers(peer));
        Assert.True(peer.IsSessionFinished);
    }

    // ------------------------------------------------------------------ Expect

    [Fact]
    public void A_client_that_expects_100_continue_gets_it()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.Send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        Assert.Equal("HTTP/1.1 100 Continue\r\n\r\n", peer.ReceiveText());
        peer.Send("body" + Web.Get("/hello/x"));
        Assert.Equal(["200 body", "200 Hello x"], Web.Answers(peer));
    }

    [Fact]
    public void A_client_with_an_unwanted_body_gets_no_100_continue_and_the_connection_ends()
    {
        using Web web = Echoing();
        foreach (string request in (string[])[
            "POST /nothing HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
            "GET /hello/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n"])
        {
            TestPeer peer = web.Connect();
            peer.Send(request);
            Answer answer = Web.One(peer);
            Assert.InRange(answer.Status, 404, 413);
            Assert.Equal("close", answer["Connection"]);
            Assert.False(peer.IsConnected);
        }
    }

    [Fact]
    public void An_unwanted_body_is_read_and_discarded()
    {
        using Web web = Echoing();
        TestPeer peer = web.Connect();
        peer.SplitEveryByte = true;
        peer.Send(Web.Post("/nothing", "GET /evil HTTP/1.1\r\n\r\n")
            + "POST /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n"
            + Web.Get("/hello/x"));
        Assert.Equal([404, 404, 200], Web.Read(peer).Select(a => a.Status));
    }
}
