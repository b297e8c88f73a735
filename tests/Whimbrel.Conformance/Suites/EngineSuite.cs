using System.Net;

namespace Whimbrel.Conformance;

/// <summary>The engine as a service: start, stop, restart, their events, and their effects on everything that uses
/// it.</summary>
public abstract class EngineSuite(Transport transport) : TrafficSuite(transport)
{
    private static readonly string[] s_start = ["starting", "loop 0 started", "loop 1 started", "started"];
    private static readonly string[] s_stop = ["stopping", "loop 0 stopping", "loop 1 stopping", "stopped"];

    private static RecordingServer EchoServer(Rig rig) =>
        rig.MakeServer(static s => s.AtReceived = static (self, data) => self.Send(data));

    private static void Echo(Rig rig, EndPoint endPoint, string text)
    {
        Peer peer = rig.ConnectPeer(endPoint);
        peer.Write(text);
        Assert.Equal(text, peer.ReadText(text.Length));
    }

    /// <summary>The hooks of two loops are called in any order; in virtual time those of a start come with the first
    /// iteration.</summary>
    private static List<string> Sorted(Rig rig, int from)
    {
        List<string> events = [.. rig.EngineEvents.Skip(from)];
        if (rig.IsVirtual) events.RemoveAll(static e => e.StartsWith("loop", StringComparison.Ordinal));
        for (int i = 1; i < events.Count; i++)
        {
            if (events[i] == events[i - 1].Replace('1', '0') && events[i] != events[i - 1])
                (events[i], events[i - 1]) = (events[i - 1], events[i]);
        }

        return events;
    }

    private static IEnumerable<string> Expected(Rig rig, params IEnumerable<string>[] parts) =>
        parts.SelectMany(static p => p).Where(e => !rig.IsVirtual || !e.StartsWith("loop", StringComparison.Ordinal));

    [Fact]
    public void The_events_of_start_stop_and_restart_come_in_order_and_the_hooks_between_them() => Run(rig =>
    {
        Engine engine = rig.Engine;
        Assert.False(engine.IsStarted);
        rig.Await(engine.StartAsync());
        Assert.True(engine.IsStarted);
        for (int i = 0; i < 2; i++) rig.OnLoop(engine.GetLoop(i), static () => { });
        rig.Await(engine.StopAsync());
        Assert.False(engine.IsStarted);
        Assert.Equal(Expected(rig, s_start, s_stop), Sorted(rig, 0));
        rig.Await(engine.StartAsync());
        rig.Await(engine.RestartAsync());
        Assert.True(engine.IsStarted);
        rig.Await(engine.DisposeAsync());
        Assert.False(engine.IsStarted);
        Assert.Equal(Expected(rig, s_start, s_stop, s_start, s_stop, s_start, s_stop), Sorted(rig, 0));
        Assert.Equal(rig.EngineEvents.Count(static e => e.EndsWith(" started", StringComparison.Ordinal)),
            rig.EngineEvents.Count(static e => e.EndsWith(" stopping", StringComparison.Ordinal)));
    });

