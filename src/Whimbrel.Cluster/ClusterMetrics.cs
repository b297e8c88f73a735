using System.Collections.Concurrent;
using System.Diagnostics.Metrics;

namespace Whimbrel.Clusters;

/// <summary>What the meter "Whimbrel" says of nodes: what they count anyhow, read when a listener asks, on its thread.</summary>
internal static class ClusterMetrics
{
    private static readonly ConcurrentDictionary<Cluster, KeyValuePair<string, object?>[]> s_nodes = new();
    private static int s_isMade;

    internal static void Joined(Cluster node)
    {
        s_nodes[node] = [new("whimbrel.cluster.application", node.Application), new("whimbrel.cluster.node", node.NodeId)];
        if (Interlocked.Exchange(ref s_isMade, 1) == 0) Make(node);
    }

    internal static void Left(Cluster node) => s_nodes.TryRemove(node, out _);

    /// <summary>On the thread pool: a listener that is told of an instrument may throw, and then what came behind is missing.</summary>
    private static void Make(Cluster node) => ThreadPool.UnsafeQueueUserWorkItem(static node => node.Guard(MakeAll), node, preferLocal: false);

    private static void MakeAll()
    {
        Meter meter = new("Whimbrel", typeof(ClusterMetrics).Assembly.GetName().Version?.ToString(3));
        meter.CreateObservableCounter(
            "whimbrel.cluster.messages",
            static () => Of("network.io.direction", ("receive", static c => c.Received), ("transmit", static c => c.Published)),
            "{message}",
            "Broadcasts of other nodes given to members here, and of this node given to the broker.");
        meter.CreateObservableCounter(
            "whimbrel.cluster.gaps",
            static () => Of("network.io.direction", ("receive", static c => c.Missed), ("transmit", static c => c.Dropped)),
            "{message}",
            "Broadcasts of other nodes that are lost, and of this node that did not get as far as the broker.");
        meter.CreateObservableCounter(
            "whimbrel.cluster.rejected_envelopes",
            static () => Of("error.type", ("refused", static c => c.Refused), ("version", static c => c.UnknownVersions)),
            "{envelope}",
            "Envelopes that could not be read or were not signed, and those of a later version.");
        meter.CreateObservableUpDownCounter("whimbrel.cluster.queue.usage", static () => Of(static n => n.ReadCounters().PendingBytes), "By", "Bytes that wait for the broker.");
        meter.CreateObservableGauge("whimbrel.cluster.connection.state", static () => Of(static n => (long)n.State), null, "0 healthy, 1 degraded, 2 isolated.");
    }

    private static IEnumerable<Measurement<long>> Of(Func<Cluster, long> number)
    {
        foreach ((Cluster node, KeyValuePair<string, object?>[] labels) in s_nodes) yield return new Measurement<long>(number(node), labels);
    }

    private static IEnumerable<Measurement<long>> Of(string label, params (string Value, Func<ClusterCounters, long> Number)[] numbers)
    {
        foreach ((Cluster node, KeyValuePair<string, object?>[] labels) in s_nodes)
        {
            ClusterCounters counters = node.ReadCounters();
            foreach ((string value, Func<ClusterCounters, long> number) in numbers) yield return new Measurement<long>(number(counters), [.. labels, new(label, value)]);
        }
    }
}
