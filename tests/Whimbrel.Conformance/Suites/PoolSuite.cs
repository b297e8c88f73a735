using System.Buffers.Binary;
using System.Diagnostics;
using System.Runtime.InteropServices;

namespace Whimbrel.Conformance;

/// <summary>Contract 14, thread pool: a blocking session affects no other, order and back-pressure are kept, the sends
/// of one callback are sent together.</summary>
public abstract class PoolSuite(Transport transport) : Suite(transport)
{
    private const int ReadAtATime = 256 * 1024;

    [Fact, Contract(14)]
    public void A_session_that_blocks_does_not_hold_its_neighbours_on_the_same_loop() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            Blocked(rig, blocked: 1);
        },
        loops: 1);

    [Fact, Contract(14)]
    public void Thirty_two_sessions_that_block_do_not_hold_the_others_when_the_pool_has_threads_for_them() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            using PoolThreads threads = new(48);
            Blocked(rig, blocked: 32);
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
            Peer[] stuck = [.. Enumerable.Range(0, blocked).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            foreach (Peer peer in stuck) peer.Write("b");
            rig.Until(() => Volatile.Read(ref inside) == blocked, "all of them to block");
            Peer free = rig.ConnectPeer(server.EndPoint!);
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

        Assert.DoesNotContain(rig.Notices, static n => n.Kind == DiagnosticEventKind.BlockedLoop);
    }

    [Fact, Contract(10, 14)]
    public void A_callback_that_has_paused_knows_it_also_when_its_connection_ends_meanwhile() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread, so no callback can block.");
        bool hasEnded = false, wasPaused = false;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.PauseReceiving();
            x.Abort();
            hasEnded = SpinWait.SpinUntil(() => x.Connection is null, TimeSpan.FromSeconds(15));
            // As a protocol with several buffered messages checks before each.
            wasPaused = x.IsReceivingPaused;
        });
        rig.ConnectPeer(server.EndPoint!).Write("x");
        server.Session().End();
        Assert.True(hasEnded, "the connection did not end under its callback");
        Assert.True(wasPaused);
    });

    [Fact, Contract(14)]
    public void While_a_callback_runs_a_limited_amount_is_read_and_nothing_is_lost() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            const int total = 8 * 1024 * 1024;
            byte[] all = Pattern(total, 5);
            using ManualResetEventSlim release = new();
            int inside = 0;
            RecordingServer server = rig.Serve(s => s.AtReceived = (_, _) =>
            {
                Volatile.Write(ref inside, 1);
                release.Wait(TimeSpan.FromSeconds(15));
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            rig.Elsewhere(() =>
            {
                peer.Write(all);
                peer.ShutdownSend();
            });
            try
            {
                rig.Until(() => Volatile.Read(ref inside) == 1, "the first callback");
                rig.Settle();
                rig.Settle();
                // The limit, one read above it, and the data of the running callback.
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

    /// <summary> Large blocks stay in the buffer they were received into; small pieces are joined. Here both alternate,
    /// and the session leaves odd numbers of bytes, pauses with unconsumed data, continues on another thread, and
    /// echoes what it consumed. </summary>
    [Theory, Contract(3, 10, 14)]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void Large_and_small_amounts_arrive_whole_and_in_order_however_much_the_session_consumes(int seed) =>
        Run(rig =>
        {
            // The simulation has one thread: the peer reads after it has written everything, which must fit into the
            // buffers.
            int total = rig.IsVirtual ? 384 * 1024 : 6 * 1024 * 1024;
            byte[] all = Pattern(total, seed);
            Random choices = new(seed); // owned by the session: one callback runs at a time
            int taken = 0, pauses = 0;
            RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
            {
                // Unconsumed data is passed again with the next bytes, and after the last bytes there are none.
                bool isAll = taken + unread.Length == total;
                int count = isAll || choices.Next(4) > 0 ? unread.Length : choices.Next(1, unread.Length + 1);
                if (!unread[..count].SequenceEqual(all.AsSpan(taken, count)))
                    throw new InvalidOperationException($"wrong bytes at {taken}");
                // Counted first, because the response may arrive before this call has returned.
                taken += count;
                x.Send(unread[..count]);
                if (taken < total && choices.Next(5) == 0)
                {
                    pauses++;
                    x.PauseReceiving();
                    x.Post(static session => ((RecordingSession)session!).ResumeReceiving(), x);
                }

                return count;
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            Assert.Equal(all, ThereAndBack(rig, peer, all, seed + 100));
            Assert.Equal(total, Volatile.Read(ref taken));
            Assert.True(pauses > 0, "it never paused");
            peer.ShutdownSend();
            Assert.Equal(CloseCause.PeerClosed, session.End());
        });

    /// <summary>The loop keeps receiving for them until it learns of their end: the buffers of those bytes are returned
    /// (the rig checks this at its end).</summary>
    [Theory, Contract(2, 14)]
    [InlineData(true)]
    [InlineData(false)]
    public void Sessions_end_while_much_data_arrives_for_them(bool isClose) => Run(
        rig =>
        {
            int rounds = rig.IsVirtual ? 2 : 20;
            int much = rig.IsVirtual ? 150_000 : 500_000;
            byte[] piece = new byte[much];
            RecordingServer server = rig.Serve(s => s.AtData = (x, unread) =>
            {
                if (x.BytesReceived < 100_000) return unread.Length;
                if (isClose) x.Close();
                else x.Abort();
                return unread.Length;
            });
            for (int round = 0; round < rounds; round++)
            {
                Peer[] peers = [.. Enumerable.Range(0, 8).Select(_ => rig.ConnectPeer(server.EndPoint!))];
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
                foreach (RecordingSession session in sessions)
                    Assert.Equal(isClose ? CloseCause.LocalClose : CloseCause.LocalAbort, session.End());
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
            done = piece.Length; // it was reset, as expected
        }
    }

    /// <summary>Sent by a system call of the thread that ran the callback (docs/design/0071): the response was sent and
    /// counted while the loop slept.</summary>
    [Fact, Contract(8, 14)]
    public void An_answer_while_the_loop_sleeps_does_not_wake_it() => Run(
        rig =>
        {
            Loop loop = rig.Engine.GetLoop(0);
            Assert.SkipWhen(rig.IsVirtual || rig.Tls != TlsKind.None || !loop.StrandsSend,
                "On this transport the loop sends the responses.");
            const int answers = 100;
            byte[] answer = Pattern(20_000, 3);
            RecordingServer server = rig.Serve(
                s => s.AtReceived = (x, _) =>
                {
                    // The after-effects of the first one, such as a timer, are done.
                    SpinWait.SpinUntil(() => loop.Mailbox.IsLoopAsleep, TimeSpan.FromMilliseconds(50));
                    x.Send(answer.AsSpan(0, 7));
                    x.Send(answer.AsSpan(7));
                },
                new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), CountSends = true });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            long wakes = 0;
            for (int i = 0; i < answers; i++)
            {
                if (i == 1) wakes = loop.Mailbox.Wakes;
                peer.Write("x");
                Assert.Equal(answer, peer.Read(answer.Length));
            }

            // A pause of the machine between check and send causes a wake.
            Assert.InRange(loop.Mailbox.Wakes - wakes, 0, answers / 4);
            rig.Until(() => session.BytesPending == 0, "nothing to be pending");
            Assert.Equal(answers * answer.Length, session.BytesSent);
            Assert.Equal((answers * answer.Length, answers * 2L),
                (server.BytesSent, server.ReadCounters().MessagesSent));
        },
        loops: 1);

    /// <summary> Two other threads send, each callback broadcasts and then sends, the peer reads a little at a time:
    /// messages are whole, those of one sender are in order, and a broadcast precedes what its callback sent after it,
    /// whether the loop sleeps, wakes or is awake. </summary>
    [Theory, Contract(7, 14)]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void Sends_of_a_callback_while_its_loop_sleeps_keep_their_order_with_all_others(int seed) => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread.");
            const int callbacks = 300;
            Random choices = new(seed); // owned by the session: one callback runs at a time
            int number = 0, refused = 0;
            RecordingServer? server = null;
            server = rig.Serve(
                s => s.AtData = (x, unread) =>
                {
                    foreach (byte _ in unread)
                    {
                        if (server!.Sessions.Broadcast(Frame('g', number, choices.Next(200))) != SendResult.Queued)
                            Interlocked.Increment(ref refused);
                        if (x.Send(Frame('c', number++,
                            choices.Next(3) == 0 ? choices.Next(50_000) : choices.Next(2_000))) != SendResult.Queued)
                            Interlocked.Increment(ref refused);
                    }

                    return unread.Length;
                },
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Limits = new() { SendBytes = 64 * 1024 * 1024 },
                    Socket = new() { SendBufferBytes = 16 * 1024 }
                });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            Thread[] others = [.. "ab".Select(name => new Thread(() => SendBeside(session, name, seed, ref refused)))];
            foreach (Thread other in others) other.Start();
            Dictionary<char, int> next = new() { ['a'] = 0, ['b'] = 0, ['c'] = 0, ['g'] = 0 };
            FrameReader reader = new();
            Random pace = new(seed + 50);
            int asked = 0;
            byte[] buffer = new byte[40_000];
            rig.Until(
                () =>
                {
                    // A few at a time, so that the loop sleeps between them.
                    if (asked < callbacks && asked - next['c'] < 3) asked += peer.TryWrite(new byte[pace.Next(1, 4)]);
                    int count = peer.TryRead(buffer.AsSpan(0, pace.Next(1, buffer.Length)));
                    if (count > 0) reader.Take(buffer.AsSpan(0, count), next);
                    return next['a'] == Beside && next['b'] == Beside && asked >= callbacks && next['c'] == asked
                        && next['g'] == asked;
                },
                "all that was sent");
            foreach (Thread other in others) other.Join();
            Assert.Equal(0, refused);
            rig.Until(() => session.BytesPending == 0, "all to be counted as sent");
            peer.ShutdownSend();
            Assert.Equal(CloseCause.PeerClosed, session.End());
        },
        loops: 1);

    private const int Beside = 400;

    private static void SendBeside(RecordingSession session, char name, int seed, ref int refused)
    {
        Random choices = new(seed + name);
        for (int i = 0; i < Beside; i++)
        {
            if (session.Send(Frame(name, i, choices.Next(3_000))) != SendResult.Queued)
                Interlocked.Increment(ref refused);
            // Sometimes during a callback, sometimes between two.
            Thread.SpinWait(choices.Next(20_000));
        }
    }

    /// <summary>The sender, the number, the length, and bytes that differ between messages.</summary>
    private static byte[] Frame(char name, int number, int length)
    {
        byte[] frame = new byte[9 + length];
        frame[0] = (byte)name;
        BinaryPrimitives.WriteInt32LittleEndian(frame.AsSpan(1), number);
        BinaryPrimitives.WriteInt32LittleEndian(frame.AsSpan(5), length);
        Pattern(length, number + name).CopyTo(frame, 9);
        return frame;
    }

    private sealed class FrameReader
    {
        private readonly List<byte> _rest = [];

        internal void Take(ReadOnlySpan<byte> data, Dictionary<char, int> next)
        {
            _rest.AddRange(data);
            while (_rest.Count >= 9)
            {
                ReadOnlySpan<byte> all = CollectionsMarshal.AsSpan(_rest);
                int length = BinaryPrimitives.ReadInt32LittleEndian(all[5..]);
                if (all.Length < 9 + length) return;
                char name = (char)all[0];
                int number = BinaryPrimitives.ReadInt32LittleEndian(all[1..]);
                Assert.Equal(next[name], number);
                if (!all[..(9 + length)].SequenceEqual(Frame(name, number, length)))
                    Assert.Fail($"{name} {number} is not what was sent");
                if (name == 'c')
                    Assert.True(next['g'] > number, $"a message sent after broadcast {number} arrived before it");
                next[name] = number + 1;
                _rest.RemoveRange(0, 9 + length);
            }
        }
    }

    [Fact, Contract(14)]
    public void Messages_of_one_callback_are_sent_together_when_it_returns() => Run(rig =>
    {
        int early = 0;
        Peer? peer = null;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
        {
            x.Send("a"u8);
            Assert.Equal(1, x.BytesPending);
            x.Send(Outgoing.Pieces("b"u8, "c"u8));
            x.CallReserve(10)[0] = (byte)'d';
            x.CallCommit(1);
            // The loop does not have it, however long it takes.
            if (!rig.IsVirtual) Thread.SpinWait(200_000);
            if (peer!.TryRead(new byte[1]) != -1) early++;
            Assert.Equal(4, x.BytesPending);
        });
        peer = rig.ConnectPeer(server.EndPoint!);
        for (int i = 0; i < 10; i++)
        {
            peer.Write("x");
            Assert.Equal("abcd", peer.ReadText(4));
        }

        Assert.Equal(0, early);
    });

    [Fact, Contract(6, 7, 14)]
    public void Data_accepted_by_SendAsync_in_a_callback_is_not_overtaken_by_sends_of_its_caller_elsewhere() =>
        Run(rig =>
        {
            byte[] large = Pattern(100_000, 7);
            RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
            {
                x.Send("a"u8);
                Await(x.SendAsync("b"u8.ToArray()));
                SendElsewhere(x, "c");
                Await(x.SendAsync(large));
                SendElsewhere(x, "d");
                Await(x.SendAsync(Outgoing.Pieces(["e"u8.ToArray(), "f"u8.ToArray()])));
                SendElsewhere(x, "g");
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            for (int i = 0; i < 10; i++)
            {
                peer.Write("x");
                Assert.Equal("abc", peer.ReadText(3));
                Assert.True(peer.Read(large.Length).AsSpan().SequenceEqual(large));
                Assert.Equal("defg", peer.ReadText(4));
            }

            static void Await(ValueTask<SendResult> sending)
            {
                // There is space, but after 64 KiB a sender yields to work items that wait for a pool thread.
                Task<SendResult> task = sending.AsTask();
                Assert.True(task.Wait(TimeSpan.FromSeconds(10)), "an awaited send did not complete");
                Assert.Equal(SendResult.Queued, task.Result);
            }

            // The rest of an async flow that has left the callback's thread: it runs before the callback returns.
            static void SendElsewhere(Session session, string text) =>
                OnThread(() => Assert.Equal(SendResult.Queued, session.Send(text)));
        });

    [Fact, Contract(6, 14)]
    public void An_await_in_a_callback_resumes_in_the_order_of_the_session() => Run(rig =>
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
                if (Connections.PoolSession.Current is null) Interlocked.Increment(ref overlaps);
                if (!rig.IsVirtual) Thread.SpinWait(1000);
                Interlocked.Decrement(ref running);
                Interlocked.Increment(ref resumed);
            }
        }

        Peer peer = rig.ConnectPeer(server.EndPoint!);
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
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            using ManualResetEventSlim release = new();
            int inside = 0;
            RecordingServer server = rig.Serve(s => s.AtReceived = (_, _) =>
            {
                Volatile.Write(ref inside, 1);
                release.Wait(TimeSpan.FromSeconds(15));
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
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
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            using ManualResetEventSlim release = new();
            int made = 0;
            RecordingServer server = rig.Serve(s =>
            {
                s.AtServerStopping = static _ => { };
                if (++made == 2) s.AtConnecting = _ => release.Wait(TimeSpan.FromSeconds(15));
            });
            try
            {
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                RecordingSession first = server.Connected();
                Peer late = rig.ConnectPeer(server.EndPoint!);
                RecordingSession second = server.Session(1);
                second.Until("connecting");
                ValueTask<StopReport> stop = server.StopAsync(aborts ? TimeSpan.Zero : TimeSpan.FromSeconds(15));
                // The stop has informed, or ended, all sessions that were connected.
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
                    peer.Close();
                    late.Close();
                }

                StopReport report = rig.Await(stop);
                // One second after an abort's deadline the stop reports what is left, and on a busy machine the pool
                // may not have run that session yet.
                Assert.True(report.IsComplete || (aborts && report.Left == 1), report.ToString());
            }
            finally
            {
                release.Set();
            }
        },
        loops: 1);

    [Fact, Contract(14)]
    public void A_timer_that_a_callback_cancels_does_not_fire_though_it_became_due_meanwhile() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            bool wasDue = false;
            RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
            {
                if (Text(data) == "cancel")
                {
                    LoopTimer timer = x.CallStartTimer(TimeSpan.FromMilliseconds(1));
                    wasDue = SpinWait.SpinUntil(() => timer.IsQueued, TimeSpan.FromSeconds(20));
                    timer.Cancel();
                }

                x.Send(data);
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("cancel");
            Assert.Equal("cancel", peer.ReadText(6));
            Assert.True(wasDue);
            // What the callback queued follows the timer's call, which was queued before.
            peer.Write("after");
            Assert.Equal("after", peer.ReadText(5));
            Assert.Equal(0, server.Session().Count("timer"));
        },
        loops: 1);

    [Fact, Contract(14)]
    public void A_timer_due_while_a_callback_runs_fires_after_it_and_once() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
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
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            Assert.Equal("k", peer.ReadText(1));
            Assert.Equal(0, firedInside);
            int after = Volatile.Read(ref fired);
            rig.Until(() => Volatile.Read(ref fired) > after, "the timer to continue");
        },
        loops: 1);
}
