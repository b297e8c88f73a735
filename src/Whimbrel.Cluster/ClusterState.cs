namespace Whimbrel.Clusters;

/// <summary>How a node stands with the others. Local members are served in each of them.</summary>
public enum ClusterState
{
    /// <summary>The broker is reached, and no known node is missing.</summary>
    Healthy,

    /// <summary>
    /// The broker is away for a moment: what is published waits, within the limit. Or it is reached and known nodes are missing: they have crashed, or are connected to another broker.
    /// </summary>
    Degraded,

    /// <summary>It has been away for longer than <see cref="ClusterOptions.IsolatedAfter"/>.</summary>
    Isolated,
}
