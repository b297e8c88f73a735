namespace Whimbrel.Clusters;

/// <summary>State of another node, as this one sees it.</summary>
internal enum KnownNodeState
{
    /// <summary>An envelope came since the broker was reached, and within three of its intervals.</summary>
    Present,

    /// <summary>No envelope came yet since the broker was reached again.</summary>
    Awaited,

    /// <summary>It was silent for too long and has not said goodbye.</summary>
    Missing,
}
