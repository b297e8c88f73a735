namespace Whimbrel.Clusters;

/// <summary>What an envelope of presence brings.</summary>
internal enum PresencePart : byte
{
    /// <summary>Nothing has changed.</summary>
    Beat,

    /// <summary>Groups whose count has changed.</summary>
    Change,

    /// <summary>A part of all groups with members.</summary>
    Snapshot,

    /// <summary>The last part.</summary>
    SnapshotEnd,
}
