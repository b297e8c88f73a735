using Whimbrel.Clusters;

namespace Whimbrel.Hosting;

/// <summary>What the program said about a server that is a node of a cluster.</summary>
/// <param name="Name">Of the server.</param>
/// <param name="Options">What the program gives; null for the defaults, where the section has the application.</param>
/// <param name="Bus">Makes the bus, with the address of the section, if it has one; null where the address says which bus it is.</param>
internal sealed record ClusterRegistration(string Name, Func<IServiceProvider, ClusterOptions>? Options, Func<IServiceProvider, string?, IGroupBus>? Bus);