    [Fact]
    public void Starts_and_stops_leak_no_descriptor() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual || !OperatingSystem.IsLinux(), "The test counts descriptors in /proc.");
        int before = 0;
        for (int i = 0; i < 40; i++)
        {
            rig.Await(rig.Engine.StartAsync());
            for (int loop = 0; loop < 2; loop++) rig.OnLoop(rig.Engine.GetLoop(loop), static () => { });
            rig.Await(rig.Engine.StopAsync());
            // Descriptors opened by the first rounds stay open.
            if (i == 4) before = Directory.EnumerateFileSystemEntries("/proc/self/fd").Count();
        }

        Assert.InRange(Directory.EnumerateFileSystemEntries("/proc/self/fd").Count() - before, -40, 20);
    });

    [Fact]
    public void The_first_use_starts_and_the_hooks_come_before_the_first_callback() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (self, data) => self.Send(data));
        Assert.True(rig.Engine.IsStarted);
        Echo(rig, server.EndPoint!, "hello");
        Assert.Equal("starting", rig.EngineEvents[0]);
        Assert.Contains("started", rig.EngineEvents);
        int loop = server.Made[0].Loop.Index;
        Assert.Single(rig.EngineEvents, $"loop {loop} started");
    });

    [Fact]
    public void Calls_in_the_wrong_order_are_reported_and_break_nothing() => Run(rig =>
    {
        Engine engine = rig.Engine;
        rig.Await(engine.StopAsync()); // before the start: no effect
        Assert.Empty(rig.EngineEvents);
        rig.Await(engine.StartAsync());
        Assert.Contains("started already",
            Assert.Throws<InvalidOperationException>(() => rig.Await(engine.StartAsync())).Message,
            StringComparison.Ordinal);
        Assert.True(engine.IsStarted);
        ValueTask[] stops = [engine.StopAsync(), engine.StopAsync(), engine.StopAsync()];
        foreach (ValueTask stop in stops) rig.Await(stop);
        rig.Await(engine.StopAsync());
        Assert.Single(rig.EngineEvents, "stopped");

        // After an explicit stop, use does not start the engine implicitly.
        RecordingServer server = EchoServer(rig);
        Assert.Contains("start it again",
            Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAsync())).Message,
            StringComparison.Ordinal);
        Assert.False(engine.Post(static () => { }));
        Assert.False(engine.GetLoop(0).Post(static () => { }));
        rig.Await(engine.RestartAsync()); // on a stopped engine: a start
        rig.Await(server.StartAsync());
        Echo(rig, server.EndPoint!, "again");

        rig.Await(engine.DisposeAsync());
        rig.Await(engine.DisposeAsync());
        rig.Await(engine.StopAsync());
        Assert.Throws<ObjectDisposedException>(() => rig.Await(engine.StartAsync()));
        Assert.Throws<ObjectDisposedException>(() => rig.Await(engine.RestartAsync()));
        Assert.Throws<ObjectDisposedException>(() => rig.Await(EchoServer(rig).StartAsync()));
        Assert.False(engine.Post(static () => { }));
    });

    [Fact, Contract(1)]
    public void A_stop_ends_every_session_and_after_a_restart_the_same_servers_and_clients_continue() => Run(rig =>
    {
        Loop[] loops = [rig.Engine.GetLoop(0), rig.Engine.GetLoop(1)];
        RecordingServer server = EchoServer(rig);
        rig.Await(server.StartAsync());
        RecordingClient client = rig.MakeClient(server.EndPoint!);
        for (int round = 0; round < 3; round++)
        {
            Echo(rig, server.EndPoint!, $"round {round}");
            RecordingSession connected = rig.Connect(client);
            rig.Await(rig.Engine.StopAsync());
            rig.Until(() => server.Made.All(static s => s.IsOver) && connected.IsOver, "the sessions to end");
            // If both ends are on one engine, the second may see the end of the first.
            Assert.True(connected.Reason.Cause is CloseCause.EngineStopped or CloseCause.PeerReset
                or CloseCause.PeerClosed, $"{connected.Reason}");
            Assert.All(server.Made.Where(static s => s.ReceivedCount > 0),
                static s => Assert.Equal(CloseCause.EngineStopped, s.Reason.Cause));
            Assert.Throws<InvalidOperationException>(() => rig.Await(client.ConnectAsync()));
            rig.Await(rig.Engine.StartAsync());
            Assert.Same(loops[0], rig.Engine.GetLoop(0));
            Assert.Same(loops[1], rig.Engine.GetLoop(1));
            rig.Await(server.StopAsync(TimeSpan.Zero));
            rig.Await(server.StartAsync());
            client = rig.MakeClient(server.EndPoint!);
        }

        Echo(rig, server.EndPoint!, "last");
    });

    [Fact, Contract(17)]
    public void A_group_has_members_again_after_a_restart() => Run(rig =>
    {
        SessionGroup group = new("restarted");
        RecordingServer server = rig.MakeServer(s => s.AtConnected = self => group.Join(self));
        for (int round = 0; round < 2; round++)
        {
            rig.Await(server.StartAsync());
            Peer[] peers = [rig.ConnectPeer(server.EndPoint!), rig.ConnectPeer(server.EndPoint!),
                rig.ConnectPeer(server.EndPoint!)];
            server.Connected((round * 3) + 2);
            for (int i = 0; i < 2; i++) rig.OnLoop(rig.Engine.GetLoop(i), static () => { });
            Assert.Equal(SendResult.Queued, group.Broadcast(Bytes("to all")));
            foreach (Peer peer in peers) Assert.Equal("to all", peer.ReadText(6));
            rig.Await(rig.Engine.RestartAsync());
            rig.Await(server.StopAsync(TimeSpan.Zero));
        }
    });

    [Fact, Contract(6)]
    public void A_callback_may_await_the_stop_of_its_own_engine_and_start_it_again() => Run(rig =>
    {
        Task? restart = null;
        RecordingServer server =
            rig.Serve(s => s.AtReceived = (_, _) => Volatile.Write(ref restart, Restart(rig.Engine)));
        rig.ConnectPeer(server.EndPoint!).Write("x");
        rig.Until(() => Volatile.Read(ref restart) is { IsCompleted: true }, "the restart");
        restart!.GetAwaiter().GetResult();
        Assert.True(rig.Engine.IsStarted);
        Assert.Equal(CloseCause.EngineStopped, server.Made[0].End());

        static async Task Restart(Engine engine)
        {
            await engine.StopAsync();
            Assert.Null(Loop.Current);
            await engine.StartAsync();
        }
    });

    [Fact]
    public void Posts_made_before_the_start_run_after_it_and_posts_accepted_before_the_stop_have_run() => Run(rig =>
    {
        Loop loop = rig.Engine.GetLoop(1);
        List<string> story = [];
        Assert.True(loop.Post(() => story.Add("early")));
        rig.Await(rig.Engine.StartAsync());
        rig.OnLoop(loop, () => story.Add("running"));
        for (int i = 0; i < 50; i++) Assert.True(loop.Post(() => story.Add("late")));
        rig.Await(rig.Engine.StopAsync());
        Assert.Equal(52, story.Count);
        Assert.Equal("early", story[0]);
        Assert.False(loop.Post(() => story.Add("never")));
        Assert.Throws<InvalidOperationException>(() => rig.Await(loop.PostAsync(static () => { })));
        rig.Await(rig.Engine.StartAsync());
        rig.OnLoop(loop, static () => { });
        Assert.Equal(52, story.Count);
    });

    [Fact]
    public void Starts_stops_and_posts_of_many_threads_end_in_a_state_that_works() => Run(rig =>
    {
        Engine engine = rig.Engine;
        List<Task> tasks = [];
        int ran = 0;
        int taken = 0;
        for (int t = 0; t < 4; t++)
        {
            int number = t;
            int round = 0;
            Repeat(rig, () =>
            {
                ValueTask task = (round + number) % 3 == 0 ? engine.StopAsync()
                    : (round + number) % 3 == 1 ? engine.StartAsync() : engine.RestartAsync();
                lock (tasks) tasks.Add(task.AsTask());
                if (engine.GetLoop(round % 2).Post(() => Interlocked.Increment(ref ran)))
                    Interlocked.Increment(ref taken);
                return ++round == 20;
            });
        }

        rig.Join();
        rig.Until(() => tasks.TrueForAll(static t => t.IsCompleted), "every call to end");
        Assert.All(tasks, static t => Assert.True(t.IsCompletedSuccessfully
            || t.Exception!.InnerException is InvalidOperationException, t.Exception?.ToString()));
        rig.Await(engine.RestartAsync());
        RecordingServer server = EchoServer(rig);
        rig.Await(server.StartAsync());
        Echo(rig, server.EndPoint!, "well");
        rig.Until(() => Volatile.Read(ref ran) == taken, "everything that was taken to run");
    });

    [Fact, Contract(1, 12)]
    public void A_stop_that_meets_connections_in_all_states_leaves_nothing_open() => Run(rig =>
    {
        RecordingServer server = EchoServer(rig);
        for (int round = 0; round < 5; round++)
        {
            rig.Await(server.StartAsync());
            Peer[] peers = [.. Enumerable.Range(0, 8).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            for (int i = 0; i < peers.Length; i++)
            {
                if (i % 2 == 0) peers[i].TryWrite(Pattern(40_000));
                if (i % 3 == 0) peers[i].ShutdownSend();
            }

            if (round % 2 == 0 && server.Made.Count > 0) server.Made[^1].Close();
            rig.Await(rig.Engine.RestartAsync());
            foreach (Peer peer in peers) peer.Close();
            Assert.All(rig.Engine.Loops,
                static l => Assert.Equal((0, 0, 0), (l.ResidentCount, l.Blocks.Outstanding, l.Timers.Count)));
            rig.Await(server.StopAsync(TimeSpan.Zero));
            Assert.Equal(0, server.SessionCount);
        }
    });
}
