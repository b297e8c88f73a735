using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary>
/// Signs certificates for development and tests: one self-signed certificate and its key. Made by <see cref="Create"/>
/// or read from files by <see cref="Load"/>; <see cref="Issue"/> makes the certificates that users meet. Owns its key.
/// Not for several threads at once.
/// </summary>
internal sealed class CertificateAuthority : IDisposable
{
    /// <summary>Default validity period.</summary>
    internal static readonly TimeSpan DefaultLife = TimeSpan.FromDays(3650);

    // The clock of a verifying machine may be slow.
    private static readonly TimeSpan s_backdate = TimeSpan.FromHours(1);

    private CertificateAuthority(X509Certificate2 certificate) => Certificate = certificate;

    /// <summary>Certificate with its private key.</summary>
    internal X509Certificate2 Certificate { get; }

    /// <summary>Creates an authority that is valid from an hour before <paramref name="now"/>.</summary>
    /// <param name="name">Common name. Two authorities with one name are ambiguous when chains are built.</param>
    /// <param name="rsaBits">RSA key length in bits; 0 for a P-256 key.</param>
    /// <param name="now">Current time.</param>
    /// <param name="life">Validity period.</param>
    internal static CertificateAuthority Create(string name, int rsaBits, DateTimeOffset now, TimeSpan life)
    {
        using CertificateKey key = CertificateKey.Create(rsaBits);
        CertificateRequest request = key.RequestFor(Subject(name));
        // Path length 0: a stolen server key cannot sign certificates.
        request.CertificateExtensions.Add(X509BasicConstraintsExtension.CreateForCertificateAuthority(0));
        request.CertificateExtensions.Add(
            new X509KeyUsageExtension(X509KeyUsageFlags.KeyCertSign | X509KeyUsageFlags.CrlSign, critical: true));
        request.CertificateExtensions.Add(new X509SubjectKeyIdentifierExtension(request.PublicKey, critical: false));
        return new CertificateAuthority(request.CreateSelfSigned(now - s_backdate, now + life));
    }

    /// <summary>Loads an authority. Throws <see cref="CryptographicException"/> if certificate and key are not
    /// one.</summary>
    /// <param name="certificatePem">Certificate as PEM.</param>
    /// <param name="keyPem">Private key as PEM.</param>
    /// <param name="password">Password of an encrypted key, or null.</param>
    internal static CertificateAuthority Load(string certificatePem, string keyPem, string? password)
    {
        bool isEncrypted = keyPem.Contains("BEGIN ENCRYPTED PRIVATE KEY", StringComparison.Ordinal);
        if (isEncrypted && password is null)
            throw new CryptographicException("its key is encrypted, and no password was given");
        X509Certificate2 certificate = Open(certificatePem, keyPem, isEncrypted ? password : null);
        if (CanSign(certificate)) return new CertificateAuthority(certificate);
        certificate.Dispose();
        throw new CryptographicException("it is not the certificate of an authority");
    }

    /// <summary>Creates a certificate with a private key, signed by this authority. It expires with the authority at
    /// the latest.</summary>
    /// <param name="name">Common name.</param>
    /// <param name="use">Side that presents the certificate.</param>
    /// <param name="subjectNames">DNS names and IP addresses, as <see cref="SubjectName"/> reads them; may be
    /// empty.</param>
    /// <param name="rsaBits">RSA key length in bits; 0 for a P-256 key.</param>
    /// <param name="from">Start of the validity period; an hour is added before it.</param>
    /// <param name="until">End of the validity period.</param>
    internal X509Certificate2 Issue(string name, CertificateUse use, IReadOnlyCollection<SubjectName> subjectNames,
        int rsaBits, DateTimeOffset from, DateTimeOffset until)
    {
        using CertificateKey key = CertificateKey.Create(rsaBits);
        CertificateRequest request = key.RequestFor(Subject(name));
        // RSA key exchange of TLS 1.2 needs it; other keys only sign.
        X509KeyUsageFlags usage = X509KeyUsageFlags.DigitalSignature
            | (rsaBits == 0 ? X509KeyUsageFlags.None : X509KeyUsageFlags.KeyEncipherment);
        request.CertificateExtensions.Add(X509BasicConstraintsExtension.CreateForEndEntity(critical: true));
        request.CertificateExtensions.Add(new X509KeyUsageExtension(usage, critical: true));
        request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension(
            [use == CertificateUse.Server ? Oids.ServerAuthentication : Oids.ClientAuthentication], critical: false));
        request.CertificateExtensions.Add(new X509SubjectKeyIdentifierExtension(request.PublicKey, critical: false));
        request.CertificateExtensions.Add(X509AuthorityKeyIdentifierExtension.CreateFromCertificate(Certificate,
            includeKeyIdentifier: true, includeIssuerAndSerial: false));
        if (subjectNames.Count > 0)
        {
            SubjectAlternativeNameBuilder names = new();
            foreach (SubjectName each in subjectNames) each.AddTo(names);
            request.CertificateExtensions.Add(names.Build());
        }

        DateTimeOffset first = Later(from - s_backdate, new DateTimeOffset(Certificate.NotBefore));
        DateTimeOffset last = Earlier(until, new DateTimeOffset(Certificate.NotAfter));
        // The shorter overload rejects an authority whose key has another algorithm than the certificate's key.
        using X509Certificate2 signed = request.Create(Certificate.SubjectName, Signer(), first, last, SerialNumber());
        return key.With(signed);
    }

    public void Dispose() => Certificate.Dispose();

    // The generator keeps using the key.
    private X509SignatureGenerator Signer() =>
        Certificate.GetECDsaPrivateKey() is { } ec
            ? X509SignatureGenerator.CreateForECDsa(ec)
            : X509SignatureGenerator.CreateForRSA(Certificate.GetRSAPrivateKey()!, RSASignaturePadding.Pkcs1);

    private static X509Certificate2 Open(string certificatePem, string keyPem, string? password)
    {
        try
        {
            return password is not null
                ? X509Certificate2.CreateFromEncryptedPem(certificatePem, keyPem, password)
                : X509Certificate2.CreateFromPem(certificatePem, keyPem);
        }
        catch (ArgumentException)
        {
            throw new CryptographicException("its key does not match it");
        }
    }

    private static X500DistinguishedName Subject(string name)
    {
        const int mostOfX520 = 64;
        X500DistinguishedNameBuilder builder = new();
        builder.AddCommonName(name.Length <= mostOfX520 ? name : name[..mostOfX520]);
        return builder.Build();
    }

    // 16 random bytes, positive and without a leading zero.
    private static byte[] SerialNumber()
    {
        byte[] serial = RandomNumberGenerator.GetBytes(16);
        serial[0] = (byte)(serial[0] & 0x7f | 0x40);
        return serial;
    }

    private static bool CanSign(X509Certificate2 certificate) =>
        certificate.Extensions.OfType<X509BasicConstraintsExtension>().Any(static e => e.CertificateAuthority)
        && certificate.Extensions.OfType<X509KeyUsageExtension>()
            .All(static e => e.KeyUsages.HasFlag(X509KeyUsageFlags.KeyCertSign));

    private static DateTimeOffset Later(DateTimeOffset a, DateTimeOffset b) => a > b ? a : b;

    private static DateTimeOffset Earlier(DateTimeOffset a, DateTimeOffset b) => a < b ? a : b;

    private static class Oids
    {
        internal static readonly Oid ServerAuthentication = new("1.3.6.1.5.5.7.3.1");
        internal static readonly Oid ClientAuthentication = new("1.3.6.1.5.5.7.3.2");
    }
}
