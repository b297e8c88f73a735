namespace Whimbrel.Clusters;

/// <summary>
/// Broadcasts that are dropped when the queue to the broker is full. All are counted and reported, here and on the
/// other nodes.
/// </summary>
public enum QueuePolicy
{
    /// <summary>Drops the oldest broadcasts: for states, where the latest counts.</summary>
    DropOldest,

    /// <summary>Drops the new broadcast: for sequences that are useless without their beginning.</summary>
    DropNewest,
}
