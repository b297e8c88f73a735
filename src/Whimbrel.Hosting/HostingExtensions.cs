using System.Diagnostics.CodeAnalysis;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Whimbrel.Clusters;
using Whimbrel.Http;

namespace Whimbrel.Hosting;

/// <summary>
/// Servers in a generic host. They start with it and drain when it stops, within its shutdown timeout; their options come from the configuration, and a
/// mistake there, or a port that is taken, fails the start of the host. All share one engine. Any server is to be had as a keyed service by its name.
/// </summary>
public static class HostingExtensions
{
    /// <summary>Tag of health checks of readiness: whether a server is to be sent clients.</summary>
    public const string ReadyTag = "ready";

    /// <summary>Tag of health checks of liveness: whether the process is to be started anew.</summary>
    public const string LiveTag = "live";

    /// <summary>Adds a server whose sessions are made by their constructor, with services.</summary>
    /// <typeparam name="TSession">Its constructor runs on the loop of the connection and must not block; what it asks for comes from the container.</typeparam>
    /// <param name="services">Those of the host.</param>
    /// <param name="name">Of the server, and of the section of the configuration that has its options.</param>
    /// <param name="options">What the program itself says; the configuration wins. Called for the start and for each reload. Null: the defaults.</param>
    /// <param name="scopePerSession">Each session has a scope of its own, which is disposed when the session has ended, on the thread pool. Default false: services come from the root.</param>
    /// <remarks>The start of the host fails when a service that the constructor asks for is not registered, or is one of scopes while sessions have none.</remarks>
    /// <exception cref="InvalidOperationException">There is a server of this name.</exception>
    public static IServiceCollection AddWhimbrelServer<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] TSession>(
        this IServiceCollection services, string name, Func<IServiceProvider, ServerOptions>? options = null, bool scopePerSession = false)
        where TSession : Session
    {
        return Add(services, new ServerRegistration(name, options, (hosted, read) => new Server(read, new SessionMaker<TSession>(hosted, scopePerSession).Make), LimitsSessions: true)
        {
            FindMistakes = provider => SessionNeeds.FindMistakes(typeof(TSession), provider, services, scopePerSession),
        });
    }

    /// <summary>Adds a server that the program makes: one with a class or a factory of its own, a relay.</summary>
    /// <param name="services">Those of the host.</param>
    /// <param name="name">Of the server, and of the section of the configuration that has its options.</param>
    /// <param name="make">Makes the server with the options that are given; called once, before the host starts. Started, stopped and disposed by the host.</param>
    /// <param name="options">What the program itself says; the configuration wins. Called for the start and for each reload. Null: the defaults.</param>
    /// <exception cref="InvalidOperationException">There is a server of this name.</exception>
    public static IServiceCollection AddWhimbrelServer(
        this IServiceCollection services, string name, Func<IServiceProvider, ServerOptions, Server> make, Func<IServiceProvider, ServerOptions>? options = null)
    {
        ArgumentNullException.ThrowIfNull(make);
        return Add(services, new ServerRegistration(name, options, (hosted, read) => make(hosted.Services, read), LimitsSessions: false));
    }

    /// <summary>
    /// Adds a server of HTTP with its routes. Its section is that of any server; addresses may be written <c>http://</c> and <c>https://</c>, which WebSocket clients reach as <c>ws://</c> and <c>wss://</c>, and
    /// the limits of HTTP are a section <c>Http</c> in it.
    /// </summary>
    /// <param name="services">Those of the host.</param>
    /// <param name="name">Of the server, and of the section of the configuration that has its options.</param>
    /// <param name="map">Adds the routes; called once, before the host starts.</param>
    /// <param name="options">What the program itself says; the configuration wins. Called for the start and for each reload. Null: the defaults.</param>
    /// <param name="http">The same for the limits of HTTP, and for what no text can be: compression, CORS, the access log.</param>
    /// <exception cref="InvalidOperationException">There is a server of this name.</exception>
    public static IServiceCollection AddWhimbrelHttpServer(
        this IServiceCollection services, string name, Action<IServiceProvider, HttpServer> map, Func<IServiceProvider, ServerOptions>? options = null, Func<IServiceProvider, HttpOptions>? http = null)
    {
        ArgumentNullException.ThrowIfNull(map);
        return Add(services, new ServerRegistration(name, options, Make, LimitsSessions: false, http ?? (static _ => new HttpOptions())));

        Server Make(HostedServer hosted, ServerOptions read)
        {
            HttpServer server = new(read, hosted.Http);
            map(hosted.Services, server);
            return server;
        }
    }

    /// <summary>
    /// Makes a server of the host a node of a cluster, to be had as a keyed <see cref="Cluster"/> by the server's name. It joins before the server listens, and leaves when the server has drained.
    /// A broker that is not reached then fails the start of the host; one that is lost later does not.
    /// </summary>
    /// <param name="services">Those of the host.</param>
    /// <param name="name">Of a server that was added before. The section <c>Cluster</c> in its section has the options, and the address of the broker as <c>Address</c>; without one the cluster is this process alone.</param>
    /// <param name="options">What the program itself says; the configuration wins. Called for the start and for each reload. Null: the defaults, with the application of the section.</param>
    /// <param name="bus">Makes the bus, once, with the address of the section or null: for what an address cannot say. Null: it is what was registered for the address's scheme, <see cref="GroupBus.Register"/>.</param>
    /// <exception cref="InvalidOperationException">There is no server of this name, or it is a node already.</exception>
    public static IServiceCollection AddWhimbrelCluster(
        this IServiceCollection services, string name, Func<IServiceProvider, ClusterOptions>? options = null, Func<IServiceProvider, string?, IGroupBus>? bus = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(name);
        if (!Has<ServerRegistration>(services, r => r.Name == name)) throw new InvalidOperationException($"There is no server {name}: add it first, then make it a node of a cluster.");
        if (Has<ClusterRegistration>(services, r => r.Name == name)) throw new InvalidOperationException($"The server {name} is a node of a cluster already.");
        ClusterRegistration registration = new(name, options, bus);
        services.AddSingleton(registration);
        services.AddKeyedSingleton(name, (provider, _) => new HostedCluster(provider, registration));
        services.AddKeyedSingleton(name, static (provider, key) => provider.GetRequiredKeyedService<HostedCluster>(key).Cluster);
        services.AddKeyedSingleton(name, static (provider, key) => new ClusterHealth(provider.GetRequiredKeyedService<HostedCluster>(key), TimeProvider.System));
        return services;
    }

    /// <summary>
    /// Says what the engine of the host's servers is like; without this it is what the section <c>Whimbrel</c> says. A program that wants to make it itself
    /// registers an <see cref="Engine"/> instead, as a singleton.
    /// </summary>
    /// <param name="services">Those of the host.</param>
    /// <param name="section">The section of the configuration that has its options.</param>
    /// <param name="options">What the program itself says; the configuration wins. Null: the defaults.</param>
    public static IServiceCollection AddWhimbrelEngine(this IServiceCollection services, string section = "Whimbrel", Func<IServiceProvider, EngineOptions>? options = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        ArgumentException.ThrowIfNullOrEmpty(section);
        services.Replace(ServiceDescriptor.Singleton(new EngineRegistration(section, options)));
        services.TryAddSingleton(static provider => provider.GetRequiredService<EngineRegistration>().Make(provider));
        return services;
    }

    /// <summary>
    /// Adds two health checks of a server. One of readiness, tagged <see cref="ReadyTag"/>: unhealthy when it does not accept (not started, draining) or when a loop with sessions of it has stood still
    /// for long; degraded when such a loop has not answered for a second (<see cref="ServerHealthOptions"/>), and when connections or sends were refused in the last 10 s because a limit was reached. And one of
    /// liveness, tagged <see cref="LiveTag"/>: unhealthy only when such a loop has stood still for long, which is when a new start of the process helps.
    /// </summary>
    /// <param name="builder">Of <c>AddHealthChecks</c>.</param>
    /// <param name="name">The server's, which the start of the host expects to exist. The check of readiness is called the same, that of liveness with <c>:Live</c> behind it.</param>
    /// <param name="failureStatus">What a server that does not serve is reported as. Null: unhealthy.</param>
    /// <param name="tags">Further tags of the check of readiness.</param>
    /// <param name="options">When a loop is silent. Null: the defaults.</param>
    public static IHealthChecksBuilder AddWhimbrelServer(this IHealthChecksBuilder builder, string name, HealthStatus? failureStatus = null, IEnumerable<string>? tags = null, ServerHealthOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        ServerHealthOptions wanted = options ?? new ServerHealthOptions();
        if (wanted.LoopStandstill < wanted.LoopSilence) throw new ArgumentException($"LoopStandstill ({wanted.LoopStandstill}) is shorter than LoopSilence ({wanted.LoopSilence}): a server is degraded first.", nameof(options));
        Expect(builder, new HealthRegistration(name, IsOfNode: false));
        return builder
            .Add(new HealthCheckRegistration(name, provider => new ServerReadiness(provider.GetRequiredKeyedService<ServerHealth>(name), wanted), failureStatus, [ReadyTag, .. tags ?? []]))
            .Add(new HealthCheckRegistration($"{name}:Live", provider => new ServerLiveness(provider.GetRequiredKeyedService<ServerHealth>(name), wanted), failureStatus, [LiveTag]));
    }

    /// <summary>
    /// Adds a health check of a server's node: degraded while the broker is away, and for 10 s when broadcasts from or to other nodes were lost; unhealthy when it has not joined or has left.
    /// </summary>
    /// <param name="builder">Of <c>AddHealthChecks</c>.</param>
    /// <param name="name">The server's; the check is called the same with <c>:Cluster</c> behind it.</param>
    /// <param name="isolatedStatus">What a node is reported as that has been without its broker for longer than <see cref="ClusterOptions.IsolatedAfter"/>. Null: degraded, since it serves its members all the same and a restart finds no broker either.</param>
    /// <param name="tags">Tags beside <see cref="ReadyTag"/>.</param>
    public static IHealthChecksBuilder AddWhimbrelCluster(this IHealthChecksBuilder builder, string name, HealthStatus? isolatedStatus = null, IEnumerable<string>? tags = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        Expect(builder, new HealthRegistration(name, IsOfNode: true));
        return builder.Add(new HealthCheckRegistration($"{name}:{ClusterSection.Name}", provider => provider.GetRequiredKeyedService<ClusterHealth>(name), isolatedStatus ?? HealthStatus.Degraded, [ReadyTag, .. tags ?? []]));
    }

    /// <summary>Looked at when the host starts: the server may be added after its check.</summary>
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
        if (Has<ServerRegistration>(services, r => r.Name == name)) throw new InvalidOperationException($"There is a server {name} already: each has a name and a section of its own.");
        bool hasEngine = false;
        foreach (ServiceDescriptor each in services) hasEngine |= each.ServiceType == typeof(Engine);
        if (!hasEngine) services.AddWhimbrelEngine();
        services.AddSingleton(registration);
        services.AddKeyedSingleton(name, (provider, _) => new HostedServer(provider, registration));
        services.AddKeyedSingleton(name, static (provider, key) => provider.GetRequiredKeyedService<HostedServer>(key).Server);
        services.AddKeyedSingleton(name, static (provider, key) => new ServerHealth(provider.GetRequiredKeyedService<HostedServer>(key), TimeProvider.System));
        services.TryAddEnumerable(ServiceDescriptor.Singleton<IHostedService, ServerHosting>());
        return services;
    }
}
