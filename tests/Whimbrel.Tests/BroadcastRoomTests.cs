using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// BroadcastAsync with a timeout, when the space that became free was taken by another sender.
public class BroadcastRoomTests
{
    private static readonly MemoryEndPoint s_here = new("here");

    [Theory]
    [InlineData(9, true)]
    [InlineData(10, false)]
    [InlineData(11, false)]
    [InlineData(12, false)]
    public async Task A_time_limit_that_has_passed_is_one_by_whatever_it_has_passed(int passedMs, bool waitsOn)
    {
        int rounds = 0;
        for (int seed = 1; seed <= 40; seed++)
        {
            MemoryEngine engine = new(seed, faults: MemoryFaults.None);
            Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, static () => new Recorder());
            engine.Run(server.StartAsync());
            engine.Connect(s_here);
            engine.RunUntilIdle();
            byte[] message = new byte[16 * 1024];
            Fill();
            Task<BroadcastResult> timed = server.Sessions.BroadcastAsync(message, TimeSpan.FromMilliseconds(10))
                .AsTask();
            Mailbox mailbox = engine.GetLoop(0).Mailbox;
            while (mailbox.Any && !timed.IsCompleted) engine.RunOne();
            // It was notified of the space, but has not run yet.
            if (!timed.IsCompleted)
            {
                Fill();
                engine.Advance(TimeSpan.FromMilliseconds(passedMs));
                while (mailbox.Any && !timed.IsCompleted) engine.RunOne();
                bool wasFull = timed.IsCompleted;
                engine.RunUntil(() => timed.IsCompleted);
                // If the loop was faster again, there was space after all.
                Assert.Equal(wasFull ? SendResult.Full : SendResult.Queued, (await timed).Result);
                if (wasFull) rounds++;
            }

            engine.Run(server.StopAsync(TimeSpan.Zero));
            engine.Run(engine.DisposeAsync());

            void Fill()
            {
                while (server.Sessions.Broadcast(message) == SendResult.Queued)
                {
                }
            }
        }

        Assert.Equal(!waitsOn, rounds > 0);
    }

    [Fact]
    public async Task A_wait_that_space_has_ended_leaves_no_time_limit()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here }, static () => new Recorder());
        engine.Run(server.StartAsync());
        engine.Connect(s_here);
        engine.RunUntilIdle();
        byte[] message = new byte[16 * 1024];
        while (server.Sessions.Broadcast(message) == SendResult.Queued)
        {
        }

        int before = engine.GetLoop(0).ReadCounters().Timers;
        Task<BroadcastResult> timed = server.Sessions.BroadcastAsync(message, TimeSpan.FromHours(1)).AsTask();
        engine.RunUntil(() => timed.IsCompleted);
        Assert.Equal(SendResult.Queued, (await timed).Result);
        engine.RunFor(TimeSpan.FromSeconds(1)); // the group is congested for a tenth of a second at most
        Assert.Equal(before, engine.GetLoop(0).ReadCounters().Timers);
        engine.Run(server.StopAsync(TimeSpan.Zero));
        engine.Run(engine.DisposeAsync());
    }
}
