using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting;

/// <summary>
/// Completes an upgrade when all services of the host have started, Kestrel included, and stops the host when a new
/// process has replaced it.
/// </summary>
internal sealed class UpgradeHosting(ProcessUpgrade upgrade, IHostApplicationLifetime lifetime,
    IServiceProvider services) : IHostedLifecycleService
{
    private readonly ILogger _logger = HostLogging.Make(services, "Whimbrel.Upgrade");

    public Task StartingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StartedAsync(CancellationToken cancellationToken)
    {
        await upgrade.ReadyAsync(cancellationToken).ConfigureAwait(false);
        if (upgrade.OldProcess is { } old) Events.TookOver(_logger, old, upgrade.Path);
        _ = EndAsync();
    }

    public Task StoppingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    private async Task EndAsync()
    {
        await upgrade.Replaced.ConfigureAwait(false);
        Events.Replaced(_logger, upgrade.Path);
        lifetime.StopApplication();
    }
}
