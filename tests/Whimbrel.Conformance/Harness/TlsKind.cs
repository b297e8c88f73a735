namespace Whimbrel.Conformance;

/// <summary>Kind of TLS that the connections of a rig start with.</summary>
public enum TlsKind
{
    /// <summary>Plain.</summary>
    None,

    /// <summary>A layer without cryptography: reproducible bytes, for seeds.</summary>
    Fake,

    /// <summary>SslStream.</summary>
    Portable,
}
