namespace Whimbrel.Tls;

/// <summary>Decision about the peer's certificate.</summary>
internal enum OpenSslVerdict : byte
{
    /// <summary>No decision yet.</summary>
    Open,

    /// <summary>The certificate is accepted.</summary>
    Accepted,

    /// <summary>The certificate is rejected.</summary>
    Refused,
}
