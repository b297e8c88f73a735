namespace Whimbrel.Tests;

// Seeds of random tests: a new one first, which is printed so that a failure can be repeated; then fixed ones.
internal static class Seeds
{
    /// <summary>A new seed and the seeds from 1 on, this many in total; with --quick a tenth of them.</summary>
    internal static IEnumerable<int> Some(int count)
    {
        if (Depth.IsQuick) count = Math.Max(2, count / 10);
        int fresh = Random.Shared.Next();
        for (int i = 0; i < count; i++)
        {
            int seed = i == 0 ? fresh : i;
            TestContext.Current.TestOutputHelper!.WriteLine($"seed {seed}");
            yield return seed;
        }
    }
}
