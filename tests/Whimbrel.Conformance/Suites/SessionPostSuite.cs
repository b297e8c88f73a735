namespace Whimbrel.Conformance;

/// <summary>Contract 18: posts to a session run in the order of its callbacks, and accepted posts always run.</summary>
public abstract class SessionPostSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(18, 4)]
    [InlineData(false)]
    [InlineData(true)]
    public void An_exception_of_a_posted_async_function_after_an_await_ends_its_connection(bool withState) => Run(rig =>
    {
        RecordingServer server = rig.Serve(static _ => { });
        rig.ConnectPeer(server.EndPoint!);
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        bool taken =
            withState ? session.Post(async _ => await LateAsync(), null) : session.Post(async () => await LateAsync());
        Assert.True(taken);
        rig.Until(() => server.ReadCounters().UserExceptions == 1 && server.SessionCount == 1,
            "the end of the session that posted");

        async Task LateAsync()
        {
            await session.Loop.DelayAsync(TimeSpan.FromMilliseconds(2));
            throw new InvalidDataException("late");
        }
    });

    [Fact, Contract(18, 2)]
    public void Posts_of_many_threads_run_between_callbacks_each_once_and_in_the_order_of_their_thread() => Run(rig =>
    {
        const int Threads = 4;
        const int Posts = 300;
        RecordingServer server = rig.Serve(static s =>
            s.AtConnected = static x => x.CallStartTimer(TimeSpan.FromMilliseconds(1), TimeSpan.FromMilliseconds(1)));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        List<int>[] ran = [.. Enumerable.Range(0, Threads).Select(static _ => new List<int>())];
        int all = 0;
        for (int t = 0; t < Threads; t++)
        {
            int thread = t;
            int next = 0;
            Repeat(rig, () =>
            {
                int number = next++;
                bool taken = session.Post(() => session.RunPosted("one", () =>
                {
                    ran[thread].Add(number);
                    Volatile.Write(ref all, all + 1);
                }));
                Assert.True(taken);
                return next == Posts;
            });
        }

        for (int i = 0; i < 50; i++) peer.Write("some bytes of the peer");
        rig.Until(() => Volatile.Read(ref all) == Threads * Posts, "all posts to run");
        rig.Join();
        foreach (List<int> numbers in ran) Assert.Equal(Enumerable.Range(0, Posts), numbers);
        session.UntilReceived(50 * 22);
    });

    [Theory, Contract(18, 7)]
    [InlineData("thread")]
    [InlineData("other loop")]
    public void A_post_keeps_its_place_among_the_sends_of_its_caller(string from) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int i = 0; i < 20; i++)
        {
            if (from == "thread")
            {
                rig.Elsewhere(Steps);
                rig.Join();
            }
            else
            {
                rig.OnLoop(rig.Engine.GetLoop(1 - session.Loop.Index), Steps);
            }

            string seen = peer.ReadText(4);
            // With thread-pool scheduling the post runs when the pool has a thread: after earlier sends.
            if (rig.IsPool) Assert.True(seen is "1234" or "1324" or "1342", seen);
            else Assert.Equal("1234", seen);
        }

        void Steps()
        {
            session.Send("1"u8);
            Assert.True(session.Post(static s => ((Session)s!).Send("2"u8), session));
            session.Send("3"u8);
            Assert.True(session.Post(static s => ((Session)s!).Send("4"u8), session));
        }
    });

    [Fact, Contract(18, 2)]
    public void A_post_of_a_callback_runs_after_it_and_after_its_sends() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (self, _) =>
        {
            self.Send("a"u8);
            Assert.True(self.Post(() => self.RunPosted("first", () =>
            {
                self.Send("c"u8);
                Assert.True(self.Post(() => self.RunPosted("second", () => self.Send("d"u8))));
            })));
            self.Send("b"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("abcd", peer.ReadText(4));
        server.Session().Until("posted second");
        Assert.Equal("connecting, connected, received 1, posted first, posted second", server.Session().Life);
    });

    [Fact, Contract(18, 12)]
    public void A_post_made_before_a_close_runs_and_on_the_loop_its_sends_are_sent() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        bool ran = false;
        rig.Elsewhere(() =>
        {
            session.Send("1"u8);
            Assert.True(session.Post(() => session.RunPosted("last", () =>
            {
                session.Send("2"u8);
                ran = true;
            })));
            session.Close();
        });
        rig.Join();
        byte[] seen = peer.ReadToEnd();
        peer.ShutdownSend(); // otherwise the close waits for it
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.True(ran);
        if (!rig.IsPool) Assert.Equal("12", Text(seen));
        else Assert.StartsWith("1", Text(seen), StringComparison.Ordinal);
    });

    [Theory, Contract(18, 1)]
    [InlineData("abort")]
    [InlineData("reset")]
    [InlineData("close")]
    [InlineData("throw")]
    public void Every_post_that_was_taken_runs_before_the_end_and_none_is_taken_after_it(string end) => Run(rig =>
    {
        const int Threads = 3;
        int taken = 0;
        int ran = 0;
        int ranAtEnd = -1;
        RecordingServer server = rig.Serve(s => s.AtDisconnected = (self, _) =>
        {
            Assert.False(self.Post(static () => { }));
            ranAtEnd = ran;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int t = 0; t < Threads; t++)
        {
            Repeat(rig, () =>
            {
                // Three threads that post at full speed are faster than the one that runs the posts: the backlog must
                // not take longer than the test.
                if (Volatile.Read(ref taken) - Volatile.Read(ref ran) > 2_000)
                {
                    Thread.Yield();
                    return false;
                }

                for (int i = 0; i < 10; i++)
                {
                    if (!session.Post(() => session.RunPosted("one", () => ran++))) return true;
                    Interlocked.Increment(ref taken);
                }

                return false;
            });
        }

        rig.Until(() => Volatile.Read(ref taken) > 500, "posts to be pending");
        if (end == "abort") session.Abort();
        else if (end == "reset") peer.Reset();
        else if (end == "throw") session.Post(static () => throw new InvalidOperationException("on purpose"));
        else session.Close();
        if (end is "close" or "throw") peer.Close();
        session.End();
        rig.Join();
        Assert.Equal(taken, ran);
        Assert.Equal(taken, ranAtEnd);
        Assert.False(session.Post(static () => { }));
        Assert.False(rig.Await(session.PostAsync(static () => { })));
        rig.Expect("on purpose");
    });

    [Fact, Contract(18)]
    public void A_post_that_posts_itself_again_does_not_keep_the_session_from_ending() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        int count = 0;
        Again();
        rig.Until(() => Volatile.Read(ref count) > 5, "some rounds");
        session.Abort();
        Assert.Equal(CloseCause.LocalAbort, session.End());
        Assert.False(session.Post(Again));

        void Again()
        {
            count++;
            session.Post(Again);
        }
    });

    [Fact, Contract(18, 4)]
    public void An_exception_of_a_post_goes_to_OnError_and_ends_the_connection() => Run(rig =>
    {
        rig.Expect("on purpose");
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Assert.True(session.Post(static () => throw new InvalidOperationException("on purpose")));
        Assert.Equal(CloseCause.UserException, session.End());
        Assert.Equal("connecting, connected, error InvalidOperationException, disconnected UserException",
            session.Life);
        Assert.Equal("on purpose", session.Reason.Exception!.Message);
    });

    [Fact, Contract(18)]
    public void PostAsync_completes_when_it_has_run_and_its_exception_goes_to_the_awaiting_caller() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        int value = 0;
        Assert.True(rig.Await(session.PostAsync(() => session.RunPosted("awaited", () => value = 1))));
        Assert.Equal(1, value);
        Assert.True(rig.Await(session.PostAsync(s => value = (int)s!, 2)));
        Assert.Equal(2, value);
        InvalidOperationException own = Assert.Throws<InvalidOperationException>(() => rig.Await(
            session.PostAsync(static s => throw new InvalidOperationException((string)s!), "with its argument")));
        Assert.Equal("with its argument", own.Message);
        Assert.True(rig.Await(session.PostAsync(s => value = (int)s!, 20)));
        Assert.Equal(20, value);
        InvalidOperationException thrown =
            Assert.Throws<InvalidOperationException>(() => rig.Await(session.PostAsync(Fails)));
        Assert.Equal("for the awaiter", thrown.Message);
        Assert.True(session.IsConnected);
        Assert.True(rig.Await(session.PostAsync(async () =>
        {
            await session.SendAsync(Bytes("sent")).ConfigureAwait(false);
            value = 3;
        })));
        Assert.Equal(3, value);
        Assert.Equal("sent", peer.ReadText(4));
        thrown = Assert.Throws<InvalidOperationException>(() => rig.Await(session.PostAsync(FailsLater)));
        Assert.Equal("for the awaiter", thrown.Message);
        Assert.True(session.IsConnected);

        static void Fails() => throw new InvalidOperationException("for the awaiter");

        static Task FailsLater() => Task.FromException(new InvalidOperationException("for the awaiter"));
    });

    [Fact, Contract(18)]
    public void Awaited_posts_of_many_threads_each_run_once_with_their_own_argument_also_while_the_session_ends() =>
        Run(rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread.");
            RecordingServer server = rig.Serve();
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            Task<int>[] callers = [.. Enumerable.Range(0, 4).Select(_ => Task.Run(async () =>
            {
                int[] ran = [0];
                int taken = 0;
                while (await session.PostAsync(static s => ((int[])s!)[0]++, ran)) Assert.Equal(++taken, ran[0]);
                Assert.Equal(taken, ran[0]);
                return taken;
            }))];
            for (int i = 0; i < 50; i++) Assert.True(rig.Await(session.PostAsync(static _ => { }, null)));
            peer.Close();
            session.End();
            Assert.True(Task.WaitAll(callers, TimeSpan.FromSeconds(30)), "a post was forgotten");
        });

    [Fact, Contract(18, 1)]
    public void Before_OnConnected_and_without_a_connection_nothing_is_taken() => Run(rig =>
    {
        bool early = true;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnecting = self => early = self.Post(static () => { });
            s.AtConnected = static self => Assert.True(self.Post(() => self.RunPosted("early")));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        session.Until("posted early");
        Assert.False(early);
        RecordingSession unused = new(rig);
        Assert.False(unused.Post(static () => { }));
        Assert.False(rig.Await(unused.PostAsync(static () => { })));
        Assert.False(rig.Await(unused.PostAsync(static _ => { }, null)));
        Assert.Throws<ArgumentNullException>(() => session.Post((Action)null!));
        peer.Close();
        session.End();
    });

    [Fact, Contract(18, 15)]
    public void An_earlier_post_runs_before_a_hand_over_and_the_next_session_gets_the_bytes() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        next.AtConnected = static self => Assert.True(self.Post(() => self.RunPosted("next")));
        RecordingServer server = rig.Serve(s =>
        {
            s.AtData = (self, _) =>
            {
                Assert.True(self.Post(() => self.RunPosted("old")));
                self.CallHandOver(next);
                return 1;
            };
            s.AtDisconnected = static (self, _) => Assert.False(self.Post(static () => { }));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("abc");
        RecordingSession old = server.Session();
        Assert.Equal(CloseCause.HandedOver, old.End());
        Assert.Equal("connecting, connected, received 1, posted old, disconnected HandedOver", old.Life);
        peer.Write("def");
        next.UntilReceived(5);
        next.Until("posted next");
        Assert.Equal("bcdef", next.ReceivedText);
        Assert.Equal(1, next.Count("posted"));
        Assert.False(old.Post(static () => { }));
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, next.End());
    });

    [Fact, Contract(18, 15)]
    public void A_post_that_runs_after_a_hand_over_cannot_hand_over_to_another() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingSession other = new(rig) { IsSuccessor = true };
        Exception? refusal = null;
        RecordingServer server = rig.Serve(s => s.AtData = (self, _) =>
        {
            Assert.True(self.Post(
                () => self.RunPosted("old", () => refusal = Record.Exception(() => self.CallHandOver(other)))));
            self.CallHandOver(next);
            return 1;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("abc");
        RecordingSession old = server.Session();
        Assert.Equal(CloseCause.HandedOver, old.End());
        Assert.Contains("handed its connection over already", Assert.IsType<InvalidOperationException>(refusal).Message,
            StringComparison.Ordinal);
        next.UntilReceived(2);
        Assert.Equal("bc", next.ReceivedText);
        Assert.Equal("", other.Life);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, next.End());
    });

    [Fact, Contract(18, 15)]
    public void Posts_of_other_threads_meet_hand_overs_and_each_that_was_taken_runs_once() => Run(rig =>
    {
        const int HandOvers = 20;
        int taken = 0;
        int ran = 0;
        RecordingSession[] line = [.. Enumerable.Range(0, HandOvers)
            .Select(_ => new RecordingSession(rig) { IsSuccessor = true })];
        for (int i = 0; i < HandOvers; i++)
        {
            RecordingSession? next = i + 1 < HandOvers ? line[i + 1] : null;
            line[i].AtData = (self, _) =>
            {
                if (next is null) return 0;
                self.CallHandOver(next);
                return 1;
            };
        }

        RecordingServer server = rig.Serve(s => s.AtData = (self, _) =>
        {
            self.CallHandOver(line[0]);
            return 1;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession first = server.Connected();
        RecordingSession[] all = [first, .. line];
        int current = 0;
        bool stop = false;
        for (int t = 0; t < 2; t++)
        {
            Repeat(rig, () =>
            {
                RecordingSession session = all[Math.Min(Volatile.Read(ref current), HandOvers)];
                if (session.Post(() => session.RunPosted("one", () => ran++))) Interlocked.Increment(ref taken);
                return Volatile.Read(ref stop);
            });
        }

        for (int i = 0; i < HandOvers; i++)
        {
            int last = i;
            rig.Until(() => all[last].Saw("posted"), "a post to run");
            peer.Write("x");
            Assert.Equal(CloseCause.HandedOver, all[i].End());
            Volatile.Write(ref current, i + 1);
        }

        Volatile.Write(ref stop, true);
        rig.Join();
        peer.Close();
        all[^1].End();
        Assert.Equal(taken, ran);
    });
}
