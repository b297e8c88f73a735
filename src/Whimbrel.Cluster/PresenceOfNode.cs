namespace Whimbrel.Clusters;

/// <summary>Member counts of one other node.</summary>
internal sealed class PresenceOfNode(string node)
{
    internal string Node { get; } = node;

    /// <summary>Revision of the counts; 0 before the first snapshot.</summary>
    internal ulong Revision { get; set; }

    internal long HeardAtMs { get; set; }

    internal long? AskedAtMs { get; set; }

    internal Dictionary<string, int> Counts { get; set; } = new(StringComparer.Ordinal);

    // A snapshot of which parts are outstanding.

    internal Dictionary<string, int>? Coming { get; set; }

    internal ulong ComingRevision { get; set; }

    internal int NextPart { get; set; }
}
