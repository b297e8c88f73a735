namespace Whimbrel.Clusters;

/// <summary>State of another node.</summary>
internal sealed class KnownNode(ulong instance, string name)
{
    internal ulong Instance { get; } = instance;

    internal string Name { get; } = name;

    internal KnownNodeState State { get; set; }

    /// <summary>Time of the last envelope, on the clock of <see cref="NodeTable"/>.</summary>
    internal long HeardAtMs { get; set; }

    /// <summary>Announce interval of the node; 0 before its first announcement.</summary>
    internal long IntervalMs { get; set; }

    /// <summary>Whether the node has announced itself. Otherwise its silence has no meaning.</summary>
    internal bool HasAnnounced => IntervalMs > 0;
}
