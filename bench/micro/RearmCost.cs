using System.Diagnostics;

namespace Whimbrel.Bench.Micro;

/// <summary>Cost of restarting a timer on its loop, with 100,000 armed timers.</summary>
internal static class RearmCost
{
    private const int Count = 100_000;
    private const int Stretch = 500;

    internal static int Run(int rounds)
    {
        Engine engine = new(new EngineOptions { Loops = 1, BlockedLoopMs = 60_000 });
        Loop loop = engine.GetLoop(0);
        List<double> later = [];
        List<double> sooner = [];
        List<double> cancelled = [];
        List<double> allocated = [];
        engine.PostAsync(() =>
        {
            Random random = new(1);
            var timers = new LoopTimer[Count];
            for (var i = 0; i < Count; i++)
            {
                timers[i] = new LoopTimer(loop);
                timers[i].Start(TimeSpan.FromSeconds(60 + random.Next(60)));
            }

            var order = Enumerable.Range(0, Count).ToArray();
            random.Shuffle(order);
            for (var round = -2; round < rounds; round++)
            {
                var laterNs = Each(order, i => timers[i].Start(TimeSpan.FromSeconds(200)));
                var bytes = GC.GetAllocatedBytesForCurrentThread();
                for (var i = 0; i < Count; i++)
                {
                    timers[i].Start(TimeSpan.FromSeconds(201));
                }

                allocated.Add(GC.GetAllocatedBytesForCurrentThread() - bytes);
                var soonerNs = Each(order, i => timers[i].Start(TimeSpan.FromSeconds(30 + (i % 20))));
                var cancelledNs = Each(order, i =>
                {
                    timers[i].Cancel();
                    timers[i].Start(TimeSpan.FromSeconds(60 + (i % 60)));
                });
                if (round < 0)
                {
                    continue;
                }

                later.Add(laterNs);
                sooner.Add(soonerNs);
                cancelled.Add(cancelledNs);
            }
        }).AsTask().GetAwaiter().GetResult();
        PostCost.Print("start again, later", "ns", later);
        PostCost.Print("start again, sooner", "ns", sooner);
        PostCost.Print("cancel and start", "ns", cancelled);
        PostCost.Print("allocated by 100,000 starts", "bytes", allocated);
        engine.DisposeAsync().AsTask().GetAwaiter().GetResult();
        return 0;
    }

    private static double Each(int[] order, Action<int> action)
    {
        List<double> stretches = new(Count / Stretch);
        for (var from = 0; from < Count; from += Stretch)
        {
            var start = Stopwatch.GetTimestamp();
            for (var i = from; i < from + Stretch; i++)
            {
                action(order[i]);
            }

            stretches.Add(Stopwatch.GetTimestamp() - start);
        }

        return PostCost.Nanoseconds(PostCost.Median(stretches)) / Stretch;
    }
}
