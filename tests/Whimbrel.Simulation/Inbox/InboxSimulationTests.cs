using System.Diagnostics;
using System.Globalization;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Inbox;

// What several threads send to the inboxes of connections, step by step in one thread. WHIMBREL_SEED=n runs one seed.
public sealed class InboxSimulationTests
{
    private const int Seeds = 200_000; // about a minute of one cpu
    private const int DeepSeeds = 2_000_000;

    [Fact]
    public void Every_seed_delivers_what_was_accepted_once_whole_and_in_order()
    {
        SynchronizationContext.SetSynchronizationContext(null);
        if (int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEED"), CultureInfo.InvariantCulture,
            out int one))
        {
            InboxScenario.Run(one);
            return;
        }

        int seeds = Depth.IsDeep ? DeepSeeds : Depth.IsQuick ? Seeds / 40 : Seeds;
        if (int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEEDS"),
            CultureInfo.InvariantCulture, out int some))
            seeds = some;
        Stopwatch watch = Stopwatch.StartNew();
        for (int seed = 0; seed < seeds; seed++) InboxScenario.Run(seed);
        TestContext.Current.TestOutputHelper!.WriteLine($"{seeds} seeds in {watch.Elapsed.TotalSeconds:0.0} s");
    }
}
