using System.Buffers;
using System.Globalization;
using System.IO.Pipelines;
using System.Net.Sockets;
using System.Runtime.CompilerServices;

namespace Whimbrel.Allocations;

// Nothing is allocated between a completion and the user's override, nor on the way back. These are hard limits: a
// number above the limit fails the test, with the measured value.
public sealed class AllocationTests
{
    private const int Rounds = 400;
    private const double ShortConnectionLimitBytes = 64;

    public static TheoryData<string> Engines => Rig.Engines;

    private static int All(ReadOnlySpan<byte> unread) => unread.Length;

    private static int Echo(ScriptedSession session, ReadOnlySpan<byte> unread)
    {
        session.Send(unread);
        return unread.Length;
    }

    // Fields of every idle connection: a field that most connections never use belongs in an object that only some
    // have.
    [Fact]
    public void The_objects_of_a_connection_stay_small()
    {
        // Of these, 24 are for paced sends, because each awaited send checks what was awaited in this loop iteration,
        // and 8 are for CloseReason.BytesLost.
        Assert.InRange(BytesOf(typeof(Whimbrel.Connections.Connection)), 1, 528);
        Assert.InRange(BytesOf(typeof(EchoSession)), 1, 208);
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_small_echo_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, static () => new EchoSession());
        Socket client = rig.Connect();
        byte[] message = new byte[32];
        rig.Meter.ExpectNone("echo of 32 bytes", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
    }

