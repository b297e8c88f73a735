using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Whimbrel.Hosting;

/// <summary>Whether a start of the process would help a server: only when its loops have stood still for long. One that is full, drains or was not started lives.</summary>
internal sealed class ServerLiveness(ServerHealth health, ServerHealthOptions options) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        LoopSilence? silence = health.IsAccepting ? await health.FindSilenceAsync(options, cancellationToken).ConfigureAwait(false) : null;
        return silence is { } found && found.Longest >= options.LoopStandstill
            ? new HealthCheckResult(context?.Registration?.FailureStatus ?? HealthStatus.Unhealthy, found.TextFor(health.Name))
            : HealthCheckResult.Healthy($"{health.Name} lives");
    }
}
