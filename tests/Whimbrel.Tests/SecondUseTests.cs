using System.Buffers;
using System.Net;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// State that must be reset after its first use, and memory that must be returned, in virtual time.
public sealed class SecondUseTests
{
    private static readonly MemoryEndPoint s_here = new("here");

    private static (MemoryEngine Engine, List<Recorder> Sessions, List<MemoryPeer> Peers) Connect(int count,
        int loops = 1, Placement placement = Placement.RoundRobin)
    {
        MemoryEngine engine = new(1, loops: loops, faults: MemoryFaults.None with { WireBytes = 64 * 1024 });
        List<Recorder> sessions = [];
        Server server = new(
            new ServerOptions
            {
                Engine = engine,
                EndPoint = s_here,
                Accept = new() { Scheme = AcceptScheme.OneListener, Placement = placement },
                Limits = new() { SlowConsumer = SlowConsumer.Wait }
            },
            () =>
            {
                Recorder session = new();
                sessions.Add(session);
                return session;
            });
        engine.Run(server.StartAsync());
        List<MemoryPeer> peers = [];
        for (int i = 0; i < count; i++)
        {
            peers.Add(engine.Connect(s_here));
            engine.RunUntilIdle();
        }

        Assert.Equal(count, sessions.Count);
        return (engine, sessions, peers);
    }

