using System.Diagnostics;
using System.Globalization;
using Whimbrel.Linux;

namespace Whimbrel.Simulation.Kernel;

// Many seeds on one platform. WHIMBREL_SEED=n runs one and prints all of its steps, WHIMBREL_SEEDS=n runs n seeds from
// the first on.
internal static class SeedRun
{
    private static void Print(string line) => TestContext.Current.TestOutputHelper!.WriteLine(line);

    internal static void NeedsPointers()
    {
        Assert.SkipUnless(KernelProbe.HasEpoll, "The simulated kernel uses the structures of Linux on x64 and arm64.");
        SynchronizationContext.SetSynchronizationContext(null);
    }

    internal static void Run(SimPlatform platform, int seeds, bool isPool = false)
    {
        NeedsPointers();
        if (int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEED"), CultureInfo.InvariantCulture,
            out int one))
        {
            Print(KernelScenario.Run(platform, one, Print, isPool: isPool).ToString());
            return;
        }

        if (int.TryParse(Environment.GetEnvironmentVariable("WHIMBREL_SEEDS"),
            CultureInfo.InvariantCulture, out int some))
            seeds = some;
        long steps = 0;
        long sessions = 0;
        long strandSends = 0;
        Dictionary<string, long> tally = [];
        Stopwatch watch = Stopwatch.StartNew();
        for (int seed = 0; seed < seeds; seed++)
        {
            KernelScenario.Outcome outcome = KernelScenario.Run(platform, seed, tally: tally, isPool: isPool);
            steps += outcome.Steps;
            sessions += outcome.Sessions;
            strandSends += outcome.StrandSends;
        }

        Print($"{seeds} seeds, {sessions} sessions, {strandSends} sends of strands, {steps} steps in "
            + $"{watch.Elapsed.TotalSeconds:0.0} s");
        // Each kind of fault must have occurred; otherwise the range proves less than it seems to.
        Assert.True(some > 0 || Depth.IsQuick || tally.Count == platform.KindsOfFaults,
            $"{tally.Count} kinds of faults of {platform.KindsOfFaults}");
        Assert.Equal(isPool, strandSends > 0);
        foreach ((string what, long count) in tally.OrderBy(static t => t.Key, StringComparer.Ordinal))
            Print($"{count,12:n0} {what}");
    }

    internal static void RunTwice(SimPlatform platform, bool isPool = false)
    {
        NeedsPointers();
        HashSet<ulong> hashes = [];
        for (int seed = 0; seed < 1_000; seed++)
        {
            KernelScenario.Outcome first = KernelScenario.Run(platform, seed, isPool: isPool);
            KernelScenario.Outcome second = KernelScenario.Run(platform, seed, isPool: isPool);
            Assert.True(first == second, $"seed {seed}: {first}, and then {second}");
            hashes.Add(first.TraceHash);
        }

        // Different seeds have different steps.
        Assert.True(hashes.Count > 990, $"{hashes.Count} different runs of 1,000 seeds");
    }
}
