using System.Buffers.Text;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Acme;

/// <summary>
/// A certificate with its chain and key, as stored: one PEM text, so that no reader can get the certificate of one
/// order and the key of another. Immutable.
/// </summary>
internal sealed class IssuedCertificate
{
    private const string Own = "CN=self-signed by Whimbrel.Acme";

    private static readonly TimeSpan s_clockError = TimeSpan.FromHours(1);

    private IssuedCertificate(string pem, X509Certificate2Collection chain)
    {
        Tls = TlsCertificate.FromPem(pem);
        Leaf = Tls.Current;
        Intermediates = [.. chain.Skip(1)];
        Share = Random.Shared.NextDouble();
    }

    internal TlsCertificate Tls { get; }

    internal X509Certificate2 Leaf { get; }

    internal X509Certificate2Collection Intermediates { get; }

    /// <summary>
    /// Random number that places the renewal of this certificate, so that nodes do not renew together.
    /// </summary>
    internal double Share { get; }

    internal DateTimeOffset From => Leaf.NotBefore.ToUniversalTime();

    internal DateTimeOffset To => Leaf.NotAfter.ToUniversalTime();

    /// <summary>Prepared for SslStream; kept, because sessions that may be resumed belong to it.</summary>
    internal SslStreamCertificateContext ForSslStream =>
        field ??= SslStreamCertificateContext.Create(Leaf, Intermediates, offline: true);

    /// <summary>Reads a certificate. Throws <see cref="CryptographicException"/> if it cannot be used.</summary>
    internal static IssuedCertificate FromPem(string pem)
    {
        X509Certificate2Collection chain = [];
        chain.ImportFromPem(pem);
        return new IssuedCertificate(pem, chain);
    }

    internal bool Covers(string name) =>
        Leaf.MatchesHostname(name, allowWildcards: true, allowCommonName: false);

    /// <summary>Returns why the chain of an authority cannot be used for these names with this key, or null.</summary>
    internal static string? WrongWith(string chainPem, ECDsa key, IReadOnlyList<string> names, DateTimeOffset now)
    {
        X509Certificate2Collection chain = [];
        try
        {
            chain.ImportFromPem(chainPem);
        }
        catch (CryptographicException e)
        {
            return $"it cannot be read: {e.Message}";
        }

        if (chain.Count == 0) return "there is no certificate in it";
        X509Certificate2 leaf = chain[0];
        if (!leaf.PublicKey.ExportSubjectPublicKeyInfo().AsSpan().SequenceEqual(key.ExportSubjectPublicKeyInfo()))
            return "its key is not the one that was requested";
        if (names.FirstOrDefault(n => !leaf.MatchesHostname(n, true, false)) is { } missing)
            return $"it does not cover {missing}";
        if (leaf.NotAfter.ToUniversalTime() <= now) return $"it expired at {leaf.NotAfter.ToUniversalTime():u}";
        if (leaf.NotBefore.ToUniversalTime() > now + s_clockError)
            return $"it is valid from {leaf.NotBefore.ToUniversalTime():u} only: is the clock of this machine right?";
        for (int i = 1; i < chain.Count; i++)
        {
            if (!chain[i].SubjectName.RawData.AsSpan().SequenceEqual(chain[i - 1].IssuerName.RawData))
                return $"certificate {i} of its chain, '{chain[i].Subject}', is not the issuer of the one before";
        }

        return null;
    }

    /// <summary>Returns the request for a certificate (PKCS#10, DER).</summary>
    internal static byte[] RequestFor(IReadOnlyList<string> names, ECDsa key) =>
        Request("", names, key).CreateSigningRequest();

    /// <summary>Creates a self-signed certificate, for the time before the first one is issued.</summary>
    internal static IssuedCertificate SelfSigned(IReadOnlyList<string> names, DateTimeOffset now)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        return SelfSigned(Request(Own, names, key), key, now);
    }

    /// <summary>Creates the certificate of a TLS-ALPN-01 validation (RFC 8737, 3).</summary>
    internal static TlsCertificate ForChallenge(string name, string authorization, DateTimeOffset now)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = Request(Own, [name], key);
        byte[] hash = SHA256.HashData(Encoding.ASCII.GetBytes(authorization));
        request.CertificateExtensions.Add(
            new X509Extension("1.3.6.1.5.5.7.1.31", [0x04, 0x20, .. hash], critical: true));
        return SelfSigned(request, key, now).Tls;
    }

    /// <summary>Returns the identifier of the certificate for renewal information (RFC 9773, 4.1), or null.</summary>
    internal static string? RenewalIdOf(X509Certificate2 certificate)
    {
        X509AuthorityKeyIdentifierExtension? authority =
            certificate.Extensions.OfType<X509AuthorityKeyIdentifierExtension>().FirstOrDefault();
        return authority?.KeyIdentifier is { } id
            ? $"{Base64Url.EncodeToString(id.Span)}.{Base64Url.EncodeToString(certificate.SerialNumberBytes.Span)}"
            : null;
    }

    private static CertificateRequest Request(string subject, IReadOnlyList<string> names, ECDsa key)
    {
        // The names are in the extension only: a common name has 64 letters at most.
        CertificateRequest request = new(new X500DistinguishedName(subject), key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder alternative = new();
        foreach (string name in names) alternative.AddDnsName(name);
        request.CertificateExtensions.Add(alternative.Build());
        return request;
    }

    private static IssuedCertificate SelfSigned(CertificateRequest request, ECDsa key, DateTimeOffset now)
    {
        using X509Certificate2 made = request.CreateSelfSigned(now.AddDays(-1), now.AddDays(30));
        return FromPem($"{made.ExportCertificatePem()}\n{key.ExportPkcs8PrivateKeyPem()}\n");
    }
}
