using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>
/// Datagram sockets over UDP and over Unix sockets: whole datagrams, order, limits, errors that end nothing, stop and
/// start.
/// </summary>
public abstract class DatagramSuite(Transport transport) : Suite(transport)
{
    // ------------------------------------------------------------------ tools

    private static DatagramSocket Open(Rig rig, out RecordingHandler handler, Action<RecordingHandler>? setUp = null,
        DatagramOptions? options = null)
    {
        RecordingHandler made = new();
        setUp?.Invoke(made);
        DatagramSocket socket = new(options
            ?? new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), ReceiveBufferBytes = 4 << 20 },
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

    /// <summary>Needs recvmmsg and sendmmsg on UDP.</summary>
    private static void SkipUnlessLinuxUdp(Rig rig, string reason) =>
        Assert.SkipWhen(rig.IsUnix || rig.IsVirtual || rig.Engine.Kind == EngineKind.Portable, reason);

    private static int NumberIn(byte[] data) => BitConverter.ToInt32(data);

    /// <summary>Raw sends from the test's own thread: a Unix socket blocks it until the other end has read some, so
    /// only as many as fit.</summary>
    private static int Burst(Rig rig) => rig.IsUnix ? 8 : 100;

    /// <summary>Waits, because the peer may have a datagram before the loop has counted it as sent.</summary>
    private static void UntilSent(Rig rig, DatagramSocket socket, int count) =>
        rig.Until(() => socket.ReadCounters().DatagramsSent == count, "all sent datagrams to be counted");

