using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>Callbacks for a session's own sends, refusing them, and awaiting its end.</summary>
public abstract class SentSuite(Transport transport) : TrafficSuite(transport)
{
    // ------------------------------------------------------------------ OnSent and OnDrained

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void OnSent_counts_every_byte_once_and_OnDrained_comes_when_nothing_is_pending(bool onLoop) => Run(rig =>
    {
        (SentSession session, Peer peer) = Connect(rig);
        byte[] data = Pattern(500_000);
        for (int at = 0; at < data.Length;)
        {
            int count = Math.Min(1 + (at * 7 % 40_000), data.Length - at);
            SendResult result = SendResult.Full;
            ReadOnlyMemory<byte> piece = data.AsMemory(at, count);
            At(rig, session, onLoop, () => result = session.Send(piece.Span));
            if (result == SendResult.Queued) at += count;
            else Drain(rig, peer, session);
        }

        session.Received.AddRange(peer.Read(data.Length - session.Received.Count));
        Assert.Equal(data, session.Received.ToArray());
        rig.Until(() => session.TotalSent == data.Length && session.LastWasDrained, "all to be told");
        Assert.Equal(0, session.BytesPending);
        Assert.True(session.Drains >= 1);
        Assert.Empty(session.Wrong);
    });

    [Fact]
    public void OnDrained_comes_once_for_each_time_the_queue_runs_empty() => Run(rig =>
    {
        (SentSession session, Peer peer) = Connect(rig);
        for (int i = 1; i <= 5; i++)
        {
            rig.OnLoop(session, () =>
            {
                session.Send("one"u8);
                session.Send("two"u8);
            });
            peer.Read(6);
            rig.Until(() => session.Drains == i, $"drain {i}");
            rig.Settle();
            Assert.Equal(i, session.Drains);
            Assert.Equal(6 * i, session.TotalSent);
        }
    });

    [Fact]
    public void OnSent_reports_pending_bytes_and_no_drain_is_reported_before_its_end() => Run(rig =>
    {
        (SentSession session, Peer peer) = Connect(rig);
        byte[] first = Clog(rig, session);
        int drains = session.Drains;
        long sent = session.TotalSent;
        Assert.True(session.BytesPending > 0);
        Assert.Equal(first.Length, sent + session.BytesPending);
        peer.Read(first.Length);
        rig.Until(() => session.LastWasDrained && session.TotalSent == first.Length, "the rest to be told");
        rig.Settle();
        Assert.Equal(drains + 1, session.Drains);
        Assert.Empty(session.Wrong);
    });

    [Fact]
    public void A_session_may_send_as_fast_as_it_is_drained() => Run(rig =>
    {
        const int Messages = 200;
        int left = Messages;
        (SentSession session, Peer peer) = Connect(rig, s => s.AtDrained = () =>
        {
            if (left-- > 0) s.Send(Filled((char)('a' + (left % 26)), 1_000));
        });
        session.Send("x"u8);
        byte[] all = peer.Read(1 + (Messages * 1_000));
        for (int i = 0; i < Messages; i++) Assert.Equal((byte)('a' + ((Messages - 1 - i) % 26)), all[1 + (i * 1_000)]);
        rig.Until(() => left < 0, "the last drain");
        Assert.Empty(session.Wrong);
    });

    [Fact, Contract(4)]
    public void An_exception_of_OnSent_or_OnDrained_ends_that_connection_only() => Run(rig =>
    {
        (SentSession session, Peer peer) = Connect(rig,
            static s => s.AtDrained = static () => throw new InvalidOperationException("on purpose"));
        session.Send("x"u8);
        peer.EndsInReset();
        rig.Until(() => session.Reason.Cause == CloseCause.UserException, "the session to end");
        Assert.Equal("on purpose", session.Error?.Message);
    });

