namespace Whimbrel.Clusters;

/// <summary>What reading an envelope came to.</summary>
internal enum EnvelopeResult
{
    /// <summary>It could be read.</summary>
    Read,

    /// <summary>Cut or foreign.</summary>
    Refused,

    /// <summary>Its signature is wrong or missing.</summary>
    NotSigned,

    /// <summary>Of another version.</summary>
    UnknownVersion,
}
