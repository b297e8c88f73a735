using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary> Contracts 7 and 14: sends of a callback on the pool wait for its return, but precede what the same async
/// flow sends from another thread before that. </summary>
public abstract class GatheringSuite(Transport transport) : TrafficSuite(transport)
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(15);

    [Theory, Contract(7, 14)]
    [InlineData("send")]
    [InlineData("large")]
    [InlineData("two parts")]
    [InlineData("pieces")]
    [InlineData("awaited")]
    [InlineData("awaited large")]
    [InlineData("owned")]
    [InlineData("written")]
    [InlineData("file")]
    [InlineData("to each")]
    [InlineData("broadcast")]
    [InlineData("broadcast to all")]
    [InlineData("awaited broadcast")]
    [InlineData("on the loop")]
    [InlineData("for each on the loop")]
    public void Data_sent_in_a_callback_precedes_what_it_sends_from_another_thread(string kind) => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual
            && (kind is "awaited broadcast" or "awaited large" || kind.EndsWith("loop", StringComparison.Ordinal)),
            "The memory engine runs everything on one thread, so no thread can wait for the loop.");
        using TestFile file = new(Bytes("file"));
        FileSource source = new(file.Path);
        SessionGroup group = new();
        byte[] there = kind.Contains("large", StringComparison.Ordinal) ? Pattern(40_000)
            : kind == "file" ? Bytes("there file") : Bytes("there");
        List<byte> expected = [];
        RecordingServer server = null!;
        server = rig.Serve(s =>
        {
            s.AtConnected = group.Join;
            s.AtReceived = (x, _) =>
            {
                for (int i = 0; i < 3; i++)
                {
                    Queued(x.Send("1"u8));
                    Elsewhere(x);
                    // The same in reserved space.
                    x.CallReserve(100)[0] = (byte)'2';
                    x.CallCommit(1);
                    Queued(x.Send("3"u8));
                    Elsewhere(x);
                    // Space is reserved meanwhile, after the sent data.
                    Queued(x.Send("4"u8));
                    Span<byte> room = x.CallReserve(100);
                    room[0] = (byte)'5';
                    Elsewhere(x);
                    room[1] = (byte)'6';
                    x.CallCommit(2);
                    Elsewhere(x);
                    Queued(x.Send("7"u8));
                }
            };
        }, new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), CountSends = true });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        rig.Until(() => group.Count == 1, "the session to have joined");
        for (int i = 0; i < 3; i++)
            expected.AddRange([.. "1"u8, .. there, .. "23"u8, .. there, .. "4"u8, .. there, .. "56"u8,
                .. there, .. "7"u8]);
        for (int i = 0; i < 3; i++)
        {
            peer.Write("x");
            Assert.Equal(expected.ToArray(), peer.Read(expected.Count));
        }

        if (kind == "send")
            rig.Until(() => server.ReadCounters().MessagesSent == 3 * 3 * (6 + 4), "each message to be counted once");

        void Elsewhere(RecordingSession x) => OnThread(() => SendThere(x));

        void SendThere(RecordingSession x)
        {
            switch (kind)
            {
                case "send" or "large":
                    Queued(x.Send(there));
                    break;
                case "two parts":
                    Queued(x.Send(Outgoing.Pieces("th"u8, "ere"u8)));
                    break;
                case "pieces":
                    Queued(x.Send(Outgoing.Pieces([Bytes("t"), Bytes("her"), Bytes("e")])));
                    break;
                case "awaited" or "awaited large":
                    Queued(x.SendAsync(there).AsTask().GetAwaiter().GetResult());
                    break;
                case "owned":
                    Queued(x.Send(Outgoing.Owned(new Owned((byte[])there.Clone()), there.Length)));
                    break;
                case "written":
                    MessageWriter message = new();
                    message.Write(there);
                    Queued(x.Send(Outgoing.Written(message)));
                    break;
                case "file":
                    Queued(x.Send(Outgoing.File(source, 0, source.Length).WithHead("there "u8)));
                    break;
                case "to each":
                    Assert.Equal(1, Session.SendToEach(there, [x]));
                    break;
                case "broadcast":
                    Queued(group.Broadcast(there));
                    break;
                case "broadcast to all":
                    Queued(server.Broadcast(there));
                    break;
                case "awaited broadcast":
                    Assert.Equal(SendResult.Queued,
                        group.BroadcastAsync(there, s_patience).AsTask().GetAwaiter().GetResult().Result);
                    break;
                case "on the loop":
                    using (ManualResetEventSlim done = new())
                    {
                        x.Loop.Post(() =>
                        {
                            x.Send(there);
                            done.Set();
                        });
                        Assert.True(done.Wait(s_patience), "the loop did not run what was posted to it");
                    }

                    break;
                default:
                    group.ForEachAsync(s => Queued(s.Send(there))).AsTask().GetAwaiter().GetResult();
                    break;
            }
        }
    });

    /// <summary>As users write it: the code after an await may send before the callback has returned.</summary>
    [Theory, Contract(7, 14)]
    [InlineData(false)]
    [InlineData(true)]
    public void An_async_function_that_continues_on_other_threads_sends_in_its_order(bool broadcasts) => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread.");
        const int Sessions = 4;
        const int Requests = 300;
        const int Answers = 6;
        SessionGroup[] groups = [.. Enumerable.Range(0, Sessions).Select(static _ => new SessionGroup())];
        int count = 0;
        RecordingServer server = rig.Serve(s =>
        {
            SessionGroup group = groups[(Interlocked.Increment(ref count) - 1) % Sessions];
            s.AtConnected = group.Join;
            s.AtReceived = (x, data) =>
            {
                for (int i = 0; i < data.Length; i++) _ = Answer(x, group);
            };
        });
        Peer[] peers = [.. Enumerable.Range(0, Sessions).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        for (int i = 0; i < Sessions; i++) server.Connected(i);
        rig.Until(() => groups.All(static g => g.Count == 1), "all sessions to have joined");
        byte[] expected = [.. Enumerable.Range(0, Answers).Select(static i => (byte)('a' + i))];
        for (int i = 0; i < Requests; i++)
        {
            foreach (Peer peer in peers) peer.Write("x");
            foreach (Peer peer in peers) Assert.Equal(expected, peer.Read(Answers));
        }

        async Task Answer(RecordingSession x, SessionGroup group)
        {
            for (int i = 0; i < Answers; i++)
            {
                byte[] next = [(byte)('a' + i)];
                Queued(broadcasts && i % 2 == 1 ? group.Broadcast(next) : x.Send(next));
                await Task.Yield();
            }
        }
    });

    [Fact, Contract(7, 14)]
    public void Of_many_callbacks_that_run_at_once_a_broadcast_passes_nothing() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            const int Sessions = 48;
            using PoolThreads threads = new(Sessions + 16);
            using ManualResetEventSlim release = new();
            int inside = 0;
            SessionGroup group = new();
            RecordingServer server = rig.Serve(s =>
            {
                s.AtConnected = group.Join;
                s.AtReceived = (x, _) =>
                {
                    Queued(x.Send("1"u8));
                    Interlocked.Increment(ref inside);
                    release.Wait(s_patience);
                    Queued(x.Send("3"u8));
                };
            });
            Peer[] peers = [.. Enumerable.Range(0, Sessions).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            rig.Until(() => group.Count == Sessions, "all sessions to have joined");
            try
            {
                foreach (Peer peer in peers) peer.Write("x");
                rig.Until(() => Volatile.Read(ref inside) == Sessions, "all callbacks to run");
                Queued(group.Broadcast("2"u8));
                // The broadcast, and the data before it, do not wait for the callbacks.
                foreach (Peer peer in peers) Assert.Equal("12", peer.ReadText(2));
            }
            finally
            {
                release.Set();
            }

            foreach (Peer peer in peers) Assert.Equal("3", peer.ReadText(1));
        },
        loops: 1);

    [Theory, Contract(7, 14)]
    [InlineData("close")]
    [InlineData("finish")]
    [InlineData("abort")]
    public void An_end_from_another_thread_follows_the_data_that_the_callback_has_sent(string end) => Run(rig =>
    {
        SendResult late = default;
        bool isSeen = false;
        using ManualResetEventSlim seen = new();
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            Queued(x.Send("1"u8));
            OnThread(() =>
            {
                if (end == "close") x.Close();
                else if (end == "finish") x.ShutdownSend();
                else x.Abort();
            });
            late = x.Send("late"u8);
            // It does not wait for this callback.
            isSeen = rig.IsVirtual || seen.Wait(s_patience);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("x");
        if (end != "abort") Assert.Equal("1", peer.ReadTextToEnd());
        seen.Set();
        if (end != "abort") peer.Close();
        CloseCause cause = session.End();
        if (end == "abort") Assert.Equal(CloseCause.LocalAbort, cause);
        Assert.True(isSeen, "what the callback had sent waited for its return");
        Assert.Equal(SendResult.Closed, late);
        Assert.Equal(0, session.BytesPending);
    });

    [Fact, Contract(7, 14)]
    public void A_broadcast_whose_wake_up_is_batched_precedes_what_its_callback_sends_after_it() => Run(
        rig =>
        {
            const int Requests = 100;
            SessionGroup group = new();
            RecordingServer server = rig.Serve(s =>
            {
                s.AtConnected = group.Join;
                s.AtReceived = (x, _) =>
                {
                    // The loop that received the request is about to sleep.
                    if (!rig.IsVirtual)
                        SpinWait.SpinUntil(() => x.Loop.Mailbox.IsLoopAsleep, TimeSpan.FromMilliseconds(50));
                    using (x.BatchWakeUps())
                    {
                        Queued(group.Broadcast("1"u8));
                        Queued(x.Send("2"u8));
                        x.Flush();
                    }
                };
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            server.Connected();
            rig.Until(() => group.Count == 1, "the session to have joined");
            for (int i = 0; i < Requests; i++)
            {
                peer.Write("x");
                Assert.Equal("12", peer.ReadText(2));
            }
        },
        loops: 1);

    [Fact, Contract(12, 14)]
    public void A_close_of_another_thread_completes_when_the_callback_returns_without_a_Commit() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread.");
        bool isMoved = false;
        TimeSpan forever = TimeSpan.FromMinutes(10);
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (x, _) =>
            {
                Queued(x.Send("1"u8));
                x.CallReserve(100)[0] = (byte)'2';
                OnThread(() => x.Close());
                // The close waits for the reserved space only, and no other entry follows.
                isMoved = SpinWait.SpinUntil(() => x.BytesPending == 100, s_patience);
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { Drain = forever }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("x");
        Assert.Equal("1", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.True(isMoved, "the data sent in the callback waited for its return");
    });

    [Fact, Contract(6, 7, 14)]
    public void A_wait_for_space_on_another_thread_follows_the_data_that_the_callback_has_sent() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread, so no thread can wait.");
        bool hasWaited = false;
        SendResult result = default;
        (RecordingSession session, Peer peer) = Pair(rig, setUp: s => s.AtReceived = (x, _) =>
        {
            Queued(x.Send("1"u8));
            Task<SendResult>? sending = null;
            OnThread(() => sending = x.SendAsync(Bytes("234567")).AsTask());
            hasWaited = !sending!.IsCompleted;
            // It gets space while this callback still runs.
            if (sending.Wait(s_patience)) result = sending.Result;
        });
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 5);
        peer.Write("x");
        rig.Until(() => Volatile.Read(ref hasWaited), "the send of the other thread to wait");
        byte[] expected = [.. first, .. fill, .. Bytes("1234567")];
        Assert.Equal(expected, peer.Read(expected.Length));
        rig.Until(() => session.BytesPending == 0, "nothing to be pending");
        peer.Close();
        session.End();
        Assert.Equal(SendResult.Queued, result);
    });

    /// <summary>Callbacks and other threads send to the same sessions at full speed, in every way; the rig counts the
    /// blocks at its end.</summary>
    [Fact, Contract(7, 14)]
    public void While_callbacks_and_other_threads_send_at_once_each_keeps_its_order() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread.");
        const int Threads = 3;
        const int Messages = 4000;
        SessionGroup group = new();
        RecordingServer server = rig.Serve(s =>
        {
            int next = 0;
            s.AtConnected = group.Join;
            s.AtReceived = (x, _) =>
            {
                // A message is a number of two bytes and its sender in one byte.
                for (int i = 0; i < 40 && next < Messages; i++)
                {
                    if (next % 3 == 0)
                    {
                        Span<byte> room = x.CallReserve(64);
                        if (room.IsEmpty) break;
                        // Written while others may post the data before it.
                        Message(Threads, next).CopyTo(room);
                        x.CallCommit(3);
                    }
                    else if (x.Send(Message(Threads, next)) != SendResult.Queued)
                    {
                        break;
                    }

                    next++;
                    if (next % 50 == 0) x.Flush();
                }
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Until(() => group.Count == 1, "the session to have joined");
        for (int t = 0; t < Threads; t++)
        {
            int thread = t;
            rig.Elsewhere(() =>
            {
                for (int i = 0; i < Messages; i++)
                {
                    while (!TrySend(session, group, thread, i)) Thread.Yield();
                }
            });
        }

        int[] seen = new int[Threads + 1];
        while (seen.Any(s => s < Messages))
        {
            peer.Write("x");
            for (int i = 0; i < 40 && seen.Any(s => s < Messages); i++)
            {
                byte[] message = peer.Read(3);
                Assert.Equal(seen[message[2]], (message[0] << 8) | message[1]);
                seen[message[2]]++;
                // Requested sends arrive at their own time, and there may be no others any more.
                if (seen[Threads] < Messages && seen.Take(Threads).All(s => s == Messages)) break;
            }
        }

        rig.Join();
        rig.Until(() => session.BytesPending == 0, "nothing to be pending");
    });

    private static byte[] Message(int sender, int number) => [(byte)(number >> 8), (byte)number, (byte)sender];

    private static bool TrySend(Session session, SessionGroup group, int thread, int number)
    {
        byte[] message = Message(thread, number);
        return (number % 4) switch
        {
            0 => session.Send(message) == SendResult.Queued,
            1 => group.Broadcast(message) == SendResult.Queued,
            2 => session.Send(Outgoing.Owned(new Owned(message), message.Length)) == SendResult.Queued,
            _ => Session.SendToEach(message, [session]) == 1,
        };
    }

    private static void Queued(SendResult result) => Assert.Equal(SendResult.Queued, result);
}
