using System.Security.Cryptography.X509Certificates;

namespace Whimbrel;

/// <summary>What <see cref="TlsOptions.Verify"/> decides about. Valid during the call only; the certificate stays good.</summary>
public sealed class TlsVerification
{
    internal TlsVerification(X509Certificate2 certificate, X509Chain chain, string? hostName, string? problem)
    {
        Certificate = certificate;
        Chain = chain;
        HostName = hostName;
        Problem = problem;
    }

    /// <summary>The peer's own certificate.</summary>
    public X509Certificate2 Certificate { get; }

    /// <summary>The chain that was built, with all that was found about it.</summary>
    public X509Chain Chain { get; }

    /// <summary>The name that the certificate should cover; null on a server.</summary>
    public string? HostName { get; }

    /// <summary>Why it would be refused, one sentence; null when nothing is wrong with it.</summary>
    public string? Problem { get; }

    /// <summary>True when nothing is wrong with it.</summary>
    public bool IsTrusted => Problem is null;
}
