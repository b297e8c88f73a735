using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>How a server accepts: one listener or one per loop, placement, the filter, the limit, and connections that
/// are pending when it stops.</summary>
public abstract class AcceptSuite(Transport transport) : Suite(transport)
{
    private static readonly Action<RecordingSession> s_echo =
        static s => s.AtReceived = static (x, data) => x.Send(data);

    private static int[] PerLoop(RecordingServer server, Rig rig)
    {
        int[] counts = new int[rig.Engine.LoopCount];
        foreach (RecordingSession session in server.Made) counts[session.Loop.Index]++;
        return counts;
    }

    private static Peer ConnectAndWait(Rig rig, RecordingServer server)
    {
        int before = server.Made.Count;
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected(before);
        return peer;
    }

    private static void Echo(Peer peer)
    {
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadText(5));
    }

    // ------------------------------------------------------------------ placement

    [Fact]
    public void Round_robin_goes_from_loop_to_loop() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s_echo, new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Accept = new() { Placement = Placement.RoundRobin }
            });
            for (int i = 0; i < 6; i++) Echo(ConnectAndWait(rig, server));
            Assert.Equal([2, 2, 2], PerLoop(server, rig));
        },
        loops: 3);

    [Fact]
    public void Least_loaded_counts_what_else_lives_on_the_loops() => Run(
        rig =>
        {
            RecordingServer other = rig.Serve(s_echo, new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Accept = new() { ChooseLoop = _ => rig.Engine.GetLoop(0) }
            });
            for (int i = 0; i < 4; i++) ConnectAndWait(rig, other);
            Assert.Equal([4, 0, 0], PerLoop(other, rig));
            RecordingServer server = rig.Serve(s_echo, new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Accept = new() { Placement = Placement.LeastLoaded }
            });
            for (int i = 0; i < 8; i++) Echo(ConnectAndWait(rig, server));
            Assert.Equal([0, 4, 4], PerLoop(server, rig));

            // Loop 0 becomes free: the next connection is placed there.
            rig.Await(other.StopAsync(TimeSpan.Zero));
            rig.Until(() => rig.Engine.GetLoop(0).Load == 0, "the loop to be empty");
            for (int i = 0; i < 4; i++) Echo(ConnectAndWait(rig, server));
            Assert.Equal([4, 4, 4], PerLoop(server, rig));
            Assert.Equal(0, rig.Engine.Loops.Sum(static l => l.OnTheWay));
        },
        loops: 3);

    [Fact]
    public void Least_loaded_uses_every_loop_when_all_are_equal() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s_echo, new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Accept = new() { Placement = Placement.LeastLoaded }
            });
            for (int i = 0; i < 6; i++)
            {
                Peer peer = ConnectAndWait(rig, server);
                peer.ShutdownSend();
                server.Session(i).End();
                rig.Until(() => rig.Engine.Loops.All(static l => l.Load == 0), "all loops to be empty");
            }

            Assert.Equal([2, 2, 2], PerLoop(server, rig));
        },
        loops: 3);

    [Fact]
    public void A_connection_may_stay_on_the_loop_that_accepted_it() => Run(rig =>
    {
        ConcurrentQueue<Loop> accepting = [];
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new()
            {
                Placement = Placement.AcceptingLoop,
                Admit = arrival =>
                {
                    accepting.Enqueue(arrival.Loop);
                    return true;
                },
            },
        });
        for (int i = 0; i < 5; i++) Echo(ConnectAndWait(rig, server));
        Loop only = Assert.Single(accepting.Distinct());
        Assert.All(server.Made, s => Assert.Same(only, s.Loop));
    });

    [Fact]
    public void The_user_chooses_the_loop_and_sees_the_peers_address() => Run(
        rig =>
        {
            ConcurrentQueue<AcceptedConnection> seen = [];
            int wrongThreads = 0;
            RecordingServer server = rig.Serve(s_echo, new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Accept = new()
                {
                    ChooseLoop = arrival =>
                    {
                        if (!arrival.Loop.IsCurrent) Interlocked.Increment(ref wrongThreads);
                        seen.Enqueue(arrival);
                        return rig.Engine.GetLoop(seen.Count % 2 == 1 ? 2 : 1);
                    },
                },
            });
            Peer[] peers = [.. Enumerable.Range(0, 4).Select(_ => ConnectAndWait(rig, server))];
            foreach (Peer peer in peers) Echo(peer);
            Assert.Equal([0, 2, 2], PerLoop(server, rig));
            Assert.Equal(0, wrongThreads);
            Assert.All(seen, a => Assert.Same(server, a.Server));
            Assert.All(seen, a => Assert.Equal(server.EndPoint, a.LocalEndPoint));
            Assert.Equal(peers.Select(p => rig.IsUnix ? null : p.LocalEndPoint),
                seen.Select(static a => a.RemoteEndPoint));
        },
        loops: 3);

    [Fact, Contract(4)]
    public void A_choice_that_throws_or_is_no_loop_of_the_engine_ends_that_connection_only() => Run(rig =>
    {
        int asked = 0;
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new()
            {
                ChooseLoop = arrival => (++asked % 4) switch
                {
                    1 => throw new InvalidDataException("no choice"),
                    2 => null!,
                    3 => Engine.Default.GetLoop(0),
                    _ => arrival.Loop,
                },
            },
        });
        for (int i = 0; i < 3; i++) rig.ConnectPeer(server.EndPoint!).EndsInReset();
        Echo(ConnectAndWait(rig, server));
        Assert.Single(server.Made);
        Assert.Equal(["error InvalidDataException",
            "error InvalidOperationException", "error InvalidOperationException"],
            server.Events.Where(static e => e.StartsWith("error", StringComparison.Ordinal)));
        Assert.Equal((1, 3), (server.ReadCounters().Accepted, server.ReadCounters().Refused));
        Assert.Equal(3, server.ReadCounters().UserExceptions);
        // OnError was called.
        Assert.DoesNotContain(rig.Notices, static n => n.Message.Contains("ChooseLoop", StringComparison.Ordinal));
    });

    // ------------------------------------------------------------------ admission

    [Fact]
    public void The_filter_sees_the_peer_before_a_session_is_made_and_can_refuse_it() => Run(rig =>
    {
        int asked = 0;
        EndPoint? remote = null;
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new()
            {
                Admit = arrival =>
                {
                    remote = arrival.RemoteEndPoint;
                    return Interlocked.Increment(ref asked) > 2;
                },
            },
        });
        for (int i = 1; i <= 2; i++)
        {
            Peer refused = rig.ConnectPeer(server.EndPoint!);
            EndPoint? own = rig.IsUnix ? null : refused.LocalEndPoint;
            refused.EndsInReset();
            int expected = i;
            rig.Until(() => server.ReadCounters().Refused == expected, "the refusal to be counted");
            Assert.Equal(own, remote);
        }

        Assert.Empty(server.Made);
        Assert.Equal(0, server.SessionCount);
        Echo(ConnectAndWait(rig, server));
        Assert.Equal((1, 0, 2), (server.AcceptedCount, server.RejectedCount, server.ReadCounters().Refused));
        Assert.DoesNotContain(server.Events, static e => e.StartsWith("error", StringComparison.Ordinal));
    });

    [Fact, Contract(4)]
    public void A_filter_that_throws_refuses_that_connection_only() => Run(rig =>
    {
        int asked = 0;
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new() { Admit = _ => ++asked > 1 ? true : throw new InvalidDataException("bad filter") },
        });
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        Echo(ConnectAndWait(rig, server));
        Assert.Single(server.Made);
        Assert.Contains("error InvalidDataException", server.Events);
        Assert.Equal(1, server.ReadCounters().UserExceptions);
    });

    [Fact]
    public void The_filter_is_not_called_for_connections_over_the_limit() => Run(rig =>
    {
        int asked = 0;
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { Connections = 1 },
            Accept = new() { Admit = _ => Interlocked.Increment(ref asked) > 0 },
        });
        ConnectAndWait(rig, server);
        rig.ConnectPeer(server.EndPoint!).EndsInReset();
        rig.Until(() => server.RejectedCount == 1, "the rejection to be counted");
        Assert.Equal(1, asked);
    });

    // ------------------------------------------------------------------ limits

    [Theory]
    [InlineData(AcceptScheme.OneListener)]
    [InlineData(AcceptScheme.ListenerPerLoop)]
    public void MaxConnections_holds_for_every_accept_scheme(AcceptScheme scheme) => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { Connections = 5 },
            Accept = new() { Scheme = scheme }
        });
        // One below the limit, and at the limit: all are served.
        List<Peer> peers = [.. Enumerable.Range(0, 5).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        foreach (Peer peer in peers) Echo(peer);
        Assert.Equal((5, 0), (server.AcceptedCount, server.RejectedCount));
        for (int i = 0; i < 7; i++) rig.ConnectPeer(server.EndPoint!).EndsInReset();
        rig.Until(() => server.RejectedCount == 7, "seven above the number to be rejected");
        Assert.Equal((5, 5), (server.AcceptedCount, server.SessionCount));
        foreach (Peer peer in peers) Echo(peer);
    });

    [Theory]
    [InlineData(AcceptScheme.OneListener)]
    [InlineData(AcceptScheme.ListenerPerLoop)]
    public void After_AcceptLimit_it_stops_accepting_and_serves_those_it_has(AcceptScheme scheme) => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new() { Limit = 3, Scheme = scheme }
        });
        List<Peer> peers = [ConnectAndWait(rig, server), ConnectAndWait(rig, server)];
        Assert.True(server.IsAccepting);
        peers.Add(ConnectAndWait(rig, server));
        Assert.False(server.IsAccepting);
        rig.Until(() => rig.Engine.Loops.Sum(static l => l.ResidentCount) == 3, "the listeners to be closed");
        RecordingClient client = rig.MakeClient(server.EndPoint!);
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        foreach (Peer peer in peers) Echo(peer);
        Assert.Equal(3, server.AcceptedCount);

        // The limit starts again.
        rig.Await(server.StartAcceptingAsync());
        Assert.True(server.IsAccepting);
        for (int i = 0; i < 3; i++) Echo(ConnectAndWait(rig, server));
        Assert.False(server.IsAccepting);
        Assert.Equal(6, server.AcceptedCount);
    });

    [Fact]
    public void AcceptLimit_is_exact_with_many_concurrent_connections() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s_echo,
                new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Accept = new() { Limit = 4 } });
            List<Peer> peers = [];
            // While the loop is busy they wait in the backlog, and are accepted together.
            rig.OnLoop(rig.Engine.GetLoop(0),
                () => peers.AddRange(Enumerable.Range(0, 10).Select(_ => rig.ConnectPeer(server.EndPoint!))));
            server.Connected(3);
            rig.Until(() => rig.Engine.Loops.Sum(static l => l.ResidentCount) == 4, "the listener to be closed");
            rig.Settle();
            Assert.Equal(4, server.AcceptedCount);
            Assert.Equal(4, server.Made.Count);
            foreach (Peer peer in peers.Take(4)) Echo(peer);
            foreach (Peer peer in peers.Skip(4)) peer.EndsInReset();
        },
        loops: 1);

    // ------------------------------------------------------------------ a listener per loop

    [Fact]
    public void With_a_listener_per_loop_a_session_stays_where_it_was_accepted() => Run(rig =>
    {
        ConcurrentDictionary<EndPoint, Loop> accepting = [];
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new()
            {
                Scheme = AcceptScheme.ListenerPerLoop,
                Admit = arrival => arrival.RemoteEndPoint is not { } peer || accepting.TryAdd(peer, arrival.Loop),
            },
        });
        Assert.Single(server.EndPoints);
        // A Unix path cannot be shared: there is one listener.
        Assert.Equal(rig.IsUnix ? 1 : 2, rig.Engine.Loops.Sum(static l => l.ResidentCount));
        for (int i = 0; i < 64; i++) Echo(ConnectAndWait(rig, server));
        if (rig.IsUnix)
        {
            Assert.Single(server.Made.Select(static s => s.Loop).Distinct());
            return;
        }

        Assert.All(server.Made, s => Assert.Same(accepting[s.RemoteEndPoint!], s.Loop));
        // The kernel chooses by a hash: the result is unknown, but not always the same loop.
        Assert.All(PerLoop(server, rig), static count => Assert.NotEqual(0, count));
    });

    [Fact]
    public void With_a_listener_per_loop_connections_may_be_placed_as_well() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new() { Scheme = AcceptScheme.ListenerPerLoop, ChooseLoop = _ => rig.Engine.GetLoop(1) },
        });
        for (int i = 0; i < 8; i++) Echo(ConnectAndWait(rig, server));
        Assert.Equal([0, 8], PerLoop(server, rig));
    });

    [Theory]
    [InlineData(AcceptScheme.OneListener, AcceptScheme.ListenerPerLoop)]
    [InlineData(AcceptScheme.ListenerPerLoop, AcceptScheme.OneListener)]
    [InlineData(AcceptScheme.ListenerPerLoop, AcceptScheme.ListenerPerLoop)]
    public void A_servers_port_is_refused_to_another_that_did_not_request_sharing(AcceptScheme first,
        AcceptScheme second) => Run(rig =>
        {
            if (rig.IsUnix) return;
            RecordingServer holder = rig.Serve(s_echo,
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Accept = new() { Scheme = first }
                });
            int listeners = rig.Engine.Loops.Sum(static l => l.ResidentCount);
            RecordingServer server = rig.MakeServer(null,
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = holder.EndPoint,
                    Accept = new() { Scheme = second }
                });
            NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
            Assert.Equal(ErrorCategory.Bind, e.Error.Category);
            Assert.Equal(listeners, rig.Engine.Loops.Sum(static l => l.ResidentCount));
            for (int i = 0; i < 8; i++) Echo(ConnectAndWait(rig, holder));
            rig.Await(holder.StopAsync(TimeSpan.Zero));
            rig.Await(server.StartAsync());
        });

    [Fact]
    public void Several_addresses_may_have_a_listener_per_loop_each() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoints = [rig.NewAddress(), rig.NewAddress()],
            Accept = new() { Scheme = AcceptScheme.ListenerPerLoop }
        });
        Assert.Equal(2, server.EndPoints.Distinct().Count());
        for (int i = 0; i < 20; i++) Echo(rig.ConnectPeer(server.EndPoints[i % 2]));
        Assert.Equal(10, server.Made.Count(s => Equals(s.LocalEndPoint, server.EndPoints[0])));
    });

    // ------------------------------------------------------------------ pending connections when accepting stops

    [Theory]
    [InlineData(AcceptScheme.OneListener)]
    [InlineData(AcceptScheme.ListenerPerLoop)]
    public void Connections_made_before_accepting_stopped_are_served(AcceptScheme scheme) => Run(rig =>
    {
        for (int round = 0; round < 3; round++)
        {
            RecordingServer server = rig.Serve(s_echo,
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Accept = new() { Scheme = scheme }
                });
            List<Peer> peers = [];
            Task? stopped = null;
            // Opened while that loop is busy, so that they wait in its backlog; the loop learns of the stop before it
            // accepts.
            rig.OnLoop(rig.Engine.GetLoop(round % 2), () =>
            {
                peers.AddRange(Enumerable.Range(0, 20).Select(_ => rig.ConnectPeer(server.EndPoint!)));
                stopped = server.StopAcceptingAsync().AsTask();
            });
            rig.Until(() => stopped!.IsCompleted, "accepting to stop");
            Assert.False(server.IsAccepting);
            foreach (Peer peer in peers) Echo(peer);
            Assert.Equal(20, server.AcceptedCount);
            RecordingClient client = rig.MakeClient(server.EndPoint!);
            Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
            rig.Await(server.StopAsync(TimeSpan.Zero));
        }
    });

    [Theory]
    [InlineData(1)]
    [InlineData(3)]
    public void Connections_made_before_the_server_stopped_end_with_FIN_and_not_with_a_reset(int loops) => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send("hello"u8));
            List<Peer> peers = [];
            Task<StopReport>? stopped = null;
            rig.OnLoop(rig.Engine.GetLoop(0), () =>
            {
                peers.AddRange(Enumerable.Range(0, 5).Select(_ => rig.ConnectPeer(server.EndPoint!)));
                stopped = server.StopAsync().AsTask();
            });
            foreach (Peer peer in peers)
            {
                Assert.Equal("hello", peer.ReadTextToEnd());
                peer.Close();
            }

            rig.Until(() => stopped!.IsCompleted, "the stop to end");
            // How many of them the stop found, and how many had ended before, depends on timing; none was aborted.
            Assert.Equal(0, stopped!.Result.Aborted);
            Assert.Equal(5, server.AcceptedCount);
        },
        loops);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void No_connection_is_reset_however_many_were_pending_at_the_stop(bool stopsAll) => Run(
        rig =>
        {
            // More than an engine accepts in one iteration.
            const int many = 150;
            RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Send("hello"u8));
            List<Peer> peers = [];
            Task? stopped = null;
            rig.OnLoop(rig.Engine.GetLoop(0), () =>
            {
                peers.AddRange(Enumerable.Range(0, many).Select(_ => rig.ConnectPeer(server.EndPoint!)));
                stopped = stopsAll ? server.StopAsync().AsTask() : server.StopAcceptingAsync().AsTask();
            });
            foreach (Peer peer in peers)
            {
                Assert.Equal("hello", stopsAll ? peer.ReadTextToEnd() : peer.ReadText(5));
                peer.Close();
            }

            rig.Until(() => stopped!.IsCompleted, "the stop to end");
            Assert.Equal((many, 0), (server.AcceptedCount, server.RejectedCount));
        },
        loops: 1);

    // ------------------------------------------------------------------ stopping and starting to accept

    [Fact]
    public void A_server_may_start_without_accepting_and_pending_connections_are_served_first_when_it_begins() =>
        Run(rig =>
        {
            RecordingServer server = rig.MakeServer(static s => s.AtReceived = static (x, data) => x.Send(data),
                new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Accept = new() { AtStart = false }
                });
            for (int life = 0; life < 2; life++)
            {
                rig.Await(server.StartAsync());
                Assert.False(server.IsAccepting);
                int before = server.Made.Count;
                Peer early = rig.ConnectPeer(server.EndPoint!);
                if (rig.Tls == TlsKind.None) early.Write("early");
                rig.Settle();
                Assert.Equal(before, server.Made.Count);
                Assert.Equal(0, server.AcceptedCount);
                rig.Await(server.StartAcceptingAsync());
                Assert.True(server.IsAccepting);
                if (rig.Tls == TlsKind.None) Assert.Equal("early", early.ReadText(5));
                Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAcceptingAsync()));
                Peer late = rig.ConnectPeer(server.EndPoint!);
                late.Write("late");
                Assert.Equal("late", late.ReadText(4));
                // It can still stop and start.
                rig.Await(server.StopAcceptingAsync());
                rig.Await(server.StartAcceptingAsync());
                late = rig.ConnectPeer(server.EndPoint!);
                late.Write("later");
                Assert.Equal("later", late.ReadText(5));
                rig.Await(server.StopAsync(TimeSpan.Zero));
            }
        });

    [Fact]
    public void A_server_may_begin_to_accept_in_OnStarted() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Accept = new() { AtStart = false, Scheme = AcceptScheme.ListenerPerLoop }
        });
        ValueTask accepting = default;
        server.OnEvent = what =>
        {
            if (what == "started") accepting = server.StartAcceptingAsync();
        };
        rig.Await(server.StartAsync());
        rig.Await(accepting);
        rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Assert.Equal("started", server.Events.SkipWhile(static e => e != "started").First());
    });

    [Fact]
    public void Pending_connections_of_a_server_that_never_accepted_are_accepted_before_it_stops() => Run(rig =>
    {
        Assert.SkipWhen(rig.Tls != TlsKind.None, "A stop ends handshakes that are in progress.");
        RecordingServer server = rig.MakeServer(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress(), Accept = new() { AtStart = false } });
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        ValueTask<StopReport> stopped = server.StopAsync();
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.True(rig.Await(stopped).IsComplete);
        Assert.Equal(CloseCause.ServerStopped, server.Session().End());
    });

    [Fact]
    public void Accepting_starts_again_at_the_same_addresses() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo,
            new ServerOptions { Engine = rig.Engine, EndPoints = [rig.NewAddress(), rig.NewAddress()] });
        EndPoint[] addresses = [.. server.EndPoints];
        Peer old = ConnectAndWait(rig, server);
        for (int round = 0; round < 3; round++)
        {
            rig.Await(server.StopAcceptingAsync());
            rig.Await(server.StopAcceptingAsync());
            Assert.False(server.IsAccepting);
            rig.Await(server.StartAcceptingAsync());
            Assert.True(server.IsAccepting);
            Assert.Equal(addresses, server.EndPoints);
            Echo(rig.ConnectPeer(addresses[round % 2]));
        }

        Echo(old);
        Assert.Equal(4, server.AcceptedCount);
        Assert.Single(server.Events, "started");
    });

    [Fact]
    public void Accepting_cannot_start_twice_or_on_a_server_that_is_not_started() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(s_echo);
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAcceptingAsync()));
        rig.Await(server.StartAsync());
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAcceptingAsync()));
        Echo(ConnectAndWait(rig, server));
        rig.Await(server.StopAsync(TimeSpan.Zero));
        Assert.Throws<InvalidOperationException>(() => rig.Await(server.StartAcceptingAsync()));
        rig.Await(server.DisposeAsync());
        Assert.Throws<ObjectDisposedException>(() => rig.Await(server.StartAcceptingAsync()));
    });

    [Fact]
    public void When_the_address_is_taken_meanwhile_accepting_does_not_start_and_sessions_continue() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo);
        Peer peer = ConnectAndWait(rig, server);
        rig.Await(server.StopAcceptingAsync());
        RecordingServer other = rig.Serve(s_echo,
            new ServerOptions { Engine = rig.Engine, EndPoint = server.EndPoint });
        Assert.Throws<NetworkException>(() => rig.Await(server.StartAcceptingAsync()));
        Assert.False(server.IsAccepting);
        Echo(peer);
        rig.Await(other.StopAsync(TimeSpan.Zero));
        rig.Await(server.StartAcceptingAsync());
        Echo(ConnectAndWait(rig, server));
    });

    [Fact]
    public void Concurrent_starts_and_stops_of_accepting_end_with_the_last_one() => Run(rig =>
    {
        RecordingServer server = rig.Serve(s_echo);
        for (int round = 0; round < 10; round++)
        {
            rig.Await(server.StopAcceptingAsync());
            Task start = server.StartAcceptingAsync().AsTask();
            Task stop = server.StopAcceptingAsync().AsTask();
            rig.Until(() => start.IsCompleted && stop.IsCompleted, "both to end");
            Assert.True(start.IsCompletedSuccessfully || start.Exception!.InnerException is InvalidOperationException,
                start.Exception?.ToString());
            Assert.False(server.IsAccepting);
            rig.Until(() => rig.Engine.Loops.All(static l => l.ResidentCount == 0), "no listener to be left");
            rig.Await(server.StartAcceptingAsync());
            Assert.True(server.IsAccepting);
        }

        Echo(ConnectAndWait(rig, server));
    });

    // ------------------------------------------------------------------ accepting that fails

    [Fact]
    public void A_listener_with_a_shut_down_socket_is_closed_with_a_diagnostic_event_and_the_loop_does_not_spin() =>
        Run(rig =>
        {
            Assert.SkipWhen(rig.IsVirtual || !OperatingSystem.IsLinux(), "The test needs the socket's descriptor.");
            Assert.SkipWhen(rig.IsUnix, "poll does not report the shutdown of a Unix socket.");
            int descriptor = -1;
            RecordingServer server = rig.Serve(s_echo, new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Socket = new()
                {
                    OnCreated =
                        socket => descriptor = socket.Role == SocketRole.Listener ? (int)socket.Descriptor : descriptor,
                },
            });
            Peer open = ConnectAndWait(rig, server);
            Assert.Equal(0, Syscall.Shutdown(descriptor, SocketAbi.SHUT_RD));
            rig.Until(() => rig.Notices.Any(static n => n.Page == "accept-failed.md"), "the notice");
            Echo(open);
            Loop loop = server.Session().Loop;
            ValueTask pause = default;
            rig.OnLoop(loop, () => pause = loop.DelayAsync(TimeSpan.FromMilliseconds(50)));
            rig.Await(pause);
            Assert.Equal(1, rig.Engine.Loops.Sum(static l => l.Counters.AcceptErrors));
            Assert.Equal($"{server.EndPoint} accepts no more: Invalid argument (error 22). Something in this process "
                + $"has shut its socket down or closed it. Open sessions continue; stop accepting and start again to "
                + $"listen there.", Assert.Single(rig.Notices, static n => n.Page == "accept-failed.md").Message);
            Assert.Contains("error NetworkException", server.Events);
            rig.Await(server.StopAcceptingAsync());
            rig.Await(server.StartAcceptingAsync());
            Echo(ConnectAndWait(rig, server));
            Echo(open);
        });

    [Fact]
    public void Pending_connections_of_a_resting_listener_are_served_when_it_closes_gracefully() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "On the memory engine a connect needs the loop that this test blocks.");
        RecordingServer server = rig.Serve(s_echo);
        Listener listener = ListenerOf(rig);
        Peer? waiting = null;
        ValueTask closed = default;
        rig.OnLoop(listener.Loop, () =>
        {
            for (int i = 0; i < 64; i++) listener.CompleteAcceptError(Errno.EPROTO, shed: false);
            waiting = rig.ConnectPeer(server.EndPoint!);
            closed = server.StopAcceptingAsync();
        });
        rig.Await(closed);
        Echo(waiting!);
    });

    [Fact]
    public void Connections_accepted_when_the_listener_closes_are_ended_and_not_forgotten() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "On the memory engine a connect needs the loop that this test blocks.");
            RecordingServer server = rig.Serve(s_echo);
            Listener listener = ListenerOf(rig);
            Peer[] waiting = [];
            rig.OnLoop(listener.Loop, () =>
            {
                // The kernel, or the runtime, accepts some of them before this loop learns of the stop.
                int before =
                    OperatingSystem.IsLinux() ? Directory.EnumerateFileSystemEntries("/proc/self/fd").Count() : 0;
                waiting = [.. Enumerable.Range(0, 3).Select(_ => rig.ConnectPeer(server.EndPoint!))];
                for (int i = 0; i < 200 && rig.Engine.Kind == EngineKind.Portable && OperatingSystem.IsLinux()
                    && Directory.EnumerateFileSystemEntries("/proc/self/fd").Count() < before + 4; i++)
                    rig.Block(TimeSpan.FromMilliseconds(5));
                listener.Stop();
            });
            foreach (Peer peer in waiting) peer.EndsInReset();
            Assert.Equal(0, server.SessionCount);
        },
        loops: 1);

    [Fact]
    public void A_connection_accepted_after_the_end_of_its_listener_is_closed_and_not_served() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual || rig.Engine.Kind == EngineKind.Portable || !OperatingSystem.IsLinux(),
                "The test replaces the listener's descriptor, which needs epoll or io_uring.");
            RecordingServer server = rig.Serve(s_echo);
            Listener listener = ListenerOf(rig);
            using Socket other = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            other.Bind(new IPEndPoint(IPAddress.Loopback, 0));
            other.Listen();
            using Socket peer =
                new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 20_000 };
            peer.Connect(other.LocalEndPoint!);
            Socket accepted = other.Accept();
            int descriptor = (int)accepted.Handle;
            accepted.SafeHandle.SetHandleAsInvalid(); // owned by the listener from here on
            rig.OnLoop(listener.Loop, () =>
            {
                // As a completion that was pending when the listener closed.
                listener.Stop();
                listener.CompleteAccept(new RawSocket(descriptor, null), default, null);
            });
            Assert.Equal(0, peer.Receive(new byte[1]));
            rig.Settle();
            Assert.Empty(server.Made);
            Assert.Equal(0, server.AcceptedCount);
        },
        loops: 1);

    private static Listener ListenerOf(Rig rig) => rig.Engine.Loops
        .SelectMany(static l => Enumerable.Range(0, l.ResidentCount).Select(l.ResidentAt)).OfType<Listener>().Single();

    [Fact]
    public void Failed_starts_leak_no_descriptor() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual || !OperatingSystem.IsLinux(), "The test counts descriptors in /proc.");
        RecordingServer server = rig.Serve(s_echo);
        int before = 0;
        for (int i = 0; i < 60; i++)
        {
            RecordingServer second = rig.MakeServer(null,
                new ServerOptions { Engine = rig.Engine, EndPoint = server.EndPoint });
            Assert.Throws<NetworkException>(() => rig.Await(second.StartAsync()));
            // Descriptors opened by the first rounds stay open.
            if (i == 9) before = Directory.EnumerateFileSystemEntries("/proc/self/fd").Count();
        }

        Assert.InRange(Directory.EnumerateFileSystemEntries("/proc/self/fd").Count() - before, -40, 40);
    });

    [Fact]
    public void Repeatedly_failing_accepts_rest_the_listener_with_one_diagnostic_event_and_then_accepting_continues() =>
        Run(rig =>
        {
            RecordingServer server = rig.Serve(s_echo);
            Listener listener = ListenerOf(rig);
            // Errors of single connections: accepting does not pause, and an accepted connection resets the count.
            rig.OnLoop(listener.Loop, () => Fail(63));
            Echo(ConnectAndWait(rig, server));
            rig.OnLoop(listener.Loop, () => Fail(63));
            Assert.DoesNotContain(rig.Notices, static n => n.Page == "accept-failed.md");
            rig.OnLoop(listener.Loop, () => Fail(2));
            Assert.Equal($"Accepting at {server.EndPoint} fails again and again: Protocol error "
                + $"(error 71). It is tried again ten times a second; open sessions continue.",
                Assert.Single(rig.Notices, static n => n.Page == "accept-failed.md").Message);
            Echo(ConnectAndWait(rig, server));

            void Fail(int times)
            {
                for (int i = 0; i < times; i++) listener.CompleteAcceptError(Errno.EPROTO, shed: false);
            }
        });
}
