namespace Whimbrel.Tests;

// Seeds of random tests: a fresh one first, printed, so that a failure can be run again; then fixed ones.
internal static class Seeds
{
    private static readonly bool s_isQuick = Environment.GetEnvironmentVariable("WHIMBREL_QUICK") == "1";

    /// <summary>A new seed and the seeds from 1 on, so many in all; with --quick a tenth of them.</summary>
    internal static IEnumerable<int> Some(int count)
    {
        if (s_isQuick) count = Math.Max(2, count / 10);
        int fresh = Random.Shared.Next();
        for (int i = 0; i < count; i++)
        {
            int seed = i == 0 ? fresh : i;
            TestContext.Current.TestOutputHelper!.WriteLine($"seed {seed}");
            yield return seed;
        }
    }
}
