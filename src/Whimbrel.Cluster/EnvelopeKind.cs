namespace Whimbrel.Clusters;

/// <summary>What an envelope is.</summary>
internal enum EnvelopeKind : byte
{
    /// <summary>A broadcast.</summary>
    Broadcast,

    /// <summary>How far the node has published to the group.</summary>
    Mark,

    /// <summary>Who has published to the group is asked for a mark.</summary>
    Query,

    /// <summary>How many members the node's groups have.</summary>
    Presence,

    /// <summary>A node, or each, is asked to say all of that.</summary>
    PresenceQuery,

    /// <summary>A message of a recoverable group, in its stream.</summary>
    Entry,

    /// <summary>A recoverable group has new entries.</summary>
    News,

    /// <summary>A node is there, and perhaps wants to know which others are.</summary>
    Announcement,

    /// <summary>A node leaves.</summary>
    Goodbye,
}
