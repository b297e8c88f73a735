namespace Whimbrel.Conformance;

/// <summary>A session's send queue: its limit, messages above it, the mark of OnDrained (contract 8).</summary>
public abstract class SendLimitSuite(Transport transport) : TrafficSuite(transport)
{
    [Fact, Contract(8)]
    public void A_new_limit_is_for_the_next_send() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, SlowConsumer.DropNewest);
        byte[] before = Clog(rig, session);
        byte[] first = [];
        byte[] second = Pattern(100_000, 3);
        rig.OnLoop(session, () =>
        {
            Assert.Equal(Limit, session.Limit);
            first = Pattern((int)(Limit - session.BytesPending), 2);
            Assert.Equal(SendResult.Queued, session.Send(first));
            Assert.Equal(SendResult.Full, session.Send("x"u8));
            session.Limit = Limit + second.Length;
            Assert.Equal(SendResult.Queued, session.Send(second));
            Assert.Equal(SendResult.Full, session.Send("x"u8));
            // Below the pending bytes, which stay.
            session.Limit = 4096;
            Assert.Equal(SendResult.Full, session.Send("x"u8));
            Assert.Throws<ArgumentOutOfRangeException>(() => session.Limit = 4095);
            Assert.Throws<ArgumentOutOfRangeException>(() => session.Limit = (1 << 30) + 1);
        });
        Assert.Equal(4096, session.Limit);
        Assert.Throws<InvalidOperationException>(() => session.Limit = 5000);
        Assert.Equal([.. before, .. first, .. second], peer.Read(before.Length + first.Length + second.Length));
        rig.Until(() => session.BytesPending == 0, "the queue to be empty");
        rig.OnLoop(session, () =>
        {
            Assert.Equal(SendResult.Queued, session.Send("open"u8));
            session.Limit = 8192;
            Assert.Equal(SendResult.Queued, session.Send(second.AsSpan(0, 8188)));
            Assert.Throws<ArgumentException>(() => session.Send(second.AsSpan(0, 8193)));
        });
        Assert.Equal([.. "open"u8, .. second[..8188]], peer.Read(8192));
    });

    [Fact, Contract(8)]
    public void A_lower_limit_is_for_small_sends_too() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, SlowConsumer.DropNewest);
        byte[] before = Clog(rig, session);
        byte[] small = Pattern(100);
        long pending = 0;
        rig.OnLoop(session, () =>
        {
            // The next send fits.
            Assert.Equal(SendResult.Queued, session.Send(small));
            pending = session.BytesPending;
            session.Limit = 4096;
            Assert.Equal(pending + 100 <= 4096 ? SendResult.Queued : SendResult.Full, session.Send(small));
            while (session.Send(small) == SendResult.Queued)
            {
            }

            Assert.InRange(session.BytesPending, 0, Math.Max(4096, pending));
        });
        Assert.Equal([.. before, .. small], peer.Read(before.Length + 100));
    });

    [Fact, Contract(6, 8)]
    public void A_higher_limit_lets_waiters_for_space_continue() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] before = [.. Clog(rig, session), .. FillTo(rig, session, 10)];
        ValueTask<SendResult> sending = session.SendAsync(Pattern(1000));
        rig.Settle();
        Assert.False(sending.IsCompleted);
        rig.OnLoop(session, () => session.Limit = 2 * Limit);
        Assert.Equal(SendResult.Queued, rig.Await(sending));
        Assert.Equal([.. before, .. Pattern(1000)], peer.Read(before.Length + 1000));
    });

    [Theory, Contract(5, 8)]
    [InlineData(true, true)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(false, false)]
    public void A_message_above_the_limit_is_taken_when_nothing_is_pending_and_that_was_said(bool bySession,
        bool onLoop) => Run(rig =>
        {
            ServerOptions options = new()
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = Limit, AllowLargeMessages = !bySession }
            };
            RecordingServer server = rig.Serve(s => s.AtConnected = x => x.TakesLarge |= bySession, options);
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            rig.Until(() => session.TakesLarge, "OnConnected to have said it");
            byte[] large = Pattern(Limit * 40);
            for (int i = 0; i < 2; i++)
            {
                SendResult result = default;
                rig.Until(() => session.BytesPending == 0, "the queue to be empty");
                if (onLoop) rig.OnLoop(session, () => result = session.Send(large));
                else result = session.Send(large);
                Assert.Equal(SendResult.Queued, result);
                Assert.Equal(large, peer.Read(large.Length));
            }

            // After another message it exceeds the limit, if the peer does not read.
            SendResult last = SendResult.Queued;
            for (int i = 0; i < 100 && last == SendResult.Queued; i++)
                rig.OnLoop(session, () => last = session.Send(large));
            Assert.Equal(SendResult.Closed, last);
            Assert.Equal(CloseCause.SlowConsumer, session.End());
        });

    [Fact, Contract(8)]
    public void A_message_above_the_limit_is_too_large_by_default() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, SlowConsumer.DropNewest);
        rig.OnLoop(session, () => Assert.Throws<ArgumentException>(() => session.Send(new byte[Limit + 1].AsSpan())));
        Assert.Throws<ArgumentException>(() => session.Send(new byte[Limit + 1].AsSpan()));
        Assert.Equal(SendResult.Queued, session.Send("x"u8));
        Assert.Equal("x", peer.ReadText(1));
    });

    [Fact]
    public void OnDrained_comes_when_what_is_pending_falls_to_the_mark() => Run(rig =>
    {
        const int Mark = 20_000;
        MarkSession? made = null;
        Server server = rig.Keep(new Server(rig.Scheduled(Narrow(rig)), () => made = new MarkSession(Mark)));
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => made is { IsConnected: true }, "the session to be connected");
        MarkSession session = made!;
        int left = Clog(rig, session).Length + FillTo(rig, session, 0).Length;
        rig.Settle();
        int drains = session.Drains;
        // Reads until it falls to the low-water mark: reported with data still pending, or at its last step.
        byte[] buffer = new byte[2000];
        rig.Until(
            () =>
            {
                while (session.Drains == drains && left > 0)
                {
                    int got = peer.TryRead(buffer.AsSpan(0, Math.Min(left, buffer.Length)));
                    if (got <= 0) return false;
                    left -= got;
                }

                return session.Drains > drains || left == 0;
            },
            "the mark to be reached");
        rig.Until(() => session.Drains == drains + 1, "one call");
        Assert.InRange(session.PendingAtDrain, 0, Mark);
        // Further sent data below the mark is not reported again.
        if (left > 0) peer.Read(left);
        rig.Settle();
        rig.OnLoop(session, () => session.Send("x"u8));
        Assert.Equal("x", peer.ReadText(1));
        rig.Until(() => session.BytesPending == 0, "the queue to be empty");
        rig.Settle();
        Assert.Equal(drains + 1, session.Drains);
        Assert.Throws<ArgumentOutOfRangeException>(() => session.SetMark(-1));
    });

    private sealed class MarkSession(int mark) : Session
    {
        internal int Drains { get; private set; }

        internal long PendingAtDrain { get; private set; }

        internal void SetMark(int bytes) => LowWaterMarkBytes = bytes;

        protected override void OnConnected() => LowWaterMarkBytes = mark;

        protected override void OnDrained()
        {
            PendingAtDrain = BytesPending;
            Drains++;
        }
    }
}
