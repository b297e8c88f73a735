namespace Whimbrel.Clusters;

/// <summary>What is known of the members on one other node.</summary>
internal sealed class PresenceOfNode(string node)
{
    internal string Node { get; } = node;

    /// <summary>How far; 0 while it has never said all.</summary>
    internal ulong Revision { get; set; }

    internal long HeardAtMs { get; set; }

    internal long? AskedAtMs { get; set; }

    internal Dictionary<string, int> Counts { get; set; } = new(StringComparer.Ordinal);

    // A snapshot of which not all parts have come.

    internal Dictionary<string, int>? Coming { get; set; }

    internal ulong ComingRevision { get; set; }

    internal int NextPart { get; set; }
}
