using System.Diagnostics;
using System.Globalization;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation;

// Whole systems in one thread. A failing seed is printed with its last steps; WHIMBREL_SEED=n runs one seed and prints
// all of its steps; ./test --deep runs many more. A seed that found a defect becomes a named test.
public sealed class SimulationTests
{
    // Fixed, so that every machine runs the same seeds.
    private const int Seeds = 12_000;
    private const int DeepSeeds = 200_000;

    private static void Print(string line) => TestContext.Current.TestOutputHelper!.WriteLine(line);

    [Fact]
    public void Every_seed_satisfies_all_guarantees()
    {
        SynchronizationContext.SetSynchronizationContext(null);
        if (int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEED"), CultureInfo.InvariantCulture,
            out int one))
        {
            Print(Scenario.Run(one, Print).ToString());
            return;
        }

        int seeds = Depth.Of(Seeds, deep: DeepSeeds);
        long steps = 0;
        long sessions = 0;
        // First seed that an interrupted earlier run has not finished.
        _ = int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_FIRST_SEED"), CultureInfo.InvariantCulture,
            out int seed);
        Stopwatch watch = Stopwatch.StartNew();
        for (; seed < seeds; seed++)
        {
            Scenario.Outcome outcome = Scenario.Run(seed);
            steps += outcome.Steps;
            sessions += outcome.Sessions;
        }

        Print($"{seed} seeds, {sessions} sessions, {steps} steps in {watch.Elapsed.TotalSeconds:0.0} s");
    }

    // Seeds that found a defect, with its description.
    [Theory]
    [InlineData(1500)] // the memory engine sent an empty block forever
    [InlineData(4702)] // a timer started in OnConnecting fired before OnConnected
    [InlineData(14569)] // memory passed after ShutdownSend left space for one more send
    [InlineData(148394)] // data offered by a session that was not being read was offered twice more after it resumed
    public void A_seed_that_found_a_defect_stays_right(int seed)
    {
        SynchronizationContext.SetSynchronizationContext(null);
        Scenario.Run(seed);
    }

    [Fact]
    public void The_same_seed_gives_the_same_run()
    {
        SynchronizationContext.SetSynchronizationContext(null);
        HashSet<ulong> hashes = [];
        for (int seed = 0; seed < 200; seed++)
        {
            Scenario.Outcome first = Scenario.Run(seed);
            Assert.Equal(first, Scenario.Run(seed));
            hashes.Add(first.TraceHash);
        }

        // Different seeds have different steps.
        Assert.True(hashes.Count > 190, $"{hashes.Count} different runs of 200 seeds");
    }
}
