namespace Whimbrel.Conformance;

/// <summary> Contract 14: a callback on the pool may block on any task of this library, including its own session's
/// end; what it sent before is sent meanwhile. Awaiting keeps the session's order. Not on the memory engine, because
/// its only thread a blocking task would stop. </summary>
public abstract class BlockingSuite(Transport transport) : TrafficSuite(transport)
{
    private const int Big = 4 * 1024 * 1024;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(15);

    private static T Block<T>(ValueTask<T> task)
    {
        Task<T> blocked = task.AsTask();
        Assert.True(blocked.Wait(s_patience), "a callback blocks for ever");
        return blocked.Result;
    }

    private static void Block(ValueTask task) =>
        Assert.True(task.AsTask().Wait(s_patience), "a callback blocks for ever");

    [Fact, Contract(6, 14)]
    public void A_callback_may_block_on_its_own_send_and_what_it_sent_before_leaves_first() => Run(rig =>
    {
        byte[] big = Pattern(Big);
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.Send("first"u8);
            Assert.Equal(SendResult.Queued, Block(x.SendAsync(big)));
            x.Send("second"u8);
            Assert.Equal(SendResult.Queued, Block(x.SendAsync(new string('t', Big))));
            x.Send("third"u8);
            // Waiting only for the loop: data sent before leaves anyway.
            Assert.Equal(7, Block(x.Loop.PostAsync(() => 7)));
            Block(x.Loop.DelayAsync(TimeSpan.FromMilliseconds(1)));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("first", peer.ReadText(5));
        Assert.Equal(big, peer.Read(Big));
        Assert.Equal("second", peer.ReadText(6));
        Assert.Equal(Filled('t', Big), peer.Read(Big));
        Assert.Equal("third", peer.ReadText(5));
    });

    [Fact, Contract(12, 14)]
    public void A_class_with_its_own_close_is_called_when_one_of_its_callbacks_blocks_on_the_end() => Run(rig =>
    {
        List<(bool IsBlocking, bool IsHere)> told = [];
        CloseReason ended = default;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtClose = (x, isBlocking) =>
            {
                told.Add((isBlocking, x.IsHere));
                if (x.IsHere) x.CloseNow();
                else x.Post(x.CloseNow);
            };
            s.AtReceived = (x, data) =>
            {
                if (data[0] == 'b') ended = x.CloseAndWait(s_patience);
            };
        });
        for (int i = 0; i < 2; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write(i == 0 ? "b" : "x");
            RecordingSession session = server.Session(i);
            session.UntilReceived(1);
            Task closing = i == 1 ? Task.Run(() => ended = session.CloseAndWait(s_patience)) : Task.CompletedTask;
            Assert.Empty(peer.ReadToEnd());
            peer.ShutdownSend();
            Assert.True(closing.Wait(s_patience), "it blocks for ever");
            Assert.Equal(CloseCause.LocalClose, session.End());
            Assert.Equal(CloseCause.LocalClose, ended.Cause);
        }

