using Whimbrel.Simulation.Kernel;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Epoll;

// Situations that seeds produce rarely or never, produced deliberately.
public sealed class EpollCaseTests
{
    // Several times the number of events of one wait (256), so that the listener is reported in few of the waits only.
    private const int Busy = 1_200;
    private const int Newcomers = 500;

    private static KernelCase NewCase() => new(static kernel => new EpollEngine(kernel, 1, static _ => { }));

    [Fact]
    public void Pending_connections_are_accepted_among_more_busy_ones_than_one_wait_reports()
    {
        using KernelCase world = NewCase();
        List<MemorySocket> busy = [];
        for (int i = 0; i < Busy; i++) busy.Add(world.Connect());
        world.RunUntil(() => world.Sessions.Count == Busy);
        for (int i = 0; i < Newcomers; i++) world.Connect();
        long first = world.Loop.Counters.Turns;
        world.RunUntil(() =>
        {
            foreach (MemorySocket peer in busy) peer.Write([1]);
            return world.Sessions.Count == Busy + Newcomers;
        });
        // It is reported in one iteration of five, and accepts 1, 2, 4 ... 64 connections each time. One per time would
        // take more than two thousand iterations.
        Assert.InRange(world.Loop.Counters.Turns - first, 1, 200);
    }

    [Fact]
    public void Up_to_64_connections_are_accepted_in_a_turn()
    {
        using KernelCase world = NewCase();
        for (int i = 0; i < 200; i++) world.Connect();
        long turn = -1;
        List<int> ofTurns = [];
        int before = 0;
        world.RunUntil(() =>
        {
            if (world.Loop.Counters.Turns != turn) ofTurns.Add(0);
            turn = world.Loop.Counters.Turns;
            ofTurns[^1] += world.Sessions.Count - before;
            before = world.Sessions.Count;
            return before == 200;
        });
        Assert.Equal(64, ofTurns.Max());
    }

    [Fact]
    public void A_session_paused_during_a_rest_for_lack_of_memory_receives_after_the_resume_and_not_before()
    {
        using KernelCase world = NewCase();
        MemorySocket peer = world.Connect();
        world.RunUntil(() => world.Sessions.Count == 1);
        Session session = world.Sessions[0];
        world.Kernel.HasNoMemory = true;
        peer.Write([1]);
        world.RunUntil(() => world.Kernel.Refusals == 1);
        session.PauseReceiving();
        world.Kernel.HasNoMemory = false;
        bool wasLong = false;
        world.Loop.StartTimer(TimeSpan.FromSeconds(1), _ => wasLong = true);
        world.RunUntil(() => wasLong);
        Assert.Equal(0, session.BytesReceived);
        session.ResumeReceiving();
        world.RunUntil(() => session.BytesReceived == 1);
    }
}
