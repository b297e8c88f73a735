using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Events before the fact, restart, times, shared state, how a stop informs the sessions, and calls at the
/// wrong time.</summary>
public abstract class ServerLifeSuite(Transport transport) : Suite(transport)
{
    private static readonly Action<RecordingSession> s_echo =
        static s => s.AtReceived = static (x, data) => x.Send(data);

    // ------------------------------------------------------------------ events of the server

    [Fact]
    public void Events_before_the_fact_come_before_it_and_after_the_sessions_own() => Run(rig =>
    {
        List<string> both = [];
        void Add(string text)
        {
            lock (both) both.Add(text);
        }

        RecordingServer server = rig.MakeServer(s =>
        {
            s.AtConnecting = _ => Add("session connecting");
            s.AtConnected = _ => Add("session connected");
            s.AtDisconnecting = (_, _) => Add("session disconnecting");
            s.AtDisconnected = (_, _) => Add("session disconnected");
        });
        server.OnEvent = Add;
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        rig.Until(() => server.Events.Contains("connected"), "the session to be announced");
        peer.ShutdownSend();
        rig.Until(() => server.Events.Contains("disconnected PeerClosed"), "the last event of the session");
        rig.Await(server.StopAsync());
        Assert.Equal(
            [
                "starting", "started",
                "session connecting", "connecting", "session connected", "connected",
                "session disconnecting", "disconnecting PeerClosed", "session disconnected", "disconnected PeerClosed",
                "stopping", "stopped drained 0 aborted 0",
            ],
            both);
    });

