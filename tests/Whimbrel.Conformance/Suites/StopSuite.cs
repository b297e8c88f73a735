using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Contract 12: a stop waits for user code up to its deadline, one more second, and no longer; then it reports
/// what still runs.</summary>
public abstract class StopSuite(Transport transport) : Suite(transport)
{
    /// <summary>Many times the guaranteed limit: only a stop that misses its deadline reaches it.</summary>
    private static readonly TimeSpan s_tooLong = TimeSpan.FromSeconds(15);

    private static readonly TimeSpan s_short = TimeSpan.FromMilliseconds(100);

    [Fact, Contract(12, 14)]
    public void A_server_with_a_hanging_callback_reports_it_at_the_deadline_and_ends_when_it_returns() =>
        RunBlocked((rig, release) =>
        {
            RecordingServer server = rig.Serve(BlockWhenTold(release));
            RecordingSession blocked = Block(rig, server);
            rig.ConnectPeer(server.EndPoint!);
            server.Connected(1);
            StopReport report = InTime(() => server.StopAsync(s_short));
            Assert.False(report.IsComplete);
            Assert.InRange(report.Left, 1, 2);
            Assert.Contains(new UnfinishedCall($"OnReceived of RecordingSession (session {blocked.Id:x})",
                rig.IsPool ? null : blocked.Loop.Index), report.Unfinished);
            rig.Until(() => rig.Notices.Any(static n => n.Kind == DiagnosticEventKind.StopOverdue
                && n.Message.Contains("OnReceived of RecordingSession", StringComparison.Ordinal)), "the notice");
            Assert.Contains("has not returned",
                Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAsync())).Message,
                StringComparison.Ordinal);
            Assert.DoesNotContain(server.Events, static e => e.StartsWith("stopped", StringComparison.Ordinal));
            release.Set();
            rig.Until(() => server.Events.Any(static e => e.StartsWith("stopped", StringComparison.Ordinal)),
                "the rest of the stop");
            Assert.Equal(CloseCause.ServerStopped, blocked.End());
            Assert.Equal(0, server.SessionCount);
            rig.Await(server.StartAsync());
        });

    [Fact, Contract(12, 14)]
    public void A_restart_with_a_hanging_old_callback_serves_all_the_same_and_reports_what_still_runs() =>
        RunBlocked((rig, release) =>
        {
            RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
            {
                if (data[0] == (byte)'b') BlockNow(x, release);
                else x.Send(data);
            });
            rig.ConnectPeer(server.EndPoint!).Write("b");
            RecordingSession blocked = server.Connected();
            rig.Until(() => blocked.Tag is not null, "the callback to block");
            StopReport report = InTime(() => server.RestartAsync(s_short));
            Assert.False(report.IsComplete);
            Assert.Contains(report.Unfinished,
                static u => u.What.StartsWith("OnReceived of RecordingSession", StringComparison.Ordinal));
            // Accepted on the free loop; sessions of the blocked one would wait for it.
            Assert.True(server.IsAccepting);
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            rig.Until(() => server.SessionCount == 1, "the new session");
            if (rig.IsPool)
            {
                peer.Write("new");
                Assert.Equal("new", peer.ReadText(3));
            }

            // A stop also waits for callbacks of an earlier stop.
            report = InTime(() => server.StopAsync(s_short));
            Assert.False(report.IsComplete);
            Assert.Contains(report.Unfinished,
                static u => u.What.StartsWith("OnReceived of RecordingSession", StringComparison.Ordinal));
            release.Set();
            Assert.Equal(CloseCause.ServerStopped, blocked.End());
            rig.Until(() => server.Events.Count(static e => e.StartsWith("stopped", StringComparison.Ordinal)) == 2,
                "the rest of the stop");
            rig.Await(server.StartAsync());
            Peer last = rig.ConnectPeer(server.EndPoint!);
            last.Write("last");
            Assert.Equal("last", last.ReadText(4));
        });

    [Fact, Contract(12)]
    public void Sessions_are_asked_one_after_the_other_over_the_window() => Run(rig =>
    {
        TimeSpan window = TimeSpan.FromSeconds(1);
        ConcurrentQueue<(long Id, int Loop, long AtMs)> asked = new();
        RecordingServer server = rig.Serve(
            s => s.AtServerStopping = x =>
            {
                asked.Enqueue((x.Id, x.Loop.Index, rig.Engine.NowMs));
                x.Close();
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { DrainWindow = window, Drain = TimeSpan.FromMinutes(1) }
            });
        List<Peer> peers = [];
        for (int i = 0; i < 8; i++) peers.Add(rig.ConnectPeer(server.EndPoint!));
        for (int i = 0; i < 8; i++) server.Connected(i);
        long start = rig.Engine.NowMs;
        ValueTask<StopReport> stop = server.StopAsync();
        rig.Until(() => asked.Count == 8, "all sessions to be asked");
        foreach (Peer peer in peers)
        {
            peer.ReadToEnd();
            peer.Close();
        }

        StopReport report = rig.Await(stop, "the stop");
        Assert.Equal((8, 0), (report.Drained, report.Aborted));
        foreach (IGrouping<int, (long Id, int Loop, long AtMs)> loop in asked.GroupBy(static a => a.Loop))
        {
            // The oldest first, and none before its moment.
            (long Id, int Loop, long AtMs)[] here = [.. loop];
            Assert.Equal(here.Select(static a => a.Id).Order(), here.Select(static a => a.Id));
            for (int i = 0; i < here.Length; i++)
                Assert.True(here[i].AtMs - start >= window.TotalMilliseconds * i / here.Length - 1, $"{i}: {here[i]}");
        }
    });

    [Theory, Contract(12)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_deadline_shortens_the_window(bool isSecondStop) => Run(rig =>
    {
        RecordingServer server = rig.Serve(null,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { DrainWindow = TimeSpan.FromMinutes(30) }
            });
        List<Peer> peers = [];
        for (int i = 0; i < 6; i++) peers.Add(rig.ConnectPeer(server.EndPoint!));
        for (int i = 0; i < 6; i++) server.Connected(i);
        ValueTask<StopReport> first = isSecondStop ? server.StopAsync() : default;
        ValueTask<StopReport> stop = server.StopAsync(TimeSpan.FromSeconds(4));
        foreach (Peer peer in peers)
        {
            peer.ReadToEnd();
            peer.Close();
        }

        StopReport report = rig.Await(stop, "the stop");
        Assert.Equal((6, 0), (report.Drained, report.Aborted));
        if (isSecondStop) Assert.Equal(report, rig.Await(first, "the first stop"));
    });

    [Fact, Contract(12, 14)]
    public void Disposing_a_server_with_a_hanging_callback_throws_at_the_deadline() => RunBlocked((rig, release) =>
    {
        RecordingServer server = rig.Serve(BlockWhenTold(release),
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { Drain = s_short }
            });
        Block(rig, server);
        NetworkException e = Assert.Throws<NetworkException>(() => InTime(server.DisposeAsync));
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        Assert.Contains("OnReceived of RecordingSession", e.Message, StringComparison.Ordinal);
        release.Set();
        InTime(server.DisposeAsync);
    });

    [Fact, Contract(12, 14)]
    public void An_engine_with_a_hanging_callback_reports_it_at_the_deadline_and_can_be_started_when_it_returns() =>
        RunBlocked((rig, release) =>
        {
            RecordingServer server = rig.Serve(BlockWhenTold(release));
            RecordingSession blocked = Block(rig, server);
            NetworkException e = Assert.Throws<NetworkException>(() => InTime(() => rig.Engine.StopAsync(s_short)));
            Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
            Assert.Contains($"OnReceived of RecordingSession (session "
                + $"{blocked.Id:x}){(rig.IsPool ? "" : $" on loop {blocked.Loop.Index}")}",
                e.Message, StringComparison.Ordinal);
            Assert.Contains("OnReceived of RecordingSession",
                Assert.Throws<InvalidOperationException>(() => rig.Await(rig.Engine.StartAsync())).Message,
                StringComparison.Ordinal);
            Assert.False(rig.Engine.IsStarted);
            release.Set();
            InTime(() => rig.Engine.StopAsync());
            Assert.Equal(CloseCause.EngineStopped, blocked.End());
            Assert.True(blocked.Loop.IsStopped);
            rig.Await(rig.Engine.StartAsync());
            rig.Await(server.StopAsync());
        });

    [Fact, Contract(12, 14)]
    public void Disposing_an_engine_with_a_hanging_callback_throws_and_its_loops_end_by_themselves() =>
        RunBlocked((rig, release) =>
        {
            // A separate engine, because the rig disposes the other one.
            Engine engine = new(new EngineOptions { Kind = rig.Engine.Kind, Loops = 2, StopTimeout = s_short });
            RecordingServer server = new(rig, new ServerOptions { Engine = engine, EndPoint = rig.NewAddress() },
                BlockWhenTold(release));
            rig.Await(server.StartAsync());
            RecordingSession blocked = Block(rig, server);
            Assert.Throws<NetworkException>(() => InTime(engine.DisposeAsync));
            Assert.False(engine.GetLoop(0).IsStopped && engine.GetLoop(1).IsStopped);
            release.Set();
            rig.Until(() => engine.GetLoop(0).IsStopped && engine.GetLoop(1).IsStopped, "the loops to end");
            Assert.Equal(CloseCause.EngineStopped, blocked.End());
            Assert.All(engine.Loops, static l => Assert.Equal((0, 0, 0),
                (l.ResidentCount, l.Blocks.Outstanding, l.StrandBlocks.Outstanding)));
            Assert.Throws<ObjectDisposedException>(() => InTime(engine.StartAsync));
        });

    [Theory, Contract(12, 14)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_client_with_a_hanging_callback_reports_it_at_the_deadline(bool blocking) =>
        RunBlocked((rig, release) =>
        {
            RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send("b"u8));
            using ManualResetEventSlim inside = new();
            RecordingClient client = rig.MakeClient(
                new ClientOptions
                {
                    Engine = rig.Engine,
                    EndPoint = server.EndPoint,
                    Timeouts = new() { Drain = s_short }
                },
                s => s.AtReceived = (_, _) =>
                {
                    inside.Set();
                    release.Wait(TestContext.Current.CancellationToken);
                });
            RecordingSession session = rig.Connect(client);
            Assert.True(inside.Wait(s_tooLong, TestContext.Current.CancellationToken));
            NetworkException e = Assert.Throws<NetworkException>(() =>
            {
                if (blocking)
                    InTime(() => new ValueTask(Task.Factory.StartNew(() => client.Disconnect(s_short),
                        CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default)));
                else InTime(client.DisconnectAsync);
            });
            Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
            Assert.Contains($"OnReceived of RecordingSession (session {session.Id:x})", e.Message,
                StringComparison.Ordinal);
            release.Set();
            session.End();
            InTime(client.DisposeAsync);
        });

    [Fact]
    public void A_datagram_socket_with_a_hanging_handler_reports_it_at_the_deadline() => RunBlocked((rig, release) =>
    {
        using ManualResetEventSlim inside = new();
        DatagramSocket socket =
            new(new DatagramOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                () => new RecordingHandler
                {
                    Received = (_, _, _) =>
                    {
                        inside.Set();
                        release.Wait(TestContext.Current.CancellationToken);
                    },
                });
        rig.Await(socket.StartAsync());
        using RawDatagrams peer = new(rig, new IPEndPoint(IPAddress.Loopback, 0));
        peer.Send(Bytes("b"), socket.EndPoint!);
        Assert.True(inside.Wait(s_tooLong, TestContext.Current.CancellationToken));
        NetworkException e = Assert.Throws<NetworkException>(() => InTime(() => socket.StopAsync(s_short)));
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        Assert.Contains("OnReceived of RecordingHandler", e.Message, StringComparison.Ordinal);
        Assert.Contains("has not returned",
            Assert.Throws<InvalidOperationException>(() => rig.Await(socket.StartAsync())).Message,
            StringComparison.Ordinal);
        release.Set();
        // Each of these waits for one second only, which may be too short on a busy machine.
        for (int i = 0; !IsDisposed(socket); i++) Assert.True(i < 20, "it does not end");
    });

    private static bool IsDisposed(DatagramSocket socket)
    {
        try
        {
            InTime(socket.DisposeAsync);
            return true;
        }
        catch (NetworkException)
        {
            return false;
        }
    }

    [Fact, Contract(12)]
    public void A_stop_keeps_its_deadline_though_every_thread_of_the_pool_is_blocked() => RunBlocked((rig, release) =>
    {
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        ThreadPool.GetMaxThreads(out int workers, out int others);
        TaskCompletionSource free = new();
        int blocked = 0;
        const int blockers = 256;
        try
        {
            Assert.True(ThreadPool.SetMaxThreads(Environment.ProcessorCount, others));
            for (int i = 0; i < blockers; i++)
            {
                ThreadPool.UnsafeQueueUserWorkItem(
                    _ =>
                    {
                        Interlocked.Increment(ref blocked);
                        free.Task.Wait(CancellationToken.None);
                        Interlocked.Decrement(ref blocked);
                    },
                    null);
            }

            // Further work items are queued after more of them than the pool can have threads.
            long start = Stopwatch.GetTimestamp();
            Task<StopReport> stop = server.StopAsync(TimeSpan.FromSeconds(2)).AsTask();
            Assert.True(stop.Wait(s_tooLong, TestContext.Current.CancellationToken), "the stop has not returned");
            // The other sessions need no pool thread to end.
            if (!rig.IsPool && rig.Engine.Kind is EngineKind.Epoll or EngineKind.Uring)
                Assert.True(stop.Result.IsComplete, stop.Result.ToString());
            Assert.InRange(Stopwatch.GetElapsedTime(start), TimeSpan.Zero, s_tooLong);
            Task engine = rig.Engine.StopAsync(s_short).AsTask();
            Assert.True(((IAsyncResult)engine).AsyncWaitHandle.WaitOne(s_tooLong),
                "the stop of the engine has not returned");
        }
        finally
        {
            ThreadPool.SetMaxThreads(workers, others);
            free.SetResult();
        }

        rig.Until(() => ThreadPool.PendingWorkItemCount == 0 && Volatile.Read(ref blocked) == 0, "the pool to be free");
    });

    // ------------------------------------------------------------------ handlers of streams

    [Fact, Contract(12)]
    public void A_stop_waits_for_handlers_of_streams_that_outlive_their_connections() => Run(rig =>
    {
        TaskCompletionSource last = new();
        (int begun, int ended) = (0, 0);
        Server server = Handle(rig, async (peer, _) =>
        {
            Volatile.Write(ref begun, 1);
            try
            {
                while (await peer.ReadAsync(new byte[10], CancellationToken.None).ConfigureAwait(false) > 0)
                {
                }
            }
            catch (NetworkException)
            {
                // Aborted by the stop.
            }

            await last.Task.ConfigureAwait(false);
            Interlocked.Increment(ref ended);
        });
        rig.ConnectPeer(server.EndPoint!);
        // If the handler of a session has not started when the stop finds it, it does not start.
        rig.Until(() => Volatile.Read(ref begun) == 1, "the handler");
        Task<StopReport> stop = server.StopAsync(TimeSpan.FromSeconds(15)).AsTask();
        Task<StopReport> sooner = server.StopAsync(TimeSpan.FromMilliseconds(10)).AsTask();
        rig.Until(() => server.SessionCount == 0, "the connection to end");
        rig.Settle();
        // One second after the deadline the stop reports what is left; a busy machine can be that slow.
        bool isLate = stop.IsCompleted;
        last.SetResult();
        rig.Until(() => stop.IsCompleted && sooner.IsCompleted && Volatile.Read(ref ended) == 1,
            "both stops and the handler");
        Assert.Equal((0, 1, isLate ? 1 : 0), (stop.Result.Drained, stop.Result.Aborted, stop.Result.Left));
    });

    [Fact, Contract(12)]
    public void A_handler_of_a_stream_that_does_not_return_is_reported_at_the_deadline() => Run(rig =>
    {
        TaskCompletionSource last = new();
        Server server = Handle(rig, ServeForEver);
        rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => server.SessionCount == 1, "the session");
        StopReport report = rig.Await(server.StopAsync(s_short));
        Assert.Equal((1, false), (report.Left, report.IsComplete));
        UnfinishedCall call = Assert.Single(report.Unfinished);
        Assert.Contains("the handler StopSuite.A_handler_of_a_stream_that_does_not_return_is_reported_at_the_deadline",
            call.What, StringComparison.Ordinal);
        Assert.Null(call.LoopIndex);
        last.SetResult();
        rig.Await(server.StopAsync());
        rig.Await(server.StartAsync());

        async Task ServeForEver(ConnectionStream peer, CancellationToken stop) => await last.Task.ConfigureAwait(false);
    });

    // ------------------------------------------------------------------ helpers

    /// <summary>Runs a test with an event that callbacks wait for, and that is always set at the end.</summary>
    private void RunBlocked(Action<Rig, ManualResetEventSlim> test) => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory engine runs everything on one thread, so no callback can block.");
        using ManualResetEventSlim release = new();
        try
        {
            test(rig, release);
        }
        finally
        {
            release.Set();
        }
    });

    private static Action<RecordingSession> BlockWhenTold(ManualResetEventSlim release) =>
        s => s.AtReceived = (x, _) => BlockNow(x, release);

    private static void BlockNow(RecordingSession session, ManualResetEventSlim release)
    {
        session.Tag = "blocks";
        release.Wait(TestContext.Current.CancellationToken);
    }

    private static RecordingSession Block(Rig rig, RecordingServer server)
    {
        rig.ConnectPeer(server.EndPoint!).Write("b");
        RecordingSession session = server.Connected();
        rig.Until(() => session.Tag is not null, "the callback to block");
        return session;
    }

    /// <summary>Awaits on this thread, without the rig.</summary>
    private static T InTime<T>(Func<ValueTask<T>> stop)
    {
        Task<T> task = stop().AsTask();
        Assert.True(((IAsyncResult)task).AsyncWaitHandle.WaitOne(s_tooLong), "the stop has not returned");
        return task.GetAwaiter().GetResult();
    }

    private static void InTime(Func<ValueTask> stop)
    {
        Task task = stop().AsTask();
        Assert.True(((IAsyncResult)task).AsyncWaitHandle.WaitOne(s_tooLong), "the stop has not returned");
        task.GetAwaiter().GetResult();
    }

    private static Server Handle(Rig rig, Func<ConnectionStream, CancellationToken, Task> handler)
    {
        EndPoint address = rig.NewAddress();
        string text = address is IPEndPoint ? $"tcp://{address}" : $"unix:{address}";
        return rig.Keep(rig.Await(Server.StartAsync(text, handler, new ServerOptions { Engine = rig.Engine })));
    }
}
