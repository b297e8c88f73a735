using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Asking;

// One client session on a memory loop, with a peer that sends handwritten responses.
public sealed class SessionTests
{
    private const string Ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    /// <summary>Sends the given requests and records the callbacks.</summary>
    private sealed class Asker(HttpClientOptions? options = null, params (HttpVerb Verb, string Target)[] first)
        : HttpClientSession("a.test", options)
    {
        internal List<string> Told { get; } = [];

        internal Session? Next { get; init; }

        internal (HttpVerb Verb, string Target)? Then { get; set; }

        internal int Outstanding => OutstandingRequests;

        protected override void OnConnected()
        {
            foreach ((HttpVerb verb, string target) in first) Ask(verb, target);
        }

        internal SendResult Ask(HttpVerb verb, string target, string body = "", string type = "") =>
            Request(verb, Encoding.Latin1.GetBytes(target), Encoding.Latin1.GetBytes(type),
                Encoding.Latin1.GetBytes(body));

        internal SendResult Ask(HttpClientRequest request) => Request(request);

        protected override void OnInformed(HttpResponseHead head) =>
            Told.Add($"informed {head.Status} {head["link"]}".TrimEnd());

        protected override void OnResponse(HttpResponseHead head) => Told.Add($"head {head.Status}");

        protected override void OnBody(ReadOnlySpan<byte> piece)
        {
            if (Told[^1].StartsWith("body ", StringComparison.Ordinal)) Told[^1] += Encoding.Latin1.GetString(piece);
            else Told.Add("body " + Encoding.Latin1.GetString(piece));
        }

        protected override void OnResponseEnd(HttpResponseHead head)
        {
            Told.Add(head.TryGetTrailer("x-sum"u8, out ReadOnlySpan<byte> sum)
                ? $"end {head.Status} {Encoding.Latin1.GetString(sum)}" : $"end {head.Status}");
            if (Then is not { } then) return;
            Then = null;
            Told.Add($"{Ask(then.Verb, then.Target)}");
        }

        protected override void OnRequestFailed(HttpClientException failure) => Told.Add($"failed {failure.Failure}");

        protected override bool OnSwitched(HttpResponseHead head)
        {
            Told.Add($"switched {head["upgrade"]}");
            if (Next is null) return false;
            HandOver(Next);
            return true;
        }

        protected override void OnDisconnected(CloseReason reason)
        {
            base.OnDisconnected(reason);
            Told.Add($"over {reason.Cause}");
        }
    }

    private sealed class Listener : Session
    {
        internal string Heard { get; private set; } = "";

        protected override void OnReceived(ReadOnlySpan<byte> data) => Heard += Encoding.Latin1.GetString(data);
    }

    private static readonly (HttpVerb, string) _get = (HttpVerb.Get, "/a?b");

    private static TestPeer Serve(Asker asker, bool isSplit = false)
    {
        TestPeer peer = TestPeer.Accept(() => asker);
        peer.SplitEveryByte = isSplit;
        return peer;
    }

    [Theory, InlineData(false), InlineData(true)]
    public void One_request_gets_its_answer(bool isSplit)
    {
        Asker asker = new(null, _get);
        using TestPeer peer = Serve(asker, isSplit);
        Assert.Equal("GET /a?b HTTP/1.1\r\nHost: a.test\r\n\r\n", peer.ReceiveText());
        peer.Send("HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: "
            + "chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n");
        Assert.Equal(["informed 103 </x>", "head 200", "body ok", "end 200 7"], asker.Told);
        Assert.True(peer.IsConnected);
        peer.OnLoop(() => Assert.Equal(SendResult.Queued, asker.Ask(HttpVerb.Post, "/p", "body", "text/plain")));
        Assert.Equal("POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody",
            peer.ReceiveText());
        peer.Send(Ok);
        Assert.Equal(["head 200", "body ok", "end 200"], asker.Told[4..]);
    }

