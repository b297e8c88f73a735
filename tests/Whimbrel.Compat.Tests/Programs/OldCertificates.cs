using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Compat.Tests.Programs;

/// <summary>
/// The files that the old programs expect in their folder: server.pfx and server.pem with their password, dh4096.pem,
/// ca.pem.
/// </summary>
internal static class OldCertificates
{
    internal const string Password = "qwerty";

    private static readonly Lazy<(byte[] Pfx, string Pem, string Ca)> s_made = new(Make);

    internal static void Write(string folder)
    {
        File.WriteAllBytes(Path.Combine(folder, "server.pfx"), s_made.Value.Pfx);
        File.WriteAllText(Path.Combine(folder, "server.pem"), s_made.Value.Pem);
        File.WriteAllText(Path.Combine(folder, "dh4096.pem"), ""); // must exist, but is not read
        File.WriteAllText(Path.Combine(folder, "ca.pem"), s_made.Value.Ca);
    }

    /// <summary>Writes the ca.pem of another authority.</summary>
    internal static void WriteForeignAuthority(string folder) =>
        File.WriteAllText(Path.Combine(folder, "ca.pem"), Make().Ca);

    private static (byte[] Pfx, string Pem, string Ca) Make()
    {
        DateTimeOffset from = DateTimeOffset.UtcNow.AddDays(-1), to = from.AddDays(30);
        using ECDsa caKey = ECDsa.Create(ECCurve.NamedCurves.nistP256),
            key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest caRequest = new("CN=old programs' CA", caKey, HashAlgorithmName.SHA256);
        caRequest.CertificateExtensions.Add(new X509BasicConstraintsExtension(certificateAuthority: true, false, 0,
            critical: true));
        using X509Certificate2 ca = caRequest.CreateSelfSigned(from, to);
        CertificateRequest request = new("CN=server.example.com", key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        names.AddDnsName("localhost");
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        using X509Certificate2 signed = request.Create(ca, from, to, [1, 2, 3, 4]);
        using X509Certificate2 server = signed.CopyWithPrivateKey(key);
        string pem = signed.ExportCertificatePem() + "\n" + key.ExportEncryptedPkcs8PrivateKeyPem(Password,
            new PbeParameters(PbeEncryptionAlgorithm.Aes256Cbc, HashAlgorithmName.SHA256, 1000));
        return (server.Export(X509ContentType.Pfx, Password), pem, ca.ExportCertificatePem());
    }
}