    [Fact]
    public void Unread_bytes_that_were_all_consumed_take_no_memory_each_time()
    {
        UnreadStore unread = default;
        for (int i = 1; i <= 3; i++)
        {
            unread.Append(new byte[1000 * i]);
            unread.Consume((1000 * i) - 1);
            Assert.NotNull(BufferOf(ref unread));
            unread.Consume(1);
            Assert.Null(BufferOf(ref unread));
        }
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_buffer")]
    private static extern ref byte[]? BufferOf(ref UnreadStore store);

    [Fact] // otherwise sessions that have ended live as long as the pool
    public void An_enumeration_of_members_leaves_none_of_them_in_its_array()
    {
        (MemoryEngine engine, List<Recorder> sessions, _) = Connect(20);
        SessionGroup group = new();
        engine.OnLoop(() => sessions.ForEach(group.Join));
        engine.OnLoop(() =>
        {
            int seen = 0;
            foreach (Session _ in group.MembersHere) seen++;
            Assert.Equal(20, seen);
            Connection[] array = ArrayPool<Connection>.Shared.Rent(20); // what this thread returned last
            Assert.All(array, static c => Assert.Null(c));
            ArrayPool<Connection>.Shared.Return(array);
        });
        engine.Run(engine.DisposeAsync());
    }

    [Theory]
    [InlineData(0)]
    [InlineData(3)]
    public void A_named_group_is_listed_each_time_that_it_gets_members(int memberClass)
    {
        (MemoryEngine engine, List<Recorder> sessions, _) = Connect(2);
        NamedGroups groups = new();
        SessionGroup kept = groups["room"];
        for (int i = 0; i < 4; i++)
        {
            SessionGroup group = i % 2 == 0 ? kept : groups["room"];
            engine.OnLoop(() => sessions.ForEach(s => group.Join(s, memberClass)));
            engine.RunUntilIdle();
            Assert.Equal((1, 2, 2), (groups.Count, kept.Count, groups["room"].Count));
            engine.OnLoop(() => sessions.ForEach(kept.Leave));
            engine.RunUntilIdle();
            Assert.Equal((0, 0), (groups.Count, kept.Count));
        }

        engine.Run(engine.DisposeAsync());
    }

    [Fact] // members of the first loop have caught up, those of the second have not
    public void A_wait_for_room_of_a_group_waits_for_each_of_its_loops()
    {
        for (int slow = 0; slow < 2; slow++)
        {
            (MemoryEngine engine, List<Recorder> sessions, List<MemoryPeer> peers) = Connect(2, loops: 2);
            SessionGroup group = new();
            // The loop that has joined first is asked first.
            sessions.Sort(static (a, b) => a.Loop.Index.CompareTo(b.Loop.Index));
            Assert.NotSame(sessions[0].Loop, sessions[1].Loop);
            foreach (Recorder session in sessions)
            {
                group.Join(session);
                engine.RunUntilIdle();
            }

            Assert.Equal(SendResult.Queued, sessions[slow].Send(new byte[900 * 1024]));
            engine.OnLoop(() => group.Broadcast("x"u8)); // looks at the pending bytes of each member
            Assert.True(group.IsCongested);
            Task wait = group.WaitForRoomAsync().AsTask();
            engine.RunFor(TimeSpan.FromMilliseconds(50));
            Assert.False(wait.IsCompleted, $"the slow loop is {slow}");
            engine.RunFor(TimeSpan.FromMilliseconds(200)); // without progress it ends
            Assert.True(wait.IsCompletedSuccessfully);
            Assert.Equal(2, peers.Count);
            engine.Run(engine.DisposeAsync());
        }
    }

    [Fact] // the number of connections that a loop is about to get decides where the next one goes
    public void No_connection_stays_on_its_way_to_its_loop()
    {
        (MemoryEngine engine, List<Recorder> sessions, List<MemoryPeer> peers) = Connect(20, loops: 2,
            Placement.LeastLoaded);
        Assert.Equal(2, sessions.Select(static s => s.Loop).Distinct().Count());
        foreach (Loop loop in engine.Loops) Assert.Equal(0, loop.OnTheWay);
        peers.ForEach(static p => p.Close());
        engine.RunUntilIdle();
        foreach (Loop loop in engine.Loops) Assert.Equal(0, loop.OnTheWay);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void The_token_of_a_connect_does_not_keep_its_session_alive()
    {
        (MemoryEngine engine, _, _) = Connect(0);
        Connector connector = new(new ClientOptions { Engine = engine, EndPoint = s_here });
        using CancellationTokenSource cancellation = new();
        List<WeakReference> sessions = [];
        for (int i = 0; i < 10; i++) ConnectOne(engine, connector, sessions, cancellation.Token);
        engine.Run(connector.DisposeAsync());
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        Assert.InRange(sessions.Count(static s => s.IsAlive), 0, 1); // a recycled connection may have the last one
        engine.Run(engine.DisposeAsync());
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void ConnectOne(MemoryEngine engine, Connector connector, List<WeakReference> sessions,
        CancellationToken cancellation)
    {
        Session session = engine.Run(connector.ConnectAsync(static () => new Recorder(), null, cancellation));
        sessions.Add(new WeakReference(session));
        session.Abort();
        engine.RunUntilIdle();
    }

    [Fact]
    public void The_token_of_a_pipe_does_not_keep_its_session_alive()
    {
        (MemoryEngine engine, List<Recorder> sessions, List<MemoryPeer> peers) = Connect(2);
        using CancellationTokenSource cancellation = new();
        WeakReference source = PipeOnce(engine, sessions, peers, cancellation.Token);
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        Assert.False(source.IsAlive);
        engine.Run(engine.DisposeAsync());
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static WeakReference PipeOnce(MemoryEngine engine, List<Recorder> sessions, List<MemoryPeer> peers,
        CancellationToken cancellation)
    {
        WeakReference source = new(sessions[0]);
        Task<PipeResult>? piped = null;
        engine.OnLoop(() => piped = sessions[0].Pipe(sessions[1], cancellation).AsTask());
        peers.ForEach(static p => p.Reset());
        engine.RunUntilIdle();
        Assert.True(piped!.IsCompleted);
        sessions.Clear();
        peers.Clear();
        // A recycled connection may have the last session.
        for (int i = 0; i < 4; i++) engine.Connect(s_here);
        engine.RunUntilIdle();
        return source;
    }

    [Fact]
    public void Files_and_sends_have_a_share_of_each_turn_of_their_own()
    {
        SendPace pace = new(new MemoryEngine(1, faults: MemoryFaults.None));
        for (int turn = 0; turn < 2; turn++)
        {
            pace.TurnBegins();
            pace.SpendOnFile(SendPace.MostOfTurn - 1);
            Assert.False(pace.IsSpentByFiles);
            pace.SpendOnFile(1);
            Assert.Equal((false, true), (pace.IsSpent, pace.IsSpentByFiles));
            pace.Spend(SendPace.MostOfTurn);
            Assert.True(pace.IsSpent);
            pace.TurnBegins();
            pace.Spend(SendPace.MostOfTurn);
            Assert.Equal((true, false), (pace.IsSpent, pace.IsSpentByFiles));
        }
    }

    [Fact]
    public void The_timers_of_a_datagram_handler_that_have_fired_are_forgotten()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Ticking handler = new();
        DatagramSocket socket = new(
            new DatagramOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, () => handler);
        engine.Run(socket.StartAsync());
        engine.RunFor(TimeSpan.FromSeconds(1));
        Assert.InRange(handler.Ticks, 50, 1000);
        Assert.InRange(TimersOf(ResidentOf(handler)!).Count, 1, 2);
        engine.Run(socket.DisposeAsync());
        engine.Run(engine.DisposeAsync());
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_resident")]
    private static extern ref LoopSocket? ResidentOf(DatagramHandler handler);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_timers")]
    private static extern ref List<LoopTimer> TimersOf(LoopSocket socket);

    private sealed class Ticking : DatagramHandler
    {
        internal int Ticks { get; private set; }

        protected override void OnStarted() => StartTimer(TimeSpan.FromMilliseconds(10));

        protected override void OnTimer(LoopTimer timer)
        {
            Ticks++;
            StartTimer(TimeSpan.FromMilliseconds(10));
        }
    }
}
