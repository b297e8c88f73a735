using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// The engine that checks the others must itself be correct.
public sealed class MemoryEngineTests
{
    private static readonly MemoryEndPoint s_here = new("here");

    private static ulong Talk(int seed)
    {
        MemoryEngine engine = new(seed, loops: 2);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, static () => new Echo());
        engine.Run(server.StartAsync());
        MemoryPeer[] peers = [.. Enumerable.Range(0, 3).Select(_ => engine.Connect(s_here))];
        byte[] data = new byte[5_000];
        foreach (MemoryPeer peer in peers) Assert.Equal(data.Length, peer.Write(data));
        engine.RunUntil(() => peers.All(p => p.Available == data.Length));
        engine.Run(server.StopAsync());
        engine.Run(engine.DisposeAsync());
        return engine.TraceHash;
    }

    [Fact]
    public void The_same_seed_gives_the_same_trace_and_others_differ()
    {
        ulong[] first = [.. Enumerable.Range(0, 50).Select(Talk)];
        Assert.Equal(first, Enumerable.Range(0, 50).Select(Talk));
        Assert.Equal(50, first.Distinct().Count());
    }

    [Fact]
    public void A_stall_is_found_and_names_the_seed()
    {
        MemoryEngine engine = new(4711);
        string message = Assert.Throws<SimulationStalledException>(() => engine.RunUntil(static () => false)).Message;
        Assert.Contains("seed 4711", message, StringComparison.Ordinal);
        Assert.Contains("Nothing is left to happen", message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_connect_to_a_black_hole_times_out_in_virtual_time()
    {
        MemoryEngine engine = new(1);
        engine.AddBlackHole(s_here);
        Recorder session = new();
        Client client =
            new(new ClientOptions
            {
                Engine = engine,
                EndPoint = s_here,
                Timeouts = new() { Connect = TimeSpan.FromHours(1) }
            },
                () => session);
        long before = engine.VirtualTimeMs;
        Assert.Throws<NetworkException>(() => engine.Run(client.ConnectAsync()));
        Assert.Equal(3_600_000, engine.VirtualTimeMs - before);
        Assert.Equal(["connecting", "failed TimedOut"], session.Calls);
    }

    [Fact]
    public void A_connect_without_a_listener_is_refused()
    {
        MemoryEngine engine = new(1);
        Recorder session = new();
        Client client = new(new ClientOptions { Engine = engine, EndPoint = s_here }, () => session);
        Assert.Throws<NetworkException>(() => engine.Run(client.ConnectAsync()));
        Assert.Equal(["connecting", "failed Refused"], session.Calls);
        Assert.Throws<IOException>(() => engine.Connect(s_here));
    }

    [Fact]
    public void A_peers_reset_reaches_the_session_after_what_it_had_sent()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Recorder session = new();
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, () => session);
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Connect(s_here);
        peer.Write([1, 2, 3]);
        peer.Reset();
        engine.RunUntilIdle();
        Assert.Equal([1, 2, 3], session.Received);
        Assert.Equal("disconnected PeerReset", session.Calls[^1]);
        Assert.False(peer.IsConnected);
        Assert.Throws<IOException>(() => peer.Write([1]));
        Assert.Throws<IOException>(() => peer.Read(new byte[1]));
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_peer_that_closes_with_unread_bytes_resets()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Recorder session = new() { WhenConnected = static s => s.Send("hello") };
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, () => session);
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        Assert.Equal(5, peer.Available);
        peer.Close();
        engine.RunUntilIdle();
        Assert.Equal("disconnected PeerReset", session.Calls[^1]);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_name_is_listened_at_once()
    {
        MemoryEngine engine = new(1);
        MemoryPeerListener listener = engine.Listen(s_here);
        Assert.Throws<IOException>(() => engine.Listen(s_here));
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, static () => new Echo());
        Assert.Throws<NetworkException>(() => engine.Run(new ValueTask<bool>(Started(server))));
        listener.Close();
        Assert.True(engine.Run(new ValueTask<bool>(Started(server))));
        engine.Run(engine.DisposeAsync());
    }

    private static async Task<bool> Started(Server server)
    {
        await server.StartAsync();
        return true;
    }

    [Fact]
    public void A_wildcard_listener_answers_at_every_address_of_both_families()
    {
        MemoryEngine engine = new(1);
        IPEndPoint any = (IPEndPoint)engine.Listen(new IPEndPoint(IPAddress.IPv6Any, 0)).EndPoint;
        engine.Connect(new IPEndPoint(IPAddress.Loopback, any.Port));
        engine.Connect(new IPEndPoint(IPAddress.IPv6Loopback, any.Port));
        IPEndPoint anyV4 = (IPEndPoint)engine.Listen(new IPEndPoint(IPAddress.Any, 0)).EndPoint;
        engine.Connect(new IPEndPoint(IPAddress.Parse("10.0.0.1"), anyV4.Port));
        Assert.Throws<IOException>(() => engine.Connect(new IPEndPoint(IPAddress.IPv6Loopback, anyV4.Port)));
    }

    [Fact]
    public void A_callback_that_takes_long_in_virtual_time_is_reported_with_its_session()
    {
        List<DiagnosticEvent> notices = [];
        MemoryEngine engine = new(1, loops: 2, onDiagnosticEvent: notices.Add, faults: MemoryFaults.None);
        Recorder session = new() { WhenReceived = _ => engine.Block(TimeSpan.FromMilliseconds(150)) };
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, () => session);
        engine.Run(server.StartAsync());
        engine.Connect(s_here).Write([1]);
        engine.RunUntilIdle();
        DiagnosticEvent notice = Assert.Single(notices);
        Assert.Equal(DiagnosticEventKind.BlockedLoop, notice.Kind);
        Assert.Contains("OnReceived", notice.Message, StringComparison.Ordinal);
        Assert.Contains("150 ms", notice.Message, StringComparison.Ordinal);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void Callbacks_that_are_short_by_themselves_are_not_accused_of_a_long_turn()
    {
        List<DiagnosticEvent> notices = [];
        MemoryEngine engine = new(1, onDiagnosticEvent: notices.Add, faults: MemoryFaults.None);
        long began = 0;
        long ended = 0;
        engine.GetLoop(0).Post(() => began = engine.GetLoop(0).BusySinceMs);
        for (int i = 0; i < 5; i++) engine.GetLoop(0).Post(() => engine.Block(TimeSpan.FromMilliseconds(60)));
        engine.GetLoop(0).Post(() => ended = engine.GetLoop(0).BusySinceMs);
        engine.RunUntilIdle();
        Assert.Equal(began, ended); // one iteration of 300 ms
        Assert.Empty(notices);
        Assert.Equal(0, engine.GetLoop(0).ReadCounters().BlockedTurns);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void Work_that_the_library_gave_to_its_own_loop_is_not_reported_and_the_users_is()
    {
        List<DiagnosticEvent> notices = [];
        MemoryEngine engine = new(1, onDiagnosticEvent: notices.Add, faults: MemoryFaults.None);
        engine.GetLoop(0).PostControl((_, _, _, _) => engine.Block(TimeSpan.FromMilliseconds(500)));
        engine.RunUntilIdle();
        Assert.Empty(notices);
        engine.GetLoop(0).Post(() => engine.Block(TimeSpan.FromMilliseconds(500)));
        engine.RunUntilIdle();
        Assert.Contains($"a posted action ({nameof(MemoryEngineTests)}.", Assert.Single(notices).Message,
            StringComparison.Ordinal);
        _ = engine.GetLoop(0).PostAsync(static e => ((MemoryEngine)e!).Block(TimeSpan.FromMilliseconds(500)), engine);
        engine.Advance(TimeSpan.FromMinutes(2));
        engine.RunUntilIdle();
        Assert.Contains($"a posted action ({nameof(MemoryEngineTests)}.", notices[1].Message, StringComparison.Ordinal);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void Time_that_passes_elsewhere_is_not_attributed_to_a_loop()
    {
        List<DiagnosticEvent> notices = [];
        MemoryEngine engine = new(1, loops: 2, onDiagnosticEvent: notices.Add, faults: MemoryFaults.None);
        for (int i = 0; i < 20; i++)
        {
            engine.GetLoop(0).Post(static () => { });
            engine.GetLoop(1).Post(static () => { });
            engine.RunUntilIdle();
            engine.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Empty(notices);
    }

    // ------------------------------------------------------------------ its checks

    private static Recorder Connected(out MemoryEngine engine)
    {
        engine = new(1, faults: MemoryFaults.None);
        Recorder session = new();
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, () => session);
        engine.Run(server.StartAsync());
        engine.Connect(s_here);
        engine.RunUntilIdle();
        return session;
    }

    private static void Violates(string rule, Action<Loop, Connection> act)
    {
        Recorder session = Connected(out MemoryEngine engine);
        Connection connection = session.Connection!;
        session.Loop.Post(() => act(session.Loop, connection));
        // The catch around a posted action swallows the exception; the run does not.
        string message = Assert.Throws<ContractViolationException>(engine.RunUntilIdle).Message;
        Assert.Contains(rule, message, StringComparison.Ordinal);
        Assert.Contains("(seed 1", message, StringComparison.Ordinal);
    }

    [Fact]
    public void Receiving_that_is_started_twice_is_a_violation() =>
        Violates("Receiving was started twice", static (loop, c) => loop.StartReceive(c));

    [Fact]
    public void A_send_with_nothing_queued_is_a_violation() =>
        Violates("nothing queued", static (loop, c) => loop.StartSend(c, isOffer: false));

    [Fact]
    public void A_nested_callback_is_a_violation() => Violates("B began inside A", static (loop, c) =>
    {
        loop.EnterCallback(c, "A");
        loop.EnterCallback(c, "B");
    });

    [Fact]
    public void A_verb_after_the_end_is_a_violation() => Violates("A verb came after the end", static (loop, c) =>
    {
        c.AbortWith(new CloseReason(CloseCause.LocalAbort));
        loop.ShutdownSend(c);
    });

    [Fact]
    public void A_second_detach_is_a_violation()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None with { LateClose = 1000 });
        Recorder session = new();
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, () => session);
        engine.Run(server.StartAsync());
        engine.Connect(s_here);
        engine.RunUntilIdle();
        Connection connection = session.Connection!;
        session.Loop.Post(() =>
        {
            session.Loop.Detach(connection);
            session.Loop.Detach(connection);
        });
        Assert.Contains("Detached twice", Assert.Throws<ContractViolationException>(engine.RunUntilIdle).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void A_verb_off_the_loop_is_a_violation()
    {
        Recorder session = Connected(out _);
        Assert.Contains("off the loop's thread",
            Assert.Throws<ContractViolationException>(() => session.Loop.StartReceive(session.Connection!)).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void An_empty_block_after_a_full_one_is_not_sent_forever()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Recorder session = new()
        {
            WhenConnected = static s =>
            {
                s.Send(new byte[100].AsSpan());
                Assert.False(s.Room(32 * 1024).IsEmpty);
                s.Written(0);
                s.Close();
            },
        };
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, () => session);
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        byte[] bytes = new byte[200];
        Assert.Equal(100, peer.Read(bytes));
        Assert.Equal(0, peer.Read(bytes));
        peer.Close();
        engine.RunUntilIdle();
        Assert.Equal("disconnected LocalClose", session.Calls[^1]);
        engine.Run(engine.DisposeAsync());
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }
}
