using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// One session under test, driven by its peer: everything it does is observable.
public sealed class TestPeerTests
{
    private static Script Echo() => new() { WhenReceived = static (s, data) => s.Send(data) };

    // ------------------------------------------------------------------ data

    [Fact]
    public void A_peer_talks_with_a_session_and_sees_its_end()
    {
        using TestPeer peer = TestPeer.Connect(Echo);
        Assert.True(peer.IsConnected);
        Assert.Null(peer.CloseReason);
        peer.Send("hello");
        Assert.Equal(5, peer.Available);
        Assert.Equal("hello", peer.ReceiveText());
        Assert.Empty(peer.Receive());
        peer.Send([1, 2, 3]);
        Assert.Equal([1, 2], peer.Receive(2));
        Assert.Equal([3], peer.Receive(1));
        peer.Finish();
        Assert.False(peer.IsConnected);
        Assert.True(peer.IsSessionFinished);
        Assert.False(peer.IsReset);
        Assert.Equal(CloseCause.PeerClosed, peer.CloseReason!.Value.Cause);
    }

    [Fact]
    public void Lines_are_received_one_by_one_and_a_missing_one_shows_what_has_come()
    {
        using TestPeer peer =
            TestPeer.Connect(static () => new Script { WhenConnected = static s => s.Send("one\r\ntwo\n\nre") });
        Assert.Equal("one", peer.ReceiveLine());
        Assert.Equal("two", peer.ReceiveLine());
        Assert.Equal("", peer.ReceiveLine());
        Assert.Contains("\"re\"", Assert.Throws<InvalidOperationException>(() => peer.ReceiveLine()).Message,
            StringComparison.Ordinal);
        Assert.Contains("3 bytes were expected, and 2 have come: \"re\"",
            Assert.Throws<InvalidOperationException>(() => peer.Receive(3)).Message, StringComparison.Ordinal);
        Assert.Equal("re", peer.ReceiveText());
    }

    [Fact]
    public void A_peer_that_splits_gives_every_byte_by_itself()
    {
        List<int> pieces = [];
        using TestPeer peer =
            TestPeer.Connect(() => new Script { WhenReceived = (_, data) => pieces.Add(data.Length) });
        peer.Send("whole");
        peer.SplitEveryByte = true;
        peer.Send("split");
        Assert.Equal([5, 1, 1, 1, 1, 1], pieces);
    }

    [Fact]
    public void A_large_message_goes_through_the_wire_both_ways()
    {
        using TestPeer peer = TestPeer.Connect(Echo);
        byte[] large = new byte[1_000_000];
        new Random(1).NextBytes(large);
        peer.Send(large);
        Assert.Equal(0, peer.BytesUnsent);
        Assert.Equal(large, peer.Receive());
    }

    [Fact]
    public void Calls_of_the_test_on_the_session_take_effect_at_once()
    {
        using TestPeer peer = TestPeer.Connect(Echo);
        peer.Session.Send("pushed");
        Assert.Equal("pushed", peer.ReceiveText());
        Assert.Throws<InvalidOperationException>(() => peer.Session.Groups);
        peer.OnLoop(() => Assert.Empty(peer.Session.Groups));
        peer.Session.Close();
        Assert.Equal(CloseCause.LocalClose, peer.CloseReason!.Value.Cause);
        Assert.Equal(CloseInitiator.Local, peer.CloseReason!.Value.Initiator);
    }

