namespace Whimbrel.Clusters;

/// <summary>What a bus knows of a channel. A channel may be subscribed again while the answer to its unsubscription is on the way.</summary>
internal sealed class RedisSubscription
{
    internal bool IsWanted { get; set; }

    /// <summary>Unsubscriptions that the server has not answered.</summary>
    internal int Leaving { get; set; }
}
