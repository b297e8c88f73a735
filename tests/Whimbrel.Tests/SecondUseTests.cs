using System.Buffers;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
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
}
