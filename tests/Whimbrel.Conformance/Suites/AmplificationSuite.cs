using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Measures against amplification attacks with a datagram server: AnswerLimit, tokens that prove an address,
/// and a rate per source.</summary>
public abstract class AmplificationSuite(Transport transport) : Suite(transport)
{
    private static DatagramSocket Open(Rig rig, int answerLimit, out RecordingHandler handler,
        Action<RecordingHandler, byte[], DatagramPeer>? received = null)
    {
        RecordingHandler made = new() { Received = received };
        DatagramSocket socket =
            new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), AnswerLimit = answerLimit },
                () => made);
        rig.Await(socket.StartAsync(), "the datagram socket to start");
        handler = made;
        return socket;
    }

    private static void Close(Rig rig, DatagramSocket socket, RecordingHandler handler)
    {
        rig.Await(socket.DisposeAsync(), "the datagram socket to stop");
        Assert.Empty(handler.Wrong);
        Assert.Equal("stopped", handler.Events[^1]);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(3)]
    public void An_unverified_peer_is_sent_no_more_than_it_sent(int limit) => Run(rig =>
    {
        List<SendResult> results = [];
        DatagramSocket socket = Open(rig, limit, out RecordingHandler handler, (h, data, peer) =>
        {
            // More bytes than permitted in one datagram, and then more datagrams than permitted.
            results.Add(h.Send(new byte[(data.Length * limit) + 1], peer));
            for (int i = 0; i < 5; i++) results.Add(h.Send(data, peer));
        });
        using RawDatagrams raw = new(rig);
        raw.Send(Bytes("question"), socket.EndPoint!);
        rig.Until(() => handler.Count == 1, "the question to arrive");
        SendResult[] expected = [SendResult.Refused, .. Enumerable.Repeat(SendResult.Queued, limit),
            .. Enumerable.Repeat(SendResult.Refused, 5 - limit)];
        Assert.Equal(expected, results);
        for (int i = 0; i < limit; i++) Assert.Equal("question", Text(raw.Receive()));
        rig.Settle();
        Assert.Null(raw.TryReceive(out _));
        DatagramCounters counters = socket.ReadCounters();
        Assert.Equal((limit, 6 - limit), (counters.DatagramsSent, counters.Withheld));
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_run_that_is_too_long_for_it_is_refused_whole() => Run(rig =>
    {
        List<SendResult> results = [];
        DatagramSocket socket = Open(rig, 4, out RecordingHandler handler, (h, data, peer) =>
        {
            results.Add(h.SendRun(new byte[50], 10, peer));
            results.Add(h.SendRun(new byte[40], 10, peer));
        });
        using RawDatagrams raw = new(rig);
        raw.Send(new byte[20], socket.EndPoint!);
        for (int i = 0; i < 4; i++) Assert.Equal(10, raw.Receive().Length);
        Assert.Equal([SendResult.Refused, SendResult.Queued], results);
        rig.Settle();
        Assert.Null(raw.TryReceive(out _));
        Assert.Equal(5, socket.ReadCounters().Withheld);
        Close(rig, socket, handler);
    });

    [Fact]
    public void An_address_that_sent_nothing_is_sent_nothing() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, 1, out RecordingHandler handler);
        using RawDatagrams raw = new(rig);
        SendResult here = SendResult.Queued;
        rig.OnLoop(handler.Loop, () => here = handler.Send(Bytes("unasked"), raw.Peer));
        Assert.Equal(SendResult.Refused, here);
        rig.Settle();
        Assert.Null(raw.TryReceive(out _));
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_send_of_another_thread_beyond_the_limit_is_reported_later() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, 1, out RecordingHandler handler);
        using RawDatagrams raw = new(rig);
        raw.Send(Bytes("ask"), socket.EndPoint!);
        rig.Until(() => handler.Count == 1, "the question to arrive");
        rig.Elsewhere(() =>
        {
            // Only the loop knows the limit: both sends are accepted.
            Assert.Equal(SendResult.Queued, socket.Send(Bytes("one"), raw.Peer));
            Assert.Equal(SendResult.Queued, socket.Send(Bytes("two"), raw.Peer));
        });
        rig.Join();
        Assert.Equal("one", Text(raw.Receive()));
        rig.Until(() => handler.Failed.Count == 1, "the report of the refusal");
        Assert.Equal((raw.Peer, ErrorCategory.Limit, 3),
            (handler.Failed[0].Peer, handler.Failed[0].Error.Category, handler.Failed[0].Length));
        Assert.Contains("AnswerLimit", handler.Failed[0].Error.Message, StringComparison.Ordinal);
        rig.Settle();
        Assert.Null(raw.TryReceive(out _));
        Assert.Equal(1, socket.ReadCounters().Withheld);
        Close(rig, socket, handler);
    });

    [Fact]
    public void Of_many_refusals_at_once_256_are_reported_and_all_are_counted() => Run(rig =>
    {
        Assert.SkipUnless(rig.IsVirtual, "On other engines the loop may receive them in several iterations.");
        DatagramSocket socket = Open(rig, 1, out RecordingHandler handler);
        using RawDatagrams raw = new(rig);
        rig.Elsewhere(() =>
        {
            for (int i = 0; i < 400; i++) Assert.Equal(SendResult.Queued, socket.Send(Bytes("unasked"), raw.Peer));
        });
        rig.Join();
        rig.Until(() => socket.ReadCounters().Withheld == 400, "all to be refused");
        rig.Settle();
        Assert.Equal(256, handler.Failed.Count);
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_peer_that_returns_its_token_is_answered_in_full() => Run(rig =>
    {
        AddressTokens tokens = new(TimeSpan.FromMinutes(1));
        DatagramSocket socket = Open(rig, 1, out RecordingHandler handler, (h, data, peer) =>
        {
            Span<byte> token = stackalloc byte[AddressTokens.TokenBytes];
            if (data.Length >= AddressTokens.TokenBytes && tokens.Check(data.AsSpan(0, AddressTokens.TokenBytes), peer,
                h.Loop.TimeMs) == AddressTokenCheck.Valid)
            {
                h.Verify(peer);
                for (int i = 0; i < 20; i++) h.Send(new byte[1000], peer);
                return;
            }

            tokens.Write(token, peer, h.Loop.TimeMs);
            h.Send(token, peer);
        });
        using RawDatagrams raw = new(rig);
        using RawDatagrams thief = new(rig);

        // Shorter than a token: the token would be larger than the received datagram.
        raw.Send(new byte[AddressTokens.TokenBytes - 1], socket.EndPoint!);
        rig.Until(() => handler.Count == 1, "the short question to arrive");
        rig.Settle();
        Assert.Null(raw.TryReceive(out _));

        raw.Send(new byte[AddressTokens.TokenBytes], socket.EndPoint!);
        byte[] token = raw.Receive();
        Assert.Equal(AddressTokens.TokenBytes, token.Length);

        // From another address it proves nothing: the response is only a token for that address.
        thief.Send(token, socket.EndPoint!);
        Assert.Equal(AddressTokens.TokenBytes, thief.Receive().Length);
        rig.Settle();
        Assert.Null(thief.TryReceive(out _));

        raw.Send(token, socket.EndPoint!);
        for (int i = 0; i < 20; i++) Assert.Equal(1000, raw.Receive().Length);
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_peer_that_is_forgotten_has_to_prove_itself_again() => Run(rig =>
    {
        List<SendResult> results = [];
        DatagramSocket socket = Open(rig, 1, out RecordingHandler handler, (h, _, peer) =>
        {
            h.Verify(peer);
            Assert.True(h.IsVerified(peer));
            results.Add(h.Send(new byte[100], peer));
            h.Forget(peer);
            Assert.False(h.IsVerified(peer));
            results.Add(h.Send(new byte[1], peer));
        });
        using RawDatagrams raw = new(rig);
        raw.Send(new byte[1], socket.EndPoint!);
        Assert.Equal(100, raw.Receive().Length);
        Assert.Equal([SendResult.Queued, SendResult.Refused], results);
        Assert.Throws<InvalidOperationException>(() => handler.Verify(raw.Peer));
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_full_queue_does_not_reduce_the_bytes_that_a_peer_may_be_sent() => Run(rig =>
    {
        List<SendResult> results = [];
        RecordingHandler made = new()
        {
            Received = (h, data, peer) =>
            {
                // Space for one: the second finds the queue full, and its share of the limit is still available for the
                // next datagram.
                for (int i = 0; i < 2; i++) results.Add(h.Send(data, peer));
            },
        };
        DatagramSocket socket = new(new DatagramOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            AnswerLimit = 2,
            SendLimitDatagrams = 1
        }, () => made);
        rig.Await(socket.StartAsync(), "the datagram socket to start");
        using RawDatagrams raw = new(rig);
        raw.Send(Bytes("x"), socket.EndPoint!);
        Assert.Equal("x", Text(raw.Receive()));
        Assert.Equal([SendResult.Queued, SendResult.Full], results);
        SendResult later = SendResult.Closed;
        rig.Until(() => socket.PendingDatagrams == 0, "the queue to be empty");
        rig.OnLoop(made.Loop, () => later = made.Send(Bytes("y"), raw.Peer));
        Assert.Equal(SendResult.Queued, later);
        Assert.Equal("y", Text(raw.Receive()));
        Close(rig, socket, made);
    });

    [Fact]
    public void A_flood_from_one_source_does_not_cost_another_its_answers() => Run(rig =>
    {
        // Ports do not count, so two sources are two addresses; on Unix sockets they are two names.
        SourceRateLimit limit = new(perSecond: 1, burst: 5);
        DatagramSocket socket = Open(rig, 0, out RecordingHandler handler, (h, data, peer) =>
        {
            if (limit.TryTake(peer, h.Loop.TimeMs)) h.Send(data, peer);
        });
        using RawDatagrams flood = new(rig);
        const int Count = 40;
        for (int i = 0; i < Count; i++)
        {
            flood.Send(Bytes("f"), socket.EndPoint!);
            int arrived = i + 1;
            rig.Until(() => handler.Count == arrived, "the flood to arrive");
        }

        Assert.InRange(limit.Allowed, 5, 10);
        Assert.Equal(Count, limit.Allowed + limit.Refused);
        using RawDatagrams other = new(rig, rig.IsUnix ? null : new IPEndPoint(IPAddress.Parse("127.0.0.2"), 0));
        other.Send(Bytes("o"), socket.EndPoint!);
        Assert.Equal("o", Text(other.Receive()));
        Close(rig, socket, handler);
    });

    [Fact]
    public void The_limit_needs_a_handler_and_no_peer_of_its_own() => Run(rig =>
    {
        EndPoint here = rig.NewAddress();
        ArgumentException pull = Assert.Throws<ArgumentException>(() => rig.Await(new DatagramSocket(
            new DatagramOptions { Engine = rig.Engine, EndPoint = here, AnswerLimit = 1 }).StartAsync()));
        Assert.Contains("AnswerLimit = 1, and a socket without a handler", pull.Message, StringComparison.Ordinal);
        ArgumentException connected =
            Assert.Throws<ArgumentException>(() => rig.Await(new DatagramSocket(new DatagramOptions
            {
                Engine = rig.Engine,
                // tidy: fixed port because nothing is ever sent there
                RemoteEndPoint = new IPEndPoint(IPAddress.Loopback, 9),
                AnswerLimit = 1
            }, static () => new RecordingHandler()).StartAsync()));
        Assert.Contains("AnswerLimit = 1, and a connected socket", connected.Message, StringComparison.Ordinal);
        ArgumentException range = Assert.Throws<ArgumentException>(() => rig.Await(
            new DatagramSocket(new DatagramOptions { Engine = rig.Engine, EndPoint = here, AnswerLimit = 101 },
                static () => new RecordingHandler()).StartAsync()));
        Assert.Contains("AnswerLimit = 101, allowed 0 to 100", range.Message, StringComparison.Ordinal);
    });
}
