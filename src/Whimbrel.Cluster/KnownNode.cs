namespace Whimbrel.Clusters;

/// <summary>What a node knows of another one.</summary>
internal sealed class KnownNode(ulong instance, string name)
{
    internal ulong Instance { get; } = instance;

    internal string Name { get; } = name;

    internal KnownNodeState State { get; set; }

    /// <summary>Time of the last envelope, by the clock of <see cref="NodeTable"/>.</summary>
    internal long HeardAtMs { get; set; }

    /// <summary>Interval at which the node announces itself, as it said; 0 before its first announcement.</summary>
    internal long IntervalMs { get; set; }

    /// <summary>Whether an announcement came. Without one its silence means nothing.</summary>
    internal bool HasAnnounced => IntervalMs > 0;
}
