using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace Whimbrel.Hosting;

/// <summary>
/// Starts and stops all servers of the host. A single service, so that all mistakes are reported together before the
/// host starts, and so that all servers drain in parallel with the whole shutdown timeout.
/// </summary>
internal sealed class ServerHosting(IServiceProvider services, IEnumerable<ServerRegistration> registrations,
    IEnumerable<EngineRegistration> engines, IEnumerable<ClusterRegistration> clusters,
    IEnumerable<HealthRegistration> checks) : IHostedLifecycleService
{
    private readonly List<HostedServer> _started = [];

    public Task StartingAsync(CancellationToken cancellationToken)
    {
        List<string> mistakes = [];
        // There are none if the program has registered an engine of its own.
        foreach (EngineRegistration engine in engines) engine.Read(services, mistakes);
        bool hasEngine = mistakes.Count == 0;
        foreach (ServerRegistration registration in registrations)
            Hosted(registration).FindMistakes(mistakes, hasEngine);
        string[] servers = [.. registrations.Select(static r => r.Name)],
            nodes = [.. clusters.Select(static c => c.Name)];
        mistakes.AddRange(checks.Distinct().Select(c => c.FindMistake(servers, nodes)).OfType<string>());

        return mistakes.Count == 0
            ? Task.CompletedTask
            : throw new OptionsValidationException(Options.DefaultName, typeof(ServerOptions), mistakes);
    }

    public async Task StartAsync(CancellationToken cancellationToken)
    {
        try
        {
            foreach (ServerRegistration registration in registrations)
            {
                HostedServer hosted = Hosted(registration);
                await hosted.StartAsync(cancellationToken).ConfigureAwait(false);
                _started.Add(hosted);
                hosted.Watch();
                Events.Started(hosted.Logger, hosted.Name, string.Join(", ", hosted.Server.EndPoints),
                    hosted.Server.Engine.KindName);
            }
        }
        catch
        {
            // A host that fails to start does not stop its services.
            await Task.WhenAll(_started.Select(static h => StopAsync(h, new CancellationToken(canceled: true))))
                .ConfigureAwait(false);
            throw;
        }
    }

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>
    /// Makes the readiness checks unhealthy, and waits until load balancers have seen that, while all servers, also
    /// those that answer the checks, still accept.
    /// </summary>
    public async Task StoppingAsync(CancellationToken cancellationToken)
    {
        foreach (HostedServer hosted in _started) hosted.IsLeaving = true;
        // The sockets are a new process's, which is ready.
        if (_started.Count == 0 || services.GetService<ProcessUpgrade>() is { IsReplaced: true }) return;
        TimeSpan time = NotReadyBeforeStop;
        if (time == TimeSpan.Zero) return;
        Events.Leaving(_started[0].Logger, time);
        await Task.Delay(time, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private TimeSpan NotReadyBeforeStop =>
        checks.Select(static c => c.NotReadyBeforeStop).DefaultIfEmpty().Max();

    public Task StopAsync(CancellationToken cancellationToken) =>
        Task.WhenAll(_started.Select(h => StopAsync(h, cancellationToken)));

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    private HostedServer Hosted(ServerRegistration registration) =>
        services.GetRequiredKeyedService<HostedServer>(registration.Name);

    private static async Task StopAsync(HostedServer hosted, CancellationToken cancellationToken)
    {
        try
        {
            StopReport report = await hosted.Server.StopAsync(cancellationToken).ConfigureAwait(false);
            Events.Stopped(hosted.Logger, hosted.Name, report);
            await hosted.Scopes.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            Events.ScopesLeft(hosted.Logger, hosted.Name, hosted.Scopes.Open);
        }
        catch (Exception e)
        {
            Events.StopFailed(hosted.Logger, hosted.Name, e);
        }

        // The last broadcasts of sessions are queued for the bus now.
        await hosted.LeaveAsync(cancellationToken).ConfigureAwait(false);
    }
}
