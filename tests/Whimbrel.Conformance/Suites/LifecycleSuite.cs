using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Contract 1: one session, one connection; one first callback, one last, and the first cause wins.</summary>
public abstract class LifecycleSuite(Transport transport) : Suite(transport)
{
    [Fact, Contract(1)]
    public void An_accepted_session_sees_connecting_connected_received_disconnected() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("hello");
        RecordingSession session = server.Session();
        session.UntilReceived(5);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Equal("connecting, connected, received 5, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(1)]
    public void A_clients_session_gets_the_same_callbacks() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        RecordingSession session = rig.Connect(listener.EndPoint);
        Peer peer = listener.Accept();
        peer.Write("hello");
        session.UntilReceived(5);
        peer.ShutdownSend();
        Assert.Equal(CloseCause.PeerClosed, session.End());
        Assert.Equal("connecting, connected, received 5, peer finished, disconnected PeerClosed", session.Life);
    });

    [Fact, Contract(1)]
    public void A_session_knows_its_server_and_loop_from_the_first_callback_on() => Run(rig =>
    {
        bool atServer = false, atClient = false;
        RecordingServer server = rig.Serve(s => s.AtConnecting = x => atServer =
            x.Id > 0 && x.Server is not null && x.Client is null && (x.Loop.IsCurrent || rig.IsPool) && !x.IsConnected);
        RecordingSession session = rig.Connect(server.EndPoint!, s => s.AtConnecting = x => atClient =
            x.Id > 0 && x.Client is not null && x.Server is null && (x.Loop.IsCurrent || rig.IsPool) && !x.IsConnected);
        server.Connected();
        Assert.True(atServer);
        Assert.True(atClient);
        Assert.True(session.IsConnected);
        Assert.NotEqual(session.Id, server.Session().Id);
        Assert.Equal(server.EndPoint, session.RemoteEndPoint);
        Assert.Equal(server.EndPoint, server.Session().LocalEndPoint);
        Assert.Equal(session.LocalEndPoint, server.Session().RemoteEndPoint);
    });

    [Fact, Contract(1)]
    public void Connect_completes_after_OnConnected_of_the_session() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        bool wasFirst = false;
        RecordingClient client = rig.MakeClient(server.EndPoint!, s => s.AtConnected = x => wasFirst = true);
        Session session = rig.Await(client.ConnectAsync());
        Assert.True(wasFirst);
        Assert.Same(session, client.Session);
        Assert.Equal(["connected"], client.Events);
    });

    // ------------------------------------------------------------------ ends before the beginning

    [Fact, Contract(1)]
    public void A_refused_connect_gets_connecting_and_connect_failed() => Run(rig =>
    {
        RecordingClient client = rig.MakeClient(rig.DeadAddress());
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(ErrorCategory.Refused, e.Error.Category);
        Assert.NotEqual(0, e.Error.Code);
        Assert.Contains(client.Options.EndPoint!.ToString()!, e.Message, StringComparison.Ordinal);
        Assert.Equal("connecting, connect failed Refused", client.Attempt().Life);
        Assert.Equal(CloseInitiator.Peer, client.Attempt().Reason.Initiator);
        Assert.Null(client.Session);
        Assert.Empty(client.Events);
    });

    [Fact, Contract(1)]
    public void A_connect_that_is_not_answered_times_out() => Run(rig =>
    {
        EndPoint? silent = rig.SilentAddress();
        Assert.SkipWhen(silent is null, "The memory engine answers every connect at once.");
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = silent,
            Timeouts = new() { Connect = TimeSpan.FromMilliseconds(30) }
        });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        Assert.Equal("connecting, connect failed TimedOut", client.Attempt().Life);
        Assert.Null(client.Session);
    });

    [Fact, Contract(1)]
    public void A_connect_that_is_not_answered_can_be_cancelled() => Run(rig =>
    {
        EndPoint? silent = rig.SilentAddress();
        Assert.SkipWhen(silent is null, "The memory engine answers every connect at once.");
        RecordingClient client = rig.MakeClient(silent!);
        using CancellationTokenSource cancellation = new();
        ValueTask<Session> connecting = client.ConnectAsync(cancellation.Token);
        client.Attempt().Until("connecting");
        cancellation.Cancel();
        OperationCanceledException e = Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(connecting));
        Assert.Equal(cancellation.Token, e.CancellationToken);
        Assert.Equal("connecting, connect failed Cancelled", client.Attempt().Life);
        Assert.Null(client.Session);
    });

    [Fact, Contract(1)]
    public void A_connect_that_is_not_answered_ends_with_disconnect() => Run(rig =>
    {
        EndPoint? silent = rig.SilentAddress();
        Assert.SkipWhen(silent is null, "The memory engine answers every connect at once.");
        RecordingClient client = rig.MakeClient(silent!);
        ValueTask<Session> connecting = client.ConnectAsync();
        client.Attempt().Until("connecting");
        rig.Await(client.DisconnectAsync());
        Assert.Throws<NetworkException>(() => rig.Await(connecting));
        Assert.Equal("connecting, connect failed LocalClose", client.Attempt().Life);
    });

    [Fact, Contract(1)]
    public void A_connect_with_a_cancelled_token_creates_no_session() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = rig.MakeClient(server.EndPoint!);
        Assert.ThrowsAny<OperationCanceledException>(
            () => rig.Await(client.ConnectAsync(new CancellationToken(canceled: true))));
        Assert.Empty(client.Made);
        rig.Connect(client);
    });

    [Fact, Contract(1)]
    public void A_connect_cancelled_at_any_moment_is_connected_or_cancelled_and_never_both() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        int cancelled = 0;
        for (int i = 0; i < 20; i++)
        {
            RecordingClient client = rig.MakeClient(server.EndPoint!);
            using CancellationTokenSource cancellation = new();
            ValueTask<Session> connecting = client.ConnectAsync(cancellation.Token);
            if (i % 2 == 0) rig.Elsewhere(cancellation.Cancel);
            else cancellation.Cancel();
            try
            {
                rig.Await(connecting);
                Assert.True(client.Attempt().Saw("connected"));
                client.Attempt().Abort();
                client.Attempt().End();
            }
            catch (OperationCanceledException)
            {
                cancelled++;
                Assert.Equal("connecting, connect failed Cancelled", client.Attempt().Life);
            }

            rig.Join();
            Assert.Null(client.Session);
        }

        Assert.True(cancelled >= 0);
    });

    [Fact, Contract(1)]
    public void Close_in_OnConnecting_refuses_an_accepted_connection() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtConnecting = x => x.Close());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.EndsInReset();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
        Assert.Equal("connecting, connect failed LocalClose", server.Session().Life);
        rig.Until(() => server.SessionCount == 0, "the place to be free");
        Assert.DoesNotContain("connected", server.Events);
        Assert.Equal(1, server.AcceptedCount);
    });

    [Fact, Contract(1)]
    public void Abort_in_OnConnecting_refuses_as_well() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtConnecting = x => x.Abort());
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        server.Session().End();
        Assert.Equal("connecting, connect failed LocalAbort", server.Session().Life);
    });

    [Fact, Contract(1)]
    public void Close_in_OnConnecting_of_a_client_ends_the_attempt_before_the_connect_is_started() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        RecordingClient client = rig.MakeClient(listener.EndPoint, s => s.AtConnecting = x => x.Close());
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal("connecting, connect failed LocalClose", client.Attempt().Life);
        rig.Settle();
        Assert.Null(listener.TryAccept());
    });

    [Fact, Contract(1)]
    public void A_client_that_is_disposed_at_once_still_gives_its_session_both_callbacks() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        for (int i = 0; i < 10; i++)
        {
            RecordingClient client = rig.MakeClient(server.EndPoint!);
            ValueTask<Session> connecting = client.ConnectAsync();
            rig.Await(client.DisposeAsync());
            try
            {
                rig.Await(connecting);
            }
            catch (NetworkException)
            {
                // Closed before it was connected.
            }

            client.Attempt().End();
            client.Attempt().CheckLife();
        }
    });

    // ------------------------------------------------------------------ factories

    [Fact, Contract(1, 4)]
    public void A_factory_that_throws_closes_that_connection_and_is_reported_to_the_server() => Run(rig =>
    {
        int calls = 0;
        RecordingServer server = rig.Serve(s =>
        {
            if (Interlocked.Increment(ref calls) == 1) throw new InvalidDataException("no");
        });
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        rig.Until(() => server.Events.Contains("error InvalidDataException"), "OnError of the server");
        rig.Until(() => server.SessionCount == 0, "the place to be free");
        Peer second = rig.ConnectPeer(server.EndPoint!);
        second.Write("x");
        server.Session().UntilReceived(1);
    });

    [Fact, Contract(1, 4)]
    public void A_factory_that_returns_null_closes_that_connection() => Run(rig =>
    {
        RecordingServer server = rig.Keep(new RecordingServer(rig,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }, _ => null!));
        rig.Await(server.StartAsync());
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        rig.Until(() => server.Events.Contains("error InvalidOperationException"), "OnError of the server");
        rig.Until(() => server.SessionCount == 0, "the place to be free");
    });

    [Fact, Contract(1, 4)]
    public void A_factory_that_returns_a_used_session_closes_the_second_connection() => Run(rig =>
    {
        RecordingSession only = new(rig);
        RecordingServer server = rig.Keep(new RecordingServer(rig,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }, _ => only));
        rig.Await(server.StartAsync());
        Peer first = rig.ConnectPeer(server.EndPoint!);
        first.Write("a");
        only.UntilReceived(1);
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        rig.Until(() => server.Events.Contains("error InvalidOperationException"), "OnError of the server");
        first.Write("b");
        only.UntilReceived(2);
        Assert.Equal("connecting, connected, received 2", only.Life);
    });

    [Fact, Contract(1)]
    public void A_clients_factory_that_throws_fails_the_connect_and_the_next_connect_is_unaffected() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        int calls = 0;
        RecordingClient client = rig.MakeClient(server.EndPoint!, s =>
        {
            if (Interlocked.Increment(ref calls) == 1) throw new InvalidDataException("no");
        });
        Assert.Throws<InvalidDataException>(() => rig.Await(client.ConnectAsync()));
        Assert.Null(client.Session);
        rig.Connect(client);
    });

    [Fact, Contract(1)]
    public void A_factory_sees_the_connection_that_it_makes_a_session_for() => Run(rig =>
    {
        SessionContext? seen = null;
        RecordingServer server = rig.Keep(new RecordingServer(rig,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }, context =>
            {
                seen = context;
                return new RecordingSession(rig);
            }));
        rig.Await(server.StartAsync());
        RecordingSession client = rig.Connect(server.EndPoint!);
        rig.Until(() => server.SessionCount == 1, "the accept");
        rig.Until(() => Volatile.Read(ref seen) is not null, "the factory to be called");
        Assert.Same(server, seen!.Server);
        Assert.Null(seen.Client);
        Assert.Equal(server.EndPoint, seen.LocalEndPoint);
        Assert.Equal(client.LocalEndPoint, seen.RemoteEndPoint);
    });

    // ------------------------------------------------------------------ one connection at a time, and again

    [Fact, Contract(1)]
    public void A_client_holds_one_connection_at_a_time() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = rig.MakeClient(server.EndPoint!);
        RecordingSession first = rig.Connect(client);
        Assert.Throws<InvalidOperationException>(() => rig.Await(client.ConnectAsync()));
        rig.Await(client.DisconnectAsync());
        Assert.True(first.IsOver, "DisconnectAsync ended before the last callback");
        RecordingSession second = rig.Connect(client);
        Assert.NotSame(first, second);
        Assert.Equal(2, client.Made.Count);
    });

    [Fact, Contract(1)]
    public void Reconnecting_inside_OnConnectFailed_is_allowed() => Run(rig =>
    {
        int attempts = 0;
        RecordingClient? client = null;
        List<ValueTask<Session>> connects = [];
        client = rig.MakeClient(rig.DeadAddress(), s => s.AtConnectFailed = (_, _) =>
        {
            if (++attempts < 4) connects.Add(client!.ConnectAsync());
        });
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        rig.Until(() => client.Made.Count == 4 && client.Made.All(static s => s.IsOver), "four connects");
        foreach (ValueTask<Session> attempt in connects) Assert.Throws<NetworkException>(() => rig.Await(attempt));
        Assert.All(client.Made, static s => Assert.Equal("connecting, connect failed Refused", s.Life));
    });

    [Fact, Contract(1)]
    public void Reconnecting_inside_OnDisconnected_is_allowed() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtConnected = x => x.Close());
        int ends = 0;
        RecordingClient? client = null;
        client = rig.MakeClient(server.EndPoint!, s => s.AtDisconnected = (_, _) =>
        {
            if (++ends < 4) _ = client!.ConnectAsync().AsTask();
        });
        rig.Await(client.ConnectAsync());
        rig.Until(() => client.Made.Count == 4 && client.Made.All(static s => s.IsOver), "four connections");
        Assert.All(client.Made,
            static s => Assert.Equal("connecting, connected, peer finished, disconnected PeerClosed", s.Life));
    });

    [Fact, Contract(1)]
    public void A_disposed_client_does_not_connect() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = rig.MakeClient(server.EndPoint!);
        RecordingSession session = rig.Connect(client);
        rig.Await(client.DisposeAsync());
        Assert.True(session.IsOver);
        Assert.Throws<ObjectDisposedException>(() => rig.Await(client.ConnectAsync()));
        rig.Await(client.DisposeAsync());
        rig.Await(client.DisconnectAsync());
    });

    // ------------------------------------------------------------------ the first cause wins

    [Theory, Contract(1)]
    [InlineData("close", "abort", CloseCause.LocalClose)]
    [InlineData("abort", "close", CloseCause.LocalAbort)]
    [InlineData("close", "throw", CloseCause.LocalClose)]
    [InlineData("abort", "throw", CloseCause.LocalAbort)]
    [InlineData("throw", "", CloseCause.UserException)]
    [InlineData("overflow", "close", CloseCause.SlowConsumer)]
    [InlineData("close", "overflow", CloseCause.LocalClose)]
    [InlineData("finish", "abort", CloseCause.LocalAbort)]
    [InlineData("finish", "close", CloseCause.LocalClose)]
    public void Inside_one_callback_the_first_cause_wins(string first, string second, CloseCause expected) => Run(rig =>
    {
        bool isOver = false;
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (x, _) =>
            {
                try
                {
                    EndBy(x, first);
                    EndBy(x, second);
                }
                finally
                {
                    Volatile.Write(ref isOver, true);
                }
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 4096 }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        // A peer that reads meanwhile could keep the queue from overflowing.
        rig.Until(() => Volatile.Read(ref isOver), "the callback to return");
        peer.EndsInReset();
        peer.Close();
        Assert.Equal(expected, server.Session().End());
        Assert.Equal(1, server.Session().Count("disconnected"));
    });

    private static void EndBy(RecordingSession session, string how)
    {
        switch (how)
        {
            case "close":
                session.Close();
                break;
            case "abort":
                session.Abort();
                break;
            case "finish":
                session.ShutdownSend();
                break;
            case "overflow":
                // Until neither the queue nor the kernel accepts more.
                while (session.Send(new byte[4096]) == SendResult.Queued)
                {
                }

                break;
            case "throw":
                throw new InvalidDataException("thrown by the test");
        }
    }

    public static TheoryData<string, string> PairsOfCauses()
    {
        string[] causes = ["close", "abort", "finish", "overflow", "peer finishes", "peer resets", "throw",
            "server stops", "client disposes"];
        TheoryData<string, string> pairs = [];
        foreach (string first in causes)
        {
            foreach (string second in causes)
            {
                if (first != second) pairs.Add(first, second);
            }
        }

        return pairs;
    }

    [Theory, Contract(1, 2)]
    [MemberData(nameof(PairsOfCauses))]
    public void Two_concurrent_causes_make_one_end(string first, string second) => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (_, _) => throw new InvalidDataException("thrown by the test"),
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 4096 }
            });
        RecordingClient? client = null;
        Peer? peer = null;
        if (first == "client disposes" || second == "client disposes") client = rig.MakeClient(server.EndPoint!);
        if (client is null) peer = rig.ConnectPeer(server.EndPoint!);
        else rig.Connect(client);
        RecordingSession session = server.Connected();
        Trigger(rig, first, server, session, peer, client);
        Trigger(rig, second, server, session, peer, client);
        rig.Join();
        // A session that only shut down sending continues until the peer has shut down as well.
        if (first != "finish" && second != "finish")
            rig.Until(() => !session.IsConnected, "one of the causes to be noticed");
        peer?.Close();
        if (client is not null) rig.Await(client.DisconnectAsync());
        CloseCause cause = session.End();
        // With thread-pool scheduling a close is a post to the loop while IsConnected is false already, and the peer's
        // FIN may be processed before it.
        CloseCause[] others = rig.IsPool && peer is not null ? [CloseCause.PeerClosed] : [];
        Assert.Contains(cause, CausesOf(first).Concat(CausesOf(second)).Concat(others));
        session.CheckLife();
    });

    private static void Trigger(Rig rig, string how, RecordingServer server, RecordingSession session, Peer? peer,
        RecordingClient? client)
    {
        switch (how)
        {
            case "peer finishes":
                if (peer is not null) Try(peer.ShutdownSend);
                else rig.Elsewhere(() => client!.Session?.ShutdownSend());
                break;
            case "peer resets":
                if (peer is not null) peer.Reset();
                else rig.Elsewhere(() => client!.Session?.Abort());
                break;
            case "throw" when peer is not null:
                Try(() => peer.TryWrite("x"u8));
                break;
            case "throw":
                rig.Elsewhere(() => client!.Session?.Send("x"u8));
                break;
            case "server stops":
                rig.Elsewhere(() => _ = server.StopAsync().AsTask());
                break;
            case "client disposes":
                rig.Elsewhere(() => _ = client!.DisposeAsync().AsTask());
                break;
            default:
                rig.Elsewhere(() => EndBy(session, how));
                break;
        }
    }

    private static void Try(Action action)
    {
        try
        {
            action();
        }
        catch (Exception e) when (e is IOException or ObjectDisposedException)
        {
            // The other cause was faster, and the peer's socket is gone.
        }
    }

    private static CloseCause[] CausesOf(string how) => how switch
    {
        "close" => [CloseCause.LocalClose, CloseCause.PeerClosed],
        "abort" => [CloseCause.LocalAbort],
        "finish" => [CloseCause.LocalClose, CloseCause.PeerClosed, CloseCause.PeerReset],
        "overflow" => [CloseCause.SlowConsumer],
        "throw" => [CloseCause.UserException, CloseCause.PeerClosed, CloseCause.PeerReset],
        "server stops" => [CloseCause.ServerStopped],
        // A peer that closes with bytes unread, or is sent to after its end, resets.
        _ => [CloseCause.PeerClosed, CloseCause.PeerReset],
    };

    [Fact, Contract(1)]
    public void Peers_that_disconnect_before_they_are_served_cause_no_illegal_callback_order() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtConnected = static x => x.Send("welcome"u8));
        for (int i = 0; i < 30; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            if (i % 3 == 0) peer.Reset();
            else if (i % 3 == 1) peer.Close();
            else peer.ShutdownSend();
        }

        Peer last = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("welcome", last.ReadText(7));
        rig.Until(() => server.Made.Count(static s => s.IsOver) >= server.Made.Count - 1, "all but the last to end");
        Assert.All(server.Made, static s => Assert.False(s.Saw("connected") && s.Saw("connect failed")));
    });

    [Fact, Contract(1)]
    public void Nothing_can_be_sent_and_nothing_comes_after_the_last_callback() => Run(rig =>
    {
        SendResult atEnd = SendResult.Queued;
        RecordingServer server = rig.Serve(s => s.AtDisconnected = (x, _) =>
        {
            atEnd = x.Send("late"u8);
            x.Close();
            x.Abort();
            x.ShutdownSend();
            x.PauseReceiving();
            x.ResumeReceiving();
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        peer.ShutdownSend();
        server.Session().End();
        Assert.Equal(SendResult.Closed, atEnd);
        Assert.False(server.Session().IsConnected);
        Assert.Empty(peer.ReadToEnd());
    });
}
