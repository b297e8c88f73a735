using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace Whimbrel.Diagnostics;

/// <summary>
/// Metrics of awaited broadcasts, which are counted anyway. Recorded by the last loop of a broadcast, while a listener
/// is active.
/// </summary>
internal sealed class BroadcastMetrics
{
    private static BroadcastMetrics? s_instruments;
    private readonly Histogram<double> _duration;
    private readonly Histogram<long> _fanout;

    private BroadcastMetrics()
    {
        Meter meter = WhimbrelMeter.Instance;
        _fanout = meter.CreateHistogram(
            "whimbrel.broadcast.fanout",
            "{session}",
            "Sessions that an awaited broadcast was queued for.",
            tags: null,
            new InstrumentAdvice<long>
            {
                HistogramBucketBoundaries = [0, 1, 2, 5, 10, 20, 50, 100, 200,
                    500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
            });
        _duration = meter.CreateHistogram(
            "whimbrel.broadcast.duration",
            "s",
            "Time from the call of an awaited broadcast, the wait for room included, until it is queued for its "
            + "last session.",
            tags: null,
            new InstrumentAdvice<double>
            {
                HistogramBucketBoundaries = [0.0001, 0.00025, 0.0005, 0.001,
                    0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
            });
    }

    internal static void Make() => Volatile.Write(ref s_instruments, new BroadcastMetrics());

    /// <summary>Returns a timestamp if a listener measures a broadcast that begins now, otherwise zero.</summary>
    internal static long Begins() => Volatile.Read(ref s_instruments) is { } made
        && (made._duration.Enabled || made._fanout.Enabled) ? Stopwatch.GetTimestamp() : 0;

    /// <summary>Records a broadcast that all loops have processed. Throws the exception of a listener.</summary>
    internal static void Ended(long since, int sessions)
    {
        BroadcastMetrics made = s_instruments!;
        made._fanout.Record(sessions);
        made._duration.Record(Stopwatch.GetElapsedTime(since).TotalSeconds);
    }
}