    [Fact]
    public void Pending_bytes_count_those_that_are_on_their_way_to_the_loop() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread, so none can block the loop.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams peer = new(rig);
        using ManualResetEventSlim gate = new();
        using ManualResetEventSlim isHeld = new();
        handler.Loop.Post(() =>
        {
            isHeld.Set();
            gate.Wait();
        });
        isHeld.Wait(TestContext.Current.CancellationToken);
        Assert.Equal(0, socket.BytesPending);
        for (int i = 0; i < 3; i++) Assert.Equal(SendResult.Queued, socket.Send(new byte[100], peer.Peer));
        (long bytes, long datagrams) = (socket.BytesPending, socket.PendingDatagrams);
        gate.Set();
        Assert.Equal((300, 3), (bytes, datagrams));
        for (int i = 0; i < 3; i++) Assert.Equal(100, peer.Receive().Length);
        rig.Until(() => socket.BytesPending == 0, "nothing to be pending");
        Close(rig, socket, handler);
    });

    // ------------------------------------------------------------------ receiving and answering

    [Fact]
    public void Every_peer_is_answered_and_nothing_is_re_armed() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler, static h => h.Echoes = true);
        RawDatagrams[] peers = [new(rig), new(rig), new(rig)];
        for (int round = 0; round < 60; round++)
        {
            foreach (RawDatagrams peer in peers)
            {
                byte[] message = Bytes($"{round} of {peer.EndPoint}");
                peer.Send(message, socket.EndPoint!);
                Assert.Equal(message, peer.Receive(out DatagramPeer from));
                Assert.Equal(new DatagramPeer(socket.EndPoint!), from);
            }
        }

        Assert.Equal(180, handler.Count);
        foreach (RawDatagrams peer in peers) Assert.Equal(60, handler.All.Count(d => d.Peer == peer.Peer));
        DatagramCounters counters = socket.ReadCounters();
        Assert.Equal((180, 180), (counters.DatagramsReceived, counters.DatagramsSent));
        Assert.Equal(counters.BytesReceived, counters.BytesSent);
        Close(rig, socket, handler);
        foreach (RawDatagrams peer in peers) peer.Dispose();
    });

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(1_472)]
    [InlineData(8_193)]
    [InlineData(65_507)]
    public void A_datagram_of_any_size_is_sent_and_received_whole(int size) => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler, static h => h.Echoes = true);
        using RawDatagrams peer = new(rig);
        byte[] data = Pattern(size, size);
        for (int i = 0; i < 3; i++)
        {
            peer.Send(data, socket.EndPoint!);
            Assert.Equal(data, peer.Receive());
        }

        rig.Until(() => handler.Count == 3, "all to be received");
        Assert.All(handler.Datagrams, d => Assert.Equal(data, d));
        Assert.Equal(3 * size, socket.ReadCounters().BytesReceived);
        Close(rig, socket, handler);
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_datagram_longer_than_the_limit_is_reported_with_its_true_length_and_the_next_is_whole(
        bool coalescing) => Run(rig =>
        {
            DatagramOptions options = new()
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                ReceiveLimitBytes = 100,
                Coalescing = coalescing
            };
            DatagramSocket socket = Open(rig, out RecordingHandler handler, options: options);
            using RawDatagrams peer = new(rig);
            peer.Send(Pattern(100), socket.EndPoint!);
            peer.Send(Pattern(101), socket.EndPoint!);
            peer.Send(Pattern(60_000), socket.EndPoint!);
            peer.Send(Bytes("after"), socket.EndPoint!);
            rig.Until(() => handler.Count == 2, "the whole ones to arrive");
            Assert.Equal(["started", "truncated 100 of 101", "truncated 100 of 60000"], handler.Events);
            Assert.Equal(100, handler.Datagrams[0].Length);
            Assert.Equal("after", Text(handler.Datagrams[1]));
            Assert.Equal(2, socket.ReadCounters().Truncated);
            Close(rig, socket, handler);
        });

    [Fact]
    public void Queued_datagrams_of_any_size_are_sent_in_order_and_separately() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams peer = new(rig);
        using RawDatagrams other = new(rig);
        // Runs of one size, shorter ones in between, empty ones, two peers: joinable and not joinable datagrams.
        List<int> sizes = [];
        for (int i = 0; i < 400; i++)
            sizes.Add((i / 20 % 4) switch { 0 => 32, 1 => i % 7 == 0 ? 0 : 500, 2 => 1_200, _ => (i * 37) % 3_000 });
        List<byte[]> expected = [];
        List<byte[]> expectedOther = [];
        int next = 0;
        while (next < sizes.Count)
        {
            // As many as fit into the receiver's buffer, whatever size the kernel grants.
            int until = Math.Min(sizes.Count, next + 20);
            int from = next;
            rig.OnLoop(handler.Loop, () =>
            {
                for (int i = from; i < until; i++)
                {
                    byte[] data = Pattern(sizes[i], i);
                    bool toOther = i % 11 == 10;
                    (toOther ? expectedOther : expected).Add(data);
                    Assert.Equal(SendResult.Queued, handler.Send(data, toOther ? other.Peer : peer.Peer));
                }
            });
            for (; next < until; next++)
                Assert.Equal(Pattern(sizes[next], next), (next % 11 == 10 ? other : peer).Receive());
        }

        Assert.Equal(400, expected.Count + expectedOther.Count);
        UntilSent(rig, socket, 400);
        Assert.Null(peer.TryReceive(out _));
        Close(rig, socket, handler);
    });

    [Fact]
    public void Datagrams_that_are_not_contiguous_in_the_queue_arrive_unchanged() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "The raw peer of this transport would have to read at the same time.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams peer = new(rig);
        // One block of memory holds 131 of these: the third run of 64 would cross its end.
        const int size = 1_000;
        const int count = 140;
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < count; i++) Assert.Equal(SendResult.Queued, handler.Send(Pattern(size, i), peer.Peer));
        });
        for (int i = 0; i < count; i++) Assert.Equal(Pattern(size, i), peer.Receive());
        UntilSent(rig, socket, count);
        Close(rig, socket, handler);
    });

    [Theory]
    [InlineData(1_200, 12_000)]
    [InlineData(1_000, 10_500)]
    [InlineData(32, 32 * 130)]
    [InlineData(9_000, 45_001)]
    public void A_run_arrives_as_datagrams_of_its_size_with_a_shorter_last_one(int size, int total) => Run(rig =>
    {
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        DatagramPeer target = new(receiver.EndPoint!);
        byte[] run = Pattern(total);
        Assert.Equal(SendResult.Queued, handler.SendRun(run, size, target));
        int count = ((total - 1) / size) + 1;
        rig.Until(() => received.Count == count, "the run to arrive");
        Assert.All(received.Datagrams.Take(count - 1), d => Assert.Equal(size, d.Length));
        Assert.Equal(run, received.Datagrams.SelectMany(static d => d).ToArray());
        UntilSent(rig, socket, count);
        Close(rig, socket, handler);
        Close(rig, receiver, received);
    });

    [Fact]
    public void A_socket_with_much_to_send_does_not_starve_its_loop() => Run(rig =>
    {
        SkipUnlessLinuxUdp(rig, "On this transport the receiver's buffer may fill up and stop the sender.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams sink = new(rig);
        const int many = 20_000;
        long sent = -1;
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < many; i++) Assert.Equal(SendResult.Queued, handler.Send(new byte[8], sink.Peer));
            handler.Loop.Post(() => sent = socket.ReadCounters().DatagramsSent);
        });
        rig.Until(() => socket.ReadCounters().DatagramsSent == many, "all to be sent");
        Assert.InRange(sent, 0, many / 2);
        Close(rig, socket, handler);
    });

    [Fact]
    public void Several_datagrams_in_one_call_go_to_their_peers() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams a = new(rig);
        using RawDatagrams b = new(rig);
        Assert.Equal(3,
            socket.SendMany([new(Bytes("one"), a.Peer), new(Bytes("two"), b.Peer), new(Bytes("three"), a.Peer)]));
        Assert.Equal("one", Text(a.Receive()));
        Assert.Equal("three", Text(a.Receive()));
        Assert.Equal("two", Text(b.Receive()));
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_run_is_sent_and_received_with_one_call() => Run(rig =>
    {
        SkipUnlessLinuxUdp(rig, "Only UDP on epoll and io_uring has segmentation.");
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        // A run that fails because of its peer does not make others be sent one by one.
        Assert.Equal(SendResult.Queued, socket.SendRun(new byte[500], 100, new DatagramPeer(IPAddress.Broadcast, 9)));
        Assert.Equal(SendResult.Queued, socket.SendRun(new byte[500], 100, new DatagramPeer(IPAddress.Loopback, 0)));
        rig.Until(() => handler.Failed.Count == 10, "the failures");
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < 50; i++)
                Assert.Equal(SendResult.Queued, handler.Send(Pattern(1_200, i), new DatagramPeer(receiver.EndPoint!)));
        });
        rig.Until(() => received.Count == 50, "the run");
        for (int i = 0; i < 50; i++) Assert.Equal(Pattern(1_200, i), received.Datagrams[i]);
        UntilSent(rig, socket, 50);
        Assert.Equal((50, 1, 10),
            (socket.ReadCounters().DatagramsSent, socket.ReadCounters().SendCalls, socket.ReadCounters().Failed));
        Assert.Equal(1, receiver.ReadCounters().ReceiveCalls);
        Close(rig, socket, handler);
        Close(rig, receiver, received);
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Joined_datagrams_are_delivered_in_one_call_or_one_by_one_and_echoed_unchanged(bool takesRuns) =>
        Run(rig =>
        {
            SkipUnlessLinuxUdp(rig, "Only UDP on epoll and io_uring joins datagrams.");
            DatagramSocket echo = Open(rig, out RecordingHandler echoes);
            echoes.Echoes = true;
            echoes.TakesRuns = takesRuns;
            DatagramSocket socket = Open(rig, out RecordingHandler handler);
            // A run of 20 with a shorter one at its end, more long ones than fit into one segmented message, and single
            // ones in between.
            byte[] run = Pattern((19 * 700) + 5, 1);
            byte[] large = Pattern(3 * 30_000, 2);
            rig.OnLoop(handler.Loop, () =>
            {
                DatagramPeer peer = new(echo.EndPoint!);
                Assert.Equal(SendResult.Queued, handler.Send(Pattern(11, 3), peer));
                Assert.Equal(SendResult.Queued, handler.SendRun(run, 700, peer));
                Assert.Equal(SendResult.Queued, handler.Send(Pattern(12, 4), peer));
                Assert.Equal(SendResult.Queued, handler.SendRun(large, 30_000, peer));
            });
            rig.Until(() => handler.Count == 25, "all to come back");
            byte[][] sent = [Pattern(11, 3), .. run.Chunk(700), Pattern(12, 4), .. large.Chunk(30_000)];
            Assert.Equal(sent, handler.Datagrams);
            Assert.Equal(sent, echoes.Datagrams);
            Assert.InRange(echoes.InRuns, takesRuns ? 20 : 0, takesRuns ? 25 : 0);
            UntilSent(rig, echo, 25);
            Assert.Equal((25, 25), (echo.ReadCounters().DatagramsReceived, echo.ReadCounters().DatagramsSent));
            Assert.Equal(sent.Sum(static d => d.Length), echo.ReadCounters().BytesReceived);
            Close(rig, socket, handler);
            Close(rig, echo, echoes);
        });

    // An answer is sent from the receive buffer. If much is queued before it, it must be copied before the buffer is
    // filled again.
    [Fact]
    public void Answers_to_joined_datagrams_keep_their_bytes_while_they_wait_and_others_are_received() => Run(rig =>
    {
        SkipUnlessLinuxUdp(rig, "Only UDP on epoll and io_uring joins datagrams.");
        DatagramSocket echo = Open(rig, out RecordingHandler echoes);
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams sink = new(rig);
        (echoes.Echoes, echoes.TakesRuns) = (true, true);
        byte[] first = Pattern(10 * 700, 1), second = Pattern(10 * 700, 2);
        DatagramPeer peer = new(echo.EndPoint!);
        // Each run is received alone, so that the second one comes to the memory of the first.
        echoes.RunReceived = _ =>
        {
            if (echoes.InRuns == 10) handler.Loop.Post(() => handler.SendRun(second, 700, peer));
        };
        rig.OnLoop(echoes.Loop, () =>
        {
            for (int i = 0; i < 20_000; i++) Assert.Equal(SendResult.Queued, echoes.Send(new byte[8], sink.Peer));
            handler.Loop.Post(() => handler.SendRun(first, 700, peer));
        });
        rig.Until(() => handler.Count == 20, "all to come back");
        Assert.Equal([.. first.Chunk(700), .. second.Chunk(700)], handler.Datagrams);
        Close(rig, socket, handler);
        Close(rig, echo, echoes);
    });

    [Fact]
    public void An_exception_of_a_handler_at_joined_datagrams_costs_that_call_only() => Run(rig =>
    {
        SkipUnlessLinuxUdp(rig, "Only UDP on epoll and io_uring joins datagrams.");
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        received.TakesRuns = true;
        received.RunReceived = static _ => throw new InvalidOperationException("a run");
        rig.Expect("a run");
        rig.Expect("one of them");
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        DatagramPeer peer = new(receiver.EndPoint!);
        rig.OnLoop(handler.Loop, () => Assert.Equal(SendResult.Queued, handler.SendRun(Pattern(2_000, 0), 100, peer)));
        rig.Until(() => received.Count == 20, "the run that throws");
        rig.OnLoop(received.Loop, () => received.TakesRuns = false);
        int calls = 0;
        received.Received = (_, _, _) =>
        {
            if (++calls == 7) throw new InvalidOperationException("one of them");
        };
        rig.OnLoop(handler.Loop, () => Assert.Equal(SendResult.Queued, handler.SendRun(Pattern(2_000, 1), 100, peer)));
        rig.Until(() => received.Count == 39, "the others after the one that throws");
        Assert.Equal((40, 2), (receiver.ReadCounters().DatagramsReceived, receiver.ReadCounters().HandlerErrors));
        Close(rig, socket, handler);
        Close(rig, receiver, received);
    });

    [Fact]
    public void A_pause_in_the_middle_of_joined_datagrams_keeps_the_rest() => Run(rig =>
    {
        SkipUnlessLinuxUdp(rig, "Only UDP on epoll and io_uring joins datagrams.");
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        received.Received = static (me, _, _) =>
        {
            if (me.Datagrams.Count == 8) me.PauseReceiving();
        };
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        rig.OnLoop(handler.Loop, () => Assert.Equal(SendResult.Queued,
            handler.SendRun(Pattern(2_000, 0), 100, new DatagramPeer(receiver.EndPoint!))));
        rig.Until(() => received.Count == 8, "the first eight");
        rig.Settle();
        Assert.Equal(8, received.Count);
        rig.OnLoop(received.Loop, received.ResumeReceiving);
        rig.Until(() => received.Count == 20, "the rest");
        Assert.Equal(Pattern(2_000, 0).Chunk(100), received.Datagrams);
        Close(rig, socket, handler);
        Close(rig, receiver, received);
    });

    [Fact] // more than are delivered in one turn
    public void Many_datagrams_held_by_a_pause_are_delivered_before_those_that_come_later() => Run(rig =>
    {
        const int Joined = 60, Runs = 10;
        SkipUnlessLinuxUdp(rig, "Only UDP on epoll and io_uring joins datagrams.");
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        received.Received = static (me, _, _) =>
        {
            if (me.Datagrams.Count == 8) me.PauseReceiving();
        };
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        rig.OnLoop(received.Loop, received.PauseReceiving);
        for (int run = 0; run < Runs; run++) SendRun(run);
        rig.OnLoop(received.Loop, received.ResumeReceiving);
        rig.Until(() => received.Count == 8, "the first eight");
        SendRun(Runs);
        rig.OnLoop(received.Loop, received.ResumeReceiving);
        rig.Until(() => received.Count == (Runs + 1) * Joined, "the rest");
        Assert.Equal(Enumerable.Range(0, (Runs + 1) * Joined), received.Datagrams.Select(NumberIn));
        Close(rig, socket, handler);
        Close(rig, receiver, received);

        void SendRun(int run)
        {
            byte[] bytes = new byte[Joined * 100];
            for (int i = 0; i < Joined; i++) BitConverter.TryWriteBytes(bytes.AsSpan(i * 100), (run * Joined) + i);
            rig.OnLoop(handler.Loop, () => handler.SendRun(bytes, 100, new DatagramPeer(receiver.EndPoint!)));
            UntilSent(rig, socket, (run + 1) * Joined);
        }
    });

    [Fact]
    public void Datagrams_dropped_for_lack_of_receive_buffer_are_counted() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix || rig.IsVirtual || !OperatingSystem.IsLinux(), "Only UDP on Linux reports it.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: new DatagramOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            ReceiveBufferBytes = 16 * 1024
        });
        using RawDatagrams peer = new(rig);
        // Twice, because the kernel reports a running total.
        for (int round = 1; round <= 2; round++)
        {
            rig.OnLoop(handler.Loop, handler.PauseReceiving);
            for (int i = 0; i < 300; i++) peer.Send(Pattern(1_000, i), socket.EndPoint!);
            rig.OnLoop(handler.Loop, handler.ResumeReceiving);
            byte[] after = Bytes($"after {round}");
            rig.Until(
                () =>
                {
                    peer.Send(after, socket.EndPoint!);
                    rig.Settle();
                    return handler.Datagrams.Any(d => d.AsSpan().SequenceEqual(after));
                },
                "one to have room again");
            DatagramCounters counters = socket.ReadCounters();
            int whole = handler.Datagrams.Count(static d => d.Length == 1_000);
            Assert.InRange(counters.Overflowed, (300 * round) - whole, (300 * round) - whole + (2 * round));
            Assert.True(counters.Overflowed > 0);
        }

        Close(rig, socket, handler);
    });

    [Fact]
    public void Answers_to_a_forged_impossible_address_fail_without_further_effect() => Run(rig =>
    {
        // Port 0, as in a forged datagram; the responses fail, and the next peer is served.
        Assert.SkipWhen(rig.IsUnix, "The sender of a Unix datagram cannot forge its address.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler, static h => h.Echoes = true);
        using RawDatagrams peer = new(rig);
        for (int i = 0; i < 10; i++)
            Assert.Equal(SendResult.Queued, socket.Send(Bytes("answer"), new DatagramPeer(IPAddress.Loopback, 0)));
        peer.Send(Bytes("real"), socket.EndPoint!);
        Assert.Equal("real", Text(peer.Receive()));
        rig.Until(() => handler.Failed.Count == 10, "the failures");
        Assert.All(handler.Failed, static f => Assert.Equal(22, f.Error.Code));
        Close(rig, socket, handler);
    });

    // ------------------------------------------------------------------ errors end nothing

    [Fact]
    public void A_handler_that_throws_loses_nothing_but_that_call() => Run(rig =>
    {
        rig.Expect("no luck");
        DatagramSocket socket = Open(rig, out RecordingHandler handler, static h => h.Received = static (_, data, _) =>
        {
            if (Text(data) == "bad") throw new InvalidOperationException("no luck");
        });
        using RawDatagrams peer = new(rig);
        foreach (string text in (ReadOnlySpan<string>)["good", "bad", "bad", "fine"])
            peer.Send(Bytes(text), socket.EndPoint!);
        rig.Until(() => handler.All.Count == 4, "all to be received");
        Assert.Equal(["started", "error no luck", "error no luck"], handler.Events);
        Assert.Equal(2, socket.ReadCounters().HandlerErrors);
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_datagram_that_cannot_be_sent_is_reported_and_the_next_one_is_unaffected() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams peer = new(rig);
        DatagramPeer nowhere =
            rig.IsUnix ? new DatagramPeer(rig.NewAddress()) : new DatagramPeer(IPAddress.Loopback, 0);
        DatagramPeer foreign =
            rig.IsUnix ? new DatagramPeer(IPAddress.Loopback, 9) : new DatagramPeer(IPAddress.IPv6Loopback, 9);
        rig.OnLoop(handler.Loop, () =>
        {
            Assert.Equal(SendResult.Queued, handler.Send(Bytes("one"), peer.Peer));
            Assert.Equal(SendResult.Queued, handler.Send(Bytes("lost"), nowhere));
            Assert.Equal(SendResult.Queued, handler.Send(Bytes("two"), peer.Peer));
            Assert.Equal(SendResult.Queued, handler.Send(Bytes("lost too"), foreign));
            Assert.Equal(SendResult.Queued, handler.Send(Bytes("three"), peer.Peer));
        });
        foreach (string text in (ReadOnlySpan<string>)["one", "two", "three"]) Assert.Equal(text, Text(peer.Receive()));
        rig.Until(() => handler.Failed.Count == 2, "the reports of the failures");
        Assert.Equal(nowhere, handler.Failed[0].Peer);
        Assert.Equal(4, handler.Failed[0].Length);
        Assert.Equal(foreign, handler.Failed[1].Peer);
        Assert.All(handler.Failed, static f => Assert.NotEqual(0, f.Error.Code));
        Assert.Equal((3, 2), (socket.ReadCounters().DatagramsSent, socket.ReadCounters().Failed));
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_full_Unix_receiver_is_tried_for_a_tenth_of_a_second_and_skipped_until_it_takes_one() => Run(rig =>
    {
        const int Many = 1000;
        Assert.SkipUnless(rig.IsUnix && !rig.IsVirtual, "Only a Unix receiver makes its sender wait.");
        Assert.SkipWhen(rig.Engine.Kind == EngineKind.Portable, "There the system waits for the receiver.");
        string most = File.ReadAllText("/proc/sys/net/unix/max_dgram_qlen");
        Assert.SkipWhen(int.Parse(most, CultureInfo.InvariantCulture) > 100,
            "Here the send buffer is full before the queue of a receiver is.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams full = new(rig), other = new(rig);
        long began = 0;
        rig.OnLoop(handler.Loop, () =>
        {
            began = Environment.TickCount64;
            for (int i = 0; i < Many; i++) handler.Send(BitConverter.GetBytes(i), full.Peer);
            handler.Send(Bytes("other"), other.Peer);
        });
        rig.Until(() => handler.Failed.Count > 0, "the first failure");
        Assert.InRange(Environment.TickCount64 - began, 90, long.MaxValue); // a hundred tries, a millisecond apart
        Assert.Equal("other", Text(other.Receive())); // a tenth of a second for each of the others would take minutes
        int sent = (int)socket.ReadCounters().DatagramsSent - 1;
        Assert.Equal((Many - sent, Many - sent), (handler.Failed.Count, socket.ReadCounters().Failed));
        Assert.All(handler.Failed, f => Assert.Equal(full.Peer, f.Peer));
        for (int i = 0; i < sent; i++) Assert.Equal(i, NumberIn(full.Receive()));
        rig.OnLoop(handler.Loop, () => handler.Send(Bytes("again"), full.Peer));
        Assert.Equal("again", Text(full.Receive()));
        Close(rig, socket, handler);
    });

    [Fact]
    public void An_unbound_port_is_reported_to_a_connected_socket_which_continues() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Only IP has ICMP.");
        RawDatagrams peer = new(rig);
        EndPoint address = peer.EndPoint;
        DatagramOptions options = new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), RemoteEndPoint = address };
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: options);
        Assert.Equal(SendResult.Queued, socket.Send(Bytes("hello")));
        Assert.Equal("hello", Text(peer.Receive()));
        peer.Dispose();
        Assert.Equal(SendResult.Queued, socket.Send(Bytes("anybody")));
        rig.Until(() => handler.PeerErrors.Count > 0, "the report of the refusal");
        Assert.Equal((new DatagramPeer(address), ErrorCategory.Refused),
            (handler.PeerErrors[0].Peer, handler.PeerErrors[0].Error.Category));
        using RawDatagrams again = new(rig, address);
        rig.Until(
            () =>
            {
                socket.Send(Bytes("again"));
                rig.Settle();
                return again.TryReceive(out _) is not null;
            },
            "the socket to continue");
        Close(rig, socket, handler);
    });

    [Fact]
    public void An_unbound_port_is_reported_with_its_peer_and_others_are_served() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Only IP has ICMP.");
        Assert.SkipWhen(rig.Engine.Kind == EngineKind.Portable, "The portable engine reads no socket error queue.");
        RawDatagrams gone = new(rig);
        DatagramPeer dead = gone.Peer;
        gone.Dispose();
        DatagramSocket socket = Open(rig, out RecordingHandler handler, static h => h.Echoes = true);
        using RawDatagrams peer = new(rig);
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal(SendResult.Queued, socket.Send(Bytes("anybody"), dead));
            peer.Send(Bytes($"{i}"), socket.EndPoint!);
            Assert.Equal($"{i}", Text(peer.Receive()));
        }

        rig.Until(() => handler.PeerErrors.Count > 0, "the report of the refusal");
        Assert.All(handler.PeerErrors, f => Assert.Equal(dead, f.Peer));
        Assert.Equal(20, handler.Count);
        rig.Until(() => socket.ReadCounters().DatagramsSent == 40, "all to be sent");
        Assert.Equal(0, socket.ReadCounters().Failed);
        Close(rig, socket, handler);
    });

    // ------------------------------------------------------------------ limits

    [Fact]
    public void At_the_limit_the_newest_is_refused_and_OnDrained_follows() => Run(rig =>
    {
        DatagramOptions options = new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), SendLimitDatagrams = 8 };
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: options);
        using RawDatagrams peer = new(rig);
        List<SendResult> results = [];
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < 10; i++) results.Add(handler.Send(BitConverter.GetBytes(i), peer.Peer));
            Assert.Equal(8, handler.PendingDatagrams);
            Assert.Equal(32, handler.PendingBytes);
        });
        Assert.Equal([.. Enumerable.Repeat(SendResult.Queued, 8), SendResult.Full, SendResult.Full], results);
        for (int i = 0; i < 8; i++) Assert.Equal(i, NumberIn(peer.Receive()));
        rig.Until(() => handler.Events.Contains("drained"), "OnDrained");
        UntilSent(rig, socket, 8);
        Assert.Equal((8, 2), (socket.ReadCounters().DatagramsSent, socket.ReadCounters().Refused));
        Assert.Equal(SendResult.Queued, socket.Send(Bytes("room"), peer.Peer));
        Assert.Equal("room", Text(peer.Receive()));
        Close(rig, socket, handler);
    });

    [Fact]
    public void At_the_limit_the_oldest_are_dropped_if_the_policy_says_so() => Run(rig =>
    {
        DatagramOptions options = new()
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            SendLimitDatagrams = 8,
            Overflow = DatagramOverflow.DropOldest
        };
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: options);
        using RawDatagrams peer = new(rig);
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < 20; i++)
                Assert.Equal(SendResult.Queued, handler.Send(BitConverter.GetBytes(i), peer.Peer));
            Assert.Equal(8, handler.PendingDatagrams);
        });
        for (int i = 12; i < 20; i++) Assert.Equal(i, NumberIn(peer.Receive()));
        UntilSent(rig, socket, 8);
        Assert.Equal((8, 12, 0),
            (socket.ReadCounters().DatagramsSent, socket.ReadCounters().Displaced, socket.ReadCounters().Refused));
        Close(rig, socket, handler);
    });

    [Fact]
    public void The_limit_of_bytes_is_exact() => Run(rig =>
    {
        DatagramOptions options =
            new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), SendLimitBytes = 64 * 1024 };
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: options);
        using RawDatagrams peer = new(rig);
        rig.OnLoop(handler.Loop, () =>
        {
            Assert.Equal(SendResult.Queued, handler.Send(new byte[60_000], peer.Peer));
            Assert.Equal(SendResult.Full, handler.Send(new byte[5_537], peer.Peer));
            Assert.Equal(SendResult.Queued, handler.Send(new byte[5_536], peer.Peer));
            Assert.Equal(SendResult.Full, handler.Send(new byte[1], peer.Peer));
            Assert.Equal(SendResult.Queued, handler.Send(default, peer.Peer));
        });
        foreach (int size in (ReadOnlySpan<int>)[60_000, 5_536, 0]) Assert.Equal(size, peer.Receive().Length);
        Close(rig, socket, handler);
    });

    [Fact]
    public void An_awaited_send_waits_for_space_in_FIFO_order_and_can_be_cancelled() => Run(rig =>
    {
        DatagramOptions options = new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), SendLimitDatagrams = 2 };
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: options);
        using RawDatagrams peer = new(rig);
        using CancellationTokenSource cancel = new();
        List<ValueTask<SendResult>> waits = [];
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < 2; i++)
                Assert.Equal(SendResult.Queued, handler.Send(BitConverter.GetBytes(i), peer.Peer));
            for (int i = 2; i < 6; i++)
                waits.Add(handler.SendAsync(BitConverter.GetBytes(i), peer.Peer, i == 3 ? cancel.Token : default));
            Assert.All(waits, static w => Assert.False(w.IsCompleted));
            // The waiting sender was first.
            Assert.Equal(SendResult.Full, handler.Send(BitConverter.GetBytes(99), peer.Peer));
            cancel.Cancel();
        });
        foreach (int i in (ReadOnlySpan<int>)[0, 1]) Assert.Equal(i, NumberIn(peer.Receive()));
        List<int> rest = [NumberIn(peer.Receive()), NumberIn(peer.Receive()), NumberIn(peer.Receive())];
        if (rest.Contains(3)) rest.Add(NumberIn(peer.Receive()));
        rig.Until(() => waits.All(static w => w.IsCompleted), "all waits to end");
        if (!rest.Contains(3)) Assert.Throws<OperationCanceledException>(() => waits[1].GetAwaiter().GetResult());
        rest.Remove(3);
        Assert.Equal([2, 4, 5], rest);
        foreach (int i in (ReadOnlySpan<int>)[0, 2, 3])
            Assert.Equal(SendResult.Queued, waits[i].GetAwaiter().GetResult());
        Close(rig, socket, handler);
    });

    [Fact]
    public void One_datagram_too_many_and_an_empty_peer_are_the_callers_mistakes() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        DatagramPeer self = new(socket.EndPoint!);
        Assert.Throws<ArgumentOutOfRangeException>(
            () => socket.Send(new byte[DatagramOptions.MaxDatagramBytes + 1], self));
        Assert.Throws<ArgumentException>(() => socket.Send(new byte[1], default));
        Assert.Throws<InvalidOperationException>(() => socket.Send(new byte[1]));
        Assert.Throws<ArgumentOutOfRangeException>(() => socket.SendRun(new byte[10], 0, self));
        Assert.Throws<InvalidOperationException>(() => socket.TryReceive(new byte[1], TimeSpan.Zero, out _));
        Close(rig, socket, handler);
    });

    // ------------------------------------------------------------------ threads

    [Fact]
    public void Datagrams_of_each_thread_arrive_in_order() => Run(rig =>
    {
        const int threads = 4;
        const int each = 50;
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        DatagramPeer target = new(receiver.EndPoint!);
        for (int thread = 0; thread < threads; thread++)
        {
            int me = thread;
            rig.Elsewhere(() =>
            {
                for (int i = 0; i < each; i++)
                    Assert.Equal(SendResult.Queued, socket.Send(BitConverter.GetBytes((me * 1_000) + i), target));
            });
        }

        rig.Join();
        rig.Until(() => received.Count == threads * each, "all to arrive");
        for (int thread = 0; thread < threads; thread++)
        {
            int me = thread;
            Assert.Equal(Enumerable.Range(0, each),
                received.Datagrams.Select(NumberIn).Where(n => n / 1_000 == me).Select(static n => n % 1_000));
        }

        // The last datagram may arrive before its sender is informed that it was sent.
        rig.Until(() => socket.PendingDatagrams == 0, "nothing to be pending");
        Close(rig, socket, handler);
        Close(rig, receiver, received);
    });

    [Fact]
    public void Answers_batched_on_the_pool_are_sent_in_order_and_a_waiter_for_space_gets_it() => Run(rig =>
    {
        const int count = 300;
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        DatagramSocket socket =
            new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), SendLimitDatagrams = 8 });
        rig.Await(socket.StartAsync());
        DatagramPeer target = new(receiver.EndPoint!);
        List<SendResult> others = [];
        rig.Engine.Offload(static state => ((Action<int>)state!)(0), (Action<int>)Answer);
        rig.Until(() => received.Count == count, "all answers to arrive");
        Assert.Empty(others);
        Assert.Equal(Enumerable.Range(0, count), received.Datagrams.Select(NumberIn));
        rig.Await(socket.DisposeAsync());
        Close(rig, receiver, received);

        // Each response is sent by a callback that another one started, as if one receives the next datagram and the
        // other responds.
        void Answer(int i)
        {
            using (socket.BatchWakeUps())
            {
                SendResult result = socket.Send(BitConverter.GetBytes(i), target, TimeSpan.FromSeconds(20));
                if (result != SendResult.Queued) others.Add(result);
            }

            if (i + 1 < count) rig.Engine.Offload(_ => rig.Engine.Offload(_ => Answer(i + 1), null), null);
        }
    });

    [Fact]
    public void An_empty_datagram_may_be_sent_from_another_thread() => Run(rig =>
    {
        DatagramSocket receiver = Open(rig, out RecordingHandler received);
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        DatagramPeer target = new(receiver.EndPoint!);
        rig.Elsewhere(() =>
        {
            foreach (string text in (string[])["", "one", ""])
                Assert.Equal(SendResult.Queued, socket.Send(Bytes(text), target));
        });
        rig.Join();
        rig.Until(() => received.Count == 3, "all to arrive");
        Assert.Equal(["", "one", ""], received.Datagrams.Select(static d => Text(d)));
        rig.Until(() => socket.PendingDatagrams == 0, "their places to be free");
        Assert.Equal(3, socket.ReadCounters().DatagramsSent);
        Close(rig, socket, handler);
        Close(rig, receiver, received);
    });

    [Fact]
    public void Sends_of_other_threads_count_against_the_limit_at_once() => Run(rig =>
    {
        DatagramOptions options = new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), SendLimitDatagrams = 4 };
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: options);
        using RawDatagrams peer = new(rig);
        using ManualResetEventSlim held = new();
        using ManualResetEventSlim go = new();
        if (!rig.IsVirtual)
        {
            // The loop is blocked meanwhile, so that nothing is sent.
            handler.Loop.Post(() =>
            {
                held.Set();
                go.Wait();
            });
            held.Wait();
        }

        List<SendResult> results = [];
        for (int i = 0; i < 6; i++) results.Add(socket.Send(BitConverter.GetBytes(i), peer.Peer));
        Assert.Equal(4, socket.PendingDatagrams);
        go.Set();
        Assert.Equal([SendResult.Queued, SendResult.Queued, SendResult.Queued, SendResult.Queued, SendResult.Full,
            SendResult.Full], results);
        for (int i = 0; i < 4; i++) Assert.Equal(i, NumberIn(peer.Receive()));
        Assert.Equal(2, socket.ReadCounters().Refused);
        Close(rig, socket, handler);
    });

    [Fact]
    public void Threads_that_send_wait_and_cancel_while_others_start_and_stop_leave_nothing_open() => Run(rig =>
    {
        const int threads = 3;
        const int each = 200;
        DatagramSocket receiver = Open(rig, out RecordingHandler received, options: new DatagramOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            ReceiveBufferBytes = 4 << 20
        });
        DatagramSocket socket = Open(rig, out RecordingHandler handler,
            options: new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), SendLimitDatagrams = 16 });
        DatagramPeer target = new(receiver.EndPoint!);
        long taken = 0;
        long refused = 0;
        List<ValueTask<SendResult>> waits = [];
        for (int thread = 0; thread < threads; thread++)
        {
            rig.Elsewhere(() =>
            {
                using CancellationTokenSource cancel = new();
                for (int i = 0; i < each; i++)
                {
                    if (i % 5 == 4)
                    {
                        ValueTask<SendResult> wait = socket.SendAsync(Pattern(20), target,
                            i % 10 == 9 ? cancel.Token : default);
                        lock (waits) waits.Add(wait);
                    }
                    else if (socket.Send(Pattern(30), target) == SendResult.Queued) Interlocked.Increment(ref taken);
                    else Interlocked.Increment(ref refused);
                }

                cancel.Cancel();
            });
        }

        // Meanwhile other sockets of the same engine open and close.
        for (int i = 0; i < 5; i++)
        {
            DatagramSocket passer = Open(rig, out RecordingHandler passing);
            Close(rig, passer, passing);
        }

        rig.Join();
        rig.Until(() => waits.All(static w => w.IsCompleted), "every wait to end");
        long awaited = 0;
        long cancelled = 0;
        foreach (ValueTask<SendResult> wait in waits)
        {
            if (wait.IsCanceled) cancelled++;
            else if (wait.GetAwaiter().GetResult() == SendResult.Queued) awaited++;
        }

        Assert.Equal(threads * each / 5, awaited + cancelled);
        rig.Until(() => socket.PendingDatagrams == 0, "the queue to be empty");
        DatagramCounters counters = socket.ReadCounters();
        Assert.Equal(taken + awaited, counters.DatagramsSent + counters.Failed);
        Assert.Equal(refused, counters.Refused);
        rig.Until(() => received.Count == counters.DatagramsSent, "all to arrive");
        Close(rig, socket, handler);
        Close(rig, receiver, received);
    });

    // ------------------------------------------------------------------ pausing, timers

    [Fact]
    public void While_paused_nothing_is_delivered_and_then_held_data_is_delivered_first() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler, static h => h.Received = static (me, data, _) =>
        {
            if (NumberIn(data) == 2) me.PauseReceiving();
        });
        using RawDatagrams peer = new(rig);
        int count = Burst(rig);
        for (int i = 0; i < count; i++) peer.Send(BitConverter.GetBytes(i), socket.EndPoint!);
        rig.Until(() => handler.Count == 3, "the first three");
        rig.Settle();
        Assert.Equal(3, handler.Count);
        rig.OnLoop(handler.Loop, handler.ResumeReceiving);
        rig.Until(() => handler.Count == count, "the rest");
        Assert.Equal(Enumerable.Range(0, count), handler.Datagrams.Select(NumberIn));
        Close(rig, socket, handler);
    });

    [Fact]
    public void Timers_of_a_handler_fire_on_its_loop_and_end_with_its_socket() => Run(rig =>
    {
        LoopTimer? timer = null;
        DatagramSocket socket = Open(rig, out RecordingHandler handler,
            h => h.Started = me => timer = me.Start(TimeSpan.FromMilliseconds(5), TimeSpan.FromMilliseconds(5)));
        rig.Until(() => handler.Events.Count(static e => e == "timer") >= 3, "the timer to fire three times");
        Close(rig, socket, handler);
        Assert.False(timer!.IsActive);
    });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_handler_can_distinguish_its_own_address_and_does_not_answer_itself(bool isWildcard) => Run(rig =>
    {
        Assert.SkipWhen(isWildcard && (rig.IsUnix || rig.IsVirtual), "The memory engine has no wildcard address.");
        EndPoint at = isWildcard ? new IPEndPoint(IPAddress.Any, 0) : rig.NewAddress();
        DatagramSocket socket = Open(rig, out RecordingHandler handler,
            options: new DatagramOptions { Engine = rig.Engine, EndPoint = at });
        handler.Received = static (me, data, from) =>
        {
            if (!me.IsOwn(from)) me.Send(data, from);
        };
        DatagramPeer own = rig.IsUnix || !isWildcard
            ? new DatagramPeer(socket.EndPoint!)
            : new DatagramPeer(IPAddress.Loopback, ((IPEndPoint)socket.EndPoint!).Port);
        using RawDatagrams peer = new(rig);
        rig.OnLoop(handler.Loop, () =>
        {
            Assert.True(handler.IsOwn(own));
            Assert.False(handler.IsOwn(peer.Peer));
            Assert.False(handler.IsOwn(default));
            if (!rig.IsUnix) Assert.False(handler.IsOwn(new DatagramPeer(IPAddress.Parse("203.0.113.1"), own.Port)));
            Assert.Equal(SendResult.Queued, handler.Send(Bytes("to itself"), own));
        });
        rig.Until(() => handler.Count == 1, "its own datagram");
        peer.Send(Bytes("hello"), own.ToEndPoint()!);
        Assert.Equal("hello", Text(peer.Receive()));
        rig.Settle();
        Assert.Equal(2, handler.Count);
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_timer_that_is_due_when_the_socket_begins_to_stop_does_not_fire() => Run(rig =>
    {
        ValueTask stop = default;
        LoopTimer? timer = null;
        DatagramSocket? socket = null;
        socket = Open(rig, out RecordingHandler handler, h => h.Received = (me, _, _) =>
        {
            // The next iteration processes the mailbox with the stop first, and then the timers while the socket
            // drains.
            timer = me.Start(TimeSpan.Zero, TimeSpan.FromMilliseconds(1));
            stop = socket!.StopAsync();
        });
        using RawDatagrams peer = new(rig);
        peer.Send(Bytes("x"), socket.EndPoint!);
        rig.Until(() => handler.Count == 1, "the datagram");
        rig.Await(stop, "the stop to end");
        Assert.Equal(["started", "stopped"], handler.Events);
        Assert.False(timer!.IsActive);
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_timer_that_is_started_while_the_socket_drains_ends_with_it() => Run(rig =>
    {
        List<LoopTimer> timers = [];
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams peer = new(rig);
        LoopTimer? early = null;
        ValueTask stop = default;
        rig.OnLoop(handler.Loop, () =>
        {
            early = handler.Start(TimeSpan.FromHours(1));
            Assert.Equal(SendResult.Queued, handler.Send(Bytes("last"), peer.Peer));
            // Through the mailbox: the timer is started afterwards, while the socket drains.
            stop = socket.StopAsync();
            handler.Loop.PostControl(
                (_, _, _, _) => timers.Add(handler.Start(TimeSpan.FromHours(1), TimeSpan.FromHours(1))));
        });
        rig.Await(stop, "the stop to end");
        rig.Until(() => timers.Count == 1, "the posted action");
        Assert.False(timers[0].IsActive);
        // A timer that the user starts again after the end does not call back.
        rig.OnLoop(handler.Loop, () => early!.Start(TimeSpan.Zero, TimeSpan.FromMilliseconds(1)));
        rig.Until(() => !early!.IsActive, "the timer to end");
        Close(rig, socket, handler);
        Assert.DoesNotContain("timer", handler.Events);
    });

    // ------------------------------------------------------------------ life

    [Fact]
    public void A_stop_sends_queued_datagrams_and_then_closes_everything() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams peer = new(rig);
        ValueTask stop = default;
        int count = Burst(rig);
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < count; i++)
                Assert.Equal(SendResult.Queued, handler.Send(BitConverter.GetBytes(i), peer.Peer));
            stop = socket.StopAsync();
        });
        for (int i = 0; i < count; i++) Assert.Equal(i, NumberIn(peer.Receive()));
        rig.Await(stop, "the stop to end");
        Assert.Equal(SendResult.Closed, socket.Send(Bytes("late"), peer.Peer));
        Assert.Equal(SendResult.Closed, handler.Send(Bytes("late"), peer.Peer));
        Assert.Equal(SendResult.Closed, rig.Await(socket.SendAsync(Bytes("late"), peer.Peer)));
        Assert.Equal(0, socket.ReadCounters().Abandoned);
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_stop_without_time_drops_queued_datagrams_and_counts_them() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams peer = new(rig);
        ValueTask<SendResult> sent = default;
        ValueTask stop = default;
        rig.OnLoop(handler.Loop, () =>
        {
            for (int i = 0; i < 5; i++) handler.Send(BitConverter.GetBytes(i), peer.Peer);
            stop = socket.StopAsync(TimeSpan.Zero);
        });
        rig.Await(stop, "the stop to end");
        DatagramCounters counters = socket.ReadCounters();
        Assert.Equal(5, counters.DatagramsSent + counters.Abandoned);
        Assert.Equal(0, counters.Queued);
        Close(rig, socket, handler);
        _ = sent;
    });

    [Fact]
    public void A_socket_can_be_started_again_with_a_new_handler() => Run(rig =>
    {
        List<RecordingHandler> handlers = [];
        DatagramSocket socket = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }, () =>
        {
            handlers.Add(new RecordingHandler { Echoes = true });
            return handlers[^1];
        });
        using RawDatagrams peer = new(rig);
        for (int round = 1; round <= 3; round++)
        {
            rig.Await(socket.StartAsync(), "the start");
            Assert.True(socket.IsStarted);
            peer.Send(Bytes($"{round}"), socket.EndPoint!);
            Assert.Equal($"{round}", Text(peer.Receive()));
            rig.Await(socket.StopAsync(), "the stop");
            Assert.False(socket.IsStarted);
            Assert.Equal(1, socket.ReadCounters().DatagramsReceived);
        }

        Assert.Equal(3, handlers.Count);
        Assert.All(handlers, static h => Assert.Equal(["started", "stopped"], h.Events));
        rig.Await(socket.DisposeAsync());
        Assert.Throws<ObjectDisposedException>(() => rig.Await(socket.StartAsync()));
    });

    [Fact]
    public void A_start_that_fails_leaves_nothing_open() => Run(rig =>
    {
        DatagramSocket first = Open(rig, out RecordingHandler handler);
        DatagramSocket second = new(new DatagramOptions { Engine = rig.Engine, EndPoint = first.EndPoint },
            static () => new RecordingHandler());
        NetworkException taken = Assert.Throws<NetworkException>(() => rig.Await(second.StartAsync()));
        Assert.Equal(ErrorCategory.Bind, taken.Error.Category);
        DatagramSocket third = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() },
            static () => throw new InvalidOperationException("no handler today"));
        Assert.Equal("no handler today",
            Assert.Throws<InvalidOperationException>(() => rig.Await(third.StartAsync())).Message);
        Close(rig, first, handler);
        // The address is free again.
        DatagramSocket fourth = Open(rig, out RecordingHandler last,
            options: new DatagramOptions { Engine = rig.Engine, EndPoint = first.EndPoint });
        Close(rig, fourth, last);
    });

    [Fact]
    public void A_stop_of_the_engine_closes_the_socket_with_its_last_callback() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        rig.Await(rig.Engine.StopAsync(), "the engine to stop");
        Assert.Equal("stopped", handler.Events[^1]);
        Assert.Equal(SendResult.Closed, socket.Send(Bytes("late"), new DatagramPeer(socket.EndPoint!)));
        rig.Await(socket.DisposeAsync());
    });

    [Fact]
    public void All_mistakes_in_the_options_are_reported_together() => Run(rig =>
    {
        DatagramSocket socket = new(
            new DatagramOptions
            {
                Engine = rig.Engine,
                SendLimitBytes = 1,
                ReceiveLimitBytes = 0,
                MulticastHops = 300,
                Groups = [new MulticastGroup(IPAddress.Loopback)]
            },
            static () => new RecordingHandler());
        string message = Assert.Throws<ArgumentException>(() => rig.Await(socket.StartAsync())).Message;
        foreach (string part in (ReadOnlySpan<string>)["SendLimitBytes = 1", "ReceiveLimitBytes = 0",
            "MulticastHops = 300", "EndPoint is missing", "127.0.0.1 is no multicast group"])
            Assert.Contains(part, message, StringComparison.Ordinal);
    });

    // ------------------------------------------------------------------ connected

    [Fact]
    public void A_connected_socket_receives_from_its_peer_only_and_needs_no_address_to_send() => Run(rig =>
    {
        using RawDatagrams peer = new(rig);
        using RawDatagrams stranger = new(rig);
        DatagramSocket socket = Open(rig, out RecordingHandler handler, options: new DatagramOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            RemoteEndPoint = peer.EndPoint
        });
        Assert.Equal(SendResult.Queued, socket.Send(Bytes("hello")));
        Assert.Equal("hello", Text(peer.Receive(out DatagramPeer from)));
        Assert.Equal(new DatagramPeer(socket.EndPoint!), from);
        if (!rig.IsUnix) stranger.Send(Bytes("me too"), socket.EndPoint!);
        peer.Send(Bytes("answer"), socket.EndPoint!);
        rig.Until(() => handler.Count == 1, "the answer");
        Assert.Equal(("answer", peer.Peer), (Text(handler.All[0].Data), handler.All[0].Peer));
        // Naming the peer has the same effect.
        Assert.Equal(SendResult.Queued, socket.Send(Bytes("named"), peer.Peer));
        Assert.Equal("named", Text(peer.Receive()));
        Close(rig, socket, handler);
    });

    [Fact]
    public void Connected_and_unconnected_sockets_of_one_loop_keep_their_peers_and_limits_apart() => Run(
        rig =>
        {
            using RawDatagrams a = new(rig);
            using RawDatagrams b = new(rig);
            using RawDatagrams own = new(rig);
            DatagramSocket free = Open(rig, out RecordingHandler freeHandler);
            DatagramOptions options = new()
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                RemoteEndPoint = own.EndPoint,
                ReceiveLimitBytes = 64,
                Coalescing = false
            };
            DatagramSocket connected = Open(rig, out RecordingHandler connectedHandler, options: options);
            const int rounds = 6;
            const int many = 4;
            for (int round = 0; round < rounds; round++)
            {
                // On the Linux engines both send and receive with the same memory of their loop, one after the other.
                byte[][] texts = [.. Enumerable.Range(0, 3).Select(i => Bytes($"{round}.{i}"))];
                rig.OnLoop(freeHandler.Loop, () =>
                {
                    foreach (byte[] text in texts)
                    {
                        freeHandler.Send(text, a.Peer);
                        connectedHandler.Send(text);
                        freeHandler.Send(text, b.Peer);
                    }
                });
                foreach (RawDatagrams peer in (RawDatagrams[])[a, b, own])
                {
                    DatagramPeer sender = new((ReferenceEquals(peer, own) ? connected : free).EndPoint!);
                    foreach (byte[] text in texts)
                    {
                        Assert.Equal(text, peer.Receive(out DatagramPeer from));
                        Assert.Equal(sender, from);
                    }

                    Assert.Null(peer.TryReceive(out _));
                }

                // In one batch: a few long datagrams after a short one, for which the reserved space is too small.
                int expected = round + 1;
                rig.OnLoop(freeHandler.Loop, () =>
                {
                    own.Send(Pattern(64, round), connected.EndPoint!);
                    for (int i = 0; i < many; i++) a.Send(Pattern(5_000, (round * many) + i), free.EndPoint!);
                });
                rig.Until(() => freeHandler.Count == expected * many && connectedHandler.Count == expected,
                    "all to arrive");
            }

            Assert.Equal(Enumerable.Range(0, rounds * many).Select(static i => Pattern(5_000, i)),
                freeHandler.Datagrams);
            Assert.Equal(Enumerable.Range(0, rounds).Select(static i => Pattern(64, i)), connectedHandler.Datagrams);
            Assert.All(freeHandler.All, d => Assert.Equal(a.Peer, d.Peer));
            Assert.All(connectedHandler.All, d => Assert.Equal(own.Peer, d.Peer));
            Close(rig, free, freeHandler);
            Close(rig, connected, connectedHandler);
        },
        loops: 1);

    // ------------------------------------------------------------------ pull style

    [Fact]
    public void Pulled_datagrams_reach_waiting_and_later_receivers_in_order() => Run(rig =>
    {
        DatagramSocket socket = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() });
        rig.Await(socket.StartAsync());
        using RawDatagrams peer = new(rig);
        byte[] first = new byte[100];
        byte[] second = new byte[2];
        ValueTask<ReceivedDatagram> one = socket.ReceiveAsync(first);
        ValueTask<ReceivedDatagram> two = socket.ReceiveAsync(second);
        foreach (string text in (ReadOnlySpan<string>)["alpha", "beta", "gamma"])
            peer.Send(Bytes(text), socket.EndPoint!);
        Assert.Equal(new ReceivedDatagram(5, 5, peer.Peer), rig.Await(one));
        Assert.Equal("alpha", Text(first.AsSpan(0, 5)));
        ReceivedDatagram cut = rig.Await(two);
        Assert.Equal((2, 4, true), (cut.Count, cut.Length, cut.IsTruncated));
        Assert.Equal("be", Text(second));
        rig.Until(() => socket.ReadCounters().DatagramsReceived == 3, "the third");
        Assert.True(socket.TryReceive(first, TimeSpan.Zero, out ReceivedDatagram three));
        Assert.Equal("gamma", Text(first.AsSpan(0, three.Count)));
        Assert.False(socket.TryReceive(first, TimeSpan.Zero, out _));
        Assert.False(socket.TryReceive(first, TimeSpan.FromMilliseconds(20), out _));
        rig.Await(socket.DisposeAsync());
    });

    [Fact]
    public void Joined_datagrams_are_pulled_one_by_one_including_the_shorter_last_one() => Run(rig =>
    {
        DatagramSocket receiver = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() });
        rig.Await(receiver.StartAsync());
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        byte[] run = Pattern((9 * 700) + 5);
        byte[] buffer = new byte[1_000];
        // The first one completes the pending receive, the others are queued.
        ValueTask<ReceivedDatagram> first = receiver.ReceiveAsync(buffer);
        rig.OnLoop(handler.Loop,
            () => Assert.Equal(SendResult.Queued, handler.SendRun(run, 700, new DatagramPeer(receiver.EndPoint!))));
        byte[][] parts = [.. run.Chunk(700)];
        for (int i = 0; i < parts.Length; i++)
        {
            ReceivedDatagram one = rig.Await(i == 0 ? first : receiver.ReceiveAsync(buffer));
            Assert.Equal(new ReceivedDatagram(parts[i].Length, parts[i].Length, new DatagramPeer(socket.EndPoint!)),
                one);
            Assert.Equal(parts[i], buffer[..one.Count]);
        }

        DatagramCounters counters = receiver.ReadCounters();
        Assert.Equal((parts.Length, run.Length, 0),
            (counters.DatagramsReceived, counters.BytesReceived, counters.Truncated));
        if (!rig.IsUnix && !rig.IsVirtual && rig.Engine.Kind != EngineKind.Portable)
            Assert.Equal(1, counters.ReceiveCalls);
        Close(rig, socket, handler);
        rig.Await(receiver.DisposeAsync());
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_pulled_datagram_longer_than_the_limit_reports_its_true_length_to_waiting_and_later_receivers(
        bool waits) => Run(rig =>
        {
            DatagramSocket socket =
                new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), ReceiveLimitBytes = 100 });
            rig.Await(socket.StartAsync());
            using RawDatagrams peer = new(rig);
            byte[] buffer = new byte[1_000];
            ValueTask<ReceivedDatagram> early = waits ? socket.ReceiveAsync(buffer) : default;
            peer.Send(Pattern(300), socket.EndPoint!);
            rig.Until(() => socket.ReadCounters().Truncated == 1, "the datagram");
            Assert.Equal(new ReceivedDatagram(100, 300, peer.Peer),
                rig.Await(waits ? early : socket.ReceiveAsync(buffer)));
            Assert.Equal(Pattern(300)[..100], buffer[..100]);
            rig.Await(socket.DisposeAsync());
        });

    [Fact]
    public void A_pull_can_be_cancelled_without_losing_a_datagram_and_ends_with_the_socket() => Run(rig =>
    {
        DatagramSocket socket = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() });
        rig.Await(socket.StartAsync());
        using RawDatagrams peer = new(rig);
        using CancellationTokenSource cancel = new();
        byte[] buffer = new byte[100];
        ValueTask<ReceivedDatagram> given = socket.ReceiveAsync(buffer, cancel.Token);
        cancel.Cancel();
        Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(given));
        peer.Send(Bytes("kept"), socket.EndPoint!);
        Assert.Equal(4, rig.Await(socket.ReceiveAsync(buffer)).Count);
        ValueTask<ReceivedDatagram> last = socket.ReceiveAsync(buffer);
        rig.Await(socket.StopAsync());
        Assert.Equal(ErrorCategory.Cancelled, Assert.Throws<NetworkException>(() => rig.Await(last)).Error.Category);
        rig.Await(socket.DisposeAsync());
    });

    [Fact]
    public void Memory_that_throws_costs_its_receive_call_and_not_the_datagram() => Run(rig =>
    {
        DatagramSocket socket = new(new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() });
        rig.Await(socket.StartAsync());
        using RawDatagrams peer = new(rig);
        BadMemory bad = new(100);
        byte[] buffer = new byte[100];
        ValueTask<ReceivedDatagram> first = socket.ReceiveAsync(bad.Memory);
        bad.Place = BadPlace.Span;
        ValueTask<ReceivedDatagram> second = socket.ReceiveAsync(buffer);
        peer.Send(Bytes("kept"), socket.EndPoint!);
        Assert.Equal(new ReceivedDatagram(4, 4, peer.Peer), rig.Await(second));
        Assert.Equal("kept", Text(buffer.AsSpan(0, 4)));
        Assert.Throws<InvalidDataException>(() => rig.Await(first));
        rig.Await(socket.DisposeAsync());
    });

    [Fact]
    public void A_blocking_exchange_works_with_timeouts() => Run(rig =>
    {
        DatagramSocket server = Open(rig, out RecordingHandler handler, static h => h.Echoes = true);
        DatagramSocket client = new(
            new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), RemoteEndPoint = server.EndPoint });
        rig.Await(client.StartAsync());
        byte[] buffer = new byte[100];
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal(SendResult.Queued, client.Send(BitConverter.GetBytes(i), default, TimeSpan.FromSeconds(5)));
            Assert.True(client.TryReceive(buffer, TimeSpan.FromSeconds(20), out ReceivedDatagram answer));
            Assert.Equal((4, i), (answer.Count, NumberIn(buffer)));
        }

        rig.OnLoop(handler.Loop,
            () => Assert.Throws<InvalidOperationException>(() => client.TryReceive(buffer, TimeSpan.Zero, out _)));
        rig.Await(client.DisposeAsync());
        Close(rig, server, handler);
    });

    [Fact]
    public void A_full_inbox_stops_reading_and_continues_when_there_is_space() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "The raw peer of this transport would block.");
        DatagramSocket socket = new(new DatagramOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            UnreadLimitBytes = 64 * 1024,
            ReceiveBufferBytes = 4 << 20
        });
        rig.Await(socket.StartAsync());
        using RawDatagrams peer = new(rig);
        // One datagram of 50,000 and one of 20,000 bytes exceed the limit; ten small ones wait in the socket buffer.
        int[] sizes = [50_000, 20_000, .. Enumerable.Repeat(100, 10)];
        for (int i = 0; i < sizes.Length; i++) peer.Send(Pattern(sizes[i], i), socket.EndPoint!);
        byte[] buffer = new byte[65_536];
        rig.Settle();
        for (int i = 0; i < sizes.Length; i++)
        {
            ReceivedDatagram datagram = rig.Await(socket.ReceiveAsync(buffer));
            Assert.Equal(Pattern(sizes[i], i), buffer[..datagram.Count]);
        }

        rig.Await(socket.DisposeAsync());
    });

    // ------------------------------------------------------------------ addresses

    [Fact]
    public void A_dual_stack_socket_sees_and_answers_both_families() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Unix sockets have one address family.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler, static h => h.Echoes = true,
            new DatagramOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.IPv6Any, 0) });
        int port = ((IPEndPoint)socket.EndPoint!).Port;
        using RawDatagrams v4 = new(rig, new IPEndPoint(IPAddress.Loopback, 0));
        using RawDatagrams v6 = new(rig, new IPEndPoint(IPAddress.IPv6Loopback, 0));
        v4.Send(Bytes("four"), new IPEndPoint(IPAddress.Loopback, port));
        v6.Send(Bytes("six"), new IPEndPoint(IPAddress.IPv6Loopback, port));
        Assert.Equal("four", Text(v4.Receive()));
        Assert.Equal("six", Text(v6.Receive()));
        rig.Until(() => handler.Count == 2, "both");
        Assert.Contains(handler.All, d => d.Peer == v4.Peer && d.Peer.Family == AddressFamily.InterNetwork);
        Assert.Contains(handler.All, d => d.Peer == v6.Peer && d.Peer.Family == AddressFamily.InterNetworkV6);
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_datagram_broadcast_needs_its_option() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Only IP has broadcast.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        Assert.Equal(SendResult.Queued, socket.Send(Bytes("all"), new DatagramPeer(IPAddress.Broadcast, 9)));
        rig.Until(() => handler.Failed.Count == 1, "the refusal");
        Assert.Equal(13, handler.Failed[0].Error.Code);
        Assert.Contains("Broadcast", handler.Failed[0].Error.Message, StringComparison.Ordinal);
        Close(rig, socket, handler);
    });

    // ------------------------------------------------------------------ several loops

    [Theory]
    [InlineData(DatagramSteering.ByPeer)]
    [InlineData(DatagramSteering.Evenly)]
    [InlineData(DatagramSteering.ByCpu)]
    public void Several_loops_share_a_port_and_lose_nothing(DatagramSteering steering) => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Two sockets cannot share a Unix socket path.");
        List<RecordingHandler> handlers = [];
        DatagramSocket socket = new(
            new DatagramOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Loops = 2, Steering = steering },
            () =>
            {
                RecordingHandler handler = new() { Echoes = true };
                lock (handlers) handlers.Add(handler);
                return handler;
            });
        rig.Await(socket.StartAsync());
        Assert.Equal(2, handlers.Count);
        Assert.NotSame(handlers[0].Loop, handlers[1].Loop);
        RawDatagrams[] peers = [.. Enumerable.Range(0, 16).Select(_ => new RawDatagrams(rig))];
        for (int round = 0; round < 10; round++)
        {
            foreach (RawDatagrams peer in peers) peer.Send(BitConverter.GetBytes(round), socket.EndPoint!);
            foreach (RawDatagrams peer in peers) Assert.Equal(round, NumberIn(peer.Receive()));
        }

        rig.Until(() => handlers.Sum(static h => h.Count) == 160, "all to be received");
        if (steering == DatagramSteering.ByPeer)
        {
            foreach (RawDatagrams peer in peers)
                Assert.Equal(1, handlers.Count(h => h.All.Any(d => d.Peer == peer.Peer)));
        }

        if (steering != DatagramSteering.ByCpu) Assert.All(handlers, static h => Assert.NotEqual(0, h.Count));
        rig.Await(socket.DisposeAsync());
        Assert.All(handlers, static h => Assert.Empty(h.Wrong));
        Assert.All(handlers, static h => Assert.Equal("stopped", h.Events[^1]));
        foreach (RawDatagrams peer in peers) peer.Dispose();
    });

    [Fact]
    public void A_port_in_use_is_an_error_also_when_it_is_shared() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Two sockets cannot share a Unix socket path.");
        using RawDatagrams holder = new(rig);
        DatagramSocket socket = new(new DatagramOptions { Engine = rig.Engine, EndPoint = holder.EndPoint, Loops = 2 },
            static () => new RecordingHandler());
        Assert.Equal(ErrorCategory.Bind,
            Assert.Throws<NetworkException>(() => rig.Await(socket.StartAsync())).Error.Category);
    });
}