    [Fact]
    public void A_request_that_was_made_before_is_sent_as_often_as_one_likes()
    {
        HttpClientRequest request = new(HttpVerb.Put, "http://other.test:81/x%20y?z#f");
        request.Add("X-A", "1");
        request.SetBody("abc"u8.ToArray(), "text/plain");
        Asker asker = new();
        using TestPeer peer = Serve(asker);
        for (int i = 0; i < 2; i++)
        {
            peer.OnLoop(() => Assert.Equal(SendResult.Queued, asker.Ask(request)));
            Assert.Equal("PUT /x%20y?z HTTP/1.1\r\nHost: other.test:81\r\nX-A: 1\r\nContent-Type: "
                + "text/plain\r\nContent-Length: 3\r\n\r\nabc", peer.ReceiveText());
            peer.Send(Ok);
        }

        request.SetBody(new MemoryStream());
        peer.OnLoop(() => Assert.Throws<InvalidOperationException>(() => asker.Ask(request)));
    }

    [Fact]
    public void One_request_at_a_time_and_the_next_one_from_the_end_of_the_first()
    {
        Asker asker = new(null, _get) { Then = (HttpVerb.Head, "/h") };
        using TestPeer peer = Serve(asker);
        peer.OnLoop(() => Assert.Equal(SendResult.Full, asker.Ask(HttpVerb.Get, "/")));
        Assert.Equal("GET /a?b HTTP/1.1\r\nHost: a.test\r\n\r\n", peer.ReceiveText());
        peer.Send(Ok);
        Assert.Equal("HEAD /h HTTP/1.1\r\nHost: a.test\r\n\r\n", peer.ReceiveText());
        peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        Assert.Equal(["head 200", "body ok", "end 200", "Queued", "head 200", "end 200"], asker.Told);
        Assert.True(peer.IsConnected);
    }

    [Theory, InlineData(false), InlineData(true)]
    public void Pipelined_requests_get_their_answers_in_order(bool isSplit)
    {
        Asker asker = new(new HttpClientOptions { PipelineLimit = 3 }, (HttpVerb.Get, "/1"), (HttpVerb.Head, "/2"),
            (HttpVerb.Get, "/3"), (HttpVerb.Get, "/4"));
        using TestPeer peer = Serve(asker, isSplit);
        Assert.Equal(3, peer.ReceiveText().Split("\r\n\r\n", StringSplitOptions.RemoveEmptyEntries).Length);
        peer.Send(Ok + "HTTP/1.1 201 A\r\nContent-Length: 5\r\n\r\n" + "HTTP/1.1 202 B\r\nContent-Length: 1\r\n\r\nx");
        Assert.Equal(["head 200", "body ok", "end 200", "head 201", "end 201", "head 202", "body x", "end 202"],
            asker.Told);
        Assert.Equal(0, asker.Outstanding);
    }

