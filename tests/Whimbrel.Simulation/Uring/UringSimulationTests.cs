using System.Diagnostics;
using System.Globalization;
using Whimbrel.Linux;

namespace Whimbrel.Simulation.Uring;

// The unchanged io_uring engine on rings without a kernel. A seed that fails is printed with its last steps; WHIMBREL_SEED=n
// runs one seed and prints all of it; ./test --deep runs many more. A seed that has found a defect becomes a test with a name.
public sealed class UringSimulationTests
{
    // A fixed number, so that every machine runs the same ones.
    private const int Seeds = 200_000;
    private const int DeepSeeds = 3_000_000;

    private static bool IsDeep => Environment.GetEnvironmentVariable("WHIMBREL_DEEP") == "1";

    private static void Print(string line) => TestContext.Current.TestOutputHelper!.WriteLine(line);

    private static void NeedsPointers()
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "the structures of io_uring are those of Linux on x64 or arm64");
        SynchronizationContext.SetSynchronizationContext(null);
    }

    [Fact]
    public void Every_seed_keeps_every_promise()
    {
        NeedsPointers();
        if (int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEED"), CultureInfo.InvariantCulture, out int one))
        {
            Print(RingScenario.Run(one, Print).ToString());
            return;
        }

        int seeds = IsDeep ? DeepSeeds : Seeds;
        if (int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEEDS"), CultureInfo.InvariantCulture, out int some)) seeds = some;
        long steps = 0;
        long sessions = 0;
        Dictionary<string, long> tally = [];
        Stopwatch watch = Stopwatch.StartNew();
        for (int seed = 0; seed < seeds; seed++)
        {
            RingScenario.Outcome outcome = RingScenario.Run(seed, tally: tally);
            steps += outcome.Steps;
            sessions += outcome.Sessions;
        }

        Print($"{seeds} seeds, {sessions} sessions, {steps} steps in {watch.Elapsed.TotalSeconds:0.0} s");
        // Each kind of fault, or the range says less than it seems to.
        Assert.True(some > 0 || tally.Count == RingFaults.Kinds, $"{tally.Count} kinds of faults of {RingFaults.Kinds}");
        foreach ((string what, long count) in tally.OrderBy(static t => t.Key, StringComparer.Ordinal)) Print($"{count,12:n0} {what}");
    }

    // Seeds that find a defect that was there, with what it was (docs/design/0015).
    [Theory]
    [InlineData(3)] // a send was told of a reset, and the receive saw the end of all bytes before the session knew
    [InlineData(36)] // after an odd error of a send the session waited for its peer for ever
    [InlineData(96)] // an interrupted poll failed a dial
    [InlineData(300)] // a cancel of a send that had done nothing was not repeated, and the stop of the engine hung
    [InlineData(727)] // a ring that broke leaked the descriptors whose close it had not taken
    [InlineData(870)] // a ring that broke sent a FIN where bytes were still to come
    [InlineData(2473)] // a ring that broke reset descriptors that were closed, and others' by then
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        NeedsPointers();
        RingScenario.Run(seed);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run()
    {
        NeedsPointers();
        HashSet<ulong> hashes = [];
        for (int seed = 0; seed < 1_000; seed++)
        {
            RingScenario.Outcome first = RingScenario.Run(seed);
            Assert.Equal(first, RingScenario.Run(seed));
            hashes.Add(first.TraceHash);
        }

        // Different seeds do different things.
        Assert.True(hashes.Count > 990, $"{hashes.Count} different runs of 1,000 seeds");
    }
}
