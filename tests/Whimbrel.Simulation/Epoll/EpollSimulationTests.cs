using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Epoll;

// The unchanged epoll engine on a simulated kernel, with the scenarios of the ring (docs/design/0015). A seed that
// found a defect becomes a named test.
public sealed class EpollSimulationTests
{
    // Fixed, so that every machine runs the same seeds.
    private const int Seeds = 200_000;
    private const int DeepSeeds = 3_000_000;

    [Fact]
    public void Every_seed_satisfies_all_guarantees() =>
        SeedRun.Run(EpollPlatform.One, Depth.Of(Seeds, deep: DeepSeeds));

    // Seeds that find a former defect, with its description (docs/design/0029).
    [Theory]
    [InlineData(7)] // signals, and a set that reports a foreign duplicate descriptor permanently
    [InlineData(18)] // a listener was reported in the first iteration of its loop, and never accepted
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        SeedRun.NeedsPointers();
        KernelScenario.Run(EpollPlatform.One, seed);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run() => SeedRun.RunTwice(EpollPlatform.One);
}
