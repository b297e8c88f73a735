namespace Whimbrel.Clusters;

/// <summary>Content of a presence report.</summary>
internal enum PresencePart : byte
{
    /// <summary>Nothing has changed.</summary>
    Beat,

    /// <summary>Groups with changed counts.</summary>
    Change,

    /// <summary>A part of a snapshot: groups with members.</summary>
    Snapshot,

    /// <summary>The last part of a snapshot.</summary>
    SnapshotEnd,
}
