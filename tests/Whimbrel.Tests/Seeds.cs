namespace Whimbrel.Tests;

// Seeds of random tests: a fresh one first, printed, so that a failure can be run again; then fixed ones.
internal static class Seeds
{
    internal static IEnumerable<int> Some(int count)
    {
        int fresh = Random.Shared.Next();
        for (int i = 0; i < count; i++)
        {
            int seed = i == 0 ? fresh : i;
            TestContext.Current.TestOutputHelper!.WriteLine($"seed {seed}");
            yield return seed;
        }
    }
}
