namespace Whimbrel.Clusters;

/// <summary>State of another node.</summary>
internal enum KnownNodeState
{
    /// <summary>An envelope has arrived since the connect, and within three intervals.</summary>
    Present,

    /// <summary>No envelope has arrived since the reconnect.</summary>
    Awaited,

    /// <summary>The node was silent for too long without a goodbye.</summary>
    Missing,
}
