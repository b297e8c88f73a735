using System.Diagnostics.CodeAnalysis;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Whimbrel.Clusters;
using Whimbrel.Http;

namespace Whimbrel.Hosting;

/// <summary>
/// Adds servers to a generic host. They start with it and drain when it stops, within its shutdown timeout. Their
/// options come from the configuration; a mistake there or a port in use fails the start of the host. All share one
/// engine. Each server is a keyed service under its name.
/// </summary>
public static class HostingExtensions
{
    /// <summary>Tag of readiness checks: whether a server should receive clients.</summary>
    public const string ReadyTag = "ready";

    /// <summary>Tag of liveness checks: whether the process should be restarted.</summary>
    public const string LiveTag = "live";

    /// <summary>
    /// Adds a server with sessions that are created by their constructor, with services from the container.
    /// </summary>
    /// <typeparam name="TSession">
    /// Type of the sessions. Its constructor runs on the loop of the connection and must not block.
    /// </typeparam>
    /// <param name="services">Services of the host.</param>
    /// <param name="name">Name of the server and of its configuration section.</param>
    /// <param name="options">
    /// Options in code, overridden by the configuration. Called for the start and each reload. Null: the defaults.
    /// </param>
    /// <param name="scopePerSession">
    /// Whether each session has its own scope, which is disposed on the thread pool after the session has ended.
    /// Default false: services come from the root.
    /// </param>
    /// <remarks>
    /// The start of the host fails if a service of the constructor is not registered, or is scoped while sessions have
    /// no scope.
    /// </remarks>
    /// <exception cref="InvalidOperationException">A server of this name exists already.</exception>
    public static IServiceCollection AddWhimbrelServer<[DynamicallyAccessedMembers(
        DynamicallyAccessedMemberTypes.PublicConstructors)] TSession>(
            this IServiceCollection services, string name, Func<IServiceProvider, ServerOptions>? options = null,
            bool scopePerSession = false)
        where TSession : Session
    {
        return Add(services, new ServerRegistration(name, options, (hosted, read) => new Server(read,
            new SessionMaker<TSession>(hosted, scopePerSession).Make), LimitsSessions: true)
        {
            FindMistakes = provider => SessionNeeds.FindMistakes(typeof(TSession), provider, services, scopePerSession),
        });
    }

    /// <summary>Adds a server with a factory of its own, for example for a derived class.</summary>
    /// <param name="services">Services of the host.</param>
    /// <param name="name">Name of the server and of its configuration section.</param>
    /// <param name="make">
    /// Factory of the server with the given options; called once, before the host starts. The host starts, stops and
    /// disposes the server.
    /// </param>
    /// <param name="options">
    /// Options in code, overridden by the configuration. Called for the start and each reload. Null: the defaults.
    /// </param>
    /// <exception cref="InvalidOperationException">A server of this name exists already.</exception>
    public static IServiceCollection AddWhimbrelServer(
        this IServiceCollection services, string name, Func<IServiceProvider, ServerOptions, Server> make,
        Func<IServiceProvider, ServerOptions>? options = null)
    {
        ArgumentNullException.ThrowIfNull(make);
        return Add(services, new ServerRegistration(name, options, (hosted, read) => make(hosted.Services, read),
            LimitsSessions: false));
    }

    /// <summary>
    /// Adds an HTTP server with its routes. Its section is that of any server. Addresses may have the schemes
    /// <c>http://</c> and <c>https://</c>, which WebSocket clients reach as <c>ws://</c> and <c>wss://</c>. The limits
    /// of HTTP are in the subsection <c>Http</c>.
    /// </summary>
    /// <param name="services">Services of the host.</param>
    /// <param name="name">Name of the server and of its configuration section.</param>
    /// <param name="map">Callback that adds the routes; called once, before the host starts.</param>
    /// <param name="options">
    /// Options in code, overridden by the configuration. Called for the start and each reload. Null: the defaults.
    /// </param>
    /// <param name="http">
    /// HTTP options in code: limits, and options that text cannot express: compression, CORS, the access log.
    /// </param>
    /// <exception cref="InvalidOperationException">A server of this name exists already.</exception>
    public static IServiceCollection AddWhimbrelHttpServer(
        this IServiceCollection services, string name, Action<IServiceProvider, HttpServer> map,
        Func<IServiceProvider, ServerOptions>? options = null, Func<IServiceProvider, HttpOptions>? http = null)
    {
        ArgumentNullException.ThrowIfNull(map);
        return Add(services, new ServerRegistration(name, options, Make, LimitsSessions: false,
            http ?? (static _ => new HttpOptions())));

        Server Make(HostedServer hosted, ServerOptions read)
        {
            HttpServer server = new(read, hosted.Http);
            map(hosted.Services, server);
            return server;
        }
    }

