using System.Diagnostics;

namespace Whimbrel.Conformance;

/// <summary>Contract 14, the pool: who blocks harms nobody else, order and back-pressure stay, the sends of one callback leave together.</summary>
public abstract class PoolSuite(Transport transport) : Suite(transport)
{
    private const int ReadAtATime = 256 * 1024;

    [Fact, Contract(14)]
    public void A_session_that_blocks_does_not_hold_its_neighbours_on_the_same_loop() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "One thread runs everything there: nobody can block.");
            Blocked(rig, blocked: 1);
        },
        loops: 1);

    [Fact, Contract(14)]
    public void Thirty_two_sessions_that_block_do_not_hold_the_others_when_the_pool_has_threads_for_them() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "One thread runs everything there: nobody can block.");
            ThreadPool.GetMinThreads(out int workers, out int others);
            ThreadPool.SetMinThreads(Math.Max(workers, 48), others);
            try
            {
                Blocked(rig, blocked: 32);
            }
            finally
            {
                ThreadPool.SetMinThreads(workers, others);
            }
        },
        loops: 1);

    private static void Blocked(Rig rig, int blocked)
    {
        using ManualResetEventSlim release = new();
        int inside = 0;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
        {
            if (data[0] == 'b')
            {
                Interlocked.Increment(ref inside);
                release.Wait(TimeSpan.FromSeconds(15));
            }

            x.Send(data);
        });
        try
        {
            Peer[] stuck = [.. Enumerable.Range(0, blocked).Select(_ => rig.Dial(server.EndPoint!))];
            foreach (Peer peer in stuck) peer.Write("b");
            rig.Until(() => Volatile.Read(ref inside) == blocked, "all of them to block");
            Peer free = rig.Dial(server.EndPoint!);
            for (int i = 0; i < 50; i++)
            {
                free.Write($"{i:00}");
                Assert.Equal($"{i:00}", free.ReadText(2));
            }

            Assert.Equal(blocked, Volatile.Read(ref inside));
            Assert.False(release.IsSet);
            release.Set();
            foreach (Peer peer in stuck) Assert.Equal("b", peer.ReadText(1));
        }
        finally
        {
            release.Set();
        }

        Assert.DoesNotContain(rig.Notices, static n => n.Kind == NoticeKind.BlockedLoop);
    }

    [Fact, Contract(10, 14)]
    public void A_callback_that_has_paused_knows_it_also_when_its_connection_ends_meanwhile() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "One thread runs everything there: nobody can block.");
        bool hasEnded = false, wasPaused = false;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.PauseReceiving();
            x.Abort();
            hasEnded = SpinWait.SpinUntil(() => x.Connection is null, TimeSpan.FromSeconds(15));
            // A protocol with several messages in hand asks this before each.
            wasPaused = x.IsReceivingPaused;
        });
        rig.Dial(server.EndPoint!).Write("x");
        server.Session().End();
        Assert.True(hasEnded, "the connection did not end under its callback");
        Assert.True(wasPaused);
    });

    [Fact, Contract(14)]
    public void While_a_callback_runs_only_so_much_is_read_and_nothing_is_lost() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "One thread runs everything there: nobody can block.");
            const int total = 8 * 1024 * 1024;
            byte[] all = Pattern(total, 5);
            using ManualResetEventSlim release = new();
            int inside = 0;
            RecordingServer server = rig.Serve(s => s.AtReceived = (_, _) =>
            {
                Volatile.Write(ref inside, 1);
                release.Wait(TimeSpan.FromSeconds(15));
            });
            Peer peer = rig.Dial(server.EndPoint!);
            RecordingSession session = server.Connected();
            rig.Elsewhere(() =>
            {
                peer.Write(all);
                peer.FinishSending();
            });
            try
            {
                rig.Until(() => Volatile.Read(ref inside) == 1, "the first callback");
                rig.Settle();
                rig.Settle();
                // What waits, what one read may bring above it, and what the running callback has.
                Assert.InRange(session.BytesReceived, 1, (128 * 1024) + (2 * ReadAtATime));
            }
            finally
            {
                release.Set();
            }

            session.UntilReceived(total);
            Assert.Equal(all, session.Received);
            rig.Join();
            Assert.Equal(CloseCause.PeerClosed, session.End());
        },
        loops: 1);

    /// <summary>
    /// What comes much at a time stays in the block that it came in; what comes in small pieces is joined. Here both come in turn, and the session leaves odd
    /// numbers of bytes, pauses with some unread, goes on elsewhere, and sends back what it took.
    /// </summary>
    [Theory, Contract(3, 10, 14)]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void Much_at_a_time_and_little_come_whole_and_in_order_whatever_the_session_leaves_of_it(int seed) => Run(rig =>
    {
        // One thread runs everything in the simulation: the peer reads when it has written all, so that must fit.
        int total = rig.IsVirtual ? 384 * 1024 : 6 * 1024 * 1024;
        byte[] all = Pattern(total, seed);
        Random choices = new(seed); // the session's: one callback runs at a time
        int taken = 0, pauses = 0;
        RecordingServer server = rig.Serve(s => s.AtUnread = (x, unread) =>
        {
            // What it leaves it is offered again with the next bytes, and behind the last there are none.
            bool isAll = taken + unread.Length == total;
            int count = isAll || choices.Next(4) > 0 ? unread.Length : choices.Next(1, unread.Length + 1);
            if (!unread[..count].SequenceEqual(all.AsSpan(taken, count))) throw new InvalidOperationException($"wrong bytes at {taken}");
            x.Send(unread[..count]);
            taken += count;
            if (taken < total && choices.Next(5) == 0)
            {
                pauses++;
                x.PauseReceiving();
                x.Post(static session => ((RecordingSession)session!).ResumeReceiving(), x);
            }

            return count;
        });
        Peer peer = rig.Dial(server.EndPoint!);
        RecordingSession session = server.Connected();
        Assert.Equal(all, ThereAndBack(rig, peer, all, seed + 100));
        Assert.Equal(total, Volatile.Read(ref taken));
        Assert.True(pauses > 0, "it never paused");
        peer.FinishSending();
        Assert.Equal(CloseCause.PeerClosed, session.End());
    });

    /// <summary>The loop receives on for them until it hears of their end: where those bytes lie is given back (the rig looks, when it ends).</summary>
    [Theory, Contract(2, 14)]
    [InlineData(true)]
    [InlineData(false)]
    public void Sessions_end_while_much_comes_for_them(bool isClose) => Run(
        rig =>
        {
            int rounds = rig.IsVirtual ? 2 : 20;
            int much = rig.IsVirtual ? 150_000 : 500_000;
            byte[] piece = new byte[much];
            RecordingServer server = rig.Serve(s => s.AtUnread = (x, unread) =>
            {
                if (x.BytesReceived < 100_000) return unread.Length;
                if (isClose) x.Close();
                else x.Abort();
                return unread.Length;
            });
            for (int round = 0; round < rounds; round++)
            {
                Peer[] peers = [.. Enumerable.Range(0, 8).Select(_ => rig.Dial(server.EndPoint!))];
                RecordingSession[] sessions = [.. peers.Select(_ => server.Connected())];
                int[] done = new int[peers.Length];
                rig.Until(
                    () =>
                    {
                        for (int i = 0; i < peers.Length; i++) WriteSome(peers[i], piece, ref done[i]);
                        return sessions.All(static s => !s.IsConnected);
                    },
                    "all of them to end");
                foreach (Peer peer in peers) peer.Close();
                foreach (RecordingSession session in sessions) Assert.Equal(isClose ? CloseCause.LocalClose : CloseCause.LocalAbort, session.End());
            }
        },
        loops: 1);

    private static void WriteSome(Peer peer, byte[] piece, ref int done)
    {
        try
        {
            done += peer.TryWrite(piece.AsSpan(done));
        }
        catch (IOException)
        {
            done = piece.Length; // it was reset, as it should be
        }
    }

    [Fact, Contract(14)]
    public void What_one_callback_sends_leaves_together_when_it_returns() => Run(rig =>
    {
        int early = 0;
        Peer? peer = null;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
        {
            x.Send("a"u8);
            Assert.Equal(1, x.BytesPending);
            x.Send("b"u8, "c"u8);
            x.CallReserve(10)[0] = (byte)'d';
            x.CallCommit(1);
            // The loop has nothing of it, however long it takes.
            if (!rig.IsVirtual) Thread.SpinWait(200_000);
            if (peer!.TryRead(new byte[1]) != -1) early++;
            Assert.Equal(4, x.BytesPending);
        });
        peer = rig.Dial(server.EndPoint!);
        for (int i = 0; i < 10; i++)
        {
            peer.Write("x");
            Assert.Equal("abcd", peer.ReadText(4));
        }

        Assert.Equal(0, early);
    });

    [Fact, Contract(6, 14)]
    public void What_was_awaited_in_a_callback_goes_on_in_the_order_of_the_session() => Run(rig =>
    {
        int running = 0;
        int overlaps = 0;
        int resumed = 0;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) => _ = Work(x));
        async Task Work(RecordingSession x)
        {
            for (int i = 0; i < 3; i++)
            {
                await x.Loop.PostAsync(static () => { }).ConfigureAwait(false);
                if (Interlocked.Increment(ref running) > 1) Interlocked.Increment(ref overlaps);
                if (Connections.Strand.Current is null) Interlocked.Increment(ref overlaps);
                if (!rig.IsVirtual) Thread.SpinWait(1000);
                Interlocked.Decrement(ref running);
                Interlocked.Increment(ref resumed);
            }
        }

        Peer peer = rig.Dial(server.EndPoint!);
        RecordingSession session = server.Connected();
        for (int i = 1; i <= 20; i++)
        {
            peer.Write("x");
            session.UntilReceived(i);
        }

        rig.Until(() => Volatile.Read(ref resumed) >= 3, "the code after the awaits");
        rig.Until(() => Volatile.Read(ref running) == 0, "the code after the awaits to end");
        Assert.Equal(0, overlaps);
    });

    [Fact, Contract(1, 14)]
    public void The_engine_does_not_end_before_the_last_callback_has() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "One thread runs everything there: nobody can block.");
            using ManualResetEventSlim release = new();
            int inside = 0;
            RecordingServer server = rig.Serve(s => s.AtReceived = (_, _) =>
            {
                Volatile.Write(ref inside, 1);
                release.Wait(TimeSpan.FromSeconds(15));
            });
            Peer peer = rig.Dial(server.EndPoint!);
            peer.Write("x");
            rig.Until(() => Volatile.Read(ref inside) == 1, "the callback");
            ValueTask disposing = rig.Engine.DisposeAsync();
            try
            {
                rig.Pass(TimeSpan.FromMilliseconds(30));
                Assert.False(disposing.IsCompleted);
                Assert.True(server.Session().IsAlive);
            }
            finally
            {
                release.Set();
            }

            rig.Await(disposing, "the engine to end");
            Assert.Equal(CloseCause.EngineStopped, server.Session().Reason.Cause);
            Assert.False(server.Session().IsAlive);
        },
        loops: 1);

    [Theory, Contract(1, 12, 14)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_stop_that_begins_while_OnConnecting_runs_reaches_that_session_too(bool aborts) => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "One thread runs everything there: nobody can block.");
            using ManualResetEventSlim release = new();
            int made = 0;
            RecordingServer server = rig.Serve(s =>
            {
                s.AtServerStopping = static _ => { };
                if (++made == 2) s.AtConnecting = _ => release.Wait(TimeSpan.FromSeconds(15));
            });
            try
            {
                rig.Dial(server.EndPoint!);
                RecordingSession first = server.Connected();
                rig.Dial(server.EndPoint!);
                RecordingSession second = server.Session(1);
                second.Until("connecting");
                ValueTask<StopReport> stop = server.StopAsync(aborts ? TimeSpan.Zero : TimeSpan.FromSeconds(15));
                // Of those who were connected the stop has told all, or ended them.
                if (aborts) first.End();
                else first.Until("server stopping");
                release.Set();
                if (aborts)
                {
                    Assert.Equal(CloseCause.ServerStopped, second.End());
                    Assert.DoesNotContain("connected", second.Events);
                }
                else
                {
                    second.Until("server stopping");
                    Assert.Equal("connecting, connected, server stopping", second.Life);
                    first.Close();
                    second.Close();
                }

                StopReport report = rig.Await(stop);
                // A second behind an abort's deadline the stop reports what is left, and on a busy machine the pool may still owe that session its turn.
                Assert.True(report.IsComplete || (aborts && report.Left == 1), report.ToString());
            }
            finally
            {
                release.Set();
            }
        },
        loops: 1);

    [Fact, Contract(14)]
    public void A_timer_that_comes_while_a_callback_runs_comes_after_it_and_once() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "One thread runs everything there: nobody can block.");
            int fired = 0;
            int firedInside = -1;
            RecordingServer server = rig.Serve(s =>
            {
                s.AtConnected = x => x.CallStartTimer(TimeSpan.FromMilliseconds(2), TimeSpan.FromMilliseconds(2));
                s.AtTimer = (_, _) => Interlocked.Increment(ref fired);
                s.AtReceived = (x, _) =>
                {
                    int before = Volatile.Read(ref fired);
                    long start = Stopwatch.GetTimestamp();
                    while (Stopwatch.GetElapsedTime(start).TotalMilliseconds < 60) Thread.SpinWait(100);
                    firedInside = Volatile.Read(ref fired) - before;
                    x.Send("k"u8);
                };
            });
            Peer peer = rig.Dial(server.EndPoint!);
            peer.Write("x");
            Assert.Equal("k", peer.ReadText(1));
            Assert.Equal(0, firedInside);
            int after = Volatile.Read(ref fired);
            rig.Until(() => Volatile.Read(ref fired) > after, "the timer to go on");
        },
        loops: 1);
}
