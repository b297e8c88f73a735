using Whimbrel.Clusters;

namespace Whimbrel.Hosting;

/// <summary>Registration of a server as a node of a cluster.</summary>
/// <param name="Name">Name of the server.</param>
/// <param name="Options">Options in code; null for the defaults, with the application from the section.</param>
/// <param name="Bus">
/// Factory of the bus, with the address of the section, or null; null if the address selects the bus.
/// </param>
internal sealed record ClusterRegistration(string Name, Func<IServiceProvider, ClusterOptions>? Options,
    Func<IServiceProvider, string?, IGroupBus>? Bus);
