namespace CSharpServer;

/// <summary>How a private key is written down.</summary>
public enum SslFileFormat : sbyte
{
    /// <summary>Bytes of ASN.1 (DER).</summary>
    ASN1 = 0,

    /// <summary>Text (PEM).</summary>
    PEM = 1,
}
