using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// A callback that is registered only here, not in Connection or Strand, called on the loop and on the pool: its entry
// contains everything that they need.
public sealed class SessionCallbackTests
{
    private const int Many = 1024 * 1024; // more than the wire holds
    private static readonly MemoryEndPoint s_here = new("here");

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_callback_is_its_entry_and_runs_in_order_on_loop_and_pool(Scheduling scheduling)
    {
        SessionCallback news = new("OnNews", static (session, what) => ((Reader)session).Hears((string)what!));
        Reader reader = new();
        (MemoryEngine engine, Connection connection) = Connect(reader, scheduling);
        reader.Loop.Post(() =>
        {
            bool wasHere = connection.Tell(news, "one");
            Assert.Equal(scheduling == Scheduling.Inline, wasHere);
            connection.Tell(news, "two");
        });
        engine.RunUntilIdle();
        Assert.Equal(["connected", "one", "two"], reader.Calls);
        engine.Run(engine.DisposeAsync());
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void An_exception_of_a_callback_is_reported_by_its_name_and_ends_the_connection_and_then_notifies_the_host(
        Scheduling scheduling)
    {
        List<(Session, bool)> behind = [];
        SessionCallback news = new("OnNews", static (_, _) => throw new FormatException("odd"))
        {
            Behind = (_, session, _, isOver) => behind.Add((session, isOver)),
        };
        List<string> notices = [];
        Reader reader = new();
        (MemoryEngine engine, Connection connection) = Connect(reader, scheduling, notices);
        reader.Loop.Post(() => connection.Tell(news));
        engine.RunUntilIdle();
        Assert.Equal(["connected", "disconnected UserException"], reader.Calls);
        Assert.Equal([(reader, true)], behind);
        Assert.Contains(notices, static text => text.Contains("OnNews", StringComparison.Ordinal));
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_pool_callback_that_is_not_due_in_its_turn_is_skipped_and_the_loop_continues()
    {
        bool wentOn = false;
        SessionCallback news = new("OnNews", static (session, what) => ((Reader)session).Hears((string)what!))
        {
            IsDue = static (_, what) => (string)what! != "stale",
            Returned = (pool, what) => pool.OnLoop((_, hasEnded) => wentOn |= (string)what! == "stale" && !hasEnded),
        };
        Reader reader = new();
        (MemoryEngine engine, Connection connection) = Connect(reader, Scheduling.ThreadPool);
        reader.Loop.Post(() =>
        {
            connection.Tell(news, "stale");
            connection.Tell(news, "fresh");
        });
        engine.RunUntilIdle();
        Assert.Equal(["connected", "fresh"], reader.Calls);
        Assert.True(wentOn);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void On_the_pool_OnDrained_waits_for_what_was_sent_before_its_turn_and_comes_once_when_that_is_gone()
    {
        SessionCallback news = new("OnNews", static (session, _) => session.Send(new byte[Many]));
        Drainer drainer = new();
        (MemoryEngine engine, Connection connection, MemoryPeer peer) = Meet(drainer, Scheduling.ThreadPool);
        drainer.Loop.Post(() =>
        {
            connection.Tell(news);
            connection.Tell(SessionCallback.Drained);
        });
        engine.RunUntilIdle();
        Assert.InRange(drainer.BytesPending, 1, Many);
        Assert.Empty(drainer.PendingAtDrains);
        byte[] buffer = new byte[64 * 1024];
        for (int read = 0, got; read < Many; read += got)
        {
            got = peer.Read(buffer);
            Assert.True(got > 0, $"nothing comes after {read} bytes");
            engine.RunUntilIdle();
        }

        Assert.Equal([0], drainer.PendingAtDrains);
        engine.Run(engine.DisposeAsync());
    }

    private static (MemoryEngine Engine, Connection Connection) Connect(Reader reader, Scheduling scheduling,
        List<string>? notices = null)
    {
        (MemoryEngine engine, Connection connection, _) = Meet(reader, scheduling, notices);
        return (engine, connection);
    }

    private static (MemoryEngine Engine, Connection Connection, MemoryPeer Peer) Meet(Session session,
        Scheduling scheduling, List<string>? notices = null)
    {
        MemoryEngine engine = new(1, onDiagnosticEvent: notice => notices?.Add(notice.ToString()),
            faults: MemoryFaults.None);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here, Scheduling = scheduling },
            () => session);
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        return (engine, session.Connection!, peer);
    }

    private sealed class Reader : Session
    {
        internal List<string> Calls { get; } = [];

        internal void Hears(string what) => Calls.Add(what);

        protected override void OnConnected() => Calls.Add("connected");

        protected override void OnDisconnected(CloseReason reason) => Calls.Add($"disconnected {reason.Cause}");
    }

    private sealed class Drainer : Session
    {
        internal List<long> PendingAtDrains { get; } = [];

        protected override void OnDrained() => PendingAtDrains.Add(BytesPending);
    }
}
