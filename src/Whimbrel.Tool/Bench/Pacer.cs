using Whimbrel.Tool.Linux;

namespace Whimbrel.Tool.Bench;

/// <summary>
/// The clock of a cell: one thread that wakes the loops when a message is due, because timers of loops have whole
/// milliseconds. It also measures for how long it did not run, which is time that the machine gave to others.
/// </summary>
internal sealed class Pacer : IDisposable
{
    private const long ShortestNs = 20_000; // at higher rates the answers wake the loops as well
    private const long SweepNs = 50 * Clock.NsInMs;
    private const long LongestNs = 5 * Clock.NsInMs;

    /// <summary>A sleep that lasts longer than this beyond its end counts as time away.</summary>
    internal const long AwayNs = 10 * Clock.NsInMs;

    private readonly LoadLoop[] _loads;
    private readonly long _from;
    private readonly Thread _thread;
    private long _awayNs;
    private volatile bool _isStopped;

    internal Pacer(LoadLoop[] loads, long from)
    {
        _loads = loads;
        _from = from;
        _thread = new Thread(Run) { IsBackground = true, Name = "pacer" };
        _thread.Start();
    }

    /// <summary>Time in the measured window in which this thread wanted to run and did not. Any thread.</summary>
    internal long AwayInWindowNs => Volatile.Read(ref _awayNs);

    public void Dispose()
    {
        _isStopped = true;
        _thread.Join();
    }

    private void Run()
    {
        NativeThread.SharpenTimers();
        long before = 0, now = Clock.Now(), swept = now;
        while (!_isStopped)
        {
            bool sweeps = now - swept >= SweepNs;
            if (sweeps) swept = now;
            foreach (LoadLoop load in _loads)
            {
                if (sweeps || load.NextDueAfter(before) <= now) load.RequestTick();
            }

            before = now;
            long next = Math.Max(now + ShortestNs, NextAfter(now));
            now = SleepUntil(next);
            if (now - next > AwayNs) CountAway(Math.Max(next, _from), now);
        }
    }

    private long NextAfter(long now)
    {
        long next = now + LongestNs;
        foreach (LoadLoop load in _loads) next = Math.Min(next, load.NextDueAfter(now));
        return next;
    }

    private static long SleepUntil(long moment)
    {
        while (true)
        {
            long now = Clock.Now();
            if (now >= moment) return now;
            NativeThread.SleepFor(TimeSpan.FromMicroseconds((moment - now + 999) / 1000));
        }
    }

    private void CountAway(long since, long now)
    {
        if (now <= since || since >= _loads[0].To) return;
        Volatile.Write(ref _awayNs, _awayNs + Math.Min(now, _loads[0].To) - since);
    }
}
