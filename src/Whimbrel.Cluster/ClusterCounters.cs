namespace Whimbrel.Clusters;

/// <summary>Counts of a node since it joined.</summary>
/// <param name="Published">Broadcasts that the bus took.</param>
/// <param name="Received">Broadcasts of other nodes, given to members here.</param>
/// <param name="Missed">Broadcasts of others that are known to be lost on the way here.</param>
/// <param name="Dropped">Own broadcasts that were lost because the queue to the broker was full.</param>
/// <param name="Duplicates">Came again, or late, and were left out.</param>
/// <param name="Echoes">Own envelopes that the broker sent back.</param>
/// <param name="Refused">Envelopes that could not be read: cut, too large, foreign, or not signed with the key.</param>
/// <param name="UnknownVersions">Of a later version of this library, and left out.</param>
/// <param name="PendingBytes">What waits for the broker now.</param>
public readonly record struct ClusterCounters(
    long Published, long Received, long Missed, long Dropped, long Duplicates, long Echoes, long Refused, long UnknownVersions, long PendingBytes);