    [Fact, Contract(12)]
    public void After_Close_neither_OnSent_nor_OnDrained_is_called_and_the_count_is_right_at_the_end() => Run(rig =>
    {
        (SentSession session, Peer peer) = Connect(rig);
        rig.OnLoop(session, () =>
        {
            session.Send("bye"u8);
            session.Close();
        });
        Assert.Equal("bye", peer.ReadTextToEnd());
        peer.Close();
        rig.Until(() => session.Reason.Cause == CloseCause.LocalClose, "the session to end");
        Assert.Equal(0, session.TotalSent);
        Assert.Equal(0, session.Drains);
        Assert.Equal(3, session.BytesSent);
    });

    [Fact, Contract(15)]
    public void The_next_session_of_a_connection_gets_reports_of_later_sends() => Run(rig =>
    {
        SentSession next = new();
        RecordingServer server = rig.Serve(session => session.AtReceived = (self, _) =>
        {
            self.Send("from the first"u8);
            self.CallHandOver(next);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("go");
        Assert.Equal("from the first", peer.ReadText(14));
        next.Send("from the next"u8);
        Assert.Equal("from the next", peer.ReadText(13));
        rig.Until(() => next.LastWasDrained && next.TotalSent >= 13, "it to be told");
        Assert.Empty(next.Wrong);
        next.Abort();
        rig.Until(() => next.Reason.Cause != CloseCause.None, "it to end");
    });

    // ------------------------------------------------------------------ OnSending

    [Theory, Contract(5)]
    [InlineData(true)]
    [InlineData(false)]
    public void OnSending_is_called_before_each_kind_of_send_and_false_refuses_it(bool onLoop) => Run(rig =>
    {
        (AskedSession session, Peer peer) = ConnectAsked(rig);
        Memory owned = new("refused");
        List<SendResult> results = [];
        At(rig, session, onLoop, () =>
        {
            session.Answer = true;
            results.Add(session.Send("yes "u8));
            session.Answer = false;
            results.Add(session.Send("no"u8));
            results.Add(session.Send(Outgoing.Pieces("no"u8, "!"u8)));
            results.Add(session.Send("no"));
            results.Add(session.Send(Outgoing.Text("no")));
            results.Add(session.Send(Outgoing.Owned((IMemoryOwner<byte>)owned, 7)));
            ValueTask<SendResult> sending = session.SendAsync(Bytes("no"));
            results.Add(sending.IsCompleted ? sending.Result : SendResult.Queued);
            session.Answer = true;
            results.Add(session.Send("again"u8));
        });
        Assert.Equal([SendResult.Queued, .. Enumerable.Repeat(SendResult.Refused, 6), SendResult.Queued], results);
        Assert.Equal(0, owned.Disposals);
        Assert.Equal("yes again", peer.ReadText(9));
        Assert.Equal([4L, 2, 3, 2, 2, 7, 2, 5], session.Asked);
        Assert.Equal(onLoop, session.AskedOnLoop);
        session.Close();
        Assert.Empty(peer.ReadToEnd());
    });

    [Fact, Contract(5)]
    public void OnSending_is_called_for_reserved_space_and_again_after_it() => Run(rig =>
    {
        (AskedSession session, Peer peer) = ConnectAsked(rig);
        rig.OnLoop(session, () =>
        {
            session.Answer = true;
            Assert.Equal(10, session.Take(10).Length);
            Assert.Equal([10L], session.Asked);
            session.Answer = false;
            Assert.True(session.Take(10).IsEmpty);
            Assert.Equal(SendResult.Refused, session.Send("no"u8));
        });
        Assert.Equal("**********", peer.ReadText(10));
        session.Close();
        Assert.Empty(peer.ReadToEnd());
    });

    [Fact]
    public void An_exception_of_OnSending_goes_to_the_sender_and_ends_nothing() => Run(rig =>
    {
        (AskedSession session, Peer peer) = ConnectAsked(rig);
        session.Answer = null;
        rig.OnLoop(session, () => Assert.Throws<InvalidOperationException>(() => session.Send("x"u8)));
        rig.Elsewhere(() => Assert.Throws<InvalidOperationException>(() => session.Send("x"u8)));
        rig.Join();
        session.Answer = true;
        Assert.Equal(SendResult.Queued, session.Send("y"u8));
        Assert.Equal("y", peer.ReadText(1));
    });

    [Fact]
    public void OnSending_is_not_called_for_a_closed_session() => Run(rig =>
    {
        (AskedSession session, Peer peer) = ConnectAsked(rig);
        rig.OnLoop(session, () =>
        {
            session.Close();
            Assert.Equal(SendResult.Closed, session.Send("x"u8));
        });
        Assert.Empty(session.Asked);
        Assert.Empty(peer.ReadToEnd());
    });

    // ------------------------------------------------------------------ text

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Text_is_sent_from_strings_and_spans_at_once_and_awaited(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        string text = string.Concat(Enumerable.Repeat("Grüße 🐦 ", 2_000));
        byte[] bytes = System.Text.Encoding.UTF8.GetBytes(text);
        Task<bool> sending = Start(rig, session, onLoop, async () =>
        {
            bool all = session.Send(Outgoing.Text(text.AsSpan(0, 5))) == SendResult.Queued;
            for (int i = 0; i < 10; i++)
                all &= await session.SendAsync(text).ConfigureAwait(false) == SendResult.Queued;
            return all;
        });
        Assert.Equal("Grüße", System.Text.Encoding.UTF8.GetString(peer.Read(7)));
        for (int i = 0; i < 10; i++) Assert.Equal(bytes, peer.Read(bytes.Length));
        Assert.True(Await(rig, sending));
        Assert.Throws<ArgumentNullException>(() => _ = session.SendAsync((string)null!));
    });

    // ------------------------------------------------------------------ CloseAsync

    [Theory, Contract(12)]
    [InlineData(true)]
    [InlineData(false)]
    public void CloseAsync_closes_gracefully_and_completes_after_the_last_callback(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        session.Send("bye"u8);
        Task<CloseReason> closing = Start(rig, session, onLoop, async () =>
        {
            CloseReason reason = await session.CloseAsync().ConfigureAwait(false);
            Assert.True(session.IsOver);
            Assert.Equal(onLoop, session.Loop.IsCurrent);
            return reason;
        });
        Task<CloseReason> second = Start(rig, session, onLoop, () => session.CloseAsync());
        Assert.Equal("bye", peer.ReadTextToEnd());
        Assert.False(closing.IsCompleted);
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, Await(rig, closing).Cause);
        Assert.Equal(CloseCause.LocalClose, Await(rig, second).Cause);
        Assert.Equal(CloseCause.LocalClose, rig.Await(session.CloseAsync()).Cause);
    });

    [Theory, Contract(12)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_cancelled_CloseAsync_aborts(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        using CancellationTokenSource source = new();
        Clog(rig, session);
        Task<CloseReason> closing = Start(rig, session, onLoop, () => session.CloseAsync(source.Token));
        rig.Settle();
        Assert.False(closing.IsCompleted);
        At(rig, session, onLoop, source.Cancel);
        Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, closing));
        Assert.True(session.IsOver);
        Assert.Equal(rig.HasResets, peer.EndsInReset());
    });

    [Fact]
    public void CloseAsync_of_a_session_without_a_connection_completes_at_once() => Run(rig =>
    {
        Assert.Equal(CloseCause.None, new AskedSession().CloseAsync().Result.Cause);
        RecordingSession? connecting = null;
        RecordingClient client = rig.MakeClient(rig.DeadAddress(), s => connecting = s);
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        rig.Until(() => connecting!.IsOver, "the attempt to end");
        Assert.Equal(connecting!.Reason.Cause, rig.Await(connecting.CloseAsync()).Cause);
    });

    // ------------------------------------------------------------------ OnServerStopping

    [Fact]
    public void A_session_that_overrides_OnStopping_ends_in_its_own_way() => Run(rig =>
    {
        SentSession? made = null;
        Server server = rig.Keep(new Server(Narrow(rig), () => made = new SentSession { StaysAtStop = true }));
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => made is { IsConnected: true }, "the session");
        ValueTask<StopReport> stopping = server.StopAsync(TimeSpan.FromSeconds(15));
        Assert.Equal("wait", peer.ReadText(4));
        rig.Settle();
        Assert.False(stopping.IsCompleted);
        Assert.Equal(SendResult.Queued, made!.Send("done"u8));
        made.Close();
        Assert.Equal("done", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(new StopReport(1, 0), rig.Await(stopping));
        Assert.Equal(CloseCause.LocalClose, made.Reason.Cause);
    });

    // ------------------------------------------------------------------ what the tests stand on

    private static void Drain(Rig rig, Peer peer, SentSession session)
    {
        byte[] piece = new byte[16 * 1024];
        rig.Until(
            () =>
            {
                int count = peer.TryRead(piece);
                if (count > 0) session.Received.AddRange(piece.AsSpan(0, count));
                return session.BytesPending < Limit / 2;
            },
            "room in the queue");
    }

    private static (SentSession Session, Peer Peer) Connect(Rig rig, Action<SentSession>? setUp = null) =>
        Connect(rig, () =>
        {
            SentSession session = new();
            setUp?.Invoke(session);
            return session;
        });

    private static (AskedSession Session, Peer Peer) ConnectAsked(Rig rig) =>
        Connect(rig, static () => new AskedSession());

    private static (T Session, Peer Peer) Connect<T>(Rig rig, Func<T> factory)
        where T : Session
    {
        T? made = null;
        Server server = rig.Keep(new Server(Narrow(rig), () => made = factory()));
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => made is { IsConnected: true }, "the session to be connected");
        return (made!, peer);
    }

    private sealed class SentSession : Session
    {
        private bool _isInside;

        internal List<string> Wrong { get; } = [];

        internal List<byte> Received { get; } = [];

        internal long TotalSent { get; private set; }

        internal int Drains { get; private set; }

        internal bool LastWasDrained { get; private set; }

        internal Action? AtDrained { get; set; }

        internal bool StaysAtStop { get; init; }

        internal CloseReason Reason { get; private set; }

        internal Exception? Error { get; private set; }

        protected override void OnSent(long sent, long pending)
        {
            Enter();
            LastWasDrained = false;
            TotalSent += sent;
            if (sent <= 0) Wrong.Add($"OnSent({sent}, {pending})");
            if (TotalSent + pending < TotalSent || pending < 0) Wrong.Add($"pending {pending}");
            _isInside = false;
        }

        protected override void OnDrained()
        {
            Enter();
            if (LastWasDrained && AtDrained is null) Wrong.Add("drained twice");
            LastWasDrained = true;
            Drains++;
            AtDrained?.Invoke();
            _isInside = false;
        }

        protected override void OnServerStopping()
        {
            if (StaysAtStop) Send("wait"u8);
            else base.OnServerStopping();
        }

        protected override void OnDisconnected(CloseReason reason) => Reason = reason;

        protected override void OnError(Exception exception) => Error = exception;

        private void Enter()
        {
            if (_isInside) Wrong.Add("one callback inside another");
            if (!Loop.IsCurrent) Wrong.Add("on a foreign thread");
            _isInside = true;
        }
    }

    private sealed class AskedSession : Session
    {
        internal List<long> Asked { get; } = [];

        internal bool AskedOnLoop { get; private set; }

        /// <summary>Return value of OnSending; null throws.</summary>
        internal bool? Answer { get; set; } = false;

        internal ReadOnlySpan<byte> Take(int count)
        {
            Span<byte> room = Reserve(count);
            room.Fill((byte)'*');
            if (!room.IsEmpty) Commit(room.Length);
            return room;
        }

        protected override bool OnSending(long bytes)
        {
            AskedOnLoop = Loop.IsCurrent;
            Asked.Add(bytes);
            return Answer ?? throw new InvalidOperationException("on purpose");
        }
    }
}
