namespace Whimbrel.Clusters;

/// <summary>Messages of one envelope that wait for room in the members' loops. On the node's loop.</summary>
internal sealed class Arrear(GroupState group, string node, byte[] messages, long sinceMs)
{
    internal GroupState Group { get; } = group;

    /// <summary>Name of the publishing node.</summary>
    internal string Node { get; } = node;

    /// <summary>Messages with their lengths, encoded as in the envelope.</summary>
    internal byte[] Messages { get; } = messages;

    /// <summary>Time of arrival.</summary>
    internal long SinceMs { get; } = sinceMs;

    /// <summary>Offset of the next message in <see cref="Messages"/>.</summary>
    internal int At { get; set; }

    /// <summary>Number of remaining messages.</summary>
    internal int Left { get; set; }
}
