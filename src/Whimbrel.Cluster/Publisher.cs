namespace Whimbrel.Clusters;

/// <summary>
/// What a subscribed group knows of one node that publishes to it: the sans-I/O heart of finding losses. A structure in the group's array, since there is one for each group and node.
/// </summary>
internal struct Publisher(ulong instance, string node, uint epoch, ulong last)
{
    internal readonly ulong Instance => instance;

    /// <summary>Its id, for gaps.</summary>
    internal readonly string Node => node;

    /// <summary>
    /// So many were before the first that came, while the subscription was fresh: not ours if it had published them before it was asked, and then its answer says so in time;
    /// losses otherwise.
    /// </summary>
    internal long Unproven { get; set; }

    /// <summary>Takes note of broadcasts or a mark.</summary>
    /// <param name="epochHeard">Their epoch.</param>
    /// <param name="sequence">The first one's sequence; of a mark the last that was.</param>
    /// <param name="count">How many broadcasts; 0: it only tells what was.</param>
    /// <param name="missed">How many before them did not come.</param>
    /// <returns>How many are new: the last ones. The others came before, or late.</returns>
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
