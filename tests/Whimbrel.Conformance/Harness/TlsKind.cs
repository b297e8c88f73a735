namespace Whimbrel.Conformance;

/// <summary>With which TLS the connections of a rig begin.</summary>
public enum TlsKind
{
    /// <summary>Plain.</summary>
    None,

    /// <summary>A layer without cryptography: the same bytes each time, for seeds.</summary>
    Fake,

    /// <summary>SslStream.</summary>
    Portable,
}
