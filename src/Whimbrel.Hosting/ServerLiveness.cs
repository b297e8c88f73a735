using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Whimbrel.Hosting;

/// <summary>
/// Liveness check: unhealthy only if a loop is blocked for long, because only then a restart helps. A server that is
/// full, draining or not started is alive.
/// </summary>
internal sealed class ServerLiveness(ServerHealth health, ServerHealthOptions options) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context,
        CancellationToken cancellationToken = default)
    {
        LoopSilence? silence =
            health.IsAccepting ? await health.FindSilenceAsync(options, cancellationToken).ConfigureAwait(false) : null;
        return silence is { } found && found.Longest >= options.LoopStandstill
            ? new HealthCheckResult(context?.Registration?.FailureStatus ?? HealthStatus.Unhealthy,
                found.TextFor(health.Name))
            : HealthCheckResult.Healthy($"{health.Name} lives");
    }
}
