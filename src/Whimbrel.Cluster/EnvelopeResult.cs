namespace Whimbrel.Clusters;

/// <summary>What reading an envelope came to.</summary>
internal enum EnvelopeResult
{
    /// <summary>It could be read.</summary>
    Read,

    /// <summary>Cut, foreign, or its signature is wrong or missing.</summary>
    Refused,

    /// <summary>Of another version.</summary>
    UnknownVersion,
}
