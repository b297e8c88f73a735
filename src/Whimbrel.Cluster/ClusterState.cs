namespace Whimbrel.Clusters;

/// <summary>How a node stands with the others. Local members are served in each of them.</summary>
public enum ClusterState
{
    /// <summary>The broker is reached.</summary>
    Healthy,

    /// <summary>The broker is away for a moment: what is published waits, within the limit.</summary>
    Degraded,

    /// <summary>It has been away for longer than <see cref="ClusterOptions.IsolatedAfter"/>.</summary>
    Isolated,
}