        Assert.Equal([(true, true), (true, false)], told);
    });

    [Fact, Contract(14)]
    public void Data_sent_by_a_callback_is_sent_while_it_blocks() => Run(rig =>
    {
        TaskCompletionSource answered = new(TaskCreationOptions.RunContinuationsAsynchronously);
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
        {
            if (data[0] == 'y')
            {
                answered.TrySetResult();
                return;
            }

            x.Send("question"u8);
            // The peer answers on another session; without receiving the question it never does.
            Block(x.Loop.PostAsync(() => answered.Task));
            x.Send("done"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Peer other = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("question", peer.ReadText(8));
        other.Write("y");
        Assert.Equal("done", peer.ReadText(4));
    });

    [Fact, Contract(1, 14)]
    public void A_callback_may_block_on_the_end_of_its_own_session_and_the_last_callback_comes_when_it_returns() =>
        Run(rig =>
        {
            byte[] big = Pattern(Big);
            int told = 0;
            CloseReason reason = default;
            RecordingServer server = rig.Serve(s =>
            {
                s.AtReceived = (x, _) =>
                {
                    x.Send(big.AsSpan(0, 1000));
                    reason = Block(x.CloseAsync());
                    Assert.Equal(0, Volatile.Read(ref told));
                    // It has ended: returns immediately.
                    Assert.Equal(reason.Cause, Block(x.CloseAsync()).Cause);
                };
                s.AtDisconnected = (_, _) => Volatile.Write(ref told, 1);
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            peer.Write("x");
            Assert.Equal(big[..1000], peer.ReadToEnd());
            peer.Close();
            Assert.Equal(CloseCause.LocalClose, session.End());
            Assert.Equal(CloseCause.LocalClose, reason.Cause);
        });

    [Fact, Contract(14)]
    public void A_callback_may_block_on_the_end_of_another_session() => Run(rig =>
    {
        RecordingSession? first = null;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            Assert.Equal(CloseCause.LocalClose, Block(first!.CloseAsync()).Cause);
            Assert.True(first.IsOver);
            x.Send("closed"u8);
        });
        Peer one = rig.ConnectPeer(server.EndPoint!);
        first = server.Connected();
        Peer two = rig.ConnectPeer(server.EndPoint!);
        two.Write("x");
        Assert.Empty(one.ReadToEnd());
        one.Close();
        Assert.Equal("closed", two.ReadText(6));
    });

    [Fact, Contract(14)]
    public void A_callback_may_connect_and_disconnect_with_the_blocking_forms() => Run(rig =>
    {
        RecordingServer target = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.Send("connects "u8);
            RecordingClient client = rig.MakeClient(target.EndPoint!);
            Session session = client.Connect(s_patience);
            Assert.True(session.IsConnected);
            client.Disconnect(s_patience);
            Assert.False(session.IsConnected);
            x.Send("gone"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("connects gone", peer.ReadText(13));
    });

    [Fact, Contract(14)]
    public void A_connect_that_a_callback_blocks_on_ends_with_its_timeout() => Run(rig =>
    {
        Assert.SkipWhen(rig.SilentAddress() is null, "The memory engine answers every connect at once.");
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            RecordingClient client = rig.MakeClient(rig.SilentAddress()!);
            NetworkException e = Assert.Throws<NetworkException>(() => client.Connect(TimeSpan.FromMilliseconds(200)));
            Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
            x.Send("timeout"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("timeout", peer.ReadText(7));
    });

    [Fact, Contract(1, 14)]
    public void A_callback_of_a_clients_session_may_block_on_its_clients_disconnect() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send("hello"u8));
        RecordingClient? client = null;
        int ended = 0;
        client = rig.MakeClient(server.EndPoint!, s => s.AtReceived = (x, _) =>
        {
            if (Interlocked.Increment(ref ended) > 1) return;
            client!.Disconnect(s_patience);
            Assert.False(x.IsOver);
        });
        RecordingSession session = rig.Connect(client);
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.True(ended > 0);
    });

    [Fact, Contract(14)]
    public void A_callback_may_start_and_stop_another_server_and_close_another_session_with_a_time_limit() => Run(rig =>
    {
        RecordingSession? neighbour = null;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            RecordingServer other = rig.MakeServer();
            other.Start(s_patience);
            Assert.True(other.IsAccepting);
            Assert.Throws<InvalidOperationException>(() => other.Start(s_patience));
            RecordingClient client = rig.MakeClient(other.EndPoint!);
            client.Connect(s_patience);
            StopReport report = other.Stop(TimeSpan.FromSeconds(5));
            Assert.True(report.IsComplete);
            Assert.Equal(1, report.Drained + report.Aborted);
            Assert.Equal(default, other.Stop(TimeSpan.FromSeconds(5)));
            Assert.Equal(CloseCause.LocalClose, neighbour!.CloseAndWait(s_patience).Cause);
            Assert.True(neighbour.IsOver);
            Assert.Equal(CloseCause.LocalClose, neighbour.CloseAndWait(TimeSpan.Zero).Cause);
            x.Send("stopped"u8);
        });
        Peer near = rig.ConnectPeer(server.EndPoint!);
        neighbour = server.Connected();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        peer.Write("x");
        Assert.Empty(near.ReadToEnd());
        near.Close();
        Assert.Equal("stopped", peer.ReadText(7));
    });

    [Fact, Contract(1, 12, 14)]
    public void A_callback_that_stops_its_own_server_is_not_waited_for() => Run(rig =>
    {
        RecordingServer? server = null;
        StopReport report = default;
        server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            report = server!.Stop(s_patience);
            Assert.False(x.IsOver);
        });
        Peer other = rig.ConnectPeer(server.EndPoint!);
        RecordingSession neighbour = server.Connected();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected(1);
        peer.Write("x");
        Assert.Empty(other.ReadToEnd());
        other.Close();
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.ServerStopped, session.End());
        Assert.Equal(CloseCause.ServerStopped, neighbour.End());
        Assert.True(report.IsComplete, report.ToString());
        Assert.Equal((2, 0), (report.Drained, report.Aborted));
        // A session that an earlier stop abandoned does not count after the server's restart.
        rig.Await(server.StartAsync());
        rig.ConnectPeer(server.EndPoint!);
        server.Connected(2);
        Assert.True(rig.Await(server.StopAsync(TimeSpan.Zero)).IsComplete);
    });

    [Fact, Contract(14)]
    public void A_peer_that_never_closes_is_aborted_when_the_timeout_of_a_close_expires() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Assert.Equal(CloseCause.LocalClose, session.CloseAndWait(TimeSpan.FromMilliseconds(20)).Cause);
        Assert.True(session.IsOver);
    });

    [Fact, Contract(14)]
    public void On_a_loop_the_forms_with_a_time_limit_throw_and_do_nothing() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.OnLoop(session.Loop, () =>
        {
            Assert.Throws<InvalidOperationException>(() => session.CloseAndWait(s_patience));
            Assert.Throws<InvalidOperationException>(() => server.Stop(s_patience));
            Assert.Throws<InvalidOperationException>(() => server.Start(s_patience));
        });
        Assert.True(session.IsConnected);
        Assert.True(server.IsAccepting);
        Assert.Throws<ArgumentOutOfRangeException>(() => session.CloseAndWait(TimeSpan.FromMilliseconds(-2)));
        Assert.Throws<ArgumentOutOfRangeException>(() => server.Stop(TimeSpan.FromMilliseconds(-2)));
    });

    [Fact, Contract(14)]
    public void A_callback_may_start_and_stop_another_server_and_block_on_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            RecordingServer other = rig.MakeServer();
            Block(other.StartAsync());
            RecordingClient client = rig.MakeClient(other.EndPoint!);
            Block(client.ConnectAsync());
            StopReport report = Block(other.StopAsync(TimeSpan.FromSeconds(5)));
            Assert.Equal(1, report.Drained + report.Aborted);
            x.Send("stopped"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("stopped", peer.ReadText(7));
    });

    [Fact, Contract(6, 14)]
    public void A_callback_may_block_on_a_stream() => Run(rig =>
    {
        byte[] big = Pattern(Big);
        RecordingServer echo = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            ConnectionStream stream = Block(
                ConnectionStream.ConnectAsync(new ClientOptions { Engine = rig.Engine, EndPoint = echo.EndPoint! }));
            byte[] back = new byte[100_000];
            for (int i = 0; i < 10; i++)
            {
                Block(stream.WriteAsync(big.AsMemory(i * back.Length, back.Length)));
                for (int got = 0; got < back.Length;) got += Block(stream.ReadAsync(back.AsMemory(got)));
                Assert.Equal(big[(i * back.Length)..((i + 1) * back.Length)], back);
            }

            stream.Write(big, 0, 10);
            Assert.Equal(10, stream.ReadAtLeast(back, 10));
            Block(stream.DisposeAsync());
            x.Send("same"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("same", peer.ReadText(4));
    });

    [Fact, Contract(14, 17)]
    public void A_callback_may_block_on_a_broadcast() => Run(rig =>
    {
        SessionGroup group = new("all");
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnected = group.Join;
            s.AtReceived = (x, _) =>
            {
                Assert.Equal(2, Block(group.BroadcastAsync(Bytes("news"))).Queued);
                Block(group.WaitForRoomAsync());
                x.Send("done"u8);
            };
        });
        Peer one = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Peer two = rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        rig.Until(() => group.Count == 2, "both to have joined");
        one.Write("x");
        Assert.Equal("newsdone", one.ReadText(8));
        Assert.Equal("news", two.ReadText(4));
    });

    [Fact, Contract(6, 14)]
    public void Sixty_four_sessions_block_at_once_and_all_continue() => Run(
        rig =>
        {
            const int Sessions = 64;
            byte[] data = Pattern(Limit * 4);
            int done = 0;
            RecordingServer server = rig.Serve(
                s => s.AtReceived = (x, _) =>
                {
                    if (x.SendAsync(data).AsTask().Wait(TimeSpan.FromSeconds(60))) Interlocked.Increment(ref done);
                },
                Narrow(rig));
            // As the guide says for this many blocking callbacks, because the pool adds threads slowly.
            using PoolThreads threads = new(Sessions + 16);
            Peer[] peers = [.. Enumerable.Range(0, Sessions).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            foreach (Peer peer in peers) peer.Write("x");
            foreach (Peer peer in peers) Assert.Equal(data, peer.Read(data.Length));
            rig.Until(() => Volatile.Read(ref done) == Sessions, "all of them to continue");
        },
        loops: 2);

    [Fact, Contract(6, 14)]
    public void An_await_in_a_callback_resumes_in_the_order_also_where_the_library_awaits_inside() => Run(rig =>
    {
        SessionGroup group = new("all");
        int inOrder = 0;
        RecordingServer target = rig.Serve();
        RecordingServer server = rig.Serve(
            s =>
            {
                s.AtConnected = group.Join;
                s.AtReceived = (x, data) => _ = Work(x);
            },
            Narrow(rig));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal(Filled('t', 2 * Limit), peer.Read(2 * Limit));
        rig.Until(() => Volatile.Read(ref inOrder) != 0, "the callback's work to end");
        Assert.Equal(5, inOrder);

        async Task Work(RecordingSession x)
        {
            int here = 0;
            // More than the limit: it waits, and the library copies the memory.
            await x.SendAsync(new string('t', 2 * Limit));
            if (Connections.PoolSession.Current is not null) here++;
            await group.WaitForRoomAsync();
            if (Connections.PoolSession.Current is not null) here++;
            ConnectionStream stream = await ConnectionStream.ConnectAsync(
                rig.Scheduled(new ClientOptions { Engine = rig.Engine, EndPoint = target.EndPoint! }));
            if (Connections.PoolSession.Current is not null) here++;
            ValueTask ending = stream.DisposeAsync();
            target.Connected().Close();
            await ending;
            if (Connections.PoolSession.Current is not null) here++;
            Server other = rig.MakeServer();
            await other.StartAsync();
            if (Connections.PoolSession.Current is not null) here++;
            Volatile.Write(ref inOrder, here == 0 ? -1 : here);
        }
    });

    [Fact, Contract(14)]
    public void A_task_continues_beside_the_callback_that_made_it_and_an_await_does_not() => Run(rig =>
    {
        TaskCompletionSource<bool> awaitedInOrder = new(TaskCreationOptions.RunContinuationsAsynchronously);
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            // The loop is blocked until all are awaited: an operation that has completed before resumes where it is
            // awaited.
            using ManualResetEventSlim areAwaited = new();
            x.Loop.Post(() => Assert.True(areAwaited.Wait(s_patience)));
            Task inOrder = InOrder(x);
            Task[] beside = [Beside(x.Loop.DelayAsync(TimeSpan.FromMilliseconds(20)).AsTask()),
                Beside(x.Loop.PostAsync(static () => 7).AsTask())];
            areAwaited.Set();
            Assert.True(Task.WaitAll(beside, s_patience));
            Assert.False(inOrder.IsCompleted);
            x.Send("on"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("on", peer.ReadText(2));
        rig.Until(() => awaitedInOrder.Task.IsCompleted, "the await to resume after the callback");
        Assert.True(awaitedInOrder.Task.Result);

        static async Task Beside(Task task)
        {
            await task;
            Assert.Null(Connections.PoolSession.Current);
        }

        async Task InOrder(RecordingSession x)
        {
            // As library code does it: the order is kept anyway.
            await x.Loop.DelayAsync(TimeSpan.FromMilliseconds(1)).ConfigureAwait(false);
            awaitedInOrder.SetResult(Connections.PoolSession.Current is not null);
        }
    });
}
