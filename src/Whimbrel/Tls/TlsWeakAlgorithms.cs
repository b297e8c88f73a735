namespace Whimbrel;

/// <summary>
/// What is too weak for a certificate of today, and may be allowed for old devices (<see cref="TlsOptions.AllowedWeakAlgorithms"/>). What is not
/// named here is never allowed: MD5, DSA, curves below 224 bits, RSA below 1,024.
/// </summary>
[Flags]
public enum TlsWeakAlgorithms
{
    /// <summary>Nothing weak (the default).</summary>
    None = 0,

    /// <summary>Certificates that were signed with SHA-1: whoever has enough machines can make another one with the same signature.</summary>
    Sha1Signature = 1,

    /// <summary>RSA keys of 1,024 up to 2,047 bits.</summary>
    Rsa1024Key = 2,
}
