using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// The unchanged io_uring engine on rings without a kernel. A seed that fails is printed with its last steps; WHIMBREL_SEED=n
// runs one seed and prints all of it; ./test --deep runs many more. A seed that has found a defect becomes a test with a name.
public sealed class UringSimulationTests
{
    // A fixed number, so that every machine runs the same ones.
    private const int Seeds = 200_000;
    private const int DeepSeeds = 3_000_000;

    [Fact]
    public void Every_seed_keeps_every_promise() => SeedRun.Run(RingPlatform.One, SeedRun.IsDeep ? DeepSeeds : Seeds);

    // Seeds that find a defect that was there, with what it was (docs/design/0015).
    [Theory]
    [InlineData(3)] // a send was told of a reset, and the receive saw the end of all bytes before the session knew
    [InlineData(36)] // after an odd error of a send the session waited for its peer for ever
    [InlineData(96)] // an interrupted poll failed a dial
    [InlineData(300)] // a cancel of a send that had done nothing was not repeated, and the stop of the engine hung
    [InlineData(727)] // a ring that broke leaked the descriptors whose close it had not taken
    [InlineData(870)] // a ring that broke sent a FIN where bytes were still to come
    [InlineData(2473)] // a ring that broke reset descriptors that were closed, and others' by then
    [InlineData(202_852)] // a receive that began before the cancel of the last one was told was never cancelled, and the stop of the server hung
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        SeedRun.NeedsPointers();
        KernelScenario.Run(RingPlatform.One, seed);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run() => SeedRun.RunTwice(RingPlatform.One);
}
