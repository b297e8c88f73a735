namespace Whimbrel.Clusters;

/// <summary>Counters of a node since it joined.</summary>
/// <param name="Published">Broadcasts that the bus accepted.</param>
/// <param name="Received">Broadcasts of other nodes that were delivered to local members.</param>
/// <param name="Missed">Broadcasts of other nodes that local members missed.</param>
/// <param name="Dropped">
/// Broadcasts of this node that did not reach the broker: the queue was full, they were too large, or the history did
/// not take them.
/// </param>
/// <param name="Duplicates">Broadcasts of other nodes that arrived again or late, and were dropped.</param>
/// <param name="Echoes">Envelopes of this node that the broker sent back, without announcements.</param>
/// <param name="Refused">Invalid envelopes: truncated, too large, foreign, or not signed with the key.</param>
/// <param name="UnknownVersions">Envelopes of another protocol version, which were dropped.</param>
/// <param name="PendingBytes">Bytes that are queued for the broker now.</param>
public readonly record struct ClusterCounters(
    long Published, long Received, long Missed, long Dropped, long Duplicates, long Echoes, long Refused,
    long UnknownVersions, long PendingBytes);
