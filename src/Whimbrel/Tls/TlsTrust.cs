using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Diagnostics;

namespace Whimbrel.Tls;

/// <summary>
/// Decides about a peer's certificate, equally for every provider: the platform builds the chain, offline; name, pinned
/// keys, revocation lists and the application's callback follow. Prepared once; any thread. The result is a sentence
/// with the problem, or null to accept.
/// </summary>
internal sealed class TlsTrust
{
    private static readonly Oid s_forServers = new("1.3.6.1.5.5.7.3.1");
    private static readonly Oid s_forClients = new("1.3.6.1.5.5.7.3.2");

    private readonly TlsOptions _options;
    private readonly bool _isServer;
    private readonly List<RevocationList> _revocations = [];

    internal TlsTrust(TlsOptions options, bool isServer)
    {
        _options = options;
        _isServer = isServer;
        foreach (string file in options.RevocationLists) _revocations.AddRange(RevocationList.ReadAll(file));
    }

    /// <summary>True if the peer must present a certificate.</summary>
    internal bool IsRequired => !_isServer || _options.ClientCertificates == TlsClientCertificates.Required;

    /// <summary>False if only the key is checked, and the application needs no chain.</summary>
    internal bool NeedsChain => _options.PinnedKeys.Count == 0 || _options.Verify is not null;

    /// <summary>
    /// Creates the policy for chains: offline, for the right usage. A new one for each chain, because chains add to it.
    /// </summary>
    internal X509ChainPolicy NewPolicy()
    {
        X509ChainPolicy policy = new()
        {
            // done with the configured lists, because the platform would download them
            RevocationMode = X509RevocationMode.NoCheck,
            DisableCertificateDownloads = true,
        };
        policy.ApplicationPolicy.Add(_isServer ? s_forClients : s_forServers);
        if (_options.Roots is { } roots)
        {
            policy.TrustMode = X509ChainTrustMode.CustomRootTrust;
            policy.CustomTrustStore.AddRange(roots);
        }

        return policy;
    }

    /// <summary>Builds the chain and decides.</summary>
    /// <param name="leaf">Certificate of the peer, or null.</param>
    /// <param name="others">Other certificates sent by the peer.</param>
    /// <param name="host">Name to cover; null on a server.</param>
    internal string? Judge(X509Certificate2? leaf, X509Certificate2Collection? others, string? host)
    {
        if (leaf is not null && !NeedsChain) return ProblemOfKey(leaf);
        return leaf is null
            ? Decide(null, null, host)
            : JudgeWith(NewPolicy(), leaf, others, chain => Judge(leaf, chain, host));
    }

    /// <summary>Decides with a chain that was built with <see cref="NewPolicy"/>.</summary>
    internal string? Judge(X509Certificate2? leaf, X509Chain? chain, string? host)
    {
        if (leaf is null || chain is null || _options.ExtraRoots is not { } extra || LeadsToRoot(chain))
            return Decide(leaf, chain, host);
        X509ChainPolicy policy = NewPolicy();
        policy.TrustMode = X509ChainTrustMode.CustomRootTrust;
        policy.CustomTrustStore.AddRange(extra);
        // If neither the system nor the extra roots trust it, the result of the system's chain is reported.
        return JudgeWith(policy, leaf, chain.ChainPolicy.ExtraStore,
            second => Decide(leaf, LeadsToRoot(second) ? second : chain, host));
    }

    private static string? JudgeWith(X509ChainPolicy policy, X509Certificate2 leaf, X509Certificate2Collection? others,
        Func<X509Chain, string?> judge)
    {
        using X509Chain chain = new() { ChainPolicy = policy };
        if (others is not null) policy.ExtraStore.AddRange(others);
        try
        {
            chain.Build(leaf);
            return judge(chain);
        }
        finally
        {
            foreach (X509ChainElement element in chain.ChainElements) element.Certificate.Dispose();
        }
    }

    private static bool LeadsToRoot(X509Chain chain)
    {
        foreach (X509ChainStatus status in chain.ChainStatus)
        {
            if ((status.Status & (X509ChainStatusFlags.UntrustedRoot | X509ChainStatusFlags.PartialChain)) != 0)
                return false;
        }

        return true;
    }

    private string? Decide(X509Certificate2? leaf, X509Chain? chain, string? host)
    {
        string? problem;
        SslPolicyErrors errors = SslPolicyErrors.None;
        X509ChainStatusFlags found = X509ChainStatusFlags.NoError;
        if (leaf is null || chain is null)
        {
            problem = Missing();
            errors = SslPolicyErrors.RemoteCertificateNotAvailable;
        }
        else
        {
            problem = _options.PinnedKeys.Count > 0 ? ProblemOfKey(leaf) : ProblemOfChain(leaf, chain, ref found);
            if (problem is not null) errors = SslPolicyErrors.RemoteCertificateChainErrors;
            if (_options.PinnedKeys.Count == 0 && !_isServer && _options.ChecksHostName
                && ProblemOfName(leaf, host) is { } mistaken)
            {
                errors |= SslPolicyErrors.RemoteCertificateNameMismatch;
                problem ??= mistaken;
            }
        }

        if (_options.Verify is not { } verify) return problem;
        try
        {
            return verify(new TlsVerification(leaf, chain, host, problem, errors, found))
                ? null
                : problem ?? "TlsOptions.Verify refused it";
        }
        catch (Exception e)
        {
            return $"TlsOptions.Verify threw {ErrorText.Of(e)}";
        }
    }

