namespace Whimbrel.Clusters;

/// <summary>Result of reading an envelope.</summary>
internal enum EnvelopeResult
{
    /// <summary>The envelope is valid.</summary>
    Read,

    /// <summary>The envelope is truncated or foreign.</summary>
    Refused,

    /// <summary>The signature is wrong or missing.</summary>
    NotSigned,

    /// <summary>The envelope has another version.</summary>
    UnknownVersion,
}
