using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// The same with callbacks on the pool, which sends by itself while its loop sleeps (docs/design/0062). A seed that has found a defect
// becomes a test with a name.
public sealed class UringPoolSimulationTests
{
    // A fixed number, so that every machine runs the same ones.
    private const int Seeds = 30_000;
    private const int DeepSeeds = 1_000_000;

    [Fact]
    public void Every_seed_keeps_every_promise() => SeedRun.Run(RingPlatform.One, SeedRun.IsDeep ? DeepSeeds : Seeds, isPool: true);

    // Seeds that find a defect that was there, with what it was (docs/design/0062).
    [Theory]
    [InlineData(3418)] // a session that handed over when its connection was gone already was told of the peer's end
    [InlineData(4347)] // a session that had handed over was offered what came then, when the connection ended before the loop knew of it
    [InlineData(7645)] // a send of a strand was told of a reset, and the receive saw the end of all bytes
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        SeedRun.NeedsPointers();
        KernelScenario.Run(RingPlatform.One, seed, isPool: true);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run() => SeedRun.RunTwice(RingPlatform.One, isPool: true);
}
