using System.Net.Security;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel;

/// <summary>
/// Findings about a peer's certificate, passed to <see cref="TlsOptions.Verify"/>. Valid during the call only; the
/// certificate stays valid.
/// </summary>
public sealed class TlsVerification
{
    internal TlsVerification(X509Certificate2? certificate, X509Chain? chain, string? hostName, string? problem,
        SslPolicyErrors errors, X509ChainStatusFlags status)
    {
        Certificate = certificate;
        Chain = chain;
        HostName = hostName;
        Problem = problem;
        PolicyErrors = errors;
        ChainStatus = status;
    }

    /// <summary>Certificate of the peer; null for a client that was asked for one and has none.</summary>
    public X509Certificate2? Certificate { get; }

    /// <summary>The chain that was built, with its status; null without a certificate.</summary>
    public X509Chain? Chain { get; }

    /// <summary>Name that the certificate should cover; null on a server.</summary>
    public string? HostName { get; }

    /// <summary>Reason for a rejection in one sentence; null if the certificate has no problem.</summary>
    public string? Problem { get; }

    /// <summary>
    /// All problems, in the terms of SslStream, for every provider: no certificate (also if none is required), a name
    /// that it does not cover, or its chain, revocation, strength or pin.
    /// </summary>
    public SslPolicyErrors PolicyErrors { get; }

    /// <summary>
    /// Combined status of the chain: from the platform, plus Revoked by <see cref="TlsOptions.RevocationLists"/> and
    /// HasWeakSignature by the library's own check. Not determined if keys are pinned.
    /// </summary>
    public X509ChainStatusFlags ChainStatus { get; }

    /// <summary>True if the certificate has no problem.</summary>
    public bool IsTrusted => Problem is null;
}