    [Fact]
    public void Continuations_of_the_session_run_as_well()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Script
        {
            WhenReceived = static (s, data) => _ = AnswerAsync(s, data.ToArray()),
        });
        peer.Send("12");
        Assert.Equal("12and more", peer.ReceiveText());

        static async Task AnswerAsync(Session session, byte[] data)
        {
            await session.SendAsync(data).ConfigureAwait(false);
            await session.SendAsync("and more"u8.ToArray()).ConfigureAwait(false);
        }
    }

    // ------------------------------------------------------------------ time

    [Fact]
    public void Time_passes_only_when_the_test_says_so_and_timers_fire_in_order()
    {
        List<(string Name, TimeSpan At)> fired = [];
        using TestNetwork network = new();
        TestPeer peer = network.Connect(() => new Script
        {
            WhenConnected = s =>
            {
                s.After(TimeSpan.FromSeconds(30));
                s.Every(TimeSpan.FromSeconds(20));
            },
            WhenTimer = (_, timer) => fired.Add((timer.PeriodMs > 0 ? "every" : "after", network.Elapsed)),
        });
        peer.Send("nothing passes");
        Assert.Empty(fired);
        peer.Advance(TimeSpan.FromMilliseconds(19_999));
        Assert.Empty(fired);
        peer.Advance(TimeSpan.FromMilliseconds(1));
        Assert.Equal([("every", TimeSpan.FromSeconds(20))], fired);
        peer.Advance(TimeSpan.FromSeconds(25));
        Assert.Equal([("every", TimeSpan.FromSeconds(20)), ("after", TimeSpan.FromSeconds(30)),
            ("every", TimeSpan.FromSeconds(40))], fired);
        Assert.Equal(TimeSpan.FromSeconds(45), network.Elapsed);
        Assert.Throws<ArgumentOutOfRangeException>(() => peer.Advance(TimeSpan.FromSeconds(-1)));
    }

    [Fact]
    public void The_engine_runs_for_a_time_as_well()
    {
        MemoryEngine engine = new(1);
        List<long> fired = [];
        long start = engine.VirtualTimeMs;
        engine.GetLoop(0).StartTimer(TimeSpan.FromSeconds(1), _ => fired.Add(engine.VirtualTimeMs - start), null,
            TimeSpan.FromSeconds(1));
        engine.RunFor(TimeSpan.FromSeconds(3.5));
        Assert.Equal([1000, 2000, 3000], fired);
        Assert.Equal(3500, engine.VirtualTimeMs - start);
    }

    // ------------------------------------------------------------------ exceptions

    [Fact]
    public void An_exception_of_a_session_is_rethrown_by_the_call_in_which_it_happened()
    {
        TestPeer peer = TestPeer.Connect(static () => new Script
        {
            WhenReceived = static (_, data) => int.Parse(Encoding.UTF8.GetString(data),
                System.Globalization.CultureInfo.InvariantCulture)
        });
        peer.Send("1");
        FormatException thrown = Assert.Throws<FormatException>(() => peer.Send("one"));
        Assert.Contains(nameof(TestPeerTests), thrown.StackTrace, StringComparison.Ordinal);
        // Thrown once: the test can continue and check the session.
        Assert.Equal(CloseCause.UserException, peer.CloseReason!.Value.Cause);
        Assert.Same(thrown, peer.CloseReason!.Value.Exception);
        Assert.True(peer.IsReset);
        Assert.Throws<IOException>(() => peer.Send("2"));
        peer.Dispose();
    }

    [Fact]
    public void Exceptions_of_every_callback_come_to_the_test()
    {
        Assert.Throws<NotSupportedException>(
            () => TestPeer.Connect((Func<Session>)(static () => throw new NotSupportedException())));
        Assert.Throws<NotSupportedException>(() => TestPeer.Connect(
            static () => new Script { WhenConnected = static _ => throw new NotSupportedException() }));
        Assert.Throws<NotSupportedException>(() =>
            TestPeer.Accept(static () => new Script { WhenConnected = static _ => throw new NotSupportedException() }));
        Assert.Throws<NotSupportedException>(
            () => TestPeer.Accept((Func<Session>)(static () => throw new NotSupportedException())));

        TestPeer late = TestPeer.Connect(static () => new Script
        {
            WhenConnected = static s => s.After(TimeSpan.FromSeconds(1)),
            WhenTimer = static (_, _) => throw new NotSupportedException()
        });
        Assert.Throws<NotSupportedException>(() => late.Advance(TimeSpan.FromSeconds(1)));
        late.Dispose();

        TestPeer posted = TestPeer.Connect(Echo);
        Assert.Throws<NotSupportedException>(() => posted.OnLoop(static () => throw new NotSupportedException()));
        Assert.True(posted.IsConnected);
        posted.Dispose();

        TestPeer last = TestPeer.Connect(
            static () => new Script { WhenDisconnected = static (_, _) => throw new NotSupportedException() });
        Assert.Throws<NotSupportedException>(last.Dispose);
        last.Dispose();
    }

    [Fact]
    public void Exceptions_can_be_collected_instead()
    {
        using TestNetwork network = new() { RethrowsExceptions = false };
        TestPeer peer = network.Connect(static () => new Script
        {
            WhenReceived = static (_, _) => throw new NotSupportedException("first"),
            WhenDisconnected = static (_, _) => throw new NotSupportedException("second"),
        });
        peer.Send("x");
        Assert.Equal(["first", "second"], network.Exceptions.Select(static e => e.Message));
        Assert.Equal(CloseCause.UserException, peer.CloseReason!.Value.Cause);
    }

    [Fact]
    public void Several_exceptions_of_one_call_come_together()
    {
        using TestNetwork network = new();
        TestPeer peer = network.Connect(static () => new Script
        {
            WhenReceived = static (_, _) => throw new NotSupportedException("first"),
            WhenDisconnected = static (_, _) => throw new NotSupportedException("second"),
        });
        Assert.Equal(2, Assert.Throws<AggregateException>(() => peer.Send("x")).InnerExceptions.Count);
    }

    [Fact]
    public void Sessions_that_never_become_idle_are_reported()
    {
        using TestNetwork network = new();
        TestPeer peer = network.Connect(Echo);
        bool isOver = false;
        void Again()
        {
            if (!isOver) peer.Session.Loop.Post(Again);
        }

        SimulationStalledException thrown = Assert.Throws<SimulationStalledException>(() => peer.OnLoop(Again));
        isOver = true;
        Assert.Contains("do not come to rest", thrown.Message, StringComparison.Ordinal);
    }

    // ------------------------------------------------------------------ pause and limits

    [Fact]
    public void A_pause_is_visible_and_earlier_data_arrives_after_it()
    {
        Script session = new() { WhenReceived = static (s, data) => s.Got.AddRange(data) };
        using TestPeer peer = TestPeer.Connect(() => session);
        session.PauseReceiving();
        Assert.True(peer.IsPaused);
        byte[] data = new byte[200_000];
        new Random(1).NextBytes(data);
        peer.Send(data);
        Assert.Empty(session.Got);
        Assert.InRange(peer.BytesUnsent, 1, data.Length - 1);
        session.ResumeReceiving();
        Assert.False(peer.IsPaused);
        Assert.Equal(0, peer.BytesUnsent);
        Assert.Equal(data, session.Got);
    }

    [Fact]
    public void A_peer_that_does_not_read_fills_the_queue_up_to_the_limit()
    {
        using TestNetwork network = new();
        Script session = new();
        Server server = new(new ServerOptions
        {
            Engine = network.Engine,
            EndPoint = network.NewEndPoint(),
            Limits = new() { SendBytes = 10_000, SlowConsumer = SlowConsumer.DropNewest }
        }, () => session);
        TestPeer peer = network.Connect(server);
        peer.IsReading = false;
        List<SendResult> results = [];
        peer.OnLoop(() => session.Send(new byte[5_000]));
        for (int i = 0; i < 20; i++) peer.OnLoop(() => results.Add(session.Send(new byte[5_000])));
        Assert.InRange(peer.BytesPending, 5_000, 10_000);
        Assert.Equal(SendResult.Queued, results[0]);
        Assert.Equal(SendResult.Full, results[^1]);
        Assert.Equal(0, peer.Available);
        peer.IsReading = true;
        int queued = 5_000 + (5_000 * results.Count(static r => r == SendResult.Queued));
        Assert.Equal(queued, peer.Receive().Length);
        Assert.Equal(0, peer.BytesPending);
    }

    [Fact]
    public void A_slow_consumer_is_disconnected_and_says_so()
    {
        using TestPeer peer =
            TestPeer.Connect(static () => new Script { WhenReceived = static (s, _) => s.Send(new byte[300_000]) });
        peer.IsReading = false;
        peer.Send("1");
        Assert.True(peer.IsAboveHighWaterMark == peer.BytesPending > 256 * 1024);
        for (int i = 0; i < 5 && peer.IsConnected; i++) peer.OnLoop(() => peer.Session.Send(new byte[300_000]));
        Assert.Equal(CloseCause.SlowConsumer, peer.CloseReason!.Value.Cause);
        Assert.True(peer.IsReset);
    }

    [Fact]
    public void Back_pressure_is_seen_and_ends_when_the_peer_reads()
    {
        using TestPeer peer =
            TestPeer.Connect(static () => new Script { WhenReceived = static (s, _) => s.Send(new byte[400_000]) });
        peer.IsReading = false;
        peer.Send("1");
        Assert.True(peer.IsAboveHighWaterMark);
        peer.Send("2");
        peer.IsReading = true;
        Assert.False(peer.IsAboveHighWaterMark);
        Assert.Equal(800_000, peer.Receive().Length);
    }

    // ------------------------------------------------------------------ ends

    [Fact]
    public void A_half_open_session_continues_to_receive()
    {
        Script session = new() { WhenReceived = static (s, data) => s.Got.AddRange(data) };
        using TestPeer peer = TestPeer.Connect(() => session);
        session.ShutdownSend();
        Assert.True(peer.IsSessionFinished);
        Assert.Null(peer.CloseReason);
        peer.Send("still here");
        Assert.Equal("still here", Encoding.UTF8.GetString([.. session.Got]));
        peer.Finish();
        Assert.NotNull(peer.CloseReason);
        Assert.Throws<InvalidOperationException>(() => peer.Send("no more"));
    }

    [Fact]
    public void A_session_that_stays_half_open_answers_after_the_peers_end()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Script
        {
            WhenEndOfStream = static s =>
        {
            s.Send("bye");
            s.Close();
        }
        });
        peer.Finish();
        Assert.Equal("bye", peer.ReceiveText());
        Assert.Equal(CloseCause.PeerClosed, peer.CloseReason!.Value.Cause);
    }

    [Fact]
    public void Resets_of_either_side_are_seen()
    {
        using TestPeer ours = TestPeer.Connect(Echo);
        ours.Reset();
        Assert.Equal(CloseCause.PeerReset, ours.CloseReason!.Value.Cause);
        Assert.True(ours.IsReset);
        using TestPeer theirs = TestPeer.Connect(Echo);
        theirs.Session.Abort();
        Assert.True(theirs.IsReset);
        Assert.Equal(CloseCause.LocalAbort, theirs.CloseReason!.Value.Cause);
        theirs.Reset();
        theirs.Close();
    }

    [Fact]
    public void The_peer_follows_a_hand_over()
    {
        Script next = new() { WhenReceived = static (s, data) => s.Send([.. "next "u8, .. data]) };
        Script first = new() { WhenReceived = (s, _) => s.GiveTo(next) };
        using TestPeer peer = TestPeer.Connect(() => first);
        Assert.Same(first, peer.Session);
        peer.Send("over");
        Assert.Same(next, peer.Session);
        peer.Send("hello");
        Assert.Equal("next hello", peer.ReceiveText());
        peer.Close();
        Assert.Same(next, peer.Session);
        Assert.Equal(CloseCause.PeerClosed, peer.CloseReason!.Value.Cause);
    }

    // ------------------------------------------------------------------ networks, servers, clients

    [Fact]
    public void Peers_of_one_network_meet_in_a_group_on_several_loops()
    {
        using TestNetwork network = new(loops: 2);
        SessionGroup room = new("room");
        Server server = new(
            new ServerOptions { Engine = network.Engine, EndPoint = network.NewEndPoint() },
            () =>
                new Script { WhenConnected = room.Join, WhenReceived = (s, data) => room.Broadcast(data, except: s) });
        TestPeer[] peers = [network.Connect(server), network.Connect(server), network.Connect(server)];
        Assert.Equal(2, peers.Select(static p => p.Session.Loop).Distinct().Count());
        peers[0].Send("hello");
        Assert.Equal(["", "hello", "hello"], peers.Select(static p => p.ReceiveText()));
        peers[1].Dispose();
        peers[1].Dispose();
        Assert.Equal(2, room.Count);
        peers[0].Send("again");
        Assert.Equal(["", "again"], peers.Where((_, i) => i != 1).Select(static p => p.ReceiveText()));
    }

    [Fact]
    public void A_session_of_a_real_server_sees_its_server_and_its_peer()
    {
        using TestNetwork network = new();
        SessionContext? seen = null;
        Server server =
            new(new ServerOptions
            {
                Engine = network.Engine,
                EndPoint = network.NewEndPoint(),
                Limits = new() { Connections = 2 }
            },
                context =>
                {
                    seen = context;
                    return Echo();
                });
        TestPeer one = network.Connect(server);
        Assert.Same(server, seen!.Server);
        Assert.Equal(one.EndPoint, seen.RemoteEndPoint);
        TestPeer two = network.Connect(server);
        Assert.Equal(two.EndPoint, two.Session.RemoteEndPoint);
        Assert.NotSame(one.Session, two.Session);
        TestPeer refused = network.Connect(server);
        Assert.Throws<InvalidOperationException>(() => refused.Session);
        Assert.False(refused.IsConnected);
        Assert.True(refused.IsReset);
        two.Send("served");
        Assert.Equal("served", two.ReceiveText());
        Assert.Throws<ArgumentException>(
            () => network.Connect(new Server(new ServerOptions { EndPoint = network.NewEndPoint() }, Echo)));
    }

    [Fact]
    public void A_clients_session_is_driven_by_the_peer_it_connected_to()
    {
        using TestPeer peer = TestPeer.Accept(static () =>
            new Script { WhenConnected = static s => s.Send("login"), WhenReceived = static (s, _) => s.Close() });
        Assert.Equal("login", peer.ReceiveText());
        Assert.NotNull(peer.Session.Client);
        peer.Send("welcome");
        Assert.Equal(CloseCause.LocalClose, peer.CloseReason!.Value.Cause);

        using TestNetwork network = new();
        Script? made = null;
        Client client = new(new ClientOptions { Engine = network.Engine, EndPoint = network.NewEndPoint() },
            () => made = Echo());
        TestPeer first = network.Accept(client);
        Assert.Same(made, first.Session);
        first.Reset();
        TestPeer second = network.Accept(client);
        Assert.NotSame(first.Session, second.Session);
        second.Send("again");
        Assert.Equal("again", second.ReceiveText());
        Assert.Throws<ArgumentException>(
            () => network.Accept(new Client(new ClientOptions { EndPoint = network.NewEndPoint() }, Echo)));
    }

    [Fact]
    public void A_session_that_refuses_is_seen_with_its_reason()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Script { WhenConnecting = static s => s.Close() });
        Assert.False(peer.IsConnected);
        Assert.Equal(CloseCause.LocalClose, peer.CloseReason!.Value.Cause);
        Assert.Equal("failed LocalClose", ((Script)peer.Session).Calls[^1]);
        Assert.Throws<NetworkException>(
            () => TestPeer.Accept(static () => new Script { WhenConnecting = static s => s.Close() }));
    }

    [Fact]
    public void Network_faults_do_not_change_the_behaviour_of_a_correct_session()
    {
        for (int seed = 0; seed < 20; seed++)
        {
            using TestNetwork network = new(seed, loops: 2, new MemoryFaults());
            TestPeer peer = network.Connect(Echo);
            peer.SplitEveryByte = seed % 2 == 0;
            string text = new('x', 3_000);
            peer.Send(text);
            Assert.Equal(text, peer.ReceiveText());
            peer.Finish();
            Assert.Equal(CloseCause.PeerClosed, peer.CloseReason!.Value.Cause);
        }
    }
}
