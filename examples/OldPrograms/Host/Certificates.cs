using System.IO;
using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using NetCoreServer;

namespace OldPrograms.Host;

/// server.pfx, and ca.pem for clients, in the current folder. The old clients accepted any certificate; these trust
/// ca.pem only.
internal static class Certificates
{
    public static SslContext OfServer()
    {
        return new SslContext(SslProtocols.Tls13, X509CertificateLoader.LoadPkcs12FromFile("server.pfx", "qwerty"));
    }

    public static SslContext OfClient()
    {
        var ca = X509CertificateLoader.LoadCertificateFromFile("ca.pem");
        return new SslContext(SslProtocols.Tls13, (_, certificate, _, errors) => (errors & ~(SslPolicyErrors.RemoteCertificateChainErrors | SslPolicyErrors.RemoteCertificateNameMismatch)) == 0 && IsOf(ca, certificate));
    }

    private static bool IsOf(X509Certificate2 ca, X509Certificate certificate)
    {
        using var chain = new X509Chain();
        chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
        chain.ChainPolicy.CustomTrustStore.Add(ca);
        chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
        return certificate != null && chain.Build(X509CertificateLoader.LoadCertificate(certificate.GetRawCertData()));
    }
}