    [Fact]
    public void The_server_may_refuse_a_session_while_it_connects() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(s_echo);
        server.AtConnecting = session =>
        {
            if (server.Made.Count == 1) session.Close();
        };
        rig.Await(server.StartAsync());
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        RecordingSession refused = server.Session();
        Assert.Equal(CloseCause.LocalClose, refused.End());
        Assert.Equal("connecting, connect failed LocalClose", refused.Life);
        rig.Until(() => server.SessionCount == 0, "its place to be free");
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        Assert.Equal("x", peer.ReadText(1));
        Assert.Equal(["connecting", "connecting", "connected"],
            server.AllEvents.Where(static e => e.StartsWith("connect", StringComparison.Ordinal)));
    });

    [Theory]
    [InlineData("close")]
    [InlineData("abort")]
    [InlineData("throw")]
    public void The_server_is_not_called_for_a_session_that_refused_in_its_own_OnConnecting(string how) => Run(rig =>
    {
        int made = 0;
        RecordingServer server = rig.Serve(s =>
        {
            if (made++ > 0) return;
            s.AtConnecting = x =>
            {
                if (how == "throw") throw new InvalidDataException("no");
                if (how == "abort") x.Abort();
                else x.Close();
            };
        });
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        server.Session().End();
        Assert.DoesNotContain("connecting", server.AllEvents);
        rig.ConnectPeer(server.EndPoint!);
        server.Connected(1);
        // With thread-pool scheduling the session may be called first.
        rig.Until(() => server.AllEvents.Contains("connected"), "the server's event for the second");
        Assert.Equal(["started", "connecting", "connected"], server.AllEvents.Where(static e => e != "starting"));
    });

    [Fact]
    public void An_exception_of_OnStarting_fails_the_start_and_nothing_was_opened() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(s_echo);
        server.OnEvent = static e =>
        {
            if (e == "starting") throw new InvalidDataException("not today");
        };
        Assert.Throws<InvalidDataException>(() => rig.Await(server.StartAsync()));
        Assert.False(server.IsAccepting);
        Assert.Null(server.EndPoint);
        Assert.All(rig.Engine.Loops, static l => Assert.Equal(0, l.ResidentCount));
        server.OnEvent = null;
        rig.Await(server.StartAsync());
        rig.ConnectPeer(server.EndPoint!).Write("x");
        server.Session().UntilReceived(1);
    });

    [Theory]
    [InlineData("started")]
    [InlineData("stopping")]
    [InlineData("stopped")]
    [InlineData("connecting")]
    [InlineData("connected")]
    [InlineData("disconnecting")]
    [InlineData("disconnected")]
    public void An_exception_of_another_event_is_reported_by_a_diagnostic_event_and_ends_nothing(string name) =>
        Run(rig =>
        {
            rig.Expect("an event of the server");
            RecordingServer server = rig.MakeServer(s_echo);
            server.OnEvent = e =>
            {
                if (e.Split(' ')[0] == name) throw new InvalidDataException("from an event");
            };
            rig.Await(server.StartAsync());
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("hello");
            Assert.Equal("hello", peer.ReadText(5));
            ValueTask<StopReport> stop = server.StopAsync();
            Assert.Empty(peer.ReadToEnd());
            peer.Close();
            Assert.Equal(new StopReport(1, 0), rig.Await(stop));
            Assert.Equal(CloseCause.ServerStopped, server.Session().Reason.Cause);
            rig.Until(() => rig.Notices.Any(static n => n.Message.Contains("from an event", StringComparison.Ordinal)),
                "the notice");
            rig.Await(server.StartAsync());
        });

    // ------------------------------------------------------------------ OnDisconnecting

    [Fact, Contract(1)]
    public void After_a_close_disconnecting_comes_while_the_queue_still_drains() => Run(rig =>
    {
        byte[] data = Pattern(8 * 1024 * 1024);
        SendResult late = SendResult.Queued;
        RecordingServer server = rig.Serve(
            s =>
            {
                s.AtConnected = x =>
                {
                    x.Send(data);
                    x.Close();
                };
                s.AtDisconnecting = (x, _) =>
                {
                    late = x.Send("too late"u8);
                    x.Close();
                };
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 16 * 1024 * 1024 },
                Timeouts = new() { Drain = TimeSpan.FromMinutes(10) }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Session();
        session.Until("disconnecting");
        Assert.False(session.IsOver);
        Assert.True(session.BytesPending > 0);
        Assert.Equal(data, peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal(SendResult.Closed, late);
        Assert.Equal("connecting, connected, disconnecting LocalClose, disconnected LocalClose", session.Life);
    });

    [Theory, Contract(1)]
    [InlineData("abort")]
    [InlineData("abort in a callback")]
    [InlineData("reset")]
    [InlineData("finish")]
    [InlineData("throw")]
    [InlineData("overflow")]
    public void Every_end_of_a_connected_session_is_announced_once(string how) => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            s =>
            {
                s.AtDisconnecting = static (_, _) => { };
                s.AtReceived = (x, _) =>
                {
                    if (how == "abort in a callback") x.Abort();
                    else if (how == "throw") throw new InvalidDataException();
                    else if (how == "overflow") x.Send(new byte[100_000]);
                };
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 50_000 }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        if (how == "abort") session.Abort();
        else if (how == "reset") peer.Reset();
        else if (how == "finish") peer.ShutdownSend();
        else peer.Write("x");
        CloseCause cause = session.End();
        string life = session.Life;
        Assert.EndsWith($"disconnecting {cause}, disconnected {cause}", life, StringComparison.Ordinal);
        Assert.Equal(1, session.Count("disconnecting"));
    });

    [Fact, Contract(1)]
    public void An_attempt_that_never_connected_gets_no_disconnect_events() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtDisconnecting = static (_, _) => { };
            s.AtConnecting = static x => x.Close();
        });
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        server.Session().End();
        Assert.Equal("connecting, connect failed LocalClose", server.Session().Life);
        rig.Until(() => server.SessionCount == 0, "its place to be free");
        Assert.DoesNotContain(server.AllEvents, static e => e.StartsWith("disconnect", StringComparison.Ordinal));
    });

    [Fact, Contract(4)]
    public void An_exception_of_OnDisconnecting_goes_to_OnError_and_the_connection_ends_at_once() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtReceived = static (x, _) => x.Close();
            s.AtDisconnecting = static (_, _) => throw new InvalidDataException("late");
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        // The first cause wins: it was already closing.
        Assert.Equal(CloseCause.LocalClose, session.End());
        Assert.Equal("connecting, connected, received 1, disconnecting LocalClose, error InvalidDataException, "
            + "disconnected LocalClose", session.Life);
        peer.EndsInReset();
    });

    [Fact, Contract(15)]
    public void A_hand_over_is_announced_to_the_leaving_session() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true, AtDisconnecting = static (_, _) => { } };
        RecordingServer server = rig.Serve(s =>
        {
            s.AtReceived = (x, _) => x.CallHandOver(next);
            s.AtDisconnecting = static (_, _) => { };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        next.Until("connected");
        RecordingSession old = server.Session();
        Assert.Equal("connecting, connected, received 1, disconnecting HandedOver, disconnected HandedOver", old.Life);
        Assert.Equal(old.ConnectedAt, next.ConnectedAt);
        // The connection continues: no event of the server.
        Assert.DoesNotContain(server.AllEvents, static e => e.StartsWith("disconnect", StringComparison.Ordinal));
        peer.ShutdownSend();
        next.End();
        Assert.Equal("connected, peer finished, disconnecting PeerClosed, disconnected PeerClosed", next.Life);
    });

    // ------------------------------------------------------------------ informing the sessions of a stop

    [Fact]
    public void A_session_may_send_a_last_message_when_the_server_stops() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtServerStopping = static x =>
        {
            x.Send("goodbye"u8);
            x.Close();
        });
        Peer[] peers = [.. Enumerable.Range(0, 3).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        for (int i = 0; i < peers.Length; i++) server.Connected(i);
        ValueTask<StopReport> stop = server.StopAsync();
        foreach (Peer peer in peers)
        {
            Assert.Equal("goodbye", peer.ReadTextToEnd());
            peer.Close();
        }

        Assert.Equal(new StopReport(3, 0), rig.Await(stop));
        Assert.All(server.Made,
            static s => Assert.Equal("connecting, connected, server stopping, disconnected LocalClose", s.Life));
    });

    [Fact]
    public void A_session_that_finishes_its_work_before_the_deadline_is_not_cut_off() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s =>
        {
            s.AtServerStopping = static _ => { };
            s.AtReceived = static (x, data) =>
            {
                x.Send(data);
                if (x.ReceivedCount == 8) x.Close();
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        ValueTask<StopReport> stop = server.StopAsync(TimeSpan.FromMinutes(10));
        session.Until("server stopping");
        rig.Settle();
        Assert.True(session.IsConnected);
        peer.Write("the rest");
        Assert.Equal("the rest", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(new StopReport(1, 0), rig.Await(stop));
        Assert.Equal(CloseCause.LocalClose, session.Reason.Cause);
    });

    [Fact]
    public void A_session_that_does_not_finish_is_reset_at_the_deadline() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtServerStopping = static _ => { });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        ValueTask<StopReport> stop = server.StopAsync(TimeSpan.FromMilliseconds(500));
        server.Session().Until("server stopping");
        rig.Pass(TimeSpan.FromMilliseconds(510));
        Assert.Equal(new StopReport(0, 1), rig.Await(stop));
        Assert.Equal(rig.HasResets, peer.EndsInReset());
        Assert.Equal(CloseCause.ServerStopped, server.Session().Reason.Cause);
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void An_immediate_stop_notifies_no_session_and_two_stops_notify_once(bool atOnce) => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtServerStopping = static _ => { });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Task first = server.StopAsync(atOnce ? TimeSpan.Zero : TimeSpan.FromMinutes(10)).AsTask();
        if (!atOnce)
        {
            session.Until("server stopping");
            // The shorter deadline applies.
            rig.Await(server.StopAsync(TimeSpan.FromMilliseconds(20)));
        }

        rig.Until(() => first.IsCompleted, "the stop to end");
        Assert.Equal(atOnce ? 0 : 1, session.Count("server stopping"));
        Assert.Equal(CloseCause.ServerStopped, session.Reason.Cause);
        peer.Close();
    });

    [Fact, Contract(4)]
    public void An_exception_of_a_session_when_the_server_stops_ends_that_session_only() => Run(rig =>
    {
        int told = 0;
        RecordingServer server = rig.Serve(s => s.AtServerStopping = x =>
        {
            if (Interlocked.Increment(ref told) == 1) throw new InvalidDataException();
            x.Send("bye"u8);
            x.Close();
        });
        Peer[] peers = [rig.ConnectPeer(server.EndPoint!), rig.ConnectPeer(server.EndPoint!)];
        server.Connected();
        server.Connected(1);
        ValueTask<StopReport> stop = server.StopAsync();
        string[] heard = [.. peers.Select(ReadOrReset)];
        foreach (Peer peer in peers) peer.Close();
        rig.Await(stop);
        Assert.Equal(["", "bye"], heard.Order());
        Assert.Equal([CloseCause.LocalClose, CloseCause.UserException],
            server.Made.Select(static s => s.Reason.Cause).Order());
    });

    private static string ReadOrReset(Peer peer)
    {
        try
        {
            return peer.ReadTextToEnd();
        }
        catch (IOException)
        {
            return "";
        }
    }

    [Fact]
    public void A_session_that_takes_over_while_the_server_stops_is_notified_as_well() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true, AtServerStopping = static x => x.Close() };
        RecordingServer server = rig.Serve(s => s.AtServerStopping = x => x.CallHandOver(next));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        ValueTask<StopReport> stop = server.StopAsync(TimeSpan.FromMinutes(10));
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(new StopReport(1, 0), rig.Await(stop));
        Assert.Equal("connected, server stopping, disconnected LocalClose", next.Life);
    });

    [Fact]
    public void DisconnectAll_does_not_stop_the_server() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(static s => s.AtServerStopping = static x => x.Close());
        server.DisconnectAll();
        rig.Await(server.StartAsync());
        server.DisconnectAll();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        server.DisconnectAll();
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        server.Session().End();
        Assert.Equal("connecting, connected, disconnected LocalClose", server.Session().Life);
        rig.ConnectPeer(server.EndPoint!).Write("x");
        server.Session(1).UntilReceived(1);
    });

    // ------------------------------------------------------------------ restart

    [Theory]
    [InlineData(AcceptScheme.OneListener)]
    [InlineData(AcceptScheme.ListenerPerLoop)]
    public void A_restart_keeps_the_address_also_one_that_the_system_chose(AcceptScheme scheme) => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Accept = new() { Scheme = scheme } });
        EndPoint address = server.EndPoint!;
        for (int round = 0; round < 3; round++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            peer.Write("x");
            Assert.Equal("x", peer.ReadText(1));
            ValueTask<StopReport> restart = server.RestartAsync();
            Assert.Empty(peer.ReadToEnd());
            peer.Close();
            Assert.Equal(new StopReport(1, 0), rig.Await(restart));
            Assert.Equal(CloseCause.ServerStopped, server.Session(round).Reason.Cause);
            Assert.Equal(address, server.EndPoint);
            Assert.True(server.IsAccepting);
            Assert.Equal(default, server.ReadCounters());
        }

        Peer last = rig.ConnectPeer(address);
        last.Write("x");
        Assert.Equal("x", last.ReadText(1));
        string[] life = ["starting", "started", "stopping", "stopped drained 1 aborted 0"];
        Assert.Equal([.. life, .. life, .. life, "starting", "started"],
            server.AllEvents.Where(static e => e.StartsWith("st", StringComparison.Ordinal)));
    });

    [Fact]
    public void A_restart_on_an_address_that_cannot_be_bound_leaves_it_stopped() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo);
        server.OnEvent = static e =>
        {
            if (e == "starting") throw new InvalidDataException("no");
        };
        Assert.Throws<InvalidDataException>(() => rig.Await(server.RestartAsync(TimeSpan.Zero)));
        Assert.False(server.IsAccepting);
        server.OnEvent = null;
        rig.Await(server.StartAsync());
        Assert.True(server.IsAccepting);
    });

    [Fact]
    public void Only_a_started_server_restarts() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(s_echo);
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.RestartAsync()));
        Assert.Throws<ArgumentOutOfRangeException>(() => rig.Await(server.RestartAsync(TimeSpan.FromSeconds(-1))));
        rig.Await(server.StartAsync());
        rig.Await(server.StopAsync());
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.RestartAsync()));
        rig.Await(server.DisposeAsync());
        Assert.Throws<ObjectDisposedException>(() => rig.Await(server.RestartAsync()));
    });

    // ------------------------------------------------------------------ at the wrong time

    [Fact]
    public void A_disposed_server_does_not_start_again_and_still_answers() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadText(5));
        peer.Close();
        rig.Await(server.DisposeAsync());
        Assert.Throws<ObjectDisposedException>(() => rig.Await(server.StartAsync()));
        Assert.Equal(default, rig.Await(server.StopAsync()));
        rig.Await(server.StopAcceptingAsync());
        rig.Await(server.DisposeAsync());
        server.DisconnectAll();
        server.Broadcast("x"u8);
        Assert.Equal(5, server.ReadCounters().BytesReceived);
        Assert.Equal(0, server.SessionCount);
        Assert.Null(server.FindSession(1));
        Assert.False(server.IsAccepting);

        RecordingServer never = rig.MakeServer(s_echo);
        rig.Await(never.DisposeAsync());
        Assert.Throws<ObjectDisposedException>(() => rig.Await(never.StartAsync()));
        Assert.Empty(never.AllEvents);
    });

    [Fact]
    public void A_start_while_it_stops_throws_and_the_stop_continues() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtServerStopping = static _ => { });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        ValueTask<StopReport> stop = server.StopAsync(TimeSpan.FromMinutes(10));
        InvalidOperationException e = Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAsync()));
        Assert.Contains("stopping", e.Message, StringComparison.Ordinal);
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.RestartAsync()));
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAcceptingAsync()));
        server.Session().Until("server stopping");
        peer.Close();
        Assert.Equal(new StopReport(1, 0), rig.Await(stop));
        rig.Await(server.StartAsync());
    });

    // ------------------------------------------------------------------ times, state, look-up

    [Fact]
    public void The_times_of_server_and_session_are_those_of_the_engine() => Run(rig =>
    {
        DateTimeOffset? inConnecting = null;
        DateTimeOffset? inConnected = null;
        RecordingServer server = rig.MakeServer(s =>
        {
            s.AtConnecting = x => inConnecting = x.ConnectedAt;
            s.AtConnected = x => inConnected = x.ConnectedAt;
        });
        Assert.Null(server.StartedAt);
        DateTimeOffset before = rig.Engine.UtcNow;
        rig.Await(server.StartAsync());
        DateTimeOffset started = server.StartedAt!.Value;
        Assert.InRange(started, before, rig.Engine.UtcNow);
        Assert.Equal(TimeSpan.Zero, started.Offset);
        rig.Pass(TimeSpan.FromMilliseconds(20));
        before = rig.Engine.UtcNow;
        RecordingSession client = rig.Connect(server.EndPoint!);
        RecordingSession session = server.Connected();
        DateTimeOffset after = rig.Engine.UtcNow;
        Assert.Null(inConnecting);
        rig.OnLoop(session, () => Assert.Equal(session.ConnectedAt, inConnected)); // after OnConnected has returned
        Assert.InRange(session.ConnectedAt!.Value, before, after);
        Assert.InRange(client.ConnectedAt!.Value, before, after);
        if (!rig.IsVirtual)
            Assert.InRange(DateTimeOffset.UtcNow - session.ConnectedAt.Value, TimeSpan.Zero, TimeSpan.FromMinutes(1));
        client.Close();
        session.End();
        client.End();
        Assert.Equal(inConnected, session.ConnectedAt);
        rig.Await(server.StopAsync());
        Assert.Equal(started, server.StartedAt);
        rig.Pass(TimeSpan.FromMilliseconds(20));
        rig.Await(server.StartAsync());
        Assert.True(server.StartedAt > started);
    });

    [Fact]
    public void All_sessions_share_the_state_of_the_server() => Run(rig =>
    {
        List<string> log = [];
        RecordingServer server = rig.Serve(
            static s => s.AtConnected = static x =>
            {
                List<string> shared = (List<string>)x.Server!.State!;
                lock (shared) shared.Add("here");
            },
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), State = log });
        Assert.Same(log, server.State);
        rig.ConnectPeer(server.EndPoint!);
        rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        server.Connected(1);
        rig.Until(() => server.Events.Count(static e => e == "connected") == 2, "both to be announced");
        Assert.Equal(["here", "here"], log);
        server.State = "another";
        Assert.Equal("another", server.State);
        Assert.Same(log, server.Options.State);
    });

    [Fact]
    public void A_session_is_found_by_id_and_type() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo);
        rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => server.Events.Contains("connected"), "the session to be announced");
        RecordingSession session = server.Session();
        Assert.Same(session, server.FindSession<RecordingSession>(session.Id));
        Assert.Same(session, server.FindSession<Session>(session.Id));
        Assert.Null(server.FindSession<OtherSession>(session.Id));
        Assert.Null(server.FindSession<RecordingSession>(session.Id + 1_000_000));
    });

    private sealed class OtherSession : Session;
}
