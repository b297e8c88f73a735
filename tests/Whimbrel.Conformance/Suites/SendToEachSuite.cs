using System.Text;

namespace Whimbrel.Conformance;

/// <summary>One message to several sessions by one call, with the effect of a send to each of them (contracts 5, 7 and
/// 8).</summary>
public abstract class SendToEachSuite(Transport transport) : TrafficSuite(transport)
{
    private static Session[] SessionsOf(IEnumerable<(RecordingSession Session, Peer Peer)> pairs) => [.. pairs.Select(
        static p => p.Session)];

    [Theory, Contract(5, 7)]
    [InlineData(true)]
    [InlineData(false)]
    public void Listed_sessions_get_the_message_in_order_with_other_sends_of_the_caller(bool onLoop) => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 6);
        Session[] all = SessionsOf(pairs);
        StringBuilder[] expected = [.. all.Select(static _ => new StringBuilder())];
        SessionGroup group = new();
        foreach (Session session in all) group.Join(session);
        rig.Until(() => group.Count == all.Length, "all to join");
        At(rig, pairs[0].Session, onLoop, () =>
        {
            for (int i = 0; i < 200; i++)
            {
                // The same list twice, then others, and single sends or broadcasts in between.
                List<int> chosen = [.. Enumerable.Range(0, all.Length).Where(each => (i / 2 * 7 + each * 5) % 4 != 0)];
                string text = $"[{i}]";
                SendResult[] results = new SendResult[all.Length];
                Assert.Equal(chosen.Count, Session.SendToEach(Bytes(text), [.. chosen.Select(c => all[c])], results));
                Assert.All(results.Take(chosen.Count), static r => Assert.Equal(SendResult.Queued, r));
                foreach (int each in chosen) expected[each].Append(text);
                if (i % 3 == 0)
                {
                    Assert.Equal(SendResult.Queued, all[i % 6].Send("one"));
                    expected[i % 6].Append("one");
                }

                if (i % 20 != 0) continue;
                Assert.Equal(SendResult.Queued, group.Broadcast("all"u8));
                foreach (StringBuilder each in expected) each.Append("all");
            }
        });
        for (int i = 0; i < all.Length; i++)
            Assert.Equal(expected[i].ToString(), pairs[i].Peer.ReadText(expected[i].Length));
        rig.Settle();
        Assert.All(pairs, static p => Assert.Equal(-1, p.Peer.TryRead(new byte[1])));
        Assert.All(all, static s => Assert.Equal(0, s.BytesPending));
    });

    [Theory, Contract(5, 8)]
    [InlineData(true)]
    [InlineData(false)]
    public void Each_session_has_its_own_result_and_one_without_a_connection_does_not_affect_others(bool onLoop) =>
        Run(rig =>
        {
            (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 5, Narrow(rig));
            Session[] all = SessionsOf(pairs);
            byte[] clogged = Clog(rig, all[1]);
            byte[] filler = FillTo(rig, all[1], 9);
            pairs[3].Session.Abort();
            pairs[3].Session.End();
            SendResult[] results = [SendResult.Refused, SendResult.Refused, SendResult.Refused, SendResult.Refused,
                SendResult.Refused, SendResult.Refused];
            At(rig, pairs[0].Session, onLoop, () =>
            {
                Assert.Equal(3, Session.SendToEach("ten bytes."u8, all, results));
                Assert.Equal(0, Session.SendToEach("ten bytes."u8, [all[1], all[3]]));
                Assert.Equal(1, Session.SendToEach("nine byte"u8, [all[3], all[1]]));
                Assert.Equal(Limit, all[1].BytesPending);
                // Not one byte more.
                Assert.Equal(0, Session.SendToEach("!"u8, [all[1]]));
                // An empty message is accepted where a message would be.
                Assert.Equal(1, Session.SendToEach(default, [all[0], all[3]]));
                Assert.Equal(0, Session.SendToEach("nobody"u8, []));
            });
            Assert.Equal([SendResult.Queued, SendResult.Full, SendResult.Queued, SendResult.Closed, SendResult.Queued,
                SendResult.Refused], results);
            for (int i = 0; i < 5; i += 2) Assert.Equal("ten bytes.", pairs[i].Peer.ReadText(10));
            byte[] got = pairs[1].Peer.Read(clogged.Length + filler.Length + 9);
            Assert.True(got.AsSpan().SequenceEqual((byte[])[.. clogged, .. filler, .. "nine byte"u8]));
            rig.Until(() => all[1].BytesPending == 0, "nothing to be left");
        });

    [Fact, Contract(8)]
    public void A_slow_reader_is_disconnected_where_the_policy_says_so_and_the_others_continue() => Run(rig =>
    {
        rig.Expect("slow consumer");
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3, Narrow(rig, SlowConsumer.Disconnect));
        Session[] all = SessionsOf(pairs);
        Clog(rig, all[1]);
        FillTo(rig, all[1], 3);
        SendResult[] results = new SendResult[3];
        rig.Elsewhere(() => Assert.Equal(2, Session.SendToEach("four"u8, all, results)));
        rig.Join();
        Assert.Equal([SendResult.Queued, SendResult.Closed, SendResult.Queued], results);
        Assert.Equal(CloseCause.SlowConsumer, pairs[1].Session.End());
        Assert.Equal("four", pairs[0].Peer.ReadText(4));
        Assert.Equal("four", pairs[2].Peer.ReadText(4));
    });

    [Theory, Contract(5)]
    [InlineData(true)]
    [InlineData(false)]
    public void Messages_of_all_sizes_arrive_byte_for_byte(bool onLoop) => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
        Session[] all = SessionsOf(pairs);
        // Near the limits of copying, of runs and of blocks.
        int[] lengths = [1, 1023, 1024, 5000, 8191, 16_383, 16_384, 33_000, 65_536, 70_000, 100, 300_000];
        byte[] bytes = Pattern(300_000, 3);
        At(rig, pairs[2].Session, onLoop, () =>
        {
            foreach (int length in lengths)
            {
                for (int i = 0; i < 2; i++) Assert.Equal(4, Session.SendToEach(bytes.AsSpan(300_000 - length), all));
            }
        });
        foreach ((_, Peer peer) in pairs)
        {
            foreach (int length in lengths)
            {
                for (int i = 0; i < 2; i++)
                    Assert.True(peer.Read(length).AsSpan().SequenceEqual(bytes.AsSpan(300_000 - length)),
                        $"{length} bytes");
            }
        }
    });

    [Fact, Contract(5, 7)]
    public void Several_threads_send_to_the_same_and_each_message_stays_whole_and_in_the_order_of_its_thread() =>
        Run(rig =>
        {
            const int threads = 3;
            const int each = 400;
            (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4, new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 8 * 1024 * 1024 }
            });
            Session[] all = SessionsOf(pairs);
            for (int t = 0; t < threads; t++)
            {
                int thread = t;
                int sent = 0;
                Repeat(rig, () =>
                {
                    Assert.Equal(4, Session.SendToEach(Bytes($"<{thread}:{sent:D4}>"), all));
                    return ++sent == each;
                });
            }

            foreach ((_, Peer peer) in pairs)
            {
                string[] got = peer.ReadText(threads * each * 8)[1..^1].Split("><");
                for (int t = 0; t < threads; t++)
                    Assert.Equal(Enumerable.Range(0, each).Select(i => $"{t}:{i:D4}"), got.Where(m => m[0] == '0' + t));
            }

            rig.Join();
        });

    [Fact, Contract(5, 7)]
    public void A_callback_sends_to_others_and_to_itself_and_what_it_sends_stays_in_order() => Run(rig =>
    {
        Session[] all = [];
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 4);
        all = SessionsOf(pairs);
        pairs[0].Session.AtReceived = (session, data) =>
        {
            session.Send("before ");
            Assert.Equal(4, Session.SendToEach(data, all));
            session.Send(" after");
        };
        pairs[0].Peer.Write("x");
        Assert.Equal("before x after", pairs[0].Peer.ReadText(14));
        for (int i = 1; i < 4; i++) Assert.Equal("x", pairs[i].Peer.ReadText(1));
    });

    [Fact, Contract(5)]
    public void A_message_accepted_for_a_session_that_ends_before_its_loop_processes_it_goes_nowhere_else() =>
        Run(rig =>
        {
            (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
            Session[] all = SessionsOf(pairs);
            for (int i = 0; i < 20; i++)
            {
                rig.Elsewhere(() =>
                {
                    Session.SendToEach("before "u8, all);
                    all[1].Abort();
                    Assert.Equal(2, Session.SendToEach("behind "u8, all));
                });
                rig.Join();
                ((RecordingSession)all[1]).End();
                // The next session may reuse its connection object.
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                all[1] = server.Connected(3 + i);
                Assert.Equal(3, Session.SendToEach("all "u8, all));
                Assert.Equal("all ", peer.ReadText(4));
                Assert.Equal("before behind all ", pairs[0].Peer.ReadText(18));
                Assert.Equal("before behind all ", pairs[2].Peer.ReadText(18));
            }
        });

    [Theory, Contract(5, 8)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_message_that_can_never_fit_for_one_of_them_is_sent_to_none(bool onLoop) => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        Session[] all = SessionsOf(pairs);
        rig.OnLoop(pairs[1].Session, () => pairs[1].Session.Limit = 5_000);
        ArgumentException? thrown = null;
        At(rig, pairs[0].Session, onLoop,
            () => thrown = Assert.Throws<ArgumentException>(() => Session.SendToEach(new byte[5_001], all)));
        Assert.Contains("5,000", thrown!.Message);
        At(rig, pairs[0].Session, onLoop, () => Assert.Equal(3, Session.SendToEach("next"u8, all)));
        foreach ((_, Peer peer) in pairs) Assert.Equal("next", peer.ReadText(4));
    });

    [Fact, Contract(12)]
    public void Accepted_messages_are_sent_before_a_close() => Run(rig =>
    {
        (_, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3);
        Session[] all = SessionsOf(pairs);
        rig.Elsewhere(() =>
        {
            for (int i = 0; i < 100; i++) Assert.Equal(3, Session.SendToEach(Bytes($"{i} "), all));
            foreach (Session session in all) session.Close();
            Assert.Equal(0, Session.SendToEach("late"u8, all));
        });
        rig.Join();
        string expected = string.Concat(Enumerable.Range(0, 100).Select(static i => $"{i} "));
        foreach ((_, Peer peer) in pairs) Assert.Equal(expected, peer.ReadTextToEnd());
    });

    [Fact, Contract(5)]
    public void A_session_refusing_in_OnSending_gets_nothing_and_its_exception_does_not_affect_earlier_ones() =>
        Run(rig =>
        {
            Assert.SkipWhen(rig.Tls != TlsKind.None,
                "OnSending runs before encryption, so TLS adds nothing to this test.");
            List<Choosy> sessions = [];
            Server server = rig.Keep(new Server(Narrow(rig), () =>
            {
                Choosy session = new();
                lock (sessions) sessions.Add(session);
                return session;
            }));
            rig.Await(server.StartAsync());
            // One by one, so that both lists have the same order.
            List<Peer> peers = [];
            for (int i = 0; i < 3; i++)
            {
                peers.Add(rig.ConnectPeer(server.EndPoint!));
                rig.Until(() => server.Sessions.Count == peers.Count, "the peer to be connected");
            }

            Session[] all = [.. sessions];
            sessions[1].Answer = static _ => false;
            SendResult[] results = new SendResult[3];
            rig.Elsewhere(() =>
            {
                Assert.Equal(2, Session.SendToEach("a"u8, all, results));
                sessions[1].Answer = static _ => throw new InvalidOperationException("on purpose");
                Assert.Throws<InvalidOperationException>(() => { Session.SendToEach("b"u8, all); });
                // And one that sends to the others inside OnSending.
                sessions[1].Answer = bytes => bytes == 5 || Session.SendToEach("inner"u8, all) == 3;
                Assert.Equal(3, Session.SendToEach("c"u8, all));
                Assert.Throws<ArgumentNullException>(() => { Session.SendToEach("d"u8, [all[0], null!, all[1]]); });
                Assert.Equal("results", Assert
                    .Throws<ArgumentException>(() => { Session.SendToEach("e"u8, all, new SendResult[2]); }).ParamName);
            });
            rig.Join();
            Assert.Equal([SendResult.Queued, SendResult.Refused, SendResult.Queued], results);
            Assert.Equal("abinnercd", Ordered(peers[0].ReadText(9)));
            Assert.Equal("innerc", Ordered(peers[1].ReadText(6)));
            Assert.Equal("ainnerc", Ordered(peers[2].ReadText(7)));
            rig.Settle();
            Assert.All(peers, static p => Assert.Equal(-1, p.TryRead(new byte[1])));

            // A nested call is sent before or after it.
            static string Ordered(string text) => text.Replace("cinner", "innerc", StringComparison.Ordinal);
        });

    [Fact]
    public void Messages_to_several_are_counted_for_each_session() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 3,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), CountSends = true });
        Session[] all = SessionsOf(pairs);
        rig.Elsewhere(() =>
        {
            for (int i = 0; i < 50; i++) Session.SendToEach("12"u8, all);
        });
        rig.Join();
        foreach ((_, Peer peer) in pairs) peer.Read(100);
        rig.Until(() => server.ReadCounters().MessagesSent == 150, "the messages to be counted");
    });

    [Fact, Contract(5)]
    public void After_the_stop_no_session_accepts_the_message() => Run(rig =>
    {
        (RecordingServer server, List<(RecordingSession Session, Peer Peer)> pairs) = Several(rig, 2);
        Session[] all = SessionsOf(pairs);
        rig.Await(server.StopAsync(TimeSpan.Zero)); // no peer ends
        SendResult[] results = new SendResult[2];
        Assert.Equal(0, Session.SendToEach("late"u8, all, results));
        Assert.Equal([SendResult.Closed, SendResult.Closed], results);
    });

    private sealed class Choosy : Session
    {
        internal Func<long, bool> Answer { get; set; } = static _ => true;

        protected override bool OnSending(long bytes) => Answer(bytes);
    }
}
