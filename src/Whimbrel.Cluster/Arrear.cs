namespace Whimbrel.Clusters;

/// <summary>Messages of one envelope that wait until the loops of the members have room. On the node's loop.</summary>
internal sealed class Arrear(GroupState group, string node, byte[] messages, long sinceMs)
{
    internal GroupState Group { get; } = group;

    /// <summary>Name of the publishing node.</summary>
    internal string Node { get; } = node;

    /// <summary>Each with its length, as in the envelope.</summary>
    internal byte[] Messages { get; } = messages;

    /// <summary>Time at which they came.</summary>
    internal long SinceMs { get; } = sinceMs;

    /// <summary>Offset of the next one in <see cref="Messages"/>.</summary>
    internal int At { get; set; }

    /// <summary>Number of messages that are left.</summary>
    internal int Left { get; set; }
}
