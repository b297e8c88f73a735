using System.Globalization;

namespace Whimbrel.Allocations;

// Bytes that a loop's thread allocates, as counted exactly by the runtime.
internal sealed class LoopMeter(Loop loop)
{
    private const int Attempts = 10;
    private readonly ManualResetEventSlim _read = new();
    private const long LeastObject = 24; // bytes
    private long _bytes;

    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    internal long Read()
    {
        _read.Reset();
        loop.Post(static state => ((LoopMeter)state!).Report(), this);
        Assert.True(_read.Wait(Patience), "The loop did not answer.");
        return _bytes;
    }

    private void Report()
    {
        _bytes = GC.GetAllocatedBytesForCurrentThread();
        _read.Set();
    }

    // The best of ten attempts: a growing pool is no allocation per round, and a pool shared by threads is complete
    // only after all patterns of concurrent use have occurred.
    internal double BytesPerRound(int warmUp, int rounds, Action round)
    {
        for (int i = 0; i < warmUp; i++) round();
        double best = double.MaxValue;
        for (int attempt = 0; attempt < Attempts && best > 0; attempt++)
        {
            long before = Read();
            for (int i = 0; i < rounds; i++) round();
            best = Math.Min(best, (double)(Read() - before) / rounds);
        }

        return best;
    }

    internal void ExpectNone(string what, int rounds, Action round)
    {
        double bytes = BytesPerRound(rounds, rounds, round);
        string line = string.Create(CultureInfo.InvariantCulture, $"{what}: {bytes:0.###} bytes allocated per round on "
            + $"the loop's thread ({rounds} rounds after as many to warm up)");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(bytes == 0, line);
    }

    // Same as ExpectNone, also for all other threads except the calling one, which allocates for its sockets: this
    // includes the work of the pool for a session. On average fewer than `fewerThan` objects per round.
    internal void ExpectNoneAnywhere(string what, int rounds, Action round, int fewerThan = 1)
    {
        for (int i = 0; i < rounds; i++) round();
        long loop = long.MaxValue, all = long.MaxValue;
        // A round that allocates costs at least one object. Less than that comes from new pool threads, and from states
        // of async methods that one thread rented and another returned, although its cache was full.
        long most = LeastObject * fewerThan * rounds;
        for (int attempt = 0; attempt < Attempts && (loop > 0 || all >= most); attempt++)
        {
            long loopBefore = Read(), allBefore = OfOthers();
            for (int i = 0; i < rounds; i++) round();
            all = Math.Min(all, OfOthers() - allBefore);
            loop = Math.Min(loop, Read() - loopBefore);
        }

        string line = string.Create(
            CultureInfo.InvariantCulture,
            $"{what}: {(double)loop / rounds:0.###} bytes allocated per round on the loop's thread, "
            + $"{(double)all / rounds:0.###} in the whole process ({rounds} rounds after as many to warm up)");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(loop == 0 && all < most, line);
    }

    private static long OfOthers() => GC.GetTotalAllocatedBytes(precise: true) - GC.GetAllocatedBytesForCurrentThread();
}
