using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// The unchanged io_uring engine on rings without a kernel. A failing seed is printed with its last steps;
// WHIMBREL_SEED=n runs one seed and prints all of its steps; ./test --deep runs many more. A seed that found a defect
// becomes a named test.
public sealed class UringSimulationTests
{
    // Fixed, so that every machine runs the same seeds.
    private const int Seeds = 200_000;
    private const int DeepSeeds = 3_000_000;

    [Fact]
    public void Every_seed_satisfies_all_guarantees() =>
        SeedRun.Run(RingPlatform.One, Depth.Of(Seeds, deep: DeepSeeds));

    // Seeds that find a former defect, with its description (docs/design/0015).
    [Theory]
    // The reset was reported to a send, and the receive saw the end of the stream before the session knew.
    [InlineData(3)]
    [InlineData(36)] // after an unusual error of a send the session waited forever for its peer
    [InlineData(96)] // an interrupted poll made a connect fail
    [InlineData(300)] // a cancel that had no effect on a send was not repeated, and the engine's stop hung
    [InlineData(727)] // a broken ring leaked descriptors if it had not accepted their close
    [InlineData(870)] // a broken ring sent a FIN before the remaining bytes
    [InlineData(2473)] // a broken ring reset descriptors that were closed and had been reused
    // A receive that began before the cancel of the previous one was reported was never cancelled, and the server's
    // stop hung.
    [InlineData(202_852)]
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        SeedRun.NeedsPointers();
        KernelScenario.Run(RingPlatform.One, seed);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run() => SeedRun.RunTwice(RingPlatform.One);
}
