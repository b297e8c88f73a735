namespace CSharpServer;

/// <summary>Format of a private key file.</summary>
public enum SslFileFormat : sbyte
{
    /// <summary>ASN.1 in DER encoding.</summary>
    ASN1 = 0,

    /// <summary>PEM text.</summary>
    PEM = 1,
}
