namespace Whimbrel.Conformance;

/// <summary>Contract 9: after its own callbacks fill its queue, a session is not read until the queue has
/// drained.</summary>
public abstract class BackPressureSuite(Transport transport) : TrafficSuite(transport)
{
    private const int Mark = 256 * 1024;

    [Fact, Contract(9)]
    public void A_peer_that_writes_until_it_can_write_no_more_before_it_reads_loses_nothing() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (self, data) => self.Send(data));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] piece = Pattern(1_000_003);
        int total = peer.WriteUntilFull(piece);
        Assert.True(total > Mark, $"only {total} bytes were taken");
        for (int at = 0; at < total; at += piece.Length)
        {
            int count = Math.Min(piece.Length, total - at);
            Assert.True(peer.Read(count).AsSpan().SequenceEqual(piece.AsSpan(0, count)),
                $"a difference after byte {at}");
        }

        Assert.True(server.Session().IsConnected);
    });

    [Theory, Contract(9)]
    [InlineData(1, 20_000)]
    [InlineData(7, 200_000)]
    [InlineData(1021, 3_000_000)]
    [InlineData(4 * 1024 * 1024, 16_000_000)]
    public void An_echo_comes_back_whole_whatever_the_peer_reads_at_a_time(int readBytes, int total) => Run(rig =>
    {
        if (rig.IsVirtual) total = Math.Min(total, 1_000_000);
        Server echo = rig.Keep(new Server(rig.Scheduled(
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }), static () => new EchoSession()));
        rig.Await(echo.StartAsync());
        Peer peer = rig.ConnectPeer(echo.EndPoint!);
        byte[] data = Pattern(total);
        byte[] buffer = new byte[readBytes];
        int written = 0;
        int read = 0;
        rig.Until(
            () =>
            {
                // It writes as much as it can, and reads only a little: both directions fill up.
                int taken;
                while (written < total && (taken = peer.TryWrite(data.AsSpan(written))) > 0) written += taken;
                while (true)
                {
                    int got = peer.TryRead(buffer);
                    if (got <= 0) break;
                    Assert.True(data.AsSpan(read, got).SequenceEqual(buffer.AsSpan(0, got)),
                        $"a difference after byte {read}");
                    read += got;
                }

                return read == total;
            },
            $"{total} bytes to come back");
    });

    [Fact, Contract(9)]
    public void Two_default_peers_that_push_at_each_other_finish() => Run(rig =>
    {
        long total = rig.IsVirtual ? 2 * 1024 * 1024 : 64 * 1024 * 1024;
        List<PushSession> sessions = [];
        Server server =
            rig.Keep(new Server(rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }),
                () => Add(new PushSession(total, 1, 2))));
        rig.Await(server.StartAsync());
        Client client = new(rig.Scheduled(new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint }),
            () => Add(new PushSession(total, 2, 1)));
        rig.Await(client.ConnectAsync());
        rig.Until(() => sessions.Count == 2 && sessions.All(static s => s.IsDone), "both to have all");
        Assert.All(sessions, static s => Assert.Null(s.Wrong));
        rig.Await(client.DisposeAsync());

        PushSession Add(PushSession session)
        {
            lock (sessions) sessions.Add(session);
            return session;
        }
    });

    [Fact, Contract(9)]
    public void Two_sessions_that_answer_every_byte_with_more_in_their_callbacks_finish() => Run(rig =>
    {
        // Both fill their queues in OnReceived; only the accepted session stops reading, so that there is no deadlock.
        const int Rounds = 40;
        const int Large = 128 * 1024;
        RecordingServer server = rig.Serve(static s => s.AtReceived = Answer);
        RecordingSession client = rig.Connect(server.EndPoint!, static s => s.AtReceived = Answer);
        rig.OnLoop(client, () => client.Send(new byte[Large]));
        client.UntilReceived(Rounds * Large / 4);
        client.Abort();
        client.End();

        static void Answer(RecordingSession self, ReadOnlySpan<byte> data) => self.Send(data);
    });

    [Theory, Contract(9)]
    [InlineData(true, null)]
    [InlineData(true, true)]
    [InlineData(false, true)]
    public void Bytes_sent_in_OnReceived_stop_reading_above_the_mark_and_it_continues_below_a_quarter(bool accepted,
        bool? option) => Run(rig =>
        {
            int calls = 0;
            List<long> pending = [];
            (RecordingSession session, Peer peer) = OneSession(rig, accepted, option, (self, _) =>
            {
                pending.Add(self.BytesPending);
                if (pending.Count == 1) self.Send(new byte[2 * 1024 * 1024]);
                Volatile.Write(ref calls, pending.Count);
            });
            peer.Write("1");
            session.UntilReceived(1);
            rig.Settle();
            peer.Write("2");
            rig.Settle();
            Assert.Equal(1, session.ReceivedCount);
            peer.Read((2 * 1024 * 1024) - 1);
            // Its bytes are counted before its callback runs.
            rig.Until(() => Volatile.Read(ref calls) == 2, "the callback for the second byte");
            Assert.True(pending[1] < Mark / 4, $"read again with {pending[1]} bytes pending");
        });

    [Theory, Contract(9)]
    [InlineData(true, false)]
    [InlineData(false, null)]
    [InlineData(false, false)]
    public void Without_back_pressure_reading_continues(bool accepted, bool? option) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = OneSession(rig, accepted, option, static (self, _) =>
        {
            if (self.ReceivedCount == 1) self.Send(new byte[2 * 1024 * 1024]);
        });
        peer.Write("1");
        session.UntilReceived(1);
        rig.Settle();
        peer.Write("2");
        session.UntilReceived(2);
        Assert.True(session.BytesPending > Mark);
    });

    [Fact, Contract(9)]
    public void A_queue_at_the_mark_does_not_stop_reading() => Run(rig =>
    {
        long pending = 0;
        (RecordingSession session, Peer peer) = OneSession(rig, accepted: true, option: null, (self, _) =>
        {
            if (self.ReceivedCount == 1) self.Send(new byte[Mark - self.BytesPending]);
            Volatile.Write(ref pending, self.BytesPending);
        });
        Clog(rig, session);
        peer.Write("1");
        // The counter of received bytes increases before the callback has ended.
        rig.Until(() => Volatile.Read(ref pending) > 0, "the queue to be filled");
        Assert.Equal(Mark, Volatile.Read(ref pending));
        peer.Write("2");
        session.UntilReceived(2);
    });

    [Theory, Contract(9)]
    [InlineData("timer")]
    [InlineData("thread")]
    [InlineData("SendAsync")]
    [InlineData("broadcast")]
    [InlineData("post")]
    public void Bytes_pushed_from_elsewhere_never_stop_reading(string from) => Run(rig =>
    {
        const int Large = 4 * 1024 * 1024;
        byte[] data = new byte[700 * 1024];
        RecordingServer server = rig.Serve(
            s => s.AtTimer = (self, _) => self.Send(data),
            Narrow(rig, limit: Large));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        switch (from)
        {
            case "timer":
                rig.OnLoop(session, () => session.CallStartTimer(TimeSpan.Zero));
                break;
            case "thread":
                At(rig, session, onLoop: false, () => session.Send(data));
                break;
            case "SendAsync":
                At(rig, session, onLoop: false, () => _ = session.SendAsync(data));
                break;
            case "broadcast":
                rig.OnLoop(session, () => server.Broadcast(data));
                break;
            default:
                rig.OnLoop(session, () => session.Send(data));
                break;
        }

        rig.Until(() => session.BytesPending > Mark, "the queue to be above the mark");
        rig.Settle();
        peer.Write("still heard");
        session.UntilReceived(11);
        Assert.True(session.BytesPending > Mark);
    });

    private static (RecordingSession Session, Peer Peer) OneSession(Rig rig, bool accepted, bool? option,
        ReceivedHook hook)
    {
        const int Large = 4 * 1024 * 1024;
        if (accepted)
        {
            RecordingServer server = rig.Serve(s => s.AtReceived = hook,
                Narrow(rig, backPressure: option, limit: Large));
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            return (server.Connected(), peer);
        }

        PeerListener listener = rig.Listen();
        RecordingClient client = rig.MakeClient(
            new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = listener.EndPoint,
                Limits = new() { SendBytes = Large, SlowConsumer = SlowConsumer.Wait, BackPressure = option },
                Socket = new() { SendBufferBytes = 8192 }
            },
            s => s.AtReceived = hook);
        RecordingSession session = rig.Connect(client);
        return (session, listener.Accept());
    }

    private sealed class EchoSession : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    /// <summary>Sends a generated stream as fast as it is accepted, and checks the received one.</summary>
    // Sends a repeated block and expects another one, with a length that matches no buffer.
    private sealed class PushSession(long total, int sendKey, int receiveKey) : Session
    {
        private const int Period = 999_983;
        private static readonly byte[][] s_blocks = [[], Pattern(Period, 1), Pattern(Period, 2)];

        private readonly byte[] _expected = s_blocks[receiveKey];
        private long _received;
        private bool _sentAll;

        internal string? Wrong { get; private set; }

        internal bool IsDone =>
            Wrong is not null || (Volatile.Read(ref _received) == total && Volatile.Read(ref _sentAll));

        protected override void OnConnected() => _ = Push();

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            long received = _received;
            while (!data.IsEmpty)
            {
                int at = (int)(received % Period);
                int count = Math.Min(data.Length, Period - at);
                if (!data[..count].SequenceEqual(_expected.AsSpan(at, count)))
                    Wrong ??= $"a wrong byte after {received}";
                data = data[count..];
                received += count;
            }

            Volatile.Write(ref _received, received);
        }

        private async Task Push()
        {
            byte[] block = s_blocks[sendKey];
            for (long sent = 0; sent < total;)
            {
                int at = (int)(sent % Period);
                int count = (int)Math.Min(Math.Min(100_000, Period - at), total - sent);
                if (await SendAsync(block.AsMemory(at, count)).ConfigureAwait(false) != SendResult.Queued)
                    Wrong ??= "a send was refused";
                sent += count;
            }

            Volatile.Write(ref _sentAll, true);
        }
    }
}
