using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary>A new private key, P-256 or RSA. Its owner disposes it; a certificate from <see cref="With"/> has a copy of
/// the key.</summary>
internal sealed class CertificateKey : IDisposable
{
    /// <summary>Range of RSA key lengths: shorter keys are broken, longer ones take minutes to create.</summary>
    internal const int LeastRsaBits = 2048;

    /// <inheritdoc cref="LeastRsaBits"/>
    internal const int MostRsaBits = 8192;

    private const int PasswordRounds = 200_000;

    private readonly ECDsa? _ec;
    private readonly RSA? _rsa;

    private CertificateKey(ECDsa? ec, RSA? rsa)
    {
        _ec = ec;
        _rsa = rsa;
    }

    /// <param name="rsaBits">RSA key length in bits; 0 for P-256.</param>
    internal static CertificateKey Create(int rsaBits) =>
        rsaBits == 0
            ? new CertificateKey(ECDsa.Create(ECCurve.NamedCurves.nistP256), null)
            : new CertificateKey(null, RSA.Create(rsaBits));

    /// <summary>Returns the key of a certificate as PEM (PKCS #8), encrypted if there is a password.</summary>
    internal static string PemOf(X509Certificate2 certificate, string? password)
    {
        using AsymmetricAlgorithm key = (AsymmetricAlgorithm?)certificate.GetECDsaPrivateKey()
            ?? certificate.GetRSAPrivateKey()
                ?? throw new CryptographicException("the certificate has no private key");
        PbeParameters protection = new(PbeEncryptionAlgorithm.Aes256Cbc, HashAlgorithmName.SHA256, PasswordRounds);
        return (password is null
            ? key.ExportPkcs8PrivateKeyPem() : key.ExportEncryptedPkcs8PrivateKeyPem(password, protection)) + "\n";
    }

    internal CertificateRequest RequestFor(X500DistinguishedName subject) =>
        _ec is not null
            ? new CertificateRequest(subject, _ec, HashAlgorithmName.SHA256)
            : new CertificateRequest(subject, _rsa!, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);

    internal X509Certificate2 With(X509Certificate2 certificate) =>
        _ec is not null ? certificate.CopyWithPrivateKey(_ec) : certificate.CopyWithPrivateKey(_rsa!);

    public void Dispose()
    {
        _ec?.Dispose();
        _rsa?.Dispose();
    }
}
