namespace Whimbrel.Clusters;

/// <summary>Kind of an envelope.</summary>
internal enum EnvelopeKind : byte
{
    /// <summary>One or several broadcasts.</summary>
    Broadcast,

    /// <summary>Sequence of the node's last broadcast to the group.</summary>
    Mark,

    /// <summary>Request for a mark from all nodes that have published to the group.</summary>
    Query,

    /// <summary>Member counts of the node's groups.</summary>
    Presence,

    /// <summary>Request for all member counts of one node or of each.</summary>
    PresenceQuery,

    /// <summary>A message of a recoverable group, in its stream.</summary>
    Entry,

    /// <summary>A recoverable group has new entries.</summary>
    News,

    /// <summary>Announcement of a node, perhaps with a request for those of the others.</summary>
    Announcement,

    /// <summary>The node leaves.</summary>
    Goodbye,
}
