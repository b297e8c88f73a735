using System.Diagnostics;
using System.Globalization;
using Whimbrel.Linux;

namespace Whimbrel.Bench.Micro;

/// <summary> Cost of Loop.Post for the calling thread. Held: the loop is inside a callback, so no other thread uses the
/// mailbox. Running: the loop takes items out as they arrive, and is woken when it sleeps. </summary>
internal static class PostCost
{
    private const int Batch = 1000;
    private const int HeldBatches = 25;
    private const int RunningBatches = 500;

    private static long s_ran;

    internal static int Run(int rounds)
    {
        var cpus = Environment.ProcessorCount > 1;
        Engine engine = new(new EngineOptions { Loops = 1, Cpus = cpus ? [1] : null });
        if (cpus && CurrentThread.Pin(0) != 0)
        {
            Console.Error.WriteLine("micro: cpu 0 is not allowed here, the figures mean less");
        }

        engine.StartAsync().AsTask().GetAwaiter().GetResult();
        Loop loop = engine.GetLoop(0);
        Action action = static () => s_ran++;
        List<double> held = [];
        List<double> running = [];
        List<double> wakes = [];
        var posted = 0L;
        for (var round = -2; round < rounds; round++)
        {
            List<double> heldTicks = [];
            for (var b = 0; b < HeldBatches; b++)
            {
                heldTicks.Add(Held(loop, action));
                posted += Batch;
            }

            var wakesBefore = loop.Mailbox.Wakes;
            var turnsBefore = loop.Counters.Turns;
            List<double> runningTicks = [];
            for (var b = 0; b < RunningBatches; b++)
            {
                runningTicks.Add(PostBatch(loop, action));
                posted += Batch;
            }

            Drain(loop);
            if (round < 0)
            {
                continue;
            }

            held.Add(Nanoseconds(Median(heldTicks)) / Batch);
            running.Add(Nanoseconds(Median(runningTicks)) / Batch);
            wakes.Add((double)(loop.Mailbox.Wakes - wakesBefore) / (loop.Counters.Turns - turnsBefore));
        }

        Print("post, loop held", "ns", held);
        Print("post, loop running", "ns", running);
        Print("wakes per turn", "", wakes);
        var all = s_ran == posted;
        Console.WriteLine(all ? "every post ran" : $"LOST: {posted} posted, {s_ran} ran");
        engine.DisposeAsync().AsTask().GetAwaiter().GetResult();
        return all && wakes.TrueForAll(static w => w <= 1) ? 0 : 1;
    }

    private static long Held(Loop loop, Action action)
    {
        using ManualResetEventSlim inside = new();
        using ManualResetEventSlim release = new();
        loop.Post(() =>
        {
            inside.Set();
            release.Wait();
        });
        inside.Wait();
        var ticks = PostBatch(loop, action);
        release.Set();
        Drain(loop);
        return ticks;
    }

    private static long PostBatch(Loop loop, Action action)
    {
        var start = Stopwatch.GetTimestamp();
        for (var i = 0; i < Batch; i++)
        {
            loop.Post(action);
        }

        return Stopwatch.GetTimestamp() - start;
    }

    /// <summary>Median of many short stretches, which is not affected by those that another process
    /// interrupted.</summary>
    internal static double Median(List<double> values)
    {
        values.Sort();
        return values[values.Count / 2];
    }

    private static void Drain(Loop loop) => loop.PostAsync(static () => { }).AsTask().GetAwaiter().GetResult();

    internal static double Nanoseconds(double ticks) => ticks * 1e9 / Stopwatch.Frequency;

    internal static void Print(string what, string unit, List<double> values)
    {
        var median = Median(values);
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"{what}: {median:0.00} {unit} (median of {values.Count}; {values[0]:0.00} to {values[^1]:0.00})"));
    }
}
