using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Connects to each form of address, to several addresses, and the report of each kind of failure.</summary>
public abstract class ConnectSuite(Transport transport) : Suite(transport)
{
    private static ClientOptions To(Rig rig, params EndPoint[] endPoints) =>
        new() { Engine = rig.Engine, EndPoints = endPoints };

    private static RecordingServer Echo(Rig rig) =>
        rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data));

    private static void Echoes(RecordingSession session)
    {
        session.Send("hello"u8);
        session.UntilReceived(5);
        Assert.Equal("hello", session.ReceivedText);
    }

    private static NetworkException Fails(Rig rig, RecordingClient client) =>
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));

    /// <summary>An unreachable address: on real engines the broadcast address, to which TCP cannot connect.</summary>
    private static IPEndPoint Unreachable(Rig rig)
    {
        IPEndPoint address = new(IPAddress.Broadcast, ushort.MaxValue - 2);
#if MEMORY
        if (rig is MemoryRig memory) memory.Memory.AddUnreachable(address);
#endif
        return address;
    }

    // ------------------------------------------------------------------ the loop

    [Fact]
    public void A_session_connects_on_its_own_loop_and_the_policy_stays_there() => Run(rig =>
    {
        RecordingServer server = Echo(rig);
        RecordingServer relay = rig.Serve();
        for (int i = 0; i < 4; i++)
        {
            rig.ConnectPeer(relay.EndPoint!);
            RecordingSession near = relay.Connected(i);
            RecordingClient? client = null;
            ValueTask<Session> connecting = default;
            rig.OnLoop(near, () =>
            {
                // Without an engine: the engine of the loop.
                client = rig.MakeClient(new ClientOptions
                {
                    Loop = near.Loop,
                    EndPoint = server.EndPoint,
                    Reconnect = new ReconnectPolicy { InitialDelay = TimeSpan.FromMilliseconds(1) }
                });
                connecting = client.ConnectAsync();
            });
            RecordingSession far = (RecordingSession)rig.Await(connecting);
            Assert.Same(near.Loop, far.Loop);
            Assert.Same(rig.Engine, client!.Engine);
            Echoes(far);
            server.Connected(2 * i).Close();
            rig.Until(() => client.Made.Count == 2 && client.Made[1].IsConnected, "the policy to connect again");
            Assert.Same(near.Loop, client.Made[1].Loop);
            rig.Await(client.DisconnectAsync());
        }
    });

    [Fact]
    public void The_loop_of_another_engine_is_refused_by_name() => Run(rig =>
    {
        RecordingServer server = Echo(rig);
        Engine other = new(new EngineOptions { Kind = EngineKind.Portable, Loops = 1 });
        RecordingClient client = rig.MakeClient(
            new ClientOptions { Engine = rig.Engine, Loop = other.GetLoop(0), EndPoint = server.EndPoint });
        ArgumentException refused = Assert.Throws<ArgumentException>(() => rig.Await(client.ConnectAsync()));
        Assert.Contains("which is no loop of Engine", refused.Message, StringComparison.Ordinal);
        rig.Await(other.DisposeAsync());
    });

    // ------------------------------------------------------------------ forms of address

    [Fact]
    public void A_client_connects_to_the_text_of_an_address() => Run(rig =>
    {
        RecordingServer server = Echo(rig);
        string text = rig.IsUnix ? $"unix:{server.EndPoint}" : $"tcp://{server.EndPoint}";
        RecordingSession session =
            rig.Connect(rig.MakeClient(new ClientOptions { Engine = rig.Engine, Address = text }));
        Assert.Equal(server.EndPoint, session.RemoteEndPoint);
        Echoes(session);
    });

    [Fact]
    public void A_client_connects_to_a_host_name_and_the_session_sees_the_address_that_answered() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "A Unix socket path is not a host name.");
        RecordingServer server = Echo(rig);
        int port = ((IPEndPoint)server.EndPoint!).Port;
        foreach (ClientOptions options in (ClientOptions[])[
            new() { Engine = rig.Engine, Address = $"tcp://localhost:{port}" },
            To(rig, new DnsEndPoint("LocalHost", port)),
            To(rig, new DnsEndPoint("localhost", port, AddressFamily.InterNetwork)),
            To(rig, new DnsEndPoint("127.0.0.1", port))])
        {
            EndPoint? asked = null;
            RecordingClient client = rig.MakeClient(options, s => s.AtConnecting = x => asked = x.RemoteEndPoint);
            RecordingSession session = rig.Connect(client);
            Assert.Equal(server.EndPoint, session.RemoteEndPoint);
            Assert.Equal(port, asked is DnsEndPoint name ? name.Port : ((IPEndPoint)asked!).Port);
            Echoes(session);
            Assert.Equal("connecting, connected, received 5", session.Life);
            rig.Await(client.DisconnectAsync());
        }
    });

    [Fact]
    public void A_connect_to_a_wildcard_address_uses_the_loopback() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "Unix socket paths have no wildcard address.");
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions { Engine = rig.Engine, Address = "tcp://*:0" });
        int port = ((IPEndPoint)server.EndPoint!).Port;
        Echoes(rig.Connect(rig.MakeClient(new ClientOptions { Engine = rig.Engine, Address = $"tcp://*:{port}" })));
        Echoes(
            rig.Connect(rig.MakeClient(new ClientOptions { Engine = rig.Engine, Address = $"tcp://0.0.0.0:{port}" })));
        Echoes(rig.Connect(rig.MakeClient(To(rig, server.EndPoint!))));
    });

    [Fact]
    public void A_connect_to_an_IPv4_mapped_address_uses_IPv4() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "A Unix socket path has no address family.");
        RecordingServer server = Echo(rig);
        int port = ((IPEndPoint)server.EndPoint!).Port;
        RecordingSession session =
            rig.Connect(rig.MakeClient(To(rig, new IPEndPoint(IPAddress.Loopback.MapToIPv6(), port))));
        Assert.Equal(server.EndPoint, session.RemoteEndPoint);
        Echoes(session);
        Echoes(rig.Connect(
            rig.MakeClient(new ClientOptions { Engine = rig.Engine, Address = $"tcp://[::ffff:127.0.0.1]:{port}" })));
        RecordingServer mapped = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback.MapToIPv6(), 0) });
        Assert.Equal(IPAddress.Loopback, ((IPEndPoint)mapped.EndPoint!).Address);
    });

    [Fact]
    public void The_short_constructors_accept_an_address() => Run(rig =>
    {
        // These serve on the default engine, which is one of the real ones.
        Assert.SkipWhen(rig.IsVirtual || rig.IsUnix || rig.IsPool,
            "The default engine is tested once, on another transport.");
        Server server = rig.Keep(new Server("tcp://127.0.0.1:0", () => new RecordingSession(rig)));
        rig.Await(server.StartAsync());
        Client client = new($"tcp://{server.EndPoint}", () => new RecordingSession(rig));
        Session session = rig.Await(client.ConnectAsync());
        Assert.True(session.IsConnected);
        rig.Await(client.DisposeAsync());
        rig.Await(server.DisposeAsync());
    });

    // ------------------------------------------------------------------ several addresses

    [Fact]
    public void Several_end_points_are_one_connect_and_the_first_that_answers_is_used() => Run(rig =>
    {
        RecordingServer server = Echo(rig);
        RecordingClient client = rig.MakeClient(To(rig, rig.DeadAddress(), server.EndPoint!, rig.DeadAddress()));
        RecordingSession session = rig.Connect(client);
        Assert.Same(session, Assert.Single(client.Made));
        Assert.Equal(server.EndPoint, session.RemoteEndPoint);
        Echoes(session);
        Assert.Equal("connected", client.Story);
    });

    [Fact]
    public void When_all_attempts_fail_each_is_reported_and_the_most_specific_is_the_reason() => Run(rig =>
    {
        EndPoint dead = rig.DeadAddress();
        EndPoint alsoDead = rig.IsUnix ? rig.DeadAddress() : Unreachable(rig);
        RecordingClient client = rig.MakeClient(To(rig, alsoDead, new DnsEndPoint("no such host", 1), dead));
        NetworkException e = Fails(rig, client);
        Assert.Equal(ErrorCategory.Refused, e.Error.Category);
        Assert.Equal("connecting, connect failed Refused", client.Attempt().Life);
        AggregateException all = Assert.IsType<AggregateException>(e.InnerException);
        Assert.Same(all, client.Attempt().Reason.Exception);
        NetworkException[] each = [.. all.InnerExceptions.Cast<NetworkException>()];
        Assert.Equal(3, each.Length);
        foreach (EndPoint place in (EndPoint[])[alsoDead, dead])
        {
            Assert.Single(each, x => x.Message.StartsWith($"{place}: ", StringComparison.Ordinal));
            Assert.Contains($"{place}: ", e.Message, StringComparison.Ordinal);
        }

        Assert.Single(each, static x => x.Error.Category == ErrorCategory.UnknownHost);
        if (!rig.IsUnix)
            Assert.Equal(ErrorCategory.Unreachable,
                each.Single(x => x.Message.StartsWith($"{alsoDead}: ", StringComparison.Ordinal)).Error.Category);
    });

    [Fact]
    public void The_time_limit_is_one_for_all_addresses() => Run(rig =>
    {
        EndPoint? one = rig.SilentAddress(), two = rig.SilentAddress();
        Assert.SkipWhen(one is null, "The memory engine answers every connect at once.");
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoints = [one, two!, rig.DeadAddress()],
            Timeouts = new() { Connect = TimeSpan.FromMilliseconds(600) }
        });
        long start = rig.Engine.NowMs;
        NetworkException e = Fails(rig, client);
        long took = rig.Engine.NowMs - start;
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        Assert.InRange(took, 590, rig.IsVirtual ? 610 : 10_000);
        Assert.Equal(3, Assert.IsType<AggregateException>(e.InnerException).InnerExceptions.Count);
        Assert.Equal("connecting, connect failed TimedOut", client.Attempt().Life);
    });

    [Fact]
    public void The_local_address_decides_about_the_family() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "A Unix socket path has no address family.");
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions { Engine = rig.Engine, Address = "tcp://*:0" });
        int port = ((IPEndPoint)server.EndPoint!).Port;
        RecordingSession session = rig.Connect(rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoints = [new IPEndPoint(IPAddress.IPv6Loopback, port), new IPEndPoint(IPAddress.Loopback, port)],
            Socket = new() { LocalEndPoint = new IPEndPoint(IPAddress.Loopback, 0) }
        }));
        Assert.Equal(new IPEndPoint(IPAddress.Loopback, port), session.RemoteEndPoint);
        Echoes(session);
        RecordingClient none = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = new IPEndPoint(IPAddress.IPv6Loopback, port),
            Socket = new() { LocalEndPoint = new IPEndPoint(IPAddress.Loopback, 0) }
        });
        Assert.Equal(ErrorCategory.Unreachable, Fails(rig, none).Error.Category);
    });

    [Fact]
    public void With_a_fixed_local_port_the_addresses_are_tried_one_after_the_other() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix || !OperatingSystem.IsLinux(), "Needs a second loopback address.");
        RecordingServer server = Echo(rig);
        IPEndPoint local = new(IPAddress.Parse("127.45.67.89"), 0);
        using (Socket probe = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp))
        {
            // No other socket takes ports of this address.
            probe.Bind(local);
            local = (IPEndPoint)probe.LocalEndPoint!;
        }

        RecordingSession session = rig.Connect(rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoints = [rig.DeadAddress(), rig.DeadAddress(), server.EndPoint!],
            Socket = new() { LocalEndPoint = local }
        }));
        Assert.Equal(local, session.LocalEndPoint);
        Echoes(session);
    });

    // ------------------------------------------------------------------ each failure has its own name

    [Fact]
    public void An_unknown_host_is_reported_as_such() => Run(rig =>
    {
        // A name that every resolver rejects without a query.
        RecordingClient client = rig.MakeClient(To(rig, new DnsEndPoint("no such host", 80)));
        NetworkException e = Fails(rig, client);
        Assert.Equal(ErrorCategory.UnknownHost, e.Error.Category);
        Assert.StartsWith("Cannot connect to no such host:80: the host name is unknown: ", e.Message,
            StringComparison.Ordinal);
        Assert.Equal("connecting, connect failed UnknownHost", client.Attempt().Life);
        Assert.IsType<SocketException>(client.Attempt().Reason.Exception);
        Assert.Null(client.Session);
    });

    [Fact]
    public void Failed_connects_leak_no_descriptor() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual || !OperatingSystem.IsLinux(), "The test counts descriptors in /proc.");
        RecordingClient client = rig.MakeClient(To(rig, rig.DeadAddress()));
        int before = 0;
        for (int i = 0; i < 60; i++)
        {
            Fails(rig, client);
            if (i == 9) before = Directory.EnumerateFileSystemEntries("/proc/self/fd").Count();
        }

        Assert.InRange(Directory.EnumerateFileSystemEntries("/proc/self/fd").Count() - before, -40, 20);
    });

    [Fact]
    public void A_refused_connect_is_reported_as_such() => Run(rig =>
    {
        EndPoint dead = rig.DeadAddress();
        RecordingClient client = rig.MakeClient(To(rig, dead));
        NetworkException e = Fails(rig, client);
        Assert.Equal(ErrorCategory.Refused, e.Error.Category);
        Assert.StartsWith($"Cannot connect to {dead}: connection refused", e.Message, StringComparison.Ordinal);
        Assert.Null(e.InnerException);
        Assert.Equal(CloseCause.Refused, client.Attempt().Reason.Cause);
    });

    [Fact]
    public void An_unreachable_address_is_reported_as_such() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsUnix, "No Unix socket path is unreachable.");
        RecordingClient client = rig.MakeClient(To(rig, Unreachable(rig)));
        NetworkException e = Fails(rig, client);
        Assert.Equal(ErrorCategory.Unreachable, e.Error.Category);
        Assert.NotEqual(0, e.Error.Code);
        Assert.Equal("connecting, connect failed Unreachable", client.Attempt().Life);
    });

    [Fact]
    public void A_connect_without_an_answer_is_reported_as_timed_out() => Run(rig =>
    {
        EndPoint? silent = rig.SilentAddress();
        Assert.SkipWhen(silent is null, "The memory engine answers every connect at once.");
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = silent,
            Timeouts = new() { Connect = TimeSpan.FromMilliseconds(50) }
        });
        NetworkException e = Fails(rig, client);
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        Assert.Null(e.InnerException);
        Assert.Equal(CloseCause.TimedOut, client.Attempt().Reason.Cause);
    });

    [Fact]
    public void A_cancelled_connect_is_reported_as_such_and_ends_the_other_attempts() => Run(rig =>
    {
        EndPoint? one = rig.SilentAddress(), two = rig.SilentAddress();
        Assert.SkipWhen(one is null, "The memory engine answers every connect at once.");
        RecordingClient client = rig.MakeClient(To(rig, one!, two!));
        using CancellationTokenSource cancellation = new();
        ValueTask<Session> connecting = client.ConnectAsync(cancellation.Token);
        client.Attempt().Until("connecting");
        rig.Pass(TimeSpan.FromMilliseconds(300));
        cancellation.Cancel();
        Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(connecting));
        Assert.Equal(CloseCause.Cancelled, client.Attempt().Reason.Cause);
        Assert.Equal(ErrorCategory.Cancelled, client.Attempt().Reason.Error.Category);
        rig.Until(() => rig.Engine.Loops.All(static l => l.ResidentCount == 0), "both sockets to be closed");
    });

    [Fact]
    public void A_pending_lookup_can_be_cancelled_in_every_way() => Run(rig =>
    {
        // On real engines the response may arrive before the end, and is reported then.
        for (int round = 0; round < 10; round++)
        {
            RecordingClient client = rig.MakeClient(To(rig, new DnsEndPoint("no such host", 80)));
            using CancellationTokenSource cancellation = new();
            ValueTask<Session> connecting = client.ConnectAsync(cancellation.Token);
            if (round % 2 == 0) rig.Elsewhere(cancellation.Cancel);
            else rig.Elsewhere(() => _ = client.DisconnectAsync().AsTask());
            Assert.ThrowsAny<Exception>(() => rig.Await(connecting));
            rig.Join();
            rig.Until(() => client.Made.All(static s => s.IsOver), "the last callback");
            Assert.Contains(client.Attempt().Life, (string[])["connecting, connect failed Cancelled",
                "connecting, connect failed LocalClose", "connecting, connect failed UnknownHost"]);
            Assert.Null(client.Session);
        }
    });

    // ------------------------------------------------------------------ forms that wait

    [Fact]
    public void Connect_and_Disconnect_wait_for_the_end() => Run(rig =>
    {
        RecordingServer server = Echo(rig);
        RecordingClient client = rig.MakeClient(To(rig, server.EndPoint!));
        RecordingSession session = (RecordingSession)client.Connect(TimeSpan.FromSeconds(20));
        Assert.True(session.Saw("connected"));
        Echoes(session);
        client.Disconnect(TimeSpan.FromSeconds(20));
        Assert.Equal("connecting, connected, received 5, disconnected LocalClose", session.Life);
        client.Disconnect(TimeSpan.Zero);
        RecordingSession second = (RecordingSession)client.Connect(Timeout.InfiniteTimeSpan);
        Assert.NotSame(session, second);
        client.Disconnect(Timeout.InfiniteTimeSpan);
        Assert.Equal(ErrorCategory.Refused, Assert.Throws<NetworkException>(() => rig.MakeClient(rig.DeadAddress())
            .Connect(TimeSpan.FromSeconds(20))).Error.Category);
    });

    [Fact]
    public void Connect_times_out() => Run(rig =>
    {
        EndPoint? silent = rig.SilentAddress();
        Assert.SkipWhen(silent is null, "The memory engine answers every connect at once.");
        RecordingClient client = rig.MakeClient(To(rig, silent!));
        NetworkException e = Assert.Throws<NetworkException>(() => client.Connect(TimeSpan.FromMilliseconds(50)));
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        Assert.Contains("not connected within 00:00:00.05", e.Message, StringComparison.Ordinal);
        Assert.Equal("connecting, connect failed Cancelled", client.Attempt().Life);
        Assert.Null(client.Session);
    });

    [Fact]
    public void Connect_times_out_even_if_its_loop_is_blocked() => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual,
                "The memory engine runs everything on one thread, so no callback can block.");
            RecordingServer server = Echo(rig);
            RecordingClient client = rig.MakeClient(To(rig, server.EndPoint!));
            using ManualResetEventSlim release = new();
            rig.Engine.GetLoop(0).Post(release.Wait);
            try
            {
                NetworkException? e = null;
                Thread caller =
                    new(() => e = Assert.Throws<NetworkException>(() => client.Connect(TimeSpan.FromMilliseconds(50))));
                caller.Start();
                Assert.True(caller.Join(TimeSpan.FromSeconds(20)), "it waits for the loop");
                Assert.Equal(ErrorCategory.Timeout, e!.Error.Category);
                Assert.StartsWith("The connect attempt to ", e.Message, StringComparison.Ordinal);
                Assert.Contains("a posted action", e.Message, StringComparison.Ordinal);
            }
            finally
            {
                release.Set();
            }

            // Its late result is ignored, and the client can connect again.
            client.Disconnect(TimeSpan.FromSeconds(20));
            Echoes((RecordingSession)client.Connect(TimeSpan.FromSeconds(20)));
        },
        loops: 1);

    [Fact]
    public void Disconnect_aborts_what_has_not_ended_in_its_time() => Run(rig =>
    {
        PeerListener listener = rig.Listen();
        RecordingClient client = rig.MakeClient(To(rig, listener.EndPoint));
        Task<Session> connecting = client.ConnectAsync().AsTask();
        Peer peer = listener.Accept();
        rig.Until(() => connecting.IsCompleted, "the connect");
        // A peer that neither reads nor closes.
        // Long enough for the loop of a busy machine to see the close before the abort.
        client.Disconnect(TimeSpan.FromMilliseconds(400));
        Assert.Equal("connecting, connected, disconnected LocalClose", client.Attempt().Life);
        peer.Close();
    });

    [Fact]
    public void On_a_loop_the_blocking_forms_throw() => Run(rig =>
    {
        RecordingServer server = Echo(rig);
        RecordingClient client = rig.MakeClient(To(rig, server.EndPoint!));
        rig.OnLoop(rig.Engine.GetLoop(0), () =>
        {
            InvalidOperationException e =
                Assert.Throws<InvalidOperationException>(() => client.Connect(TimeSpan.FromSeconds(1)));
            Assert.Contains("would stop its own loop. Await it instead", e.Message, StringComparison.Ordinal);
            Assert.Throws<InvalidOperationException>(() => client.Disconnect(TimeSpan.FromSeconds(1)));
        });
        Assert.Empty(client.Made);
        Assert.Throws<ArgumentOutOfRangeException>(() => client.Connect(TimeSpan.FromSeconds(-2)));
    });
}
