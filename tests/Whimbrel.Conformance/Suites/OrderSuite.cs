using System.Buffers;
using System.Buffers.Binary;

namespace Whimbrel.Conformance;

/// <summary>Contract 7: calls of one caller for one session take effect in call order.</summary>
public abstract class OrderSuite(Transport transport) : TrafficSuite(transport)
{
    private const int MessageBytes = 12;

    [Fact, Contract(7)]
    public void Every_kind_of_send_of_several_threads_arrives_in_the_order_of_each_thread() => Run(rig =>
    {
        const int Threads = 4;
        const int Messages = 1500;
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        SendFromThreads(rig, Threads, Messages, session, group);

        ExpectInOrder(rig, peer, Threads, Messages);
    });

    [Fact, Contract(7)]
    public void The_same_holds_for_a_thread_of_another_loop() => Run(rig =>
    {
        const int Messages = 2000;
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        Loop other = rig.Engine.GetLoop(1 - session.Loop.Index);
        int next = 0;
        Step();
        for (int i = 0; i < Messages; i++)
        {
            Assert.Equal(i, BinaryPrimitives.ReadInt32LittleEndian(peer.Read(MessageBytes).AsSpan(4)));
        }

        void Step() => other.Post(() =>
        {
            for (int i = 0; i < 50 && next < Messages && TrySend(session, group, 0, next); i++) next++;
            if (next < Messages) Step();
        });
    });

    // Sends of the loop are queued after earlier sends of others to the same session, which are taken out of the
    // mailbox for that.
    [Fact, Contract(7)]
    public void Call_order_holds_while_its_own_loop_sends_and_it_joins_and_leaves_groups() => Run(rig =>
    {
        const int Threads = 3;
        const int Messages = 1500;
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        SessionGroup others = new();
        rig.OnLoop(session, () => group.Join(session));
        // A loop's post to itself is faster than a join.
        rig.Until(() => group.Count == 1, "the session to have joined");
        // The group has no other member.
        SendFromThreads(rig, Threads, Messages, session, group,
            () => others.Broadcast("to those that are there"u8, session));

        int here = 0;
        int turns = 0;
        Step();
        ExpectInOrder(rig, peer, Threads + 1, Messages);

        void Step() => session.Loop.Post(() =>
        {
            for (int i = 0; i < 7 && here < Messages && TrySend(session, group, Threads, here); i++) here++;
            if (turns++ % 2 == 0) others.Join(session);
            else others.Leave(session);
            if (here < Messages) Step();
        });
    });

