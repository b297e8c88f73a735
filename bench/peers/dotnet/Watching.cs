using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace Whimbrel.Bench.Peers;

/// <summary> A listener like an operator's exporter: enables each instrument of the meter, reads it once a second and
/// counts the measurements; or follows each request. It does not format or export. </summary>
internal static class Watching
{
    private static MeterListener? s_listener;
    private static Timer? s_timer;
    private static long s_seen;

    /// <summary>Starts what the word names: metrics, traces, or nothing.</summary>
    public static bool TryStart(string word)
    {
        switch (word)
        {
            case "":
                return true;
            case "metrics":
                StartMetrics();
                return true;
            case "traces":
                ActivitySource.AddActivityListener(new ActivityListener
                {
                    ShouldListenTo = static source => source.Name == "Whimbrel",
                    Sample = static (ref ActivityCreationOptions<ActivityContext> _) => ActivitySamplingResult.AllData,
                    ActivityStopped = static _ => Interlocked.Increment(ref s_seen),
                });
                return true;
            default:
                return false;
        }
    }

    private static void StartMetrics()
    {
        s_listener = new MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument.Meter.Name == "Whimbrel")
                {
                    listener.EnableMeasurementEvents(instrument);
                }
            },
        };
        s_listener.SetMeasurementEventCallback<int>(static (_, _, _, _) => Interlocked.Increment(ref s_seen));
        s_listener.SetMeasurementEventCallback<long>(static (_, _, _, _) => Interlocked.Increment(ref s_seen));
        s_listener.SetMeasurementEventCallback<double>(static (_, _, _, _) => Interlocked.Increment(ref s_seen));
        s_listener.Start();
        s_timer = new Timer(static _ => s_listener!.RecordObservableInstruments(), null, TimeSpan.FromSeconds(1),
            TimeSpan.FromSeconds(1));
    }
}
