using Whimbrel.Connections;

namespace Whimbrel.Conformance;

/// <summary>Contract 6: SendAsync waits for space in FIFO order, and its continuations run where it was
/// awaited.</summary>
public abstract class SendAsyncSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void SendAsync_with_space_has_completed_when_it_returns(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        bool completed = false;
        At(rig, session, onLoop, () =>
        {
            ValueTask<SendResult> task = session.SendAsync(Bytes("hello"));
            completed = task.IsCompletedSuccessfully && task.Result == SendResult.Queued;
        });
        Assert.True(completed);
        Assert.Equal("hello", peer.ReadText(5));
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void SendAsync_without_space_waits_until_the_peer_reads(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 4);
        Task<SendResult> task = Start(rig, session, onLoop, () => session.SendAsync(Bytes("hello")));
        rig.Settle();
        Assert.False(task.IsCompleted);
        Assert.Equal(first, peer.Read(first.Length));
        Assert.Equal(fill, peer.Read(fill.Length));
        Assert.Equal(SendResult.Queued, Await(rig, task));
        Assert.Equal("hello", peer.ReadText(5));
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void SendAsync_of_exactly_the_free_space_does_not_wait(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, _) = Pair(rig);
        Clog(rig, session);
        FillTo(rig, session, room: 100);
        Task<SendResult> fits = Start(rig, session, onLoop, () => session.SendAsync(Filled('a', 100)));
        Assert.True(fits.IsCompletedSuccessfully);
        Assert.Equal(Limit, session.BytesPending);
        Task<SendResult> waits = Start(rig, session, onLoop, () => session.SendAsync(Filled('b', 1)));
        rig.Settle();
        Assert.False(waits.IsCompleted);
        rig.OnLoop(session, session.Abort);
        Assert.Equal(SendResult.Closed, Await(rig, waits));
    });

    [Fact, Contract(6)]
    public void SendAsync_gets_space_as_soon_as_there_is_some_and_not_only_from_an_empty_queue() => Run(rig =>
    {
        // The queue is far larger than the socket buffers, so that it cannot drain unnoticed.
        const int Large = 4 * 1024 * 1024;
        (RecordingSession session, Peer peer) = Pair(rig, limit: Large);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 0, Large);
        Task<SendResult> task = Start(rig, session, onLoop: true, () => session.SendAsync(Bytes("hello")));
        byte[] got = peer.Read(first.Length + (Large / 4));
        rig.Until(() => task.IsCompleted, "room for 5 bytes after a quarter of the queue was read");
        Assert.Equal(SendResult.Queued, Await(rig, task));
        byte[] rest = peer.Read(fill.Length - (Large / 4));
        // Compared as arrays, because xunit takes seconds to compare so many bytes one by one.
        byte[] sent = [.. first, .. fill], read = [.. got, .. rest];
        Assert.Equal(sent.Length, read.Length);
        Assert.Equal(sent.Length, sent.AsSpan().CommonPrefixLength(read));
        Assert.Equal("hello", peer.ReadText(5));
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Waiters_are_served_first_come_first_served_also_a_small_one_after_a_big_one(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 10);
        List<char> order = [];
        (char Letter, int Length)[] waiters = [('a', 60_000), ('b', 1), ('c', 30_000), ('d', 5), ('e', Limit)];
        List<Task<SendResult>> tasks = [];
        foreach ((char letter, int length) in waiters)
        {
            tasks.Add(Start(rig, session, onLoop,
                () => Report(order, letter, session.SendAsync(Filled(letter, length)))));
        }

        rig.Settle();
        Assert.All(tasks, static t => Assert.False(t.IsCompleted));
        peer.Read(first.Length + fill.Length);
        foreach ((char letter, int length) in waiters) Assert.Equal(Filled(letter, length), peer.Read(length));
        foreach (Task<SendResult> task in tasks) Assert.Equal(SendResult.Queued, Await(rig, task));
        // On other threads each continuation has its own thread, and their order is not guaranteed.
        if (onLoop) Assert.Equal("abcde", string.Concat(order));
    });

    [Theory, Contract(6)]
    [InlineData(true, true)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(false, false)]
    public void A_message_of_several_pieces_waits_and_goes_whole(bool onLoop, bool isAboveLimit) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 4);
        int bytes = isAboveLimit ? 2 * Limit : Limit / 8;
        byte[] one = Pattern(bytes);
        byte[] two = Filled('b', bytes);
        byte[] three = Filled('c', bytes + 1);
        Task<SendResult>[] tasks =
        [
            Start(rig, session, onLoop, () => session.SendAsync(Outgoing.Pieces([one, two]))),
            Start(rig, session, onLoop, () =>
                session.SendAsync(Outgoing.Sequence(PieceSegment.Join(default, one, default, two, three, default)))),
            Start(rig, session, onLoop,
                () => session.SendAsync(Outgoing.Pieces([default(ReadOnlyMemory<byte>), three]))),
        ];
        rig.Settle();
        Assert.All(tasks, static t => Assert.False(t.IsCompleted));
        peer.Read(first.Length + fill.Length);
        byte[] expected = [.. one, .. two, .. one, .. two, .. three, .. three];
        Assert.Equal(expected, peer.Read(expected.Length));
        foreach (Task<SendResult> task in tasks) Assert.Equal(SendResult.Queued, Await(rig, task));
        Assert.True(session.BytesPending <= Limit);
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void With_room_several_pieces_have_been_taken_when_it_returns(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] large = Pattern(Limit / 2);
        bool completed = false;
        At(rig, session, onLoop, () =>
        {
            ValueTask<SendResult> two = session.SendAsync(Outgoing.Pieces([Bytes("hel"), Bytes("lo")]));
            ValueTask<SendResult> many =
                session.SendAsync(Outgoing.Sequence(PieceSegment.Join(Bytes("12"), large, Bytes("3"))));
            completed = two is { IsCompletedSuccessfully: true, Result: SendResult.Queued }
                && many is { IsCompletedSuccessfully: true, Result: SendResult.Queued };
        });
        Assert.True(completed);
        Assert.Equal([.. Bytes("hello12"), .. large, .. Bytes("3")], peer.Read(8 + large.Length));
        session.Close();
        rig.Until(() => !session.IsConnected, "the end");
        Assert.Equal(SendResult.Closed, session.SendAsync(Outgoing.Pieces([Bytes("x"), Bytes("y")])).Result);
        Assert.Equal(SendResult.Closed,
            session.SendAsync(Outgoing.Sequence(PieceSegment.Join(Bytes("x"), Bytes("y")))).Result);
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_message_above_the_limit_goes_in_pieces_with_nothing_between(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] big = Pattern((5 * Limit) + 12345);
        Task<SendResult> task = Start(rig, session, onLoop, () => session.SendAsync(big));
        rig.Settle();
        Assert.False(task.IsCompleted);
        Assert.True(session.BytesPending <= Limit, $"{session.BytesPending} pending");
        SendResult second = default;
        At(rig, session, onLoop, () => second = session.Send(Bytes("between")));
        Assert.Equal(SendResult.Full, second);
        Task<SendResult> after = Start(rig, session, onLoop, () => session.SendAsync(Bytes("after")));
        Assert.Equal(big, peer.Read(big.Length));
        Assert.Equal("after", peer.ReadText(5));
        Assert.Equal(SendResult.Queued, Await(rig, task));
        Assert.Equal(SendResult.Queued, Await(rig, after));
    });

    [Theory, Contract(6, 17)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_broadcast_never_lands_between_the_pieces_or_before_a_waiter(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        byte[] big = Pattern(5 * Limit);
        Task<SendResult> task = Start(rig, session, onLoop, () => session.SendAsync(big));
        rig.Settle();
        Assert.False(task.IsCompleted);
        List<byte> got = [];
        byte[] piece = new byte[1000];
        rig.Until(
            () =>
            {
                // At every state of the queue another thread tries to insert a message.
                group.Broadcast("between"u8);
                int count = peer.TryRead(piece);
                if (count > 0) got.AddRange(piece.AsSpan(0, count));
                return got.Count >= big.Length;
            },
            "the message to arrive");
        Assert.Equal(big, got[..big.Length].ToArray());
        Assert.Equal(SendResult.Queued, Await(rig, task));
    });

    [Theory, Contract(6)]
    [InlineData(SlowConsumer.Disconnect)]
    [InlineData(SlowConsumer.DropNewest)]
    public void Send_returns_Full_while_a_SendAsync_waits_even_if_it_would_fit(SlowConsumer policy) => Run(rig =>
    {
        (RecordingSession session, _) = Pair(rig, policy);
        Clog(rig, session);
        FillTo(rig, session, room: 10);
        Task<SendResult> task = Start(rig, session, onLoop: true, () => session.SendAsync(Filled('a', 11)));
        SendResult onLoop = default;
        SendResult two = default;
        int reserved = -1;
        rig.OnLoop(session, () =>
        {
            onLoop = session.Send("b"u8);
            two = session.Send(Outgoing.Pieces("b"u8, "c"u8));
            reserved = session.CallReserve(1).Length;
        });
        Assert.Equal(SendResult.Full, onLoop);
        Assert.Equal(SendResult.Full, two);
        Assert.Equal(0, reserved);
        Assert.Equal(SendResult.Full, session.Send("b"u8));
        rig.OnLoop(session, session.Abort);
        Assert.Equal(SendResult.Closed, Await(rig, task));
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void SendAsync_cancelled_before_its_first_piece_sends_nothing(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 10);
        using CancellationTokenSource source = new();
        Task<SendResult> cancelled = Start(rig, session, onLoop,
            () => session.SendAsync(Filled('a', 50_000), source.Token));
        Task<SendResult> next = Start(rig, session, onLoop, () => session.SendAsync(Filled('b', 20)));
        rig.Settle();
        At(rig, session, onLoop, source.Cancel);
        OperationCanceledException e = Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, cancelled));
        Assert.Equal(source.Token, e.CancellationToken);
        Assert.Equal([.. first, .. fill], peer.Read(first.Length + fill.Length));
        Assert.Equal(Filled('b', 20), peer.Read(20));
        Assert.Equal(SendResult.Queued, Await(rig, next));
        Assert.True(session.IsConnected);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Empty(peer.ReadToEnd());
    });

    [Fact, Contract(6)]
    public void A_waiter_after_a_cancelled_one_takes_its_space() => Run(rig =>
    {
        (RecordingSession session, _) = Pair(rig);
        Clog(rig, session);
        FillTo(rig, session, room: 10);
        using CancellationTokenSource source = new();
        Task<SendResult> cancelled = Start(rig, session, onLoop: true,
            () => session.SendAsync(Filled('a', 1000), source.Token));
        Task<SendResult> next = Start(rig, session, onLoop: true, () => session.SendAsync(Filled('b', 10)));
        Assert.False(next.IsCompleted);
        source.Cancel();
        Assert.Equal(SendResult.Queued, Await(rig, next));
        Assert.True(cancelled.IsCanceled || !cancelled.IsCompletedSuccessfully);
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void SendAsync_cancelled_after_its_first_piece_aborts_the_connection(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        using CancellationTokenSource source = new();
        Task<SendResult> task = Start(rig, session, onLoop,
            () => session.SendAsync(Pattern(10 * 1024 * 1024), source.Token));
        peer.Read(10_000);
        Assert.False(task.IsCompleted);
        At(rig, session, onLoop, source.Cancel);
        Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, task));
        Assert.Equal(CloseCause.Cancelled, session.End());
    });

    [Fact, Contract(6)]
    public void With_a_token_that_is_cancelled_already_nothing_is_sent() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        Assert.ThrowsAny<OperationCanceledException>(
            () => rig.Await(session.SendAsync(Bytes("no"), new CancellationToken(canceled: true))));
        Assert.Equal(SendResult.Queued, session.Send("yes"u8));
        Assert.Equal("yes", peer.ReadText(3));
    });

    [Theory, Contract(6)]
    [InlineData("abort")]
    [InlineData("reset")]
    [InlineData("throw")]
    public void The_end_of_the_connection_completes_every_waiter_with_Closed(string end) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig,
            setUp: static s => s.AtReceived = static (_, _) => throw new InvalidOperationException("on purpose"));
        Clog(rig, session);
        FillTo(rig, session, room: 0);
        Task<SendResult>[] tasks =
        [
            Start(rig, session, onLoop: true, () => session.SendAsync(Filled('a', 100))),
            Start(rig, session, onLoop: false, () => session.SendAsync(Filled('b', 100_000))),
            Start(rig, session, onLoop: true, () => session.SendAsync(Filled('c', 1))),
        ];
        switch (end)
        {
            case "abort":
                session.Abort();
                break;
            case "reset":
                peer.Reset();
                break;
            default:
                peer.Write("x");
                break;
        }

        foreach (Task<SendResult> task in tasks) Assert.Equal(SendResult.Closed, Await(rig, task));
        session.End();
        Assert.Equal(SendResult.Closed, rig.Await(session.SendAsync(Bytes("late"))));
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void The_memory_may_be_reused_when_it_completes(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        const int Messages = 60;
        byte[] memory = new byte[10_000];
        Task<bool> sender = Start(rig, session, onLoop, SendAll);
        for (int i = 0; i < Messages; i++) Assert.Equal(Pattern(memory.Length, i), peer.Read(memory.Length));
        Assert.True(Await(rig, sender));

        async ValueTask<bool> SendAll()
        {
            for (int i = 0; i < Messages; i++)
            {
                Pattern(memory.Length, i).CopyTo(memory, 0);
                if (await session.SendAsync(memory).ConfigureAwait(false) != SendResult.Queued) return false;
                memory.AsSpan().Fill(0xEE);
            }

            return true;
        }
    });

    [Fact, Contract(6)]
    public void An_await_on_the_loop_resumes_there_and_never_inside_another_callback() => Run(rig =>
    {
        List<string> story = [];
        Task? sender = null;
        (RecordingSession session, Peer peer) = Pair(rig, setUp: s => s.AtReceived = (self, _) =>
        {
            sender = SendMuch(self);
            story.Add("callback returned");
        });
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 0);
        peer.Write("x");
        session.UntilReceived(1);
        rig.Settle();
        Assert.False(sender!.IsCompleted);
        peer.Read(first.Length + fill.Length + (3 * 50_000));
        rig.Until(() => sender.IsCompleted, "the sender to end");
        sender.GetAwaiter().GetResult();
        Assert.Equal(["callback returned", "sent 0 on loop", "sent 1 on loop", "sent 2 on loop"], story);

        async Task SendMuch(RecordingSession self)
        {
            for (int i = 0; i < 3; i++)
            {
                await self.SendAsync(Filled('a', 50_000)).ConfigureAwait(false);
                string where = (rig.IsPool ? Connections.PoolSession.Current is not null : self.Loop.IsCurrent
                    && self.Loop.Active is null) ? "on loop" : "astray";
                story.Add($"sent {i} {where}");
            }
        }
    });

    [Fact, Contract(6)]
    public void A_continuation_never_runs_inside_the_completing_call() => Run(rig =>
    {
        (RecordingSession session, _) = Pair(rig);
        Clog(rig, session);
        FillTo(rig, session, room: 0);
        bool aborting = false;
        bool? inside = null;
        Task<bool> waiter = Start(rig, session, onLoop: true, Wait);
        rig.OnLoop(session, () =>
        {
            aborting = true;
            session.Abort();
            aborting = false;
        });
        Await(rig, waiter);
        Assert.False(inside);

        async ValueTask<bool> Wait()
        {
            await session.SendAsync(Bytes("x")).ConfigureAwait(false);
            inside = aborting;
            return true;
        }
    });

    [Fact, Contract(6)]
    public void An_await_on_another_thread_resumes_off_the_loop() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 0);
        Loop? where = session.Loop;
        Task<bool> waiter = Start(rig, session, onLoop: false, Wait);
        rig.Settle();
        Assert.False(waiter.IsCompleted);
        peer.Read(first.Length + fill.Length + 1);
        Await(rig, waiter);
        Assert.Null(where);

        async ValueTask<bool> Wait()
        {
            await session.SendAsync(Bytes("x")).ConfigureAwait(false);
            where = Loop.Current;
            return true;
        }
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Awaiting_twice_throws(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 0);
        ValueTask<SendResult> task = default;
        At(rig, session, onLoop, () => task = session.SendAsync(Bytes("x")));
        Assert.False(task.IsCompleted);
        peer.Read(first.Length + fill.Length + 1);
        rig.Until(() => task.IsCompleted, "the send to complete");
        At(rig, session, onLoop, () =>
        {
            Assert.Equal(SendResult.Queued, task.GetAwaiter().GetResult());
            Assert.Throws<InvalidOperationException>(() => task.GetAwaiter().GetResult());
        });
    });

    [Theory, Contract(6, 7)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_close_after_a_send_that_waits_still_sends_it(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 0);
        ValueTask<SendResult> waits = default;
        ValueTask<SendResult> late = default;
        byte[] big = Pattern(3 * Limit);
        At(rig, session, onLoop, () =>
        {
            waits = session.SendAsync(big);
            session.Close();
            late = session.SendAsync(Bytes("late"));
        });
        Assert.Equal(SendResult.Closed, rig.Await(late));
        byte[] all = peer.ReadToEnd();
        Assert.Equal([.. first, .. fill, .. big], all);
        Assert.Equal(SendResult.Queued, rig.Await(waits));
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
    });

    [Theory, Contract(6)]
    [InlineData(SlowConsumer.Disconnect)]
    [InlineData(SlowConsumer.DropNewest)]
    [InlineData(SlowConsumer.Wait)]
    public void SendAsync_waits_under_every_policy_also_with_many_threads(SlowConsumer policy) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, policy);
        const int Threads = 4;
        const int Messages = 50;
        const int Length = 5_000;
        int done = 0;
        List<string> wrong = [];
        for (int t = 0; t < Threads; t++)
        {
            char letter = (char)('a' + t);
            rig.Elsewhere(() => _ = SendAll(letter));
        }

        Dictionary<byte, int> seen = [];
        for (int i = 0; i < Threads * Messages; i++)
        {
            byte[] message = peer.Read(Length);
            Assert.True(message.AsSpan().IndexOfAnyExcept(message[0]) < 0, "a message was torn");
            seen[message[0]] = seen.GetValueOrDefault(message[0]) + 1;
        }

        rig.Until(() => Volatile.Read(ref done) == Threads, "all senders to end");
        Assert.Empty(wrong);
        Assert.All(seen.Values, static count => Assert.Equal(Messages, count));
        Assert.Equal(Threads, seen.Count);

        async Task SendAll(char letter)
        {
            byte[] message = Filled(letter, Length);
            for (int i = 0; i < Messages; i++)
            {
                SendResult result = await session.SendAsync(message).ConfigureAwait(false);
                if (result == SendResult.Queued) continue;
                lock (wrong) wrong.Add($"{letter}{i}: {result}");
            }

            Interlocked.Increment(ref done);
        }
    });

    [Fact, Contract(6)]
    public void Sends_cancelled_at_any_moment_by_many_threads_have_left_whole_or_not_at_all() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        const int Threads = 4;
        const int Messages = 100;
        const int Length = 5_000;
        CancellationTokenSource?[] current = new CancellationTokenSource?[Threads];
        List<(char Letter, byte Number)> queued = [];
        List<string> wrong = [];
        int done = 0;
        // The pending bytes are always near the limit: senders wait, and are cancelled while waiting, or just before or
        // after.
        for (int t = 0; t < Threads; t++)
        {
            int mine = t;
            rig.Elsewhere(() => _ = SendAll(mine));
        }

        int turn = 0;
        Repeat(rig, () =>
        {
            Volatile.Read(ref current[turn++ % Threads])?.Cancel();
            return Volatile.Read(ref done) == Threads;
        });
        byte[] all = peer.ReadToEnd();
        rig.Join();
        Assert.Empty(wrong);
        Assert.Equal(0, all.Length % Length);
        List<(char Letter, byte Number)> arrived = [];
        for (int at = 0; at < all.Length; at += Length)
        {
            Assert.True(all.AsSpan(at + 1, Length - 1).IndexOfAnyExcept(all[at + 1]) < 0, "a message was torn");
            arrived.Add(((char)all[at], all[at + 1]));
        }

        foreach (IGrouping<char, (char Letter, byte Number)> sender in arrived.GroupBy(static m => m.Letter))
        {
            Assert.Equal(queued.Where(m => m.Letter == sender.Key), sender);
        }

        Assert.Equal(queued.Count, arrived.Count);
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());

        async Task SendAll(int thread)
        {
            char letter = (char)('a' + thread);
            for (byte i = 0; i < Messages; i++)
            {
                byte[] message = Filled((char)i, Length);
                message[0] = (byte)letter;
                CancellationTokenSource source = new();
                // Every second one is not cancellable: on a busy machine nothing might ever arrive.
                if (i % 2 == 0) Volatile.Write(ref current[thread], source);
                try
                {
                    SendResult result = await session
                        .SendAsync(message, i % 2 == 0 ? source.Token : CancellationToken.None).ConfigureAwait(false);
                    lock (queued)
                    {
                        if (result == SendResult.Queued) queued.Add((letter, i));
                        else wrong.Add($"{letter}{i}: {result}");
                    }
                }
                catch (OperationCanceledException)
                {
                    // Then it must not arrive.
                }
            }

            if (Interlocked.Increment(ref done) == Threads) session.Close();
        }
    });

    [Fact, Contract(6)]
    public void A_loop_that_sends_and_sends_lets_others_have_their_turn_after_256_KiB() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsPool, "Callbacks on the pool do not hold up the loop.");
        const int Piece = 32 * 1024;
        const int Total = 12 * 1024 * 1024;
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { SendBytes = 2 * Total, SlowConsumer = SlowConsumer.Wait }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        byte[] piece = Pattern(Piece);
        int inRow = 0, most = 0;
        Task<int> task = Start(rig, session, onLoop: true, SendAllAsync);
        for (int i = 0; i < Total / Piece; i++) Assert.True(piece.AsSpan().SequenceEqual(peer.Read(Piece)));
        Assert.Equal(Total, Await(rig, task));
        Assert.InRange(most, 1, SendPace.MostOfConnection);

        async ValueTask<int> SendAllAsync()
        {
            for (int sent = 0; sent < Total; sent += Piece)
            {
                ValueTask<SendResult> sending = session.SendAsync(piece);
                inRow = sending.IsCompleted ? inRow + Piece : 0;
                most = Math.Max(most, inRow);
                if (await sending.ConfigureAwait(false) != SendResult.Queued) return sent;
            }

            return Total;
        }
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void With_a_peer_that_does_not_read_128_KiB_and_one_message_are_queued_at_most(bool onLoop) => Run(rig =>
    {
        const int Piece = 32 * 1024;
        (RecordingSession session, _) = Pair(rig, limit: 8 * 1024 * 1024);
        long most = 0;
        Task<int> task = Start(rig, session, onLoop, SendAllAsync);
        // The kernel decides how much it accepts: the sender is waiting when two reads return the same value.
        for (long last = -1; last != Volatile.Read(ref most) || last == 0;)
        {
            last = Volatile.Read(ref most);
            if (!rig.IsVirtual) rig.Pass(TimeSpan.FromMilliseconds(100));
            rig.Settle();
        }

        Assert.False(task.IsCompleted);
        Assert.InRange(session.BytesPending, 1, SendPace.MostPending + Piece);
        rig.OnLoop(session, session.Abort);
        Assert.InRange(Await(rig, task), 1, int.MaxValue);

        async ValueTask<int> SendAllAsync()
        {
            byte[] piece = Pattern(Piece);
            int count = 0;
            while (await session.SendAsync(piece).ConfigureAwait(false) == SendResult.Queued)
            {
                count++;
                Volatile.Write(ref most, most + Piece);
            }

            return count;
        }
    });

    [Fact, Contract(6)]
    public void Senders_of_many_connections_share_a_turn() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsPool, "Callbacks on the pool have a share of a run, not of a loop iteration.");
            const int Piece = 64 * 1024;
            const int Sessions = 48;
            Dictionary<long, long> sent = []; // per iteration; on the loop only
            int ended = 0;
            RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) => { _ = FloodAsync(x); },
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Limits = new() { SlowConsumer = SlowConsumer.Wait }
                });
            Peer[] peers = [.. Enumerable.Range(0, Sessions).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            foreach (Peer peer in peers) peer.Write("x");
            foreach (Peer peer in peers) peer.Read(24 * Piece);
            rig.Until(() => Volatile.Read(ref ended) == Sessions, "all to have sent");
            Assert.Equal(Sessions * 23L * Piece, sent.Values.Sum());
            Assert.InRange(sent.Values.Max(), 1, SendPace.MostOfTurn + Piece);

            async Task FloodAsync(RecordingSession session)
            {
                byte[] piece = Pattern(Piece);
                // The first one of each is the response to its request: it does not wait for others.
                await session.SendAsync(piece).ConfigureAwait(false);
                for (int i = 0; i < 23; i++)
                {
                    long turn = session.Loop.SendPace.Turn;
                    sent[turn] = sent.GetValueOrDefault(turn) + Piece;
                    await session.SendAsync(piece).ConfigureAwait(false);
                }

                Interlocked.Increment(ref ended);
            }
        },
        loops: 1);

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_token_ends_the_wait_of_a_message_that_is_queued_and_it_is_sent(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, limit: 8 * 1024 * 1024);
        byte[] first = Clog(rig, session);
        using CancellationTokenSource cancel = new();
        byte[] message = Pattern(SendPace.MostPending * 2);
        Task<SendResult> task = Start(rig, session, onLoop, () => session.SendAsync(message, cancel.Token));
        rig.Settle();
        Assert.False(task.IsCompleted);
        cancel.Cancel();
        Assert.Equal(SendResult.Queued, Await(rig, task));
        Assert.Equal(first, peer.Read(first.Length));
        Assert.Equal(message, peer.Read(message.Length));
    });

    private static async ValueTask<SendResult> Report(List<char> order, char letter, ValueTask<SendResult> task)
    {
        SendResult result = await task.ConfigureAwait(false);
        lock (order) order.Add(letter);
        return result;
    }

    [Theory, Contract(4, 6)]
    [InlineData(true, true)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(false, false)]
    public void Memory_that_throws_while_its_send_waits_fails_that_send_and_in_its_middle_the_connection(
        bool hasStarted, bool onLoop) => Run(
            rig =>
            {
                rig.Expect("memory that a session sent");
                (RecordingSession session, Peer peer) = Pair(rig);
                byte[] first = Clog(rig, session);
                byte[] fill = FillTo(rig, session, room: hasStarted ? Limit / 2 : 10);
                BadMemory memory = new(hasStarted ? 2 * Limit : 5000);
                Memory<byte> shown = memory.Memory;
                // Set before the send: the kernel may take more of the queue at any time, and the send then starts.
                if (!hasStarted) memory.Place = BadPlace.Span;
                Task<SendResult>? sending = null;
                At(rig, session, onLoop, () => sending = session.SendAsync(shown).AsTask());
                rig.OnLoop(session.Loop, static () => { });
                if (hasStarted) Assert.False(sending!.IsCompleted);
                rig.OnLoop(session.Loop, () => memory.Place = BadPlace.Span);
                if (hasStarted)
                {
                    byte[] buffer = new byte[64 * 1024];
                    rig.Until(
                        () =>
                        {
                            try
                            {
                                while (peer.TryRead(buffer) > 0)
                                {
                                }
                            }
                            catch (IOException)
                            {
                                // Reset.
                            }

                            return session.IsOver;
                        },
                        "the session to end");
                    Assert.Equal(CloseCause.UserException, session.End());
                }
                else
                {
                    Assert.Equal([.. first, .. fill], peer.Read(first.Length + fill.Length));
                }

                rig.Until(() => sending!.IsCompleted, "the send to fail");
                Assert.Same(memory.Thrown, sending!.Exception!.InnerException);
                if (hasStarted) return;
                rig.OnLoop(session, () => session.Send("goes on"u8));
                Assert.Equal("goes on", peer.ReadText(7));
            });
}
