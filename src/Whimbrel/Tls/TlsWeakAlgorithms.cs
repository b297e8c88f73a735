namespace Whimbrel;

/// <summary>
/// Weak algorithms in certificates that may be allowed for old devices
/// (<see cref="TlsOptions.AllowedWeakAlgorithms"/>). Others are never allowed: MD5, DSA, curves below 224 bits, RSA
/// below 1,024.
/// </summary>
[Flags]
public enum TlsWeakAlgorithms
{
    /// <summary>No weak algorithms (the default).</summary>
    None = 0,

    /// <summary>
    /// Certificates signed with SHA-1: with enough computing power another certificate with the same signature can be
    /// created.
    /// </summary>
    Sha1Signature = 1,

    /// <summary>RSA keys of 1,024 to 2,047 bits.</summary>
    Rsa1024Key = 2,
}