    /// <summary>
    /// Makes a server of the host a node of a cluster, a keyed service of type <see cref="Cluster"/> under the server's
    /// name. It joins before the server listens, and leaves after the server has drained. A broker that cannot be
    /// reached fails the start of the host; a broker that is lost later does not end it.
    /// </summary>
    /// <param name="services">Services of the host.</param>
    /// <param name="name">
    /// Name of a server that was added before. The subsection <c>Cluster</c> of its section has the options and, as
    /// <c>Address</c>, the address of the broker. Without an address the cluster is this process alone.
    /// </param>
    /// <param name="options">
    /// Options in code, which the configuration overrides. Called for the start and for each reload. Null: the
    /// defaults, with the application of the section.
    /// </param>
    /// <param name="bus">
    /// Factory of the bus, called once with the address of the section or null, for options that an address cannot
    /// express. Null: the bus registered for the scheme of the address by <see cref="GroupBus.Register"/>.
    /// </param>
    /// <exception cref="InvalidOperationException">
    /// There is no server of this name, or it is a node already.
    /// </exception>
    public static IServiceCollection AddWhimbrelCluster(
        this IServiceCollection services, string name, Func<IServiceProvider, ClusterOptions>? options = null,
        Func<IServiceProvider, string?, IGroupBus>? bus = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(name);
        if (!Has<ServerRegistration>(services, r => r.Name == name))
            throw new InvalidOperationException(
                $"There is no server {name}: add it first, then make it a node of a cluster.");
        if (Has<ClusterRegistration>(services, r => r.Name == name))
            throw new InvalidOperationException($"The server {name} is a node of a cluster already.");
        ClusterRegistration registration = new(name, options, bus);
        services.AddSingleton(registration);
        services.AddKeyedSingleton(name, (provider, _) => new HostedCluster(provider, registration));
        services.AddKeyedSingleton(name,
            static (provider, key) => provider.GetRequiredKeyedService<HostedCluster>(key).Cluster);
        services.AddKeyedSingleton(name, static (provider, key) =>
            new ClusterHealth(provider.GetRequiredKeyedService<HostedCluster>(key), TimeProvider.System));
        return services;
    }

    /// <summary>
    /// Configures the engine of the host's servers. Without this call the section <c>Whimbrel</c> configures it. To
    /// create the engine yourself, register an <see cref="Engine"/> as a singleton instead.
    /// </summary>
    /// <param name="services">Services of the host.</param>
    /// <param name="section">Configuration section with its options.</param>
    /// <param name="options">Options in code, which the configuration overrides. Null: the defaults.</param>
    public static IServiceCollection AddWhimbrelEngine(this IServiceCollection services, string section = "Whimbrel",
        Func<IServiceProvider, EngineOptions>? options = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(section);
        services.Replace(ServiceDescriptor.Singleton(new EngineRegistration(section, options)));
        services.TryAddSingleton(static provider => provider.GetRequiredService<EngineRegistration>().Make(provider));
        return services;
    }

