using Whimbrel.Simulation.Kernel;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Uring;

// Situations that seeds produce rarely or never, produced deliberately.
public sealed class UringCaseTests
{
    private const int RestMs = 10;
    private const int LackMs = 1_000;

    private static KernelCase NewCase() => new(static kernel => new RingEngine(kernel,
        new RingShape(1, 32, 64, 4, 1024, CanLimitReceive: true), static _ => { }));

    // The ring receives small messages, a call receives large ones.
    [Theory]
    [InlineData(100)]
    [InlineData(2_000)]
    public void A_lack_of_memory_that_lasts_is_asked_about_after_each_rest_and_nothing_is_lost(int messageBytes)
    {
        using KernelCase world = NewCase();
        MemorySocket peer = world.Connect();
        byte[] message = new byte[messageBytes];
        for (int i = 1; i <= 3; i++)
        {
            peer.Write(message);
            world.RunUntil(() => world.Sessions is [{ } session] && session.BytesReceived == i * messageBytes);
        }

        long beginMs = world.Kernel.NowMs;
        world.Kernel.HasNoMemory = true;
        peer.Write(message);
        world.RunUntil(() => world.Kernel.NowMs >= beginMs + LackMs);
        // Some immediately, then one after each rest: time advances only while the loop sleeps.
        Assert.InRange(world.Kernel.Refusals, LackMs / RestMs / 2, (LackMs / RestMs) + 32);
        world.Kernel.HasNoMemory = false;
        world.RunUntil(() => world.Sessions[0].BytesReceived == 4 * messageBytes);
    }
}
