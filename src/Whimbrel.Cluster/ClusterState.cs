namespace Whimbrel.Clusters;

/// <summary>State of a node's connection to its cluster. Local members are served in every state.</summary>
public enum ClusterState
{
    /// <summary>The broker is reached, and no known node is missing.</summary>
    Healthy,

    /// <summary>
    /// The broker is not reached, and broadcasts are queued within the limit. Or it is reached, and known nodes are
    /// missing: they have crashed or are connected to another broker.
    /// </summary>
    Degraded,

    /// <summary>The broker has not been reached for <see cref="ClusterOptions.IsolatedAfter"/>.</summary>
    Isolated,
}
