using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Start, stop, restart, counting and limits of a server, and the end of an engine under it.</summary>
public abstract class ServerSuite(Transport transport) : Suite(transport)
{
    // ------------------------------------------------------------------ start

    [Fact]
    public void Start_returns_the_address_that_was_really_bound() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer();
        Assert.Null(server.EndPoint);
        Assert.False(server.IsAccepting);
        Assert.Throws<InvalidOperationException>(() => server.Sessions);
        rig.Await(server.StartAsync());
        Assert.True(server.IsAccepting);
        Assert.Equal([server.EndPoint!], server.EndPoints);
        if (!rig.IsUnix) Assert.NotEqual(0, ((IPEndPoint)server.EndPoint!).Port);
        rig.ConnectPeer(server.EndPoint!).Write("x");
        server.Session().UntilReceived(1);
    });

    [Fact]
    public void Start_twice_throws_and_harms_nothing() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        EndPoint? bound = server.EndPoint;
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAsync()));
        Assert.Equal(bound, server.EndPoint);
        Assert.True(server.IsAccepting);
        rig.ConnectPeer(server.EndPoint!).Write("x");
        server.Session().UntilReceived(1);
        Assert.Equal(["started"], server.Events.Where(static e => e == "started"));
    });

    [Fact]
    public void A_start_with_a_cancelled_token_opens_nothing() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer();
        Assert.ThrowsAny<OperationCanceledException>(
            () => rig.Await(server.StartAsync(new CancellationToken(canceled: true))));
        Assert.Null(server.EndPoint);
        Assert.Empty(server.Events);
        rig.Await(server.StartAsync());
    });

    [Fact]
    public void Several_addresses_are_all_served() => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoints = [rig.NewAddress(), rig.NewAddress(), rig.NewAddress()]
        });
        Assert.Equal(3, server.EndPoints.Distinct().Count());
        Assert.Equal(server.EndPoints[0], server.EndPoint);
        for (int i = 0; i < 3; i++)
        {
            rig.ConnectPeer(server.EndPoints[i]).Write("x");
            server.Session(i).UntilReceived(1);
            Assert.Equal(server.EndPoints[i], server.Session(i).LocalEndPoint);
        }
    });

    [Fact]
    public void When_one_of_several_addresses_is_taken_none_stays_open() => Run(rig =>
    {
        RecordingServer holder = rig.Serve();
        RecordingServer server = rig.MakeServer(null,
            new ServerOptions { Engine = rig.Engine, EndPoints = [rig.NewAddress(), holder.EndPoint!] });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Equal(ErrorCategory.Bind, e.Error.Category);
        Assert.Contains(holder.EndPoint!.ToString()!, e.Message, StringComparison.Ordinal);
        Assert.False(server.IsAccepting);
        Assert.Empty(server.Events);
        rig.Until(() => rig.Engine.Loops.Sum(static l => l.ResidentCount) == 1,
            "only the holder's listener to be left");
        rig.ConnectPeer(holder.EndPoint!).Write("x");
        // The check whether a server answers at a Unix path made a session as well.
        rig.Until(() => holder.Made.Any(static s => s.ReceivedCount == 1), "the holder to be served still");
    });

    [Fact]
    public void A_start_that_failed_may_be_tried_again() => Run(rig =>
    {
        RecordingServer holder = rig.Serve();
        RecordingServer server = rig.MakeServer(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = holder.EndPoint });
        Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        rig.Await(holder.StopAsync());
        rig.Await(server.StartAsync());
        rig.ConnectPeer(server.EndPoint!).Write("x");
        server.Session().UntilReceived(1);
    });

    // ------------------------------------------------------------------ stop

    [Fact, Contract(1)]
    public void Stop_closes_every_session_with_its_reason_and_sends_what_is_queued() => Run(rig =>
    {
        byte[] data = Pattern(500_000);
        RecordingServer server = rig.Serve(s => s.AtConnected = x => x.Send(data));
        Peer[] peers = [.. Enumerable.Range(0, 3).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        for (int i = 0; i < peers.Length; i++) server.Connected(i);
        rig.Until(() => server.Events.Count(static e => e == "connected") == 3, "all to be announced");
        ValueTask<StopReport> stop = server.StopAsync(TimeSpan.FromMinutes(10));
        foreach (Peer peer in peers)
        {
            Assert.Equal(data, peer.ReadToEnd());
            peer.Close();
        }

        // Long before the deadline: it ends with the last session.
        Assert.Equal(new StopReport(3, 0), rig.Await(stop));
        Assert.All(server.Made, static s => Assert.Equal(CloseCause.ServerStopped, s.Reason.Cause));
        Assert.All(server.Made, static s => Assert.True(s.IsOver));
        Assert.Equal(0, server.SessionCount);
        Assert.False(server.IsAccepting);
    });

    [Fact]
    public void Stop_at_once_resets_every_session() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer[] peers = [.. Enumerable.Range(0, 3).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        for (int i = 0; i < peers.Length; i++) server.Connected(i);
        rig.Until(() => server.Events.Count(static e => e == "connected") == 3, "all to be announced");
        Assert.Equal(new StopReport(0, 3), rig.Await(server.StopAsync(TimeSpan.Zero)));
        Assert.All(peers, p => Assert.Equal(rig.HasResets, p.EndsInReset()));
        Assert.All(server.Made, static s => Assert.Equal(CloseCause.ServerStopped, s.Reason.Cause));
    });

    [Fact]
    public void Connections_open_at_the_deadline_are_reset_and_counted() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer stubborn = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Peer polite = rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        rig.Until(() => server.Events.Count(static e => e == "connected") == 2, "both to be announced");
        polite.ShutdownSend();
        server.Session(1).End();
        ValueTask<StopReport> stop = server.StopAsync(TimeSpan.FromMilliseconds(50));
        rig.Settle();
        rig.Pass(TimeSpan.FromMilliseconds(60));
        Assert.Equal(new StopReport(0, 1), rig.Await(stop));
        Assert.Equal(CloseCause.ServerStopped, server.Session().Reason.Cause);
        Assert.Empty(polite.ReadToEnd());
        stubborn.EndsInReset();
    });

    [Fact]
    public void Stop_before_start_and_after_stop_does_nothing() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer();
        Assert.Equal(default, rig.Await(server.StopAsync()));
        rig.Await(server.StopAcceptingAsync());
        rig.Await(server.StartAsync());
        rig.Await(server.StopAsync());
        Assert.Equal(default, rig.Await(server.StopAsync()));
        rig.Await(server.DisposeAsync());
        rig.Await(server.DisposeAsync());
        Assert.Equal(["started", "stopping", "stopped drained 0 aborted 0"], server.Events);
    });

    [Fact]
    public void Two_stops_at_once_both_end_and_the_events_come_once() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        rig.Until(() => server.Events.Contains("connected"), "the session to be announced");
        ValueTask<StopReport> first = server.StopAsync();
        ValueTask<StopReport> second = server.StopAsync();
        rig.Elsewhere(() => _ = server.StopAsync().AsTask());
        peer.ReadToEnd();
        peer.Close();
        rig.Await(first);
        rig.Await(second);
        rig.Join();
        rig.Until(() => server.Events.Any(static e => e.StartsWith("stopped", StringComparison.Ordinal)),
            "the last event");
        rig.Settle();
        Assert.Equal(["started", "connected", "stopping", "disconnected ServerStopped", "stopped drained 1 aborted 0"],
            server.Events);
    });

    [Fact]
    public void Stop_may_be_awaited_inside_a_callback_and_resumes_there() => Run(rig =>
    {
        RecordingServer? server = null;
        int loopAfter = -1, loopBefore = -2;
        server = rig.Serve(s => s.AtReceived = (x, data) => _ = StopHere(x));
        async Task StopHere(RecordingSession x)
        {
            int before = x.Loop.Index;
            await server!.StopAsync();
            loopBefore = before;
            bool isThere = rig.IsPool ? Connections.PoolSession.Current is not null : x.Loop.IsCurrent;
            Volatile.Write(ref loopAfter, isThere ? before : -3);
        }

        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        peer.ReadToEnd();
        peer.Close();
        rig.Until(() => Volatile.Read(ref loopAfter) != -1, "the code after the await");
        Assert.Equal(loopBefore, loopAfter);
        Assert.Equal(CloseCause.ServerStopped, server.Session().Reason.Cause);
    });

    [Fact, Contract(14)]
    public void Blocking_on_stop_inside_a_callback_throws_instead_of_hanging() => Run(rig =>
    {
        RecordingServer? server = null;
        server = rig.Serve(s => s.AtReceived = (_, _) => server!.StopAsync().GetAwaiter().GetResult());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        session.Until("error InvalidOperationException");
        peer.Close();
        session.End();
    });

    [Fact]
    public void StopAccepting_refuses_new_connections_and_leaves_the_others() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        rig.Await(server.StopAcceptingAsync());
        Assert.False(server.IsAccepting);
        RecordingClient client = rig.MakeClient(server.EndPoint!);
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(CloseCause.Refused, client.Attempt().Reason.Cause);
        peer.Write("still here");
        Assert.Equal("still here", peer.ReadText(10));
        Assert.Equal(1, server.SessionCount);
    });

    [Fact]
    public void No_session_survives_a_stop_that_meets_new_connections() => Run(rig =>
    {
        for (int round = 0; round < 5; round++)
        {
            RecordingServer server = rig.Serve();
            EndPoint address = server.EndPoint!;
            RecordingClient[] clients = [.. Enumerable.Range(0, 10).Select(_ => rig.MakeClient(address))];
            foreach (RecordingClient client in clients) _ = client.ConnectAsync().AsTask();
            rig.Await(server.StopAsync(TimeSpan.Zero));
            Assert.Equal(0, server.SessionCount);
            Assert.All(server.Made, static s => Assert.True(s.IsOver, s.Life));
            rig.Settle();
            Assert.Equal(0, server.SessionCount);
            foreach (RecordingClient client in clients) rig.Await(client.DisposeAsync());
        }
    });

    [Fact]
    public void A_connection_that_reaches_its_loop_after_an_abrupt_stop_is_closed() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "Needs a loop that is busy while the others continue.");
        using ManualResetEventSlim release = new();
        using ManualResetEventSlim isBusy = new();
        int chosen = 0;
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new()
            {
                ChooseLoop = arrival =>
                {
                    Loop other = rig.Engine.GetLoop(1 - arrival.Loop.Index);
                    other.Post(() =>
                    {
                        isBusy.Set();
                        release.Wait(TimeSpan.FromSeconds(15));
                    });
                    // The connection must not reach that loop before the action: its hand-over may overtake posts.
                    isBusy.Wait(TimeSpan.FromSeconds(15));
                    Volatile.Write(ref chosen, 1);
                    return other;
                },
            },
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => Volatile.Read(ref chosen) == 1, "the connection to be on its way");
        ValueTask<StopReport> stopping = server.StopAsync(TimeSpan.Zero);
        rig.Pass(TimeSpan.FromMilliseconds(50));
        release.Set();
        rig.Await(stopping);
        // It ends in any way.
        peer.EndsInReset();
        Assert.Equal("connecting, connect failed ServerStopped", server.Session().Life);
    });

    [Fact]
    public void A_stop_during_start_leaves_nothing_open() => Run(rig =>
    {
        for (int round = 0; round < 20; round++)
        {
            RecordingServer server = rig.MakeServer();
            ValueTask start = server.StartAsync();
            if (round % 2 == 0) rig.Await(server.StopAsync());
            else
            {
                rig.Elsewhere(() => _ = server.StopAsync().AsTask());
                rig.Join();
            }

            try
            {
                rig.Await(start);
            }
            catch (InvalidOperationException)
            {
                // It reports that it was stopped.
            }

            rig.Await(server.StopAsync());
            Assert.False(server.IsAccepting);
            rig.Until(() => rig.Engine.Loops.All(static l => l.ResidentCount == 0), "no listener to be left");
        }
    });

    [Fact]
    public void A_stopped_server_starts_again_with_fresh_counts() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        for (int round = 0; round < 3; round++)
        {
            if (round > 0) rig.Await(server.StartAsync());
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("hello");
            Assert.Equal("hello", peer.ReadText(5));
            Assert.Equal(1, server.AcceptedCount);
            Assert.Equal(1, server.SessionCount);
            peer.Close();
            rig.Await(server.StopAsync());
            Assert.Equal(5, server.BytesReceived);
            Assert.False(server.IsAccepting);
        }

        Assert.Equal(3, server.Events.Count(static e => e == "started"));
        Assert.Equal(3, server.Events.Count(static e => e.StartsWith("stopped", StringComparison.Ordinal)));
    });

    [Fact]
    public void A_negative_deadline_is_thrown_at_the_call() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Assert.Throws<ArgumentOutOfRangeException>(() => rig.Await(server.StopAsync(TimeSpan.FromSeconds(-1))));
        Assert.True(server.IsAccepting);
    });

    [Fact]
    public void Events_of_the_server_come_in_order() => Run(rig =>
    {
        RecordingServer? server = null;
        string order = "";
        server = rig.Serve(s =>
        {
            s.AtConnected = _ => order += server!.Events.Contains("connected") ? "wrong " : "right ";
            s.AtDisconnected =
                (_, _) => order += server!.Events.Contains("disconnected PeerClosed") ? "wrong " : "right ";
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        peer.ShutdownSend();
        server.Session().End();
        rig.Until(() => server.Events.Contains("disconnected PeerClosed"), "the server's event");
        rig.Await(server.StopAsync());
        Assert.Equal("right right ", order);
        Assert.Equal(["started", "connected", "disconnected PeerClosed", "stopping", "stopped drained 0 aborted 0"],
            server.Events);
    });

    // ------------------------------------------------------------------ counting

    [Fact]
    public void Sessions_are_counted_and_found_by_their_id() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer[] peers = [.. Enumerable.Range(0, 4).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        rig.Until(() => server.Events.Count(static e => e == "connected") == 4, "all to be announced");
        Assert.Equal(4, server.SessionCount);
        Assert.Equal(4, server.AcceptedCount);
        Assert.Equal(4, server.Sessions.Count);
        Assert.Equal(4, server.Made.Select(static s => s.Id).Distinct().Count());
        Assert.All(server.Made, s => Assert.Same(s, server.FindSession(s.Id)));
        Assert.Null(server.FindSession(0));
        Assert.Null(server.FindSession(long.MaxValue));
        RecordingSession gone = server.Session(2);
        gone.Abort();
        gone.End();
        rig.Until(() => server.SessionCount == 3, "the place to be free");
        Assert.Null(server.FindSession(gone.Id));
        Assert.Equal(4, server.AcceptedCount);
        Assert.Equal(3, server.Sessions.Count);
        Assert.Equal(0, server.RejectedCount);
    });

    [Fact]
    public void Above_MaxConnections_new_ones_are_closed_at_once_and_counted() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Limits = new() { Connections = 2 } });
        Peer first = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Peer second = rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        for (int i = 1; i <= 3; i++)
        {
            rig.ConnectPeer(server.EndPoint!).EndsInReset();
            int expected = i;
            rig.Until(() => server.RejectedCount == expected, "the rejection to be counted");
        }

        Assert.Equal(2, server.Made.Count);
        Assert.Equal(2, server.AcceptedCount);
        first.ShutdownSend();
        server.Session().End();
        server.Session(1).Abort();
        rig.Until(() => server.SessionCount == 0, "a place to be free");
        second.EndsInReset();
        Peer third = rig.ConnectPeer(server.EndPoint!);
        third.Write("in");
        Assert.Equal("in", third.ReadText(2));
    });

    [Fact]
    public void A_limit_of_connections_that_is_changed_while_it_runs_counts_from_the_next_accept() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            options: new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { Connections = 2 }
            });
        Assert.Equal(2, server.MaxConnections);
        Peer first = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Peer second = rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        server.MaxConnections = 1;
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        rig.Until(() => server.RejectedCount == 1, "the rejection to be counted");
        Assert.Equal(2, server.SessionCount); // those that are open stay
        server.MaxConnections = 3;
        Peer third = rig.ConnectPeer(server.EndPoint!);
        server.Connected(2);
        Assert.Throws<ArgumentOutOfRangeException>(() => server.MaxConnections = 0);
        Assert.Throws<ArgumentOutOfRangeException>(() => server.MaxConnections = 10_000_001);
        foreach (Peer peer in (Peer[])[first, second, third]) peer.ShutdownSend();
    });

    [Fact, Contract(12)]
    public void A_stop_with_a_token_drains_until_it_is_cancelled_and_what_is_open_then_is_reset() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtServerStopping = static _ => { });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        using CancellationTokenSource patience = new();
        Task<StopReport> stop = server.StopAsync(patience.Token).AsTask();
        rig.Until(() => !server.IsAccepting, "the stop to begin");
        session.Send("still here"); // longer than any deadline of the options: the session stays connected
        Assert.Equal("still here", peer.ReadText(10));
        Assert.False(stop.IsCompleted);
        patience.Cancel();
        StopReport report = rig.Await(new ValueTask<StopReport>(stop));
        Assert.Equal((0, 1, true), (report.Drained, report.Aborted, report.IsComplete));
        peer.EndsInReset();
        // A late item does not apply to the next start.
        rig.Await(server.StartAsync());
        using CancellationTokenSource late = new();
        Assert.True(rig.Await(server.StopAsync(late.Token)).IsComplete);
        rig.Await(server.StartAsync());
        late.Cancel();
        rig.Settle();
        Assert.True(server.IsAccepting);
    });

    [Fact, Contract(1)]
    public void The_end_of_a_session_can_be_awaited_without_causing_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Task<CloseReason> ended = session.EndedAsync().AsTask();
        rig.Settle();
        Assert.False(ended.IsCompleted);
        Assert.True(session.IsConnected);
        session.Abort();
        Assert.Equal(CloseCause.LocalAbort, rig.Await(new ValueTask<CloseReason>(ended)).Cause);
        Assert.True(session.IsOver, session.Life);
        Assert.Equal(CloseCause.LocalAbort, rig.Await(session.EndedAsync()).Cause);
        peer.EndsInReset();
        Assert.Throws<InvalidOperationException>(() => { _ = new RecordingSession(rig).EndedAsync(); });
    });

    [Fact]
    public void Byte_counts_are_exact_after_stop() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        RecordingSession[] clients = [.. Enumerable.Range(0, 5).Select(_ => rig.Connect(server.EndPoint!))];
        for (int i = 0; i < clients.Length; i++)
        {
            int client = i;
            rig.Elsewhere(() =>
            {
                for (int n = 0; n < 50; n++) clients[client].Send(new byte[100 + client]);
            });
        }

        rig.Join();
        int total = 50 * (100 + 101 + 102 + 103 + 104);
        rig.Until(() => clients.Sum(static c => c.ReceivedCount) == total, "all echoes");
        foreach (RecordingSession client in clients) client.Close();
        foreach (RecordingSession client in clients) client.End();
        rig.Await(server.StopAsync());
        Assert.Equal((total, total), (server.BytesReceived, server.BytesSent));
        Assert.Equal(total, server.Made.Sum(static s => s.BytesReceived));
        Assert.Equal(total, clients.Sum(static s => s.BytesSent));
    });

    // ------------------------------------------------------------------ the engine under it

    [Fact, Contract(1)]
    public void An_engine_disposed_under_live_connections_ends_them_with_its_reason() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send(new byte[500_000]));
        RecordingSession client = rig.Connect(server.EndPoint!);
        server.Connected();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        rig.Await(rig.Engine.DisposeAsync());
        Assert.All(server.Made, static s => Assert.True(s.IsOver, s.Life));
        Assert.All(server.Made, static s => Assert.True(
            s.Reason.Cause is CloseCause.EngineStopped or CloseCause.PeerReset or CloseCause.PeerClosed, s.Life));
        Assert.Equal(CloseCause.EngineStopped, server.Session(1).Reason.Cause);
        Assert.True(client.IsOver);
        Assert.Equal(0, server.SessionCount);
        peer.EndsInReset();
        rig.Await(server.StopAsync());
        rig.Await(rig.Engine.DisposeAsync());
    });

    [Fact]
    public void Nothing_can_be_begun_on_a_disposed_engine() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer();
        RecordingClient client = rig.MakeClient(rig.DeadAddress());
        RecordingServer used = rig.Serve();
        rig.Await(used.StopAsync());
        Loop loop = rig.Engine.GetLoop(0);
        rig.Await(rig.Engine.DisposeAsync());
        Assert.Throws<ObjectDisposedException>(() => rig.Await(server.StartAsync()));
        Assert.Throws<ObjectDisposedException>(() => rig.Await(used.StartAsync()));
        Assert.Throws<ObjectDisposedException>(() => rig.Await(client.ConnectAsync()));
        Assert.Throws<ObjectDisposedException>(() => rig.Await(client.ConnectAsync()));
        Assert.False(loop.Post(static () => { }));
        Assert.False(loop.Post(static _ => { }, null));
        Assert.False(loop.Dispatch(static () => { }));
        loop.StartTimer(TimeSpan.Zero, static _ => { }).Cancel();
    });

    [Fact]
    public void An_engine_that_was_never_used_is_disposed_as_well() => Run(rig =>
    {
        rig.Await(rig.Engine.DisposeAsync());
        rig.Await(rig.Engine.DisposeAsync());
        Assert.False(rig.Engine.GetLoop(0).Post(static () => { }));
    });

    [Fact, Contract(1)]
    public void An_engine_disposed_while_connections_are_made_ends_all_of_them() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        EndPoint address = server.EndPoint!;
        RecordingClient[] clients = [.. Enumerable.Range(0, 40).Select(_ => rig.MakeClient(address))];
        List<Task<Session>> attempts = [];
        rig.Elsewhere(() =>
        {
            foreach (RecordingClient client in clients)
            {
                try
                {
                    lock (attempts) attempts.Add(client.ConnectAsync().AsTask());
                }
                catch (ObjectDisposedException)
                {
                    // The engine was faster.
                }
            }
        });
        rig.Await(rig.Engine.DisposeAsync(), "the engine to end though connections were on their way");
        rig.Join();
        rig.Until(() => attempts.TrueForAll(static d => d.IsCompleted), "every connect to have a result");
        rig.Until(() => rig.Sessions.All(static s => !s.IsAlive), "every session to end");
        Assert.All(rig.Sessions, static s => s.CheckLife());
        foreach (Task<Session> connecting in attempts)
            Assert.True(connecting.IsCompletedSuccessfully || connecting.Exception!.InnerException is NetworkException
                or ObjectDisposedException, connecting.Exception?.ToString());
        Assert.Equal(0, server.SessionCount);
    });

    [Fact, Contract(1)]
    public void A_client_that_reconnects_when_the_engine_ends_the_connection_is_notified_of_that_too() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve();
            List<Task<Session>> attempts = [];
            int refused = 0;
            RecordingClient? client = null;
            client = rig.MakeClient(server.EndPoint!, s => s.AtDisconnected = (_, _) =>
            {
                try
                {
                    attempts.Add(client!.ConnectAsync().AsTask());
                }
                catch (ObjectDisposedException)
                {
                    refused++;
                }
            });
            rig.Connect(client);
            rig.Await(rig.Engine.DisposeAsync());
            rig.Until(() => attempts.TrueForAll(static d => d.IsCompleted), "every connect to have a result");
            Assert.Equal(1, attempts.Count + refused);
            Assert.All(attempts, static d => Assert.True(d.IsFaulted));
            Assert.All(client.Made, static s => Assert.True(s.IsOver, s.Life));
            Assert.All(client.Made, static s => s.CheckLife());
        },
        loops: 1);

    [Fact]
    public void A_start_that_meets_the_end_of_the_engine_ends_as_well() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoints = [.. Enumerable.Range(0, 20).Select(_ => rig.NewAddress())]
        });
        Task start = server.StartAsync().AsTask();
        rig.Await(rig.Engine.DisposeAsync());
        rig.Until(() => start.IsCompleted, "the start to end");
        Assert.True(start.IsCompletedSuccessfully || start.Exception!.InnerException is NetworkException
            or ObjectDisposedException, start.Exception?.ToString());
        Assert.All(rig.Engine.Loops, static l => Assert.Equal(0, l.ResidentCount));
    });

    [Fact]
    public void Two_servers_and_their_clients_share_one_engine() => Run(rig =>
    {
        RecordingServer one = rig.Serve(static s => s.AtReceived = static (x, _) => x.Send("one"u8));
        RecordingServer two = rig.Serve(static s => s.AtReceived = static (x, _) => x.Send("two"u8));
        RecordingSession toOne = rig.Connect(one.EndPoint!, static s => s.AtConnected = static x => x.Send("?"u8));
        RecordingSession toTwo = rig.Connect(two.EndPoint!, static s => s.AtConnected = static x => x.Send("?"u8));
        toOne.UntilReceived(3);
        toTwo.UntilReceived(3);
        rig.Await(one.StopAsync(TimeSpan.Zero));
        toTwo.Send("?"u8);
        toTwo.UntilReceived(6);
        Assert.Equal("twotwo", toTwo.ReceivedText);
    });

    [Fact]
    public void Waves_of_connections_leak_no_descriptor() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));
        int before = 0;
        int waves = Depth.IsDeep ? 50 : 4;
        for (int wave = 0; wave < waves; wave++)
        {
            Peer[] peers = [.. Enumerable.Range(0, 50).Select(_ => rig.ConnectPeer(server.EndPoint!))];
            foreach (Peer peer in peers) peer.Write("x");
            for (int i = 0; i < peers.Length; i++)
            {
                Assert.Equal("x", peers[i].ReadText(1));
                switch (i % 4)
                {
                    case 0:
                        peers[i].Reset();
                        break;
                    case 1:
                        peers[i].Close();
                        break;
                    case 2:
                        peers[i].ShutdownSend();
                        peers[i].ReadToEnd();
                        peers[i].Close();
                        break;
                }
            }

            server.DisconnectAll();
            foreach (Peer peer in peers.Where(static (_, i) => i % 4 == 3))
            {
                peer.ReadToEnd();
                peer.Close();
            }

            rig.Until(() => server.SessionCount == 0, "the wave to be over");
            rig.Until(() => rig.Engine.Loops.Sum(static l => l.ResidentCount) == 1, "only the listener to be left");
            if (wave == 0) before = OpenDescriptors();
        }

        // Some tolerance for descriptors that the runtime opens itself.
        Assert.InRange(OpenDescriptors(), 0, before + 10);
        Assert.Equal(50 * waves, server.AcceptedCount);
    });

    private static int OpenDescriptors() =>
        Directory.Exists("/proc/self/fd") ? Directory.GetFileSystemEntries("/proc/self/fd").Length : 0;
}
