using Microsoft.Extensions.Logging;
using Whimbrel.Clusters;

namespace Whimbrel.Hosting;

/// <summary>
/// A server's node of a cluster. It joins before its server listens, so that every session can use it, and leaves after
/// the server has drained, so that the last broadcasts of sessions are published. Started and stopped by
/// <see cref="HostedServer"/>.
/// </summary>
internal sealed class HostedCluster(IServiceProvider services, ClusterRegistration registration)
{
    private readonly ILogger _logger = HostLogging.Make(services, $"Whimbrel.Cluster.{registration.Name}");
    private ClusterOptions? _options;
    private IGroupBus? _bus;
    private volatile Cluster? _cluster;

    internal string Name => registration.Name;

    /// <summary>The node; null before it has joined and after it has left.</summary>
    internal Cluster? Joined => _cluster;

    /// <summary>The node for the container, which keeps it.</summary>
    internal Cluster Cluster => _cluster ?? throw new InvalidOperationException(
        $"{Name} is no node of its cluster now: it joins when the host starts, before its server listens, and leaves "
        + $"when the server has stopped. Ask the container for it in a session, a route, or a service that runs, "
        + $"not before.");

    /// <summary>Reads the options and adds every mistake. A change after the join applies at the next start.</summary>
    internal void Read(SectionReader section)
    {
        ClusterOptions code = registration.Options?.Invoke(services) ?? new ClusterOptions { Application = "" };
        (ClusterOptions options, string? address) = ClusterSection.Read(section, code, TellState, TellTwin);
        if (_cluster is not null) return;
        _options = options;
        try
        {
            // A bus does not connect before it is started.
            _bus ??= registration.Bus is { } make ? make(services, address)
                : address is null ? new MemoryBus().Connect() : GroupBus.Make(address);
        }
        catch (ArgumentException e)
        {
            section.Mistake(ClusterSection.AddressKey,
                e.Message.Replace($" (Parameter '{e.ParamName}')", "", StringComparison.Ordinal).TrimEnd('.'));
        }
    }

    /// <summary>Joins the cluster. Call it after <see cref="Read"/> without mistakes.</summary>
    internal async Task JoinAsync(Server server, CancellationToken cancellationToken)
    {
        // The first use starts the engine; the server is not started yet.
        await server.Engine.PostAsync(static () => { }).ConfigureAwait(false);
        Cluster cluster = await Cluster.JoinAsync(server, _bus!, _options!, cancellationToken).ConfigureAwait(false);
        _cluster = cluster;
        Events.NodeJoined(_logger, Name, cluster.NodeId, _options!.Application, _bus!.Description);
    }

    /// <summary>Leaves the cluster. Throws nothing, so that the stop continues.</summary>
    internal async Task LeaveAsync(CancellationToken cancellationToken)
    {
        if (_cluster is not { } cluster) return;
        _cluster = null;
        try
        {
            await cluster.DisposeAsync().AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
            Events.NodeLeft(_logger, Name, cluster.NodeId);
        }
        catch (Exception e)
        {
            Events.NodeNotLeft(_logger, Name, cluster.NodeId, e);
        }
    }

    private void TellState(ClusterState state, string text) => Events.NodeState(_logger,
        state == ClusterState.Healthy ? LogLevel.Information : LogLevel.Warning, Name, state, text);

    private void TellTwin(string text) => Events.NodeTwin(_logger, Name, text);
}