    // Counts everything a thread allocates from one callback to its next: the pool's dispatch, the strand, the
    // callback. Because other code also uses the pool, only the median round must allocate nothing.
    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_on_the_thread_pool_allocates_nothing(string engine)
    {
        long[] perRound = new long[4 * Rounds];
        int count = 0;
        // Per thread, because the thread that runs a callback varies.
        using ThreadLocal<long> lastBytes = new(static () => -1);
        using Rig rig = new(
            engine,
            () => new ScriptedSession((session, unread) =>
            {
                long bytes = GC.GetAllocatedBytesForCurrentThread();
                if (lastBytes.Value >= 0 && count < perRound.Length) perRound[count++] = bytes - lastBytes.Value;
                lastBytes.Value = GC.GetAllocatedBytesForCurrentThread();
                return Echo(session, unread);
            }),
            scheduling: Scheduling.ThreadPool);
        Socket client = rig.Connect();
        byte[] message = new byte[32];
        rig.Meter.ExpectNone("echo of 32 bytes on the pool", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
        Array.Sort(perRound, 0, count);
        Assert.True(count >= Rounds / 2, $"only {count} rounds after another of their thread");
        Assert.Equal(0, perRound[count / 2]);
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_phase_for_each_message_allocates_nothing(string engine)
    {
        foreach (Scheduling scheduling in (Scheduling[])[Scheduling.Inline, Scheduling.ThreadPool])
        {
            using Rig rig = new(engine, static () => new PhasedEchoSession(), scheduling: scheduling);
            Socket client = rig.Connect();
            byte[] message = new byte[32];
            rig.Meter.ExpectNone($"echo with two phases, {scheduling}", Rounds, () =>
            {
                client.Send(message);
                rig.Read(client, message.Length);
            });
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_of_20_KiB_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, static () => new EchoSession());
        Socket client = rig.Connect();
        byte[] message = new byte[20 * 1024];
        rig.Meter.ExpectNone("echo of 20 KiB", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Bytes_left_unread_allocate_nothing(string engine)
    {
        const int frame = 1000;
        // Echoes whole frames only: the rest is kept and joined with the following bytes.
        using Rig rig = new(engine, static () =>
            new ScriptedSession(static (session, unread) => Echo(session, unread[..(unread.Length / frame * frame)])));
        Socket client = rig.Connect();
        byte[] part = new byte[frame * 3 / 2];
        rig.Meter.ExpectNone("frames that arrive in halves", Rounds, () =>
        {
            client.Send(part);
            rig.Read(client, frame);
            client.Send(part);
            rig.Read(client, 2 * frame);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_send_from_another_thread_allocates_nothing(string engine)
    {
        ScriptedSession? session = null;
        using Rig rig = new(engine,
            () => new ScriptedSession(static (_, unread) => All(unread), s => Volatile.Write(ref session, s)));
        Socket client = rig.Connect();
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref session) is not null, LoopMeter.Patience));
        byte[] message = new byte[100];
        long here = 0;
        rig.Meter.ExpectNone("send from another thread", Rounds, () =>
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            SendResult result = session!.Send(message.AsSpan());
            here += GC.GetAllocatedBytesForCurrentThread() - before;
            Assert.Equal(SendResult.Queued, result);
            rig.Read(client, message.Length);
        });
        Assert.True(here < Rounds, $"{here} bytes were allocated by the calling thread in {Rounds} sends or more");
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Messages_that_are_written_allocate_nothing(string engine)
    {
        MessageWriter message = new();
        int[] lengths = [50, 150_000];
        int next = 0;
        using Rig rig = new(engine, () => new ScriptedSession((session, unread) =>
        {
            for (int left = lengths[next++ % 2]; left > 0;)
            {
                Span<byte> room =
                    next % 3 == 0 ? message.GetMemory(40).Span : message.GetSpan(next % 5 == 0 ? 50_000 : 0);
                int part = Math.Min(left, room.Length);
                room[..part].Fill(1);
                message.Advance(part);
                left -= part;
            }

            session.Send(Outgoing.Written(message));
            return unread.Length;
        }));
        Socket client = rig.Connect();
        byte[] request = new byte[1];
        rig.Meter.ExpectNone("a written message of 50 bytes, and one of 150,000", Rounds, () =>
        {
            client.Send(request);
            rig.Read(client, lengths[0]);
            client.Send(request);
            rig.Read(client, lengths[1]);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Bytes_that_are_piped_allocate_nothing(string engine)
    {
        ScriptedSession? source = null;
        using ManualResetEventSlim isPiped = new();
        using Rig rig = new(
            engine,
            () => new ScriptedSession(static (_, unread) => All(unread), session =>
            {
                if (source is null)
                {
                    source = session;
                    return;
                }

                source.Pipe(session);
                isPiped.Set();
            }),
            sendLimitBytes: 64 * 1024);
        Socket from = rig.Connect();
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref source) is not null, LoopMeter.Patience));
        Socket to = rig.Connect();
        Assert.True(isPiped.Wait(LoopMeter.Patience));
        byte[] small = new byte[100];
        byte[] large = new byte[100_000];
        rig.Meter.ExpectNone("100 bytes through a pipe, and 100,000", Rounds, () =>
        {
            from.Send(small);
            rig.Read(to, small.Length);
            // More than the high-water mark of this small queue: the send waits, and then continues.
            from.Send(large);
            rig.Read(to, large.Length);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_post_to_a_session_from_another_thread_allocates_nothing(string engine)
    {
        ScriptedSession? session = null;
        using Rig rig = new(engine,
            () => new ScriptedSession(static (_, unread) => All(unread), s => Volatile.Write(ref session, s)));
        Socket client = rig.Connect();
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref session) is not null, LoopMeter.Patience));
        long here = 0;
        rig.Meter.ExpectNone("post to a session, which answers", Rounds, () =>
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            bool taken = session!.Post(static s => ((Session)s!).Send("posted"u8), session);
            here += GC.GetAllocatedBytesForCurrentThread() - before;
            Assert.True(taken);
            rig.Read(client, 6);
        });
        Assert.True(here < Rounds, $"{here} bytes were allocated by the calling thread in {Rounds} posts or more");
    }

    [Theory]
    [InlineData(false, "bytes")]
    [InlineData(true, "bytes")]
    [InlineData(false, "forms")]
    [InlineData(true, "forms")]
    [InlineData(false, "shared bytes")]
    [InlineData(true, "shared bytes")]
    public void A_broadcast_allocates_nothing(bool isElsewhere, string what)
    {
        const int members = 4;
        SessionGroup group = new("all");
        byte[] message = new byte[what == "shared bytes" ? 20_000 : 200];
        SharedBytes shared = new(message);
        Action broadcast = what switch
        {
            "forms" =>
                () => group.Broadcast<ReadOnlySpan<byte>>(message, static (bytes, _, output) => output.Write(bytes)),
            "shared bytes" => () => group.Broadcast(shared, 0, shared.Length),
            _ => () => group.Broadcast(message),
        };
        ScriptedSession.Unread onData = isElsewhere
            ? static (_, unread) => All(unread)
            : (_, unread) =>
            {
                broadcast();
                return unread.Length;
            };
        int joined = 0;
        using Rig rig = new("epoll", () => new ScriptedSession(onData, session => group.Join(session, joined++ % 2)));
        Socket[] clients = [.. Enumerable.Range(0, members).Select(_ => rig.Connect())];
        Assert.True(SpinWait.SpinUntil(() => group.Count == members, LoopMeter.Patience));
        byte[] start = [1];
        rig.Meter.ExpectNone($"broadcast of {what} to {members} from {(isElsewhere ? "another thread" : "the loop")}",
            Rounds, () =>
            {
                if (isElsewhere) broadcast();
                else clients[0].Send(start);
                foreach (Socket client in clients) rig.Read(client, message.Length);
            });
    }

    [Fact]
    public void A_message_to_several_sessions_by_another_thread_allocates_nothing()
    {
        const int members = 4;
        byte[] message = new byte[200];
        List<Session> made = [];
        using Rig rig = new("epoll", () => new ScriptedSession(static (_, unread) => All(unread), session =>
        {
            lock (made) made.Add(session);
        }));
        Socket[] clients = [.. Enumerable.Range(0, members).Select(_ => rig.Connect())];
        Assert.True(SpinWait.SpinUntil(
            () =>
            {
                lock (made) return made.Count == members;
            },
            LoopMeter.Patience));
        Session[] sessions = [.. made];
        SendResult[] results = new SendResult[members];
        long here = 0;
        int collections = -1;
        int behind = 0;
        rig.Meter.ExpectNone($"a message to {members} sessions", Rounds, () =>
        {
            // A collection drops what the thread caches for its next call, and the two calls after it allocate it
            // again.
            int since = GC.CollectionCount(0);
            behind = since == collections ? behind + 1 : 0;
            collections = since;
            long before = GC.GetAllocatedBytesForCurrentThread();
            Session.SendToEach(message, sessions, results);
            if (behind >= 2) here += GC.GetAllocatedBytesForCurrentThread() - before;
            foreach (Socket client in clients) rig.Read(client, message.Length);
        });
        Assert.DoesNotContain(results, static r => r != SendResult.Queued);
        Assert.Equal(0, here);
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_gate_that_holds_and_opens_allocates_nothing(string engine)
    {
        SessionGroup group = new("one");
        byte[] message = new byte[200];
        using Rig rig = new(
            engine,
            () => new ScriptedSession(
                (session, unread) =>
                {
                    session.Gate(BroadcastGate.Held);
                    for (int i = 0; i < 3; i++) group.Broadcast(message);
                    session.Gate(BroadcastGate.Open);
                    return unread.Length;
                },
                group.Join));
        Socket client = rig.Connect();
        byte[] start = [1];
        rig.Meter.ExpectNone("three broadcasts held and let through", Rounds, () =>
        {
            client.Send(start);
            rig.Read(client, 3 * message.Length);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_SendAsync_that_waits_on_the_loop_allocates_nothing(string engine)
    {
        WaitingSender sender = new();
        using Rig rig = new(engine, () => new ScriptedSession(sender.Begin), sendLimitBytes: 64 * 1024,
            socketBytes: 16 * 1024);
        Socket client = rig.Connect();
        byte[] start = [1];
        rig.Meter.ExpectNone("sixty SendAsync of 48 KiB against a limit of 64 KiB", 20, () =>
        {
            client.Send(start);
            rig.Read(client, WaitingSender.Messages * WaitingSender.MessageBytes);
        });
        Assert.True(sender.Waits > 100, $"only {sender.Waits} waited: nothing was shown");
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Awaiting_that_each_message_was_sent_allocates_nothing(string engine)
    {
        foreach (Scheduling scheduling in (Scheduling[])[Scheduling.Inline, Scheduling.ThreadPool])
        {
            MarkingSender sender = new();
            using Rig rig = new(engine, () => new ScriptedSession(sender.Begin), scheduling: scheduling);
            Socket client = rig.Connect();
            byte[] message = new byte[32];
            rig.Meter.ExpectNone($"echo of 32 bytes with SentAsync, {scheduling}", Rounds, () =>
            {
                client.Send(message);
                rig.Read(client, message.Length);
            });
            Assert.True(sender.Sent >= Rounds, $"only {sender.Sent} were reported");
            // With thread-pool scheduling the loop may have sent it before the callback checks.
            if (scheduling == Scheduling.Inline)
                Assert.True(sender.Waits >= Rounds / 2, $"only {sender.Waits} waited: nothing was shown");
            sender.AllocatedBytes.Sort();
            Assert.Equal(0, sender.AllocatedBytes[sender.AllocatedBytes.Count * 9 / 10]);
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Sends_of_several_pieces_allocate_nothing(string engine)
    {
        byte[] large = new byte[20 * 1024];
        ReadOnlyMemory<byte>[] small = [new byte[10], new byte[20], new byte[30]];
        ReadOnlyMemory<byte>[] many = [.. Enumerable.Repeat<ReadOnlyMemory<byte>>(large.AsMemory(0, 1000), 40)];
        using Rig rig = new(engine, () => new ScriptedSession((session, unread) =>
        {
            session.Send(Outgoing.Pieces(unread, large));
            session.Send(Outgoing.Pieces([small[0], large, small[1]]));
            session.Send(Outgoing.Pieces(small));
            session.Send(Outgoing.Pieces(many));
            session.SendAsync(Outgoing.Pieces([small[0], large])).GetAwaiter().GetResult();
            return unread.Length;
        }));
        Socket client = rig.Connect();
        byte[] start = [1];
        rig.Meter.ExpectNone("two, three and forty pieces, small and large", Rounds, () =>
        {
            client.Send(start);
            rig.Read(client, 1 + large.Length + 30 + large.Length + 60 + 40_000 + 10 + large.Length);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Sends_of_owned_and_shared_memory_with_a_head_allocate_nothing(string engine)
    {
        const int length = 20 * 1024;
        SharedBytes own = new(new byte[length + 1]);
        SharedBytes shared = new(new byte[length + 1]);
        using Rig rig = new(engine, () => new ScriptedSession((session, unread) =>
        {
            session.Send(Outgoing.Owned(own.AddReference().Lend(), 1, length).WithHead(unread));
            own.Dispose();
            session.Send(Outgoing.Shared(shared, 1, length).WithHead(unread));
            session.Send(Outgoing.Shared(shared, 0, 100));
            return unread.Length;
        }));
        Socket client = rig.Connect();
        byte[] start = [1];
        rig.Meter.ExpectNone("two messages of 20 KiB with a head, by reference, and a small part", Rounds, () =>
        {
            client.Send(start);
            rig.Read(client, (2 * (1 + length)) + 100);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_over_a_stream_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, ConnectionStream.Serve(EchoAsync));
        Socket client = rig.Connect();
        byte[] message = new byte[32];
        rig.Meter.ExpectNone("echo of 32 bytes over a stream, each read with a token", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Reading_a_body_allocates_nothing(string engine)
    {
        using Rig rig = new(
            engine,
            static () => new ScriptedSession(
                static (session, unread) => session.Offer(unread),
                static session => _ = EchoBodyAsync(session, session.Begin())));
        Socket client = rig.Connect();
        byte[] message = new byte[20];
        rig.Meter.ExpectNone("20 bytes of a body, read in pieces of 8", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Receiving_by_an_async_method_that_does_not_wait_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, static () => new AsyncEchoSession());
        Socket client = rig.Connect();
        byte[] message = new byte[32];
        rig.Meter.ExpectNone("echo of 32 bytes by OnReceivedAsync", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
    }

    private static async Task EchoBodyAsync(ScriptedSession session, BodyStream body)
    {
        byte[] memory = new byte[8];
        int count;
        while ((count = await body.ReadAsync(memory)) > 0) session.Send(memory.AsSpan(0, count));
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_bulk_transfer_over_a_stream_that_waits_for_space_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, ConnectionStream.Serve(EchoAsync), sendLimitBytes: 64 * 1024,
            socketBytes: 16 * 1024);
        Socket client = rig.Connect();
        byte[] message = new byte[8 * 1024];
        rig.Meter.ExpectNone("256 KiB there and back over a stream against a send limit of 64 KiB", 40, () =>
        {
            for (int i = 0; i < 4; i++)
            {
                for (int j = 0; j < 8; j++) client.Send(message);
                rig.Read(client, 8 * message.Length);
            }
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Being_notified_of_sent_data_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, static () => new ToldSession());
        Socket client = rig.Connect();
        byte[] message = new byte[32];
        rig.Meter.ExpectNone("echo of 32 bytes by a session with all hooks", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
    }

    [Theory]
    [MemberData(nameof(PipeEngines))]
    public void An_echo_over_a_pipe_allocates_nothing(string engine, string scheduler)
    {
        using Rig rig = new(engine, ConnectionPipe.Serve(EchoAsync, PipesOn(scheduler)));
        Socket client = rig.Connect();
        byte[] message = new byte[32];
        rig.Meter.ExpectNone($"echo of 32 bytes over a pipe on the {scheduler}, each read with a token", Rounds, () =>
        {
            client.Send(message);
            rig.Read(client, message.Length);
        });
    }

    [Theory]
    [MemberData(nameof(PipeEngines))]
    public void A_bulk_transfer_over_a_pipe_that_waits_for_space_allocates_nothing(string engine, string scheduler)
    {
        using Rig rig = new(engine, ConnectionPipe.Serve(EchoAsync, PipesOn(scheduler)), sendLimitBytes: 64 * 1024,
            socketBytes: 16 * 1024);
        Socket client = rig.Connect();
        byte[] message = new byte[8 * 1024];
        rig.Meter.ExpectNone("256 KiB there and back over a pipe against a send limit of 64 KiB", 200, () =>
        {
            for (int i = 0; i < 4; i++)
            {
                for (int j = 0; j < 8; j++) client.Send(message);
                rig.Read(client, 8 * message.Length);
            }
        });
    }

    public static TheoryData<string, string> PipeEngines
    {
        get
        {
            TheoryData<string, string> cases = [];
            foreach (var engine in Engines)
            {
                cases.Add(engine.Data, "loop");
                cases.Add(engine.Data, "pool");
            }

            return cases;
        }
    }

    private static ConnectionPipeOptions PipesOn(string scheduler) =>
        new() { Scheduler = scheduler == "pool" ? PipeScheduler.ThreadPool : PipeScheduler.Inline };

    private static async Task EchoAsync(ConnectionPipe peer, CancellationToken stop)
    {
        while (true)
        {
            ReadResult result = await peer.Input.ReadAsync(stop);
            foreach (ReadOnlyMemory<byte> part in result.Buffer) peer.Output.Write(part.Span);
            peer.Input.AdvanceTo(result.Buffer.End);
            if (result.IsCompleted || (await peer.Output.FlushAsync(stop)).IsCompleted) return;
        }
    }

    private static async Task EchoAsync(ConnectionStream peer, CancellationToken stop)
    {
        byte[] memory = new byte[16 * 1024];
        int count;
        while ((count = await peer.ReadAsync(memory, stop)) > 0) await peer.WriteAsync(memory.AsMemory(0, count), stop);
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_stream_that_is_disposed_and_awaited_allocates_what_a_close_does(string engine)
    {
        long ofStream = BytesToEnd(ConnectionStream.Serve(static (stream, _) => End(stream.DisposeAsync)));
        long ofPipe = BytesToEnd(ConnectionPipe.Serve(static (pipe, _) => End(pipe.DisposeAsync)));
        long wait = BytesOf(typeof(Whimbrel.Connections.EndWait));
        TestContext.Current.TestOutputHelper!.WriteLine(
            $"stream {ofStream}, pipe {ofPipe} bytes; the wait alone {wait}");
        Assert.InRange(ofStream, 1, wait);
        Assert.InRange(ofPipe, 1, wait);

        long BytesToEnd(Func<SessionContext, Session> factory)
        {
            using Rig rig = new(engine, factory);
            for (int i = 0; i < Rounds; i++)
            {
                s_leastToEnd = i == Rounds / 2 ? long.MaxValue : s_leastToEnd;
                using Socket client = rig.Connect();
                Assert.Equal(0, client.Receive(new byte[1]));
                client.Shutdown(SocketShutdown.Both);
                Assert.True(SpinWait.SpinUntil(() => rig.Server.SessionCount == 0, LoopMeter.Patience));
            }

            return Volatile.Read(ref s_leastToEnd);
        }

        // Started on the loop, because its thread is measured.
        static Task End(Func<ValueTask> end)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            ValueTask ended = end();
            long bytes = GC.GetAllocatedBytesForCurrentThread() - before;
            if (!ended.IsCompleted) s_leastToEnd = Math.Min(s_leastToEnd, bytes);
            return ended.AsTask();
        }
    }

    private static long s_leastToEnd;

    private static long BytesOf(Type type)
    {
        RuntimeHelpers.GetUninitializedObject(type);
        long before = GC.GetAllocatedBytesForCurrentThread();
        RuntimeHelpers.GetUninitializedObject(type);
        return GC.GetAllocatedBytesForCurrentThread() - before;
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Periodic_timers_allocate_nothing(string engine)
    {
        int fired = 0;
        using AutoResetEvent manyFired = new(false);
        void Fired()
        {
            if (++fired % 50 == 0) manyFired.Set();
        }

        using Rig rig = new(engine, () => new ScriptedSession(static (_, unread) => All(unread),
            static s => s.Periodically(TimeSpan.FromMilliseconds(1)), _ => Fired()));
        LoopTimer timer = rig.Engine.GetLoop(0)
            .StartTimer(TimeSpan.Zero, _ => Fired(), null, TimeSpan.FromMilliseconds(1));
        rig.Connect();
        rig.Meter.ExpectNone("fifty firings of periodic timers of a loop and of a session", 10,
            () => Assert.True(manyFired.WaitOne(LoopMeter.Patience)));
        timer.Cancel();
    }

    [Theory]
    [InlineData("epoll", true)]
    [InlineData("epoll", false)]
    [InlineData("uring", true)]
    [InlineData("uring", false)]
    public void A_short_connection_allocates_little_beyond_its_session(string engine, bool clientCloses)
    {
        using Rig rig = new(engine,
            clientCloses ? static () => new EchoSession() : static () => new EchoAndCloseSession());
        byte[] message = new byte[32];
        void Connection()
        {
            using Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
            {
                ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds
            };
            client.Connect(rig.Server.EndPoint!);
            client.Send(message);
            rig.Read(client, message.Length);
            if (!clientCloses) Assert.Equal(0, client.Receive(message));
            client.Shutdown(SocketShutdown.Both);
        }

        void AllGone()
        {
            Connection();
            Assert.True(SpinWait.SpinUntil(() => rig.Server.SessionCount == 0, LoopMeter.Patience));
        }

        double bytes = rig.Meter.BytesPerRound(Rounds, Rounds, AllGone) - SizeOf(clientCloses);
        string line = string.Create(CultureInfo.InvariantCulture,
            $"short connection closed by the {(clientCloses ? "client" : "server")}: {bytes:0} bytes allocated on the "
            + $"loop's thread beyond the session object (limit {ShortConnectionLimitBytes})");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(bytes <= ShortConnectionLimitBytes, line);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long SizeOf(bool echo)
    {
        GC.KeepAlive(echo ? new EchoSession() : new EchoAndCloseSession());
        long before = GC.GetAllocatedBytesForCurrentThread();
        Session session = echo ? new EchoSession() : new EchoAndCloseSession();
        long size = GC.GetAllocatedBytesForCurrentThread() - before;
        GC.KeepAlive(session);
        return size;
    }
}