    /// <summary>
    /// Lets a new process of the program take the listening sockets of the old one, so that a deploy refuses no
    /// connection. This includes all servers of the host, and Kestrel with the transport of <c>Whimbrel.Kestrel</c>.
    /// The host is ready when all its services have started, and stops when a new process has replaced it. The
    /// <see cref="ProcessUpgrade"/> is a service.
    /// </summary>
    /// <param name="services">Services of the host.</param>
    /// <param name="path">Path of the Unix socket, as in <see cref="ProcessUpgrade(string)"/>; the folder must
    /// exist.</param>
    /// <param name="readyLimit"><see cref="ProcessUpgrade.ReadyLimit"/>; null: its default.</param>
    /// <exception cref="ArgumentException">The path cannot be used.</exception>
    /// <exception cref="PlatformNotSupportedException">The system is not Linux.</exception>
    /// <exception cref="InvalidOperationException">There is an upgrade already.</exception>
    public static IServiceCollection AddWhimbrelUpgrade(this IServiceCollection services, string path,
        TimeSpan? readyLimit = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        foreach (ServiceDescriptor each in services)
        {
            if (each.ServiceType == typeof(ProcessUpgrade))
                throw new InvalidOperationException("The host has an upgrade already: all servers share one.");
        }

        // Created here, because a mistake must throw at the call; by a factory, so that the container disposes it.
        ProcessUpgrade upgrade = new(path) { ReadyLimit = readyLimit ?? TimeSpan.FromMinutes(1) };
        services.AddSingleton(_ => upgrade);
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IHostedService, UpgradeHosting>());
        return services;
    }

    /// <summary>
    /// Adds two health checks of a server. Readiness, tagged <see cref="ReadyTag"/>, is unhealthy if the server does
    /// not accept (not started, draining) or a loop with its sessions is blocked for
    /// <see cref="ServerHealthOptions.LoopStandstill"/>. It is degraded if such a loop is blocked for
    /// <see cref="ServerHealthOptions.LoopSilence"/>, or if connections or sends were rejected because of a limit in
    /// the last 10 s. Liveness, tagged <see cref="LiveTag"/>, is unhealthy only if such a loop is blocked for
    /// <see cref="ServerHealthOptions.LoopStandstill"/>, because only then a restart of the process helps.
    /// </summary>
    /// <param name="builder">Builder from <c>AddHealthChecks</c>.</param>
    /// <param name="name">
    /// Name of the server, which must exist when the host starts. The readiness check has this name, the liveness check
    /// has the suffix <c>:Live</c>.
    /// </param>
    /// <param name="failureStatus">Status of a server that does not serve. Null: unhealthy.</param>
    /// <param name="tags">Further tags of the readiness check.</param>
    /// <param name="options">Time limits for blocked loops. Null: the defaults.</param>
    public static IHealthChecksBuilder AddWhimbrelServer(this IHealthChecksBuilder builder, string name,
        HealthStatus? failureStatus = null, IEnumerable<string>? tags = null, ServerHealthOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ServerHealthOptions wanted = options ?? new ServerHealthOptions();
        if (wanted.LoopStandstill < wanted.LoopSilence)
            throw new ArgumentException($"LoopStandstill ({wanted.LoopStandstill}) is shorter than LoopSilence "
                + $"({wanted.LoopSilence}): a server is degraded first.", nameof(options));
        Expect(builder, new HealthRegistration(name, IsOfNode: false, wanted.NotReadyBeforeStop));
        return builder
            .Add(new HealthCheckRegistration(name,
                provider => new ServerReadiness(provider.GetRequiredKeyedService<ServerHealth>(name), wanted),
                failureStatus, [ReadyTag, .. tags ?? []]))
            .Add(new HealthCheckRegistration($"{name}:Live",
                provider => new ServerLiveness(provider.GetRequiredKeyedService<ServerHealth>(name), wanted),
                failureStatus, [LiveTag]));
    }

    /// <summary>
    /// Adds a health check of a server's node. It is degraded while the broker is unreachable, and for 10 s after
    /// broadcasts from or to other nodes were lost. It is unhealthy if the node has not joined or has left.
    /// </summary>
    /// <param name="builder">Builder from <c>AddHealthChecks</c>.</param>
    /// <param name="name">Name of the server. The check has the suffix <c>:Cluster</c>.</param>
    /// <param name="isolatedStatus">
    /// Status of a node without its broker for <see cref="ClusterOptions.IsolatedAfter"/>. Null: degraded, because the
    /// node still serves its members, and a restart would find no broker either.
    /// </param>
    /// <param name="tags">Tags in addition to <see cref="ReadyTag"/>.</param>
    public static IHealthChecksBuilder AddWhimbrelCluster(this IHealthChecksBuilder builder, string name,
        HealthStatus? isolatedStatus = null, IEnumerable<string>? tags = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        Expect(builder, new HealthRegistration(name, IsOfNode: true));
        return builder.Add(new HealthCheckRegistration($"{name}:{ClusterSection.Name}",
            provider => provider.GetRequiredKeyedService<ClusterHealth>(name), isolatedStatus ?? HealthStatus.Degraded,
            [ReadyTag, .. tags ?? []]));
    }

    /// <summary>
    /// Registers a check for validation at the start of the host, because the server may be added after its check.
    /// </summary>
    private static void Expect(IHealthChecksBuilder builder, HealthRegistration registration)
    {
        ArgumentException.ThrowIfNullOrEmpty(registration.Name, "name");
        builder.Services.AddSingleton(registration);
        builder.Services.TryAddEnumerable(ServiceDescriptor.Singleton<IHostedService, ServerHosting>());
    }

    private static bool Has<T>(IServiceCollection services, Predicate<T> wanted)
    {
        foreach (ServiceDescriptor each in services)
        {
            if (!each.IsKeyedService && each.ImplementationInstance is T other && wanted(other)) return true;
        }

        return false;
    }

    private static IServiceCollection Add(IServiceCollection services, ServerRegistration registration)
    {
        ArgumentNullException.ThrowIfNull(services);
        string name = registration.Name;
        ArgumentException.ThrowIfNullOrEmpty(name);
        if (Has<ServerRegistration>(services, r => r.Name == name))
            throw new InvalidOperationException(
                $"There is a server {name} already: each has a name and a section of its own.");
        bool hasEngine = false;
        foreach (ServiceDescriptor each in services) hasEngine |= each.ServiceType == typeof(Engine);
        if (!hasEngine) services.AddWhimbrelEngine();
        services.AddSingleton(registration);
        services.AddKeyedSingleton(name, (provider, _) => new HostedServer(provider, registration));
        services.AddKeyedSingleton(name,
            static (provider, key) => provider.GetRequiredKeyedService<HostedServer>(key).Server);
        services.AddKeyedSingleton(name, static (provider, key) =>
            new ServerHealth(provider.GetRequiredKeyedService<HostedServer>(key), TimeProvider.System));
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IHostedService, ServerHosting>());
        return services;
    }
}
