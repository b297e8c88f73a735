using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// Same, with callbacks on the pool, which sends by itself while its loop sleeps (docs/design/0071). A seed that found a
// defect becomes a named test.
public sealed class UringPoolSimulationTests
{
    // Fixed, so that every machine runs the same seeds.
    private const int Seeds = 30_000;
    private const int DeepSeeds = 1_000_000;

    [Fact]
    public void Every_seed_satisfies_all_guarantees() =>
        SeedRun.Run(RingPlatform.One, Depth.Of(Seeds, deep: DeepSeeds), isPool: true);

    // Seeds that find a former defect, with its description (docs/design/0071).
    [Theory]
    [InlineData(3418)] // a session that handed over after its connection had ended was called for the peer's FIN
    // after a hand-over, new data was passed to the old session, if the connection ended before the loop knew of it
    [InlineData(4347)]
    [InlineData(7645)] // the reset was reported to a send of a strand, and the receive saw the end of the stream
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        SeedRun.NeedsPointers();
        KernelScenario.Run(RingPlatform.One, seed, isPool: true);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run() => SeedRun.RunTwice(RingPlatform.One, isPool: true);
}