    [Theory, Contract(7)]
    [InlineData(true)]
    [InlineData(false)]
    public void Close_takes_effect_after_all_that_was_sent_before_it(bool onLoop) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        List<SendResult> late = [];
        At(rig, session, onLoop, () =>
        {
            session.Send("1"u8);
            group.Broadcast("2"u8);
            _ = session.SendAsync(Bytes("3"));
            session.Send(Outgoing.Pieces("4"u8, "5"u8));
            server.Broadcast("6"u8);
            session.Send(Outgoing.Owned(new Owned(Bytes("7")), 1));
            session.Send("8");
            session.Close();
            late.Add(session.Send("late"u8));
            late.Add(session.Send(Outgoing.Pieces("la"u8, "te"u8)));
            late.Add(session.SendAsync(Bytes("late")).AsTask().GetAwaiter().GetResult());
            group.Broadcast("late"u8);
        });
        Assert.Equal("12345678", peer.ReadTextToEnd());
        Assert.All(late, static r => Assert.Equal(SendResult.Closed, r));
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
    });

    [Theory, Contract(7, 11)]
    [InlineData(true)]
    [InlineData(false)]
    public void The_end_of_sending_takes_effect_after_all_that_was_sent_before_it(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 5);
        SendResult late = default;
        At(rig, session, onLoop, () =>
        {
            session.Send("1234"u8);
            session.Send("5"u8);
            session.ShutdownSend();
            late = session.Send("late"u8);
        });
        Assert.Equal(SendResult.Closed, late);
        Assert.Equal([.. first, .. fill, .. Bytes("12345")], peer.ReadToEnd());
        peer.Write("still here");
        session.UntilReceived(10);
        peer.ShutdownSend();
        session.End();
    });

    [Fact, Contract(7, 17)]
    public void The_members_on_one_loop_see_the_broadcasts_of_all_threads_in_one_order() => Run(rig =>
    {
        const int Threads = 3;
        const int Members = 6;
        const int Messages = 600;
        RecordingServer server = rig.Serve();
        SessionGroup group = new();
        List<Peer> peers = [];
        for (int i = 0; i < Members; i++)
        {
            peers.Add(rig.ConnectPeer(server.EndPoint!));
            RecordingSession member = server.Connected(i);
            rig.OnLoop(member, () => group.Join(member));
        }

        for (int t = 0; t < Threads; t++)
        {
            int thread = t;
            int next = 0;
            Repeat(rig, () =>
            {
                for (int i = 0; i < 30 && next < Messages; i++, next++)
                    Assert.Equal(SendResult.Queued, group.Broadcast(Message(thread, next)));
                return next == Messages;
            });
        }

        byte[][] streams = [.. peers.Select(static p => p.Read(Threads * Messages * MessageBytes))];
        rig.Join();
        // The n-th peer is not always the n-th session: the streams themselves show to which loop they belong.
        byte[][] different = [.. streams.DistinctBy(Convert.ToHexString)];
        Assert.True(different.Length <= rig.Engine.LoopCount,
            $"{different.Length} orders on {rig.Engine.LoopCount} loops");
        foreach (byte[] stream in different)
        {
            int[] expected = new int[Threads];
            for (int at = 0; at < stream.Length; at += MessageBytes)
            {
                int thread = BinaryPrimitives.ReadInt32LittleEndian(stream.AsSpan(at));
                Assert.Equal(expected[thread]++, BinaryPrimitives.ReadInt32LittleEndian(stream.AsSpan(at + 4)));
            }
        }
    });

    [Fact, Contract(7, 17)]
    public void Join_broadcast_leave_broadcast_of_one_thread_take_effect_in_that_order() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        At(rig, session, onLoop: false, () =>
        {
            for (int i = 0; i < 20; i++)
            {
                group.Broadcast("before"u8);
                group.Join(session);
                group.Broadcast("a"u8);
                session.Send("b"u8);
                group.Broadcast("c"u8);
                group.Leave(session);
                group.Broadcast("after"u8);
                session.Send("d"u8);
            }
        });
        Assert.Equal(string.Concat(Enumerable.Repeat("abcd", 20)), peer.ReadText(80));
        rig.Settle();
        Assert.Equal(-1, peer.TryRead(new byte[1]));
    });

    [Fact, Contract(7)]
    public void Sends_of_a_thread_keep_their_order_though_some_go_by_reference_and_some_by_copy() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, limit: 16 * 1024 * 1024);
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        int[] lengths = [1, 17_000, 3, 1024, 40_000, 1023, 5, 16 * 1024, 100_000, 2];
        byte[] all = Pattern(lengths.Sum() * 3, 3);
        foreach (bool onLoop in (bool[])[true, false])
        {
            int at = 0;
            int next = 0;
            // With thread-pool scheduling a callback posts like any other thread, up to the limit of the mailbox.
            if (onLoop && rig.IsPool) Repeat(rig, () => StepHere(rig, session));
            else if (onLoop) rig.OnLoop(session, () => Assert.True(Step()));
            else Repeat(rig, Step);
            Assert.Equal(all, peer.Read(all.Length));

            bool StepHere(Rig rig, RecordingSession session)
            {
                bool done = false;
                rig.OnLoop(session, () => done = Step());
                return done;
            }

            bool Step()
            {
                for (; next < lengths.Length * 3; next++)
                {
                    ReadOnlySpan<byte> piece = all.AsSpan(at, lengths[next % lengths.Length]);
                    SendResult result = (next % 3) switch
                    {
                        0 => session.Send(piece),
                        1 => group.Broadcast(piece),
                        _ => session.Send(Outgoing.Owned(new Owned(piece.ToArray()), piece.Length)),
                    };
                    if (result == SendResult.Full) return false; // the mailbox is full, and the loop will process it
                    at += piece.Length;
                }

                return true;
            }
        }
    });

    private static byte[] Message(int thread, int number)
    {
        byte[] message = new byte[MessageBytes];
        BinaryPrimitives.WriteInt32LittleEndian(message, thread);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(4), number);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(8), 0x5A5A5A5A);
        return message;
    }

    [Theory, Contract(7, 12)]
    [InlineData("close")]
    [InlineData("finish")]
    [InlineData("fin of the peer")]
    public void A_send_of_another_thread_that_is_on_its_way_when_a_callback_ends_still_leaves(string end) => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "On the memory engine no other thread can send during a callback.");
            Assert.SkipWhen(rig.IsPool,
                "On the pool the callback's own sends count as pending, and the order between two threads is free.");
            SendResult foreign = SendResult.Refused;
            byte[] tail = Pattern(40_000);
            RecordingServer server = rig.Serve(s =>
            {
                s.AtReceived = (x, _) =>
                {
                    if (end != "fin of the peer") EndOn(x);
                };
                s.AtEndOfStream = EndOn;
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            if (end == "fin of the peer") peer.ShutdownSend();
            else peer.Write("x");
            Assert.Equal([.. Bytes("mine"), .. tail], peer.ReadToEnd());
            Assert.Equal(SendResult.Queued, foreign);
            peer.Close();
            session.End();

            void EndOn(RecordingSession x)
            {
                x.Send("mine"u8);
                // On the loop it is in the mailbox when the callback continues, and nothing of it is in the queue.
                OnThread(() => foreign = x.Send(tail));
                if (end == "finish") x.ShutdownSend();
                else x.Close();
            }
        });

    // The same if it continues with a broadcast: each member gets earlier sends first, and earlier calls that are no
    // sends keep their place.
    [Theory, Contract(7, 17)]
    [InlineData("broadcast")]
    [InlineData("waiting")]
    [InlineData("shared")]
    public void A_broadcast_in_a_callback_follows_earlier_sends_of_another_thread_to_its_members(string kind) =>
        RunSending(
            (rig, session, other) =>
            {
                SessionGroup group = new(), room = new();
                group.Join(other);
                group.Join(session);
                room.Join(other);
                OnThread(() =>
                {
                    Assert.Equal(SendResult.Queued, other.Send("1"u8));
                    Assert.Equal(SendResult.Queued, session.Send("1"u8));
                    Assert.Equal(2, Session.SendToEach("2"u8, [other, session]));
                    Assert.Equal(SendResult.Queued, other.Send(Outgoing.Owned(new Owned(Bytes("3")), 1)));
                    Assert.Equal(SendResult.Queued, room.Broadcast("r"u8));
                    Assert.Equal(SendResult.Queued, other.Send("4"u8));
                    Assert.Equal(SendResult.Queued, session.Send("4"u8));
                });
                switch (kind)
                {
                    case "broadcast":
                        group.Broadcast("b"u8);
                        break;
                    case "waiting":
                        _ = group.BroadcastAsync(Bytes("b")).AsTask();
                        break;
                    case "shared":
                        group.Broadcast(new SharedBytes(Bytes("b")), 0, 1);
                        break;
                }

                session.Send("5"u8);
                return Bytes("124b5");
            },
            ofOther: "123br4");

    // A Join of another thread and a later post of the same caller: the post finds the member.
    [Theory, Contract(7, 17)]
    [InlineData(false)]
    [InlineData(true)]
    public void An_action_posted_to_a_loop_follows_earlier_joins_and_sends_of_its_caller(bool isAsync) => Run(rig =>
    {
        SessionGroup group = new();
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            x.Send("1"u8);
            group.Join(x);
            if (isAsync) _ = x.Loop.PostAsync(() => group.Broadcast("2"u8)).AsTask();
            else x.Loop.Post(() => group.Broadcast("2"u8));
        });
        for (int i = 0; i < 20; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            Assert.Equal("12", peer.ReadText(2));
        }
    });

    // An async method that has sent on the pool may end before the loop has processed it; then its caller continues on
    // the loop, with bytes in the mailbox.
    [Theory, Contract(7)]
    [InlineData("send")]
    [InlineData("large")]
    [InlineData("two parts")]
    [InlineData("pieces")]
    [InlineData("awaited")]
    [InlineData("owned")]
    [InlineData("written")]
    [InlineData("reserved")]
    [InlineData("file")]
    [InlineData("to each")]
    [InlineData("broadcast")]
    [InlineData("join")]
    public void A_send_in_a_callback_follows_earlier_sends_of_another_thread(string kind) => RunSending(
        (rig, session, other) =>
        {
            using TestFile file = new(Bytes("file"));
            FileSource source = new(file.Path);
            SessionGroup group = new();
            if (kind == "broadcast") group.Join(session);
            MessageWriter message = new();
            message.GetSpan(20_000)[..20_000].Fill((byte)'w');
            message.Advance(20_000);
            byte[] large = Pattern(40_000);
            List<byte> expected = [];
            session.Send("0"u8);
            expected.AddRange("0"u8);
            if (kind == "join") group.Join(other);
            OnThread(() =>
            {
                if (kind == "join") Assert.Equal(SendResult.Queued, group.Broadcast("b"u8));
                // Each in another way, and a message shared with other sessions.
                Assert.Equal(SendResult.Queued, session.Send("1"u8));
                Assert.Equal(SendResult.Queued, session.SendAsync(Bytes("2")).AsTask().GetAwaiter().GetResult());
                Assert.Equal(2, Session.SendToEach("3"u8, [other, session]));
                Assert.Equal(2, Session.SendToEach("4"u8, [other, session]));
                Assert.Equal(SendResult.Queued, session.Send(Outgoing.Owned(new Owned(Pattern(20_000)), 20_000)));
                Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, source.Length).WithHead("5"u8)));
            });
            expected.AddRange([.. Bytes("1234"), .. Pattern(20_000), .. Bytes("5file")]);
            Assert.Equal(expected.Count, session.BytesPending);
            byte[] mine = Bytes("mine");
            switch (kind)
            {
                case "send":
                    Assert.Equal(SendResult.Queued, session.Send(mine));
                    break;
                case "large":
                    Assert.Equal(SendResult.Queued, session.Send(mine = large));
                    break;
                case "two parts":
                    Assert.Equal(SendResult.Queued, session.Send(Outgoing.Pieces("mi"u8, "ne"u8)));
                    break;
                case "pieces":
                    Assert.Equal(SendResult.Queued,
                        session.Send(Outgoing.Pieces([Bytes("m"), Bytes("in"), Bytes("e")])));
                    break;
                case "awaited":
                    Assert.Equal(SendResult.Queued, session.SendAsync(mine).Result);
                    break;
                case "owned":
                    mine = Pattern(30_000);
                    Assert.Equal(SendResult.Queued, session.Send(Outgoing.Owned(new Owned(Pattern(30_000)), 30_000)));
                    break;
                case "written":
                    mine = message.Written.ToArray();
                    Assert.Equal(SendResult.Queued, session.Send(Outgoing.Written(message)));
                    break;
                case "reserved":
                    mine.CopyTo(session.CallReserve(4));
                    session.CallCommit(4);
                    break;
                case "file":
                    mine = Bytes("file");
                    Assert.Equal(SendResult.Queued, session.Send(Outgoing.File(source, 0, source.Length)));
                    break;
                case "to each":
                    Assert.Equal(2, Session.SendToEach(mine, [session, other]));
                    break;
                case "broadcast":
                    Assert.Equal(SendResult.Queued, group.Broadcast(mine));
                    break;
                case "join":
                    // The broadcast precedes all that, and did not concern this session: it now goes to a session that
                    // has been greeted.
                    mine = [];
                    group.Join(session);
                    break;
            }

            expected.AddRange(mine);
            // The items share the same list, and the message must not be joined with one that was checked.
            OnThread(() =>
            {
                Assert.Equal(2, Session.SendToEach("6"u8, [other, session]));
                Assert.Equal(2, Session.SendToEach("7"u8, [other, session]));
            });
            session.Send("8"u8);
            OnThread(() => Assert.Equal(2, Session.SendToEach("9"u8, [other, session])));
            session.Send("."u8);
            // Nothing overtakes the broadcast any more, which now concerns this session.
            expected.AddRange(kind == "join" ? "8.b679"u8 : "6789."u8);
            return [.. expected];
        },
        kind switch { "to each" => "34mine679", "join" => "b34679", _ => "34679" });

    [Fact, Contract(7)]
    public void Of_many_that_another_thread_sends_to_each_has_it_before_what_the_loop_sends() => Run(
        rig =>
        {
            SkipWithoutCallbacksOnLoops(rig);
            const int Many = 24;
            RecordingServer server = rig.Serve();
            (RecordingSession Session, Peer Peer)[] all = new (RecordingSession, Peer)[Many];
            for (int i = 0; i < Many; i++)
            {
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                all[i] = (server.Connected(i), peer);
            }

            rig.OnLoop(all[0].Session, () =>
            {
                Session[] sessions = [.. all.Select(static x => x.Session)];
                // One of them twice, and then a second list without another one.
                OnThread(() =>
                {
                    Assert.Equal(Many + 1, Session.SendToEach("1"u8, [.. sessions, sessions[0]]));
                    Assert.Equal(Many - 1, Session.SendToEach("2"u8, sessions.AsSpan(1)));
                });
                // From the last to the first half; the others get theirs when it is processed.
                for (int i = Many - 1; i >= Many / 2; i--) sessions[i].Send("3"u8);
                sessions[0].Send("3"u8);
                OnThread(() => Assert.Equal(Many, Session.SendToEach("4"u8, sessions)));
            });
            for (int i = 0; i < Many; i++)
                Assert.Equal(i == 0 ? "1134" : i < Many / 2 ? "124" : "1234",
                    all[i].Peer.ReadText(i == 0 || i >= Many / 2 ? 4 : 3));
        },
        loops: 1);

    [Theory, Contract(7, 18)]
    [InlineData("nothing")]
    [InlineData("post")]
    [InlineData("broadcast")]
    [InlineData("join")]
    [InlineData("close")]
    public void Earlier_calls_that_are_no_sends_keep_their_place(string what) => RunSending(
        (rig, session, _) =>
        {
            SessionGroup group = new();
            if (what == "broadcast") group.Join(session);
            OnThread(() =>
            {
                session.Send("1"u8);
                switch (what)
                {
                    case "post":
                        Assert.True(session.Post(static s => ((Session)s!).Send("3"u8), session));
                        break;
                    case "broadcast":
                        Assert.Equal(SendResult.Queued, group.Broadcast("3"u8));
                        break;
                    case "join":
                        group.Join(session);
                        group.Broadcast("3"u8);
                        break;
                    case "close":
                        session.Close();
                        break;
                }

                Assert.Equal(what == "close" ? SendResult.Closed : SendResult.Queued, session.Send("4"u8));
            });
            session.Send("2"u8);
            // Posts run when the callback has returned. Nothing overtakes a broadcast, so what follows it has not
            // arrived yet.
            return Bytes(what switch { "nothing" => "142", "post" => "1423", "close" => "12", _ => "1234" });
        },
        "");

    [Fact, Contract(7, 18)]
    public void A_posted_action_sends_at_its_place_and_an_async_function_after_its_own_parts() => Run(
        rig =>
        {
            SkipWithoutCallbacksOnLoops(rig);
            RecordingServer server = rig.Serve();
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            using ManualResetEventSlim goOn = new();
            using ManualResetEventSlim runs = new();
            session.Post(() =>
            {
                runs.Set();
                goOn.Wait(TimeSpan.FromSeconds(15));
            });
            Assert.True(runs.Wait(TimeSpan.FromSeconds(15)));
            session.Post(() =>
            {
                OnThread(() => session.Send("2"u8));
                session.Send("1"u8); // although that was sent first
            });
            goOn.Set();
            Assert.Equal("12", peer.ReadText(2));
            ValueTask<bool> ran = session.PostAsync(() =>
            {
                OnThread(() => session.Send("3"u8));
                session.Send("4"u8);
                return Task.CompletedTask;
            });
            Assert.True(rig.Await(ran));
            Assert.Equal("34", peer.ReadText(2));
        });

    private static void SendFromThreads(Rig rig, int threads, int messages, Session session, SessionGroup group,
        Action? between = null)
    {
        for (int t = 0; t < threads; t++)
        {
            int thread = t;
            int next = 0;
            Repeat(rig, () =>
            {
                for (int i = 0; i < 40 && next < messages; i++)
                {
                    if (!TrySend(session, group, thread, next)) return false;
                    next++;
                }

                between?.Invoke();
                return next == messages;
            });
        }
    }

    private static void ExpectInOrder(Rig rig, Peer peer, int threads, int messages)
    {
        int[] expected = new int[threads];
        for (int i = 0; i < threads * messages; i++)
        {
            byte[] message = peer.Read(MessageBytes);
            int thread = BinaryPrimitives.ReadInt32LittleEndian(message);
            Assert.InRange(thread, 0, threads - 1);
            Assert.Equal(expected[thread]++, BinaryPrimitives.ReadInt32LittleEndian(message.AsSpan(4)));
            Assert.Equal(0x5A5A5A5A, BinaryPrimitives.ReadInt32LittleEndian(message.AsSpan(8)));
        }

        rig.Join();
    }

    private static void SkipWithoutCallbacksOnLoops(Rig rig)
    {
        Assert.SkipWhen(rig.IsVirtual, "On the memory engine no other thread can send during a callback.");
        Assert.SkipWhen(rig.IsPool, "On the pool the callback's own sends count as pending, too.");
    }

    /// <summary>In a callback on the loop, with another session of the same loop: the callback returns the bytes
    /// expected by its peer; the second argument is for the other's.</summary>
    private void RunSending(Func<Rig, RecordingSession, RecordingSession, byte[]> inCallback, string ofOther) =>
        Run(rig =>
        {
            SkipWithoutCallbacksOnLoops(rig);
            RecordingServer server = rig.Serve();
            List<(RecordingSession Session, Peer Peer)> all = [];
            (RecordingSession Session, Peer Peer) other = default;
            for (int i = 0; i < 16 && other.Session is null; i++)
            {
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                RecordingSession next = server.Connected(i);
                other = all.Find(x => x.Session.Loop == next.Loop);
                all.Add((next, peer));
            }

            Assert.NotNull(other.Session);
            (RecordingSession session, Peer its) = all[^1];
            byte[]? expected = null;
            Exception? thrown = null;
            session.AtReceived = (x, _) =>
            {
                try
                {
                    Volatile.Write(ref expected, inCallback(rig, x, other.Session!));
                }
                catch (Exception e)
                {
                    Volatile.Write(ref thrown, e);
                }
            };
            its.Write("x");
            rig.Until(() => Volatile.Read(ref expected) is not null || Volatile.Read(ref thrown) is not null,
                "the callback to return");
            Assert.True(thrown is null, thrown?.ToString());
            Assert.Equal(expected, its.Read(expected!.Length));
            if (ofOther.Length > 0) Assert.Equal(ofOther, other.Peer!.ReadText(ofOther.Length));
        });

    private static bool TrySend(Session session, SessionGroup group, int thread, int number)
    {
        byte[] message = Message(thread, number);
        switch (number % 6)
        {
            case 5:
                return Session.SendToEach(message, [session]) == 1;
            case 0:
                return session.Send(message) == SendResult.Queued;
            case 1:
                return session.Send(Outgoing.Pieces(message.AsSpan(0, 5), message.AsSpan(5))) == SendResult.Queued;
            case 2:
                return group.Broadcast(message) == SendResult.Queued;
            case 3:
                return session.Send(Outgoing.Owned(new Owned(message), MessageBytes)) == SendResult.Queued;
            default:
                ValueTask<SendResult> task = session.SendAsync(message);
                Assert.True(task.IsCompletedSuccessfully);
                return task.Result == SendResult.Queued;
        }
    }
}
