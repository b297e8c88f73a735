namespace Whimbrel.Clusters;

/// <summary>What hearing an envelope of presence came to.</summary>
internal enum PresenceHeard
{
    /// <summary>What is known of the node is what it said.</summary>
    Known,

    /// <summary>Something before it did not come: the node has to say all.</summary>
    Ask,

    /// <summary>It cannot be read.</summary>
    Refused,
}
