using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool.Tests.Tls;

// A certificate with its issuers, and all of that as files for external programs.
internal sealed record Identity(X509Certificate2 Certificate, X509Certificate2[] Issuers, byte[]? Bytes = null)
{
    public X509Certificate2Collection Roots => [Certificate];

    // With the intermediates, or without them as on a misconfigured server.
    public TlsCertificate ToTls(bool whole = true) =>
        TlsCertificate.From(Certificate, whole ? new X509Certificate2Collection(Issuers) : null);

    public string Write(TemporaryFolder folder, string name)
    {
        string file = folder[name];
        if (Bytes is not null) File.WriteAllBytes(file, Bytes);
        else File.WriteAllText(file, Certificate.ExportCertificatePem() + "\n");
        return file;
    }

    public string WriteKey(TemporaryFolder folder, string name)
    {
        File.WriteAllText(folder[name], CertificateKey.PemOf(Certificate, null));
        return folder[name];
    }

    public string WriteIssuers(TemporaryFolder folder, string name)
    {
        File.WriteAllText(folder[name], string.Join('\n', Issuers.Select(static c => c.ExportCertificatePem())) + "\n");
        return folder[name];
    }
}
