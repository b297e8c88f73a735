using Microsoft.Extensions.Diagnostics.HealthChecks;
using Whimbrel.Clusters;

namespace Whimbrel.Hosting;

/// <summary>
/// Health check of a node. A lost broker is degraded for any length of time, because local members are still served. A
/// node that is taken out of service or restarted for it would lose them too, and could not join.
/// </summary>
internal sealed class ClusterHealth(HostedCluster hosted, TimeProvider clock) : IHealthCheck
{
    private readonly News _losses = new(clock);

    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context,
        CancellationToken cancellationToken = default) =>
        Task.FromResult(Look(context?.Registration?.FailureStatus ?? HealthStatus.Degraded));

    private HealthCheckResult Look(HealthStatus isolated)
    {
        if (hosted.Joined is not { } cluster)
            return HealthCheckResult.Unhealthy(
                $"{hosted.Name} is no node of its cluster: the host has not started, or stops");
        ClusterState state = cluster.State;
        ClusterCounters counters = cluster.ReadCounters();
        Dictionary<string, object> data = new()
        {
            ["state"] = state.ToString(),
            ["node"] = cluster.NodeId,
            ["missed"] = counters.Missed,
            ["dropped"] = counters.Dropped,
            ["refused"] = counters.Refused + counters.UnknownVersions,
            ["pendingBytes"] = counters.PendingBytes,
        };
        bool loses = _losses.Look(counters.Missed + counters.Dropped);
        return state switch
        {
            ClusterState.Isolated => new HealthCheckResult(isolated,
                $"{hosted.Name} has been without its broker for a while: this node still serves its own members, other "
                + $"nodes get no broadcasts, {counters.Dropped} broadcasts were dropped so far", data: data),
            ClusterState.Degraded => HealthCheckResult.Degraded(
                $"{hosted.Name}: {cluster.StateReason} {counters.PendingBytes} bytes wait", data: data),
            _ when loses => HealthCheckResult.Degraded(
                $"{hosted.Name} has lost broadcasts from or to other nodes in the last {News.Memory.TotalSeconds} s",
                data: data),
            _ => HealthCheckResult.Healthy($"{hosted.Name} is node {cluster.NodeId}", data),
        };
    }
}
