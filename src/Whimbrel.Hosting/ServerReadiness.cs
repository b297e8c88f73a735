using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Whimbrel.Hosting;

/// <summary>Readiness check: whether a server should receive clients.</summary>
internal sealed class ServerReadiness(ServerHealth health, ServerHealthOptions options) : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context,
        CancellationToken cancellationToken = default) => health.LookAsync(context, options, cancellationToken);
}
