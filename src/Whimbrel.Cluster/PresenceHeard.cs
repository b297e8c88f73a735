namespace Whimbrel.Clusters;

/// <summary>Result of processing a presence report.</summary>
internal enum PresenceHeard
{
    /// <summary>The counts of the node are up to date.</summary>
    Known,

    /// <summary>An earlier report is missing: a snapshot must be requested.</summary>
    Ask,

    /// <summary>The report is invalid.</summary>
    Refused,
}
