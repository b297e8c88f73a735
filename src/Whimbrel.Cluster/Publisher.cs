namespace Whimbrel.Clusters;

/// <summary>What a subscribed group knows of one node that publishes to it: the sans-I/O heart of finding losses.</summary>
internal sealed class Publisher(string node, uint epoch, ulong last)
{
    /// <summary>Its id, for gaps.</summary>
    internal string Node { get; } = node;

    /// <summary>
    /// So many were before the first that came, while the subscription was fresh: not ours if it had published them before it was asked, and then its answer says so in time;
    /// losses otherwise.
    /// </summary>
    internal long Unproven { get; set; }

    /// <summary>Order in which publishers were heard last: who is forgotten first.</summary>
    internal long HeardAt { get; set; }

    /// <summary>Takes note of a broadcast or a mark.</summary>
    /// <param name="epochHeard">Its epoch.</param>
    /// <param name="sequence">Its sequence.</param>
    /// <param name="isMark">It only tells what was.</param>
    /// <param name="missed">How many before it did not come.</param>
    /// <returns>False for what came before, or late.</returns>
    internal bool Hear(uint epochHeard, ulong sequence, bool isMark, out long missed)
    {
        missed = 0;
        if (epochHeard < epoch) return false;
        if (epochHeard > epoch) (epoch, last) = (epochHeard, 0);
        if (sequence <= last) return isMark;
        missed = (long)(sequence - last - (isMark ? 0ul : 1ul));
        last = sequence;
        return true;
    }
}
