using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Epoll;

// The same with callbacks on the pool, which sends by itself while its loop sleeps (docs/design/0062). A seed that has found a defect
// becomes a test with a name.
public sealed class EpollPoolSimulationTests
{
    // A fixed number, so that every machine runs the same ones.
    private const int Seeds = 30_000;
    private const int DeepSeeds = 1_000_000;

    [Fact]
    public void Every_seed_keeps_every_promise() => SeedRun.Run(EpollPlatform.One, SeedRun.IsDeep ? DeepSeeds : Seeds, isPool: true);

    // Seeds that find a defect that was there, with what it was (docs/design/0062).
    [Theory]
    [InlineData(6164)] // a send of a strand was told of a reset, and the receive saw the end of all bytes
    [InlineData(17_691)] // a session that handed over when its connection was gone already was told of the peer's end
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        SeedRun.NeedsPointers();
        KernelScenario.Run(EpollPlatform.One, seed, isPool: true);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run() => SeedRun.RunTwice(EpollPlatform.One, isPool: true);
}
