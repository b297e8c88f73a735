namespace Whimbrel.Tests;

/// <summary>What a piece of code allocates in steady state.</summary>
internal static class Allocated
{
    /// <summary>How often the work is done.</summary>
    internal const int Runs = 3;

    /// <summary>
    /// Managed bytes that <paramref name="work"/> allocates on this thread: the least of its runs. The first loads types and compiles
    /// methods on this thread, and a collection that another test causes may be counted in one of them.
    /// </summary>
    public static long By(Action work)
    {
        long least = long.MaxValue;
        for (int run = 0; run < Runs; run++)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            work();
            least = Math.Min(least, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        return least;
    }
}