    [Fact]
    public void A_head_stays_what_it_was_while_the_next_request_is_sent_from_its_end()
    {
        Asker asker = new(new HttpClientOptions { PipelineLimit = 2 }, _get, _get) { Then = _get };
        using TestPeer peer = Serve(asker);
        peer.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 7\r\n\r\nHTTP/1.1 201 "
            + "\r\nContent-Length: 0\r\n\r\nHTTP/1.1 202 \r\nContent-Length: 0\r\n\r\n");
        Assert.Equal(["head 200", "end 200 7", "Queued", "head 201", "end 201", "head 202", "end 202"], asker.Told);
    }

    [Fact]
    public void A_request_sent_after_an_answer_that_closes_has_failed()
    {
        Asker asker = new(new HttpClientOptions { PipelineLimit = 3 }, _get, _get, _get) { Then = _get };
        using TestPeer peer = Serve(asker);
        peer.Send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" + Ok);
        peer.Finish();
        Assert.Equal(["head 200", "body ok", "end 200", "Closed", "failed ConnectionLost", "failed ConnectionLost",
            "over LocalClose"], asker.Told);
    }

    [Theory]
    [InlineData("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", "failed Protocol")]
    [InlineData("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "head 200, failed Protocol")]
    [InlineData(Ok + "HTTP/1.1 200 OK\r\n\r\n", "head 200, body ok, end 200")]
    [InlineData("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n", "switched b, failed Protocol")]
    public void An_answer_that_breaks_a_rule_fails_and_ends_the_connection(string answer, string told)
    {
        foreach (bool isSplit in (bool[])[false, true])
        {
            Asker asker = new(null, _get);
            using TestPeer peer = Serve(asker, isSplit);
            peer.Send(answer);
            Assert.Equal(told + ", over ProtocolError", string.Join(", ", asker.Told));
            Assert.True(peer.IsReset);
        }
    }

    [Fact]
    public void Endless_heads_end_at_their_limit()
    {
        Asker asker = new(new HttpClientOptions { HeadLimitBytes = 1000 }, _get);
        using TestPeer peer = Serve(asker);
        peer.Send("HTTP/1.1 200 OK\r\nX: ");
        for (int i = 0; i < 97; i++) peer.Send("0123456789");
        Assert.Empty(asker.Told);
        peer.Send("0123456789");
        Assert.Equal(["failed TooLarge", "over ProtocolError"], asker.Told);
    }

    [Fact]
    public void A_body_until_the_end_is_whole_and_one_that_is_cut_is_not()
    {
        Asker asker = new(null, _get), cut = new(null, _get), silent = new(null, _get), torn = new(null, _get);
        using TestPeer whole = Serve(asker);
        whole.Send("HTTP/1.1 200 OK\r\n\r\nab");
        whole.Finish();
        Assert.Equal(["head 200", "body ab", "end 200", "over PeerClosed"], asker.Told);
        using TestPeer part = Serve(cut);
        part.Send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab");
        part.Finish();
        Assert.Equal(["head 200", "body ab", "failed BodyCut", "over LocalAbort"], cut.Told);
        using TestPeer none = Serve(silent);
        none.Finish();
        Assert.Equal(["failed ConnectionLost", "over LocalAbort"], silent.Told);
        using TestPeer reset = Serve(torn);
        reset.Send("HTTP/1.1 200 OK\r\n\r\nab");
        reset.Reset();
        Assert.Equal(["head 200", "body ab", "failed BodyCut", "over PeerReset"], torn.Told);
    }

    [Fact]
    public void A_switched_protocol_gets_every_byte_after_the_head()
    {
        Listener next = new();
        Asker asker = new(null, _get) { Next = next };
        using TestPeer peer = Serve(asker);
        peer.Send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello");
        peer.Send(" there");
        Assert.Equal(["switched echo", "over HandedOver"], asker.Told);
        Assert.Equal("hello there", next.Heard);
        Assert.True(peer.IsConnected);
    }

    [Fact]
    public void A_head_that_takes_too_long_and_a_body_that_drips_fail_and_a_slow_one_does_not()
    {
        HttpClientOptions options = new()
        {
            HeadTimeout = TimeSpan.FromSeconds(10),
            RateGrace = TimeSpan.FromSeconds(5),
            MinBytesPerSecond = 10
        };
        Asker late = new(options, _get), drips = new(options, _get), slow = new(options, _get);
        using TestPeer first = Serve(late);
        first.Send("HTTP/1.1 100 Continue\r\n\r\n");
        first.Advance(TimeSpan.FromSeconds(9));
        Assert.Equal(["informed 100"], late.Told);
        first.Advance(TimeSpan.FromSeconds(2));
        Assert.Equal(["informed 100", "failed HeadTimeout", "over LocalAbort"], late.Told);
        using TestPeer second = Serve(drips);
        second.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        for (int i = 0; i < 8 && second.IsConnected; i++)
        {
            second.Send("x");
            second.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal("failed Stalled", drips.Told[^2]);
        using TestPeer third = Serve(slow);
        third.Send("HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n");
        for (int i = 0; i < 20; i++)
        {
            third.Send("0123456789");
            third.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal("end 200", slow.Told[^1]);
    }

    [Fact]
    public void Each_pipelined_answer_has_its_own_time_and_its_own_form()
    {
        HttpClientOptions options = new() { HeadTimeout = TimeSpan.FromSeconds(10), PipelineLimit = 5 };
        Asker asker = new(options, _get, (HttpVerb.Head, "/2"), (HttpVerb.Head, "/3"), _get, _get);
        using TestPeer peer = Serve(asker);
        string[] answers = [Ok, Ok[..^2], Ok[..^2], Ok];
        foreach (string answer in answers)
        {
            peer.Advance(TimeSpan.FromSeconds(9.5));
            peer.Send(answer);
        }

        string[] withBody = ["head 200", "body ok", "end 200"], withoutBody = ["head 200", "end 200"];
        Assert.Equal([.. withBody, .. withoutBody, .. withoutBody, .. withBody], asker.Told);
        peer.Advance(TimeSpan.FromSeconds(9.5));
        Assert.True(peer.IsConnected);
        peer.Advance(TimeSpan.FromSeconds(1));
        Assert.Equal("failed HeadTimeout", asker.Told[^2]);
    }

    [Fact]
    public void Requests_cannot_be_manipulated_by_their_values()
    {
        Asker asker = new();
        using TestPeer peer = Serve(asker);
        peer.OnLoop(() =>
        {
            Assert.Throws<ArgumentException>(() => asker.Ask(HttpVerb.Get, "/a b"));
            Assert.Throws<ArgumentException>(() => asker.Ask(HttpVerb.Get, "/a\r\nX: y"));
            Assert.Throws<ArgumentException>(() => asker.Ask(HttpVerb.Get, ""));
            Assert.Throws<ArgumentException>(() => asker.Ask(HttpVerb.Post, "/", "", "a\r\nb: c"));
            Assert.Throws<ArgumentException>(() => asker.Ask(HttpVerb.Connect, "a:1"));
            Assert.Throws<ArgumentException>(() => asker.Ask(HttpVerb.Other, "/"));
        });
        Assert.Throws<ArgumentException>(() => new HttpClientRequest("GE T", new Uri("http://a/")));
        Assert.Throws<ArgumentException>(() => new HttpClientRequest(HttpVerb.Connect, "http://a/"));
        Assert.Throws<ArgumentException>(() => new HttpClientRequest(HttpVerb.Get, "ftp://a/"));
        // Where paths begin with a slash, .NET takes this one for a file.
        Assert.Contains("'/a/b' is no absolute http or https URL", Assert.Throws<ArgumentException>(
            () => new HttpClientRequest("GET", new Uri("/a/b", UriKind.RelativeOrAbsolute))).Message,
            StringComparison.Ordinal);
        HttpClientRequest request = new(HttpVerb.Get, "http://a/");
        foreach ((string name, string value) in ((string, string)[])[("A B", "c"), ("A", "b\r\nC: d"),
            ("A", "\0"), ("A", " b"), ("A", "\u00e4"), ("Content-Length", "1"), ("Transfer-Encoding", "chunked"),
            ("Connection", "close"), ("Host", "a b"), ("Expect", "100-continue")])
            Assert.Throws<ArgumentException>(() => request.Add(name, value));
        Assert.Throws<ArgumentException>(() => request.SetBody(default(ReadOnlyMemory<byte>), "a\nb"));
        Assert.Throws<ArgumentException>(
            () => new Asker { Then = null }.ToString() + new HttpClientRequest("GET", new Uri("/a", UriKind.Relative)));
        Assert.Empty(peer.Receive());
    }
}
