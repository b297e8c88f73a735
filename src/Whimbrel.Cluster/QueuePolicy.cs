namespace Whimbrel.Clusters;

/// <summary>What is lost when more is published than the queue to the broker holds. All of it is counted and told, here and on the other nodes.</summary>
public enum QueuePolicy
{
    /// <summary>What has waited longest: for states, where the latest counts.</summary>
    DropOldest,

    /// <summary>What does not fit: for what is worth nothing without its beginning.</summary>
    DropNewest,
}
