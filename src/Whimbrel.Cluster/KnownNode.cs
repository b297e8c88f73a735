namespace Whimbrel.Clusters;

/// <summary>What a node knows of another one that has announced itself.</summary>
internal sealed class KnownNode(ulong instance, string name)
{
    internal ulong Instance { get; } = instance;

    internal string Name { get; } = name;

    internal KnownNodeState State { get; set; }

    /// <summary>Time of the last envelope, by the clock of <see cref="NodeTable"/>.</summary>
    internal long HeardAtMs { get; set; }

    /// <summary>Interval at which the node announces itself, as it said.</summary>
    internal long IntervalMs { get; set; }
}
