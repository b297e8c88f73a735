using System.Collections.Concurrent;
using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace Whimbrel.Clusters;

/// <summary>
/// Instruments of the meter "Whimbrel" for nodes: their existing counters, read on the listener's thread.
/// </summary>
internal static class ClusterMetrics
{
    private static readonly ConcurrentDictionary<Cluster, KeyValuePair<string, object?>[]> s_nodes = new();
    private static Histogram<double>? s_publishing;
    private static int s_isMade;

    internal static void Joined(Cluster node)
    {
        s_nodes[node] = [new("whimbrel.cluster.application", node.Application),
            new("whimbrel.cluster.node", node.NodeId)];
        if (Interlocked.Exchange(ref s_isMade, 1) == 0) Make(node);
    }

    internal static void Left(Cluster node) => s_nodes.TryRemove(node, out _);

    /// <summary>Returns the nodes of this process on an engine, from their joining to their leaving.</summary>
    internal static IEnumerable<Cluster> NodesOn(Engine engine) =>
        s_nodes.Keys.Where(node => ReferenceEquals(node.Engine, engine));

    /// <summary>
    /// Returns the start time of a broadcast if a listener measures publish durations, otherwise zero. Stopwatch ticks;
    /// in simulations their clock.
    /// </summary>
    internal static long Now(Loop loop) => Volatile.Read(ref s_publishing) is { Enabled: true } ? Time(loop) : 0;

    private static long Time(Loop loop) =>
        loop.Engine.KindName == "memory" ? loop.TimeMs * (Stopwatch.Frequency / 1000) + 1 : Stopwatch.GetTimestamp();

    /// <summary>Records the publish duration of a broadcast. Exceptions of a listener are reported only.</summary>
    internal static void Published(Cluster node, Loop loop, long since)
    {
        try
        {
            if (s_nodes.TryGetValue(node, out KeyValuePair<string, object?>[]? labels))
                s_publishing!.Record(Stopwatch.GetElapsedTime(since, Time(loop)).TotalSeconds, labels);
        }
        catch (Exception e)
        {
            node.Report(e);
        }
    }

    /// <summary>
    /// Creates the instruments on the thread pool. If a listener throws at one, the later instruments are missing.
    /// </summary>
    private static void Make(Cluster node) =>
        ThreadPool.UnsafeQueueUserWorkItem(static node => node.Guard(MakeAll), node, preferLocal: false);

    private static void MakeAll()
    {
        Meter meter = new("Whimbrel", typeof(ClusterMetrics).Assembly.GetName().Version?.ToString(3));
        meter.CreateObservableCounter(
            "whimbrel.cluster.messages",
            static () => Of("network.io.direction", ("receive", static c => c.Received),
                ("transmit", static c => c.Published)),
            "{message}",
            "Broadcasts of other nodes given to members here, and of this node given to the broker.");
        meter.CreateObservableCounter(
            "whimbrel.cluster.gaps",
            static () => Of("network.io.direction", ("receive", static c => c.Missed),
                ("transmit", static c => c.Dropped)),
            "{message}",
            "Broadcasts of other nodes that are lost, and of this node that did not get as far as the broker.");
        meter.CreateObservableCounter(
            "whimbrel.cluster.rejected_envelopes",
            static () => Of("error.type", ("refused", static c => c.Refused),
                ("version", static c => c.UnknownVersions)),
            "{envelope}",
            "Envelopes that could not be read or were not signed, and those of a later version.");
        meter.CreateObservableUpDownCounter("whimbrel.cluster.queue.usage",
            static () => Of(static n => n.ReadCounters().PendingBytes), "By", "Bytes that wait for the broker.");
        Histogram<double> publishing = meter.CreateHistogram(
            "whimbrel.cluster.publish.duration",
            "s",
            "Time from a broadcast until it is given to the broker, the wait for one that is away included.",
            tags: null,
            new InstrumentAdvice<double>
            {
                HistogramBucketBoundaries = [0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
            });
        Volatile.Write(ref s_publishing, publishing);
        meter.CreateObservableGauge("whimbrel.cluster.connection.state", static () => Of(static n => (long)n.State),
            null, "0 healthy, 1 degraded, 2 isolated.");
    }

    private static IEnumerable<Measurement<long>> Of(Func<Cluster, long> number)
    {
        foreach ((Cluster node, KeyValuePair<string, object?>[] labels) in s_nodes)
            yield return new Measurement<long>(number(node), labels);
    }

    private static IEnumerable<Measurement<long>> Of(string label,
        params (string Value, Func<ClusterCounters, long> Number)[] numbers)
    {
        foreach ((Cluster node, KeyValuePair<string, object?>[] labels) in s_nodes)
        {
            ClusterCounters counters = node.ReadCounters();
            foreach ((string value, Func<ClusterCounters, long> number) in numbers)
                yield return new Measurement<long>(number(counters), [.. labels, new(label, value)]);
        }
    }
}
