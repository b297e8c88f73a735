namespace Whimbrel.Tests;

/// <summary>Bytes that code allocates in steady state.</summary>
internal static class Allocated
{
    /// <summary>Number of runs.</summary>
    internal const int Runs = 3;

    /// <summary> Managed bytes that <paramref name="work"/> allocates on this thread: the minimum of its runs. The
    /// first run loads types and compiles methods on this thread, and a collection caused by another test may be
    /// counted in one of them. </summary>
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
