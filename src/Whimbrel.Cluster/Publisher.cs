namespace Whimbrel.Clusters;

/// <summary>
/// State of one publishing node in a subscribed group: detects losses, without I/O. A structure in the group's array,
/// because there is one per group and node.
/// </summary>
internal struct Publisher(ulong instance, string node, uint epoch, ulong last)
{
    internal readonly ulong Instance => instance;

    internal readonly uint Epoch => epoch;

    /// <summary>Sequence of the last broadcast that arrived or counts as lost.</summary>
    internal readonly ulong Last => last;

    /// <summary>Id of the node, for gaps.</summary>
    internal readonly string Node => node;

    /// <summary>
    /// Number of broadcasts before the first one that arrived at a new subscription. They count as losses, unless the
    /// publisher's answer shows in time that they were published before the question.
    /// </summary>
    internal long Unproven { get; set; }

    /// <summary>Processes broadcasts or a mark.</summary>
    /// <param name="epochHeard">Epoch of the envelope.</param>
    /// <param name="sequence">Sequence of the first broadcast; for a mark that of the last published one.</param>
    /// <param name="count">Number of broadcasts; 0 for a mark.</param>
    /// <param name="missed">Number of broadcasts before them that did not arrive.</param>
    /// <returns>Number of new broadcasts, which are the last ones. The others are duplicates or late.</returns>
    internal int Hear(uint epochHeard, ulong sequence, int count, out long missed)
    {
        missed = 0;
        if (epochHeard < epoch) return 0;
        if (epochHeard > epoch) (epoch, last) = (epochHeard, 0);
        ulong end = count == 0 ? sequence : sequence + (ulong)count - 1;
        if (end <= last) return 0;
        int fresh = (int)Math.Min((ulong)count, end - last);
        missed = (long)(end - last) - fresh;
        last = end;
        return fresh;
    }
}
