namespace Whimbrel.Clusters;

/// <summary>
/// State of a channel's subscription. A channel may be subscribed again while the answer to its unsubscription is
/// outstanding.
/// </summary>
internal sealed class RedisSubscription
{
    internal bool IsWanted { get; set; }

    /// <summary>Number of unanswered unsubscriptions.</summary>
    internal int Leaving { get; set; }
}