    private string? Missing() =>
        IsRequired ? _isServer ? "the client gave no certificate" : "the server gave no certificate" : null;

    private string? ProblemOfKey(X509Certificate2 leaf)
    {
        string pin = TlsCertificate.PinOf(leaf);
        return _options.PinnedKeys.Contains(pin) ? null : $"its key is none of PinnedKeys (it is {pin})";
    }

    /// <summary>Returns the first problem of the chain, and the flags of all.</summary>
    private string? ProblemOfChain(X509Certificate2 leaf, X509Chain chain, ref X509ChainStatusFlags found)
    {
        string? problem = null;
        foreach (X509ChainStatus status in chain.ChainStatus)
        {
            // Weak signatures are checked below, equally on all systems.
            if (status.Status is X509ChainStatusFlags.NoError or X509ChainStatusFlags.HasWeakSignature) continue;
            found |= status.Status;
            problem ??= Describe(status, leaf, chain);
        }

        if (RevokedIn(chain) is { } revoked)
        {
            found |= X509ChainStatusFlags.Revoked;
            problem ??= $"{SubjectOf(revoked)} was revoked by its issuer";
        }

        if (CertificateStrength.ProblemOf(chain, _options.AllowedWeakAlgorithms) is { } weakness)
        {
            found |= X509ChainStatusFlags.HasWeakSignature;
            problem ??= weakness;
        }

        return problem;
    }

    private X509Certificate2? RevokedIn(X509Chain chain)
    {
        foreach (RevocationList list in _revocations)
        {
            foreach (X509ChainElement element in chain.ChainElements)
            {
                if (list.Revokes(element.Certificate)) return element.Certificate;
            }
        }

        return null;
    }

    private string? ProblemOfName(X509Certificate2 leaf, string? host)
    {
        // Checked before the connect. Without a name every trusted certificate would match, so it is checked here as
        // well.
        if (host is null)
            return _options.Verify is null ? "there is no name that it should cover (TlsOptions.HostName)" : null;
        if (leaf.MatchesHostname(host, allowWildcards: false, allowCommonName: false)) return null;
        if (!leaf.MatchesHostname(host, allowWildcards: true, allowCommonName: false))
            return $"it does not cover '{host}', only {NamesOf(leaf)}";
        // A wildcard stands for one label, so the domain below it has one label less than the host. "*.org" would match
        // every name.
        return host.AsSpan().TrimEnd('.').Count('.') >= 2 ? null : $"it covers '{host}' by a wildcard directly below a "
            + $"top-level domain ({NamesOf(leaf)}), which does not count";
    }

    private static string Describe(X509ChainStatus status, X509Certificate2 leaf, X509Chain chain)
    {
        X509Certificate2 last = chain.ChainElements.Count > 0 ? chain.ChainElements[^1].Certificate : leaf;
        switch (status.Status)
        {
            case X509ChainStatusFlags.NotTimeValid:
                foreach (X509ChainElement element in chain.ChainElements)
                {
                    X509Certificate2 c = element.Certificate;
                    if (DateTime.Now > c.NotAfter) return $"{SubjectOf(c)} expired {TlsCertificate.Date(c.NotAfter)}";
                    if (DateTime.Now < c.NotBefore)
                        return $"{SubjectOf(c)} is not valid before {TlsCertificate.Date(c.NotBefore)}";
                }

                return "it is not valid now";
            case X509ChainStatusFlags.UntrustedRoot:
                return leaf.SubjectName.RawData.AsSpan().SequenceEqual(leaf.IssuerName.RawData)
                    ? $"{SubjectOf(leaf)} is self-signed and not among the trusted roots (TlsOptions.Roots)"
                    : $"it was issued by {SubjectOf(last)}, which is not among the trusted roots (TlsOptions.Roots)";
            case X509ChainStatusFlags.PartialChain:
                return $"its issuer '{last.Issuer}' is not among the trusted roots (TlsOptions.Roots), and the peer "
                    + $"did not send it as an intermediate";
            case X509ChainStatusFlags.NotValidForUsage:
                return "it is not meant for this use (extended key usage)";
            case X509ChainStatusFlags.NotSignatureValid:
                return "a signature in its chain is wrong";
            default:
                return $"{status.Status}: {status.StatusInformation.Trim()}";
        }
    }

    private static string SubjectOf(X509Certificate2 certificate) => $"'{certificate.Subject}'";

    private static string NamesOf(X509Certificate2 leaf)
    {
        foreach (X509Extension extension in leaf.Extensions)
        {
            if (extension is not X509SubjectAlternativeNameExtension names) continue;
            List<string> all = [.. names.EnumerateDnsNames(),
                .. names.EnumerateIPAddresses().Select(static a => a.ToString())];
            if (all.Count > 0) return string.Join(", ", all.Take(5)) + (all.Count > 5 ? ", ..." : "");
        }

        return "nothing, for it has no alternative names";
    }
}
