using System.Net.Security;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel;

/// <summary>What <see cref="TlsOptions.Verify"/> decides about. Valid during the call only; the certificate stays good.</summary>
public sealed class TlsVerification
{
    internal TlsVerification(X509Certificate2? certificate, X509Chain? chain, string? hostName, string? problem, SslPolicyErrors errors, X509ChainStatusFlags status)
    {
        Certificate = certificate;
        Chain = chain;
        HostName = hostName;
        Problem = problem;
        PolicyErrors = errors;
        ChainStatus = status;
    }

    /// <summary>The peer's own certificate; null for a client that was asked for one and has none.</summary>
    public X509Certificate2? Certificate { get; }

    /// <summary>The chain that was built, with all that was found about it; null without a certificate.</summary>
    public X509Chain? Chain { get; }

    /// <summary>The name that the certificate should cover; null on a server.</summary>
    public string? HostName { get; }

    /// <summary>Why it would be refused, one sentence; null when nothing is wrong with it.</summary>
    public string? Problem { get; }

    /// <summary>
    /// All that is wrong, in the words of SslStream, whatever the layer: no certificate (also where none is needed), a name that it does not cover, or its chain, its
    /// revocation, its strength or its pin.
    /// </summary>
    public SslPolicyErrors PolicyErrors { get; }

    /// <summary>
    /// What was found about the chain, all in one: what the platform says, and Revoked by <see cref="TlsOptions.RevocationLists"/> and HasWeakSignature by our own measure.
    /// Not looked at where keys are pinned.
    /// </summary>
    public X509ChainStatusFlags ChainStatus { get; }

    /// <summary>True when nothing is wrong with it.</summary>
    public bool IsTrusted => Problem is null;
}
