using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool.Tests.Tls;

// Valid certificates, and each kind of invalid one, created once. Those of whimbrel certs are used where possible. The
// invalid ones are created here, because the tool must not be able to create them.
internal static class TrustMaterial
{
    public const string Host = "chat.example";

    private const string ServerUse = "1.3.6.1.5.5.7.3.1";
    private const string ClientUse = "1.3.6.1.5.5.7.3.2";
    private static readonly DateTimeOffset s_now = DateTimeOffset.UtcNow;
    private static readonly Lazy<Dictionary<string, Identity>> s_all = new(Make);

    public static Identity Get(string name) => s_all.Value[name];

    private static Dictionary<string, Identity> Make()
    {
        using CertificateAuthority root = Authority("Root"), other = Authority("Other root");
        X509Certificate2 middle = Odd("CN=Intermediate", root.Certificate, isAuthority: true);
        X509Certificate2 notAuthority = Issue(root, "not-an-authority", CertificateUse.Server, Host);
        Dictionary<string, Identity> all = [];
        Add("root", Keyless(root.Certificate));
        Add("other root", Keyless(other.Certificate));
        Add("intermediate", middle);
        Add("server", Issue(root, Host, CertificateUse.Server, Host));
        Add("server RSA", root.Issue(Host, CertificateUse.Server, Names(Host), 2048, s_now, s_now.AddDays(1)));
        Add("server wildcard", Issue(root, "*.example", CertificateUse.Server, "*.chat.example"));
        Add("server address", Issue(root, "127.0.0.1", CertificateUse.Server, "127.0.0.1"));
        Add("server of other root", Issue(other, Host, CertificateUse.Server, Host));
        Add("server expired",
            root.Issue(Host, CertificateUse.Server, Names(Host), 0, s_now.AddMinutes(-30), s_now.AddMinutes(-10)));
        Add("server not yet valid",
            root.Issue(Host, CertificateUse.Server, Names(Host), 0, s_now.AddHours(5), s_now.AddDays(1)));
        Add("server without names", Issue(root, Host, CertificateUse.Server));
        Add("server self-signed", Odd($"CN={Host}", issuer: null, names: Host, use: ServerUse));
        Add("server of intermediate", Odd($"CN={Host}", middle, names: Host, use: ServerUse), middle);
        Add("server of a server", Odd($"CN={Host}", notAuthority, names: Host, use: ServerUse), notAuthority);
        Add("server revoked", Issue(root, Host, CertificateUse.Server, Host));
        Add("client", Issue(root, "anna", CertificateUse.Client));
        Add("client of other root", Issue(other, "anna", CertificateUse.Client));
        Add("client expired",
            root.Issue("anna", CertificateUse.Client, [], 0, s_now.AddMinutes(-30), s_now.AddMinutes(-10)));
        Add("client not yet valid",
            root.Issue("anna", CertificateUse.Client, [], 0, s_now.AddHours(5), s_now.AddDays(1)));
        Add("client self-signed", Odd("CN=anna", issuer: null, use: ClientUse));
        Add("client of intermediate", Odd("CN=anna", middle, use: ClientUse), middle);
        Add("client revoked", Issue(root, "anna", CertificateUse.Client));

        CertificateRevocationListBuilder revoked = new();
        revoked.AddEntry(all["server revoked"].Certificate, s_now.AddMinutes(-1));
        revoked.AddEntry(all["client revoked"].Certificate, s_now.AddMinutes(-1));
        byte[] list = revoked.Build(root.Certificate, 1, s_now.AddDays(1), HashAlgorithmName.SHA256,
            thisUpdate: s_now.AddMinutes(-5));
        all["list"] = new Identity(Keyless(root.Certificate), [],
            System.Text.Encoding.ASCII.GetBytes(PemEncoding.WriteString("X509 CRL", list)));
        return all;

        void Add(string name, X509Certificate2 certificate, params X509Certificate2[] issuers) =>
            all[name] = new Identity(Portable(certificate), issuers);
    }

    private static CertificateAuthority Authority(string name)
    {
        // Authorities of the tool sign no other authorities, so the root of the intermediate is created here.
        X509Certificate2 made = Odd($"CN={name}", issuer: null, isAuthority: true);
        return CertificateAuthority.Load(made.ExportCertificatePem(), CertificateKey.PemOf(made, null), null);
    }

    private static X509Certificate2 Issue(CertificateAuthority authority, string name, CertificateUse use,
        params string[] names) =>
        authority.Issue(name, use, Names(names), 0, s_now, s_now.AddDays(1));

    private static SubjectName[] Names(params string[] names) => [.. names.Select(
        static n => SubjectName.Read(n, out _)!)];

    private static X509Certificate2 Odd(string subject, X509Certificate2? issuer, bool isAuthority = false,
        string? names = null, string? use = null)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new(subject, key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(isAuthority, false, 0, critical: true));
        request.CertificateExtensions.Add(new X509KeyUsageExtension(isAuthority ? X509KeyUsageFlags.KeyCertSign
            | X509KeyUsageFlags.CrlSign : X509KeyUsageFlags.DigitalSignature, critical: true));
        request.CertificateExtensions.Add(new X509SubjectKeyIdentifierExtension(request.PublicKey, critical: false));
        if (use is not null)
            request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension([new Oid(use)], critical: false));
        if (names is not null)
        {
            SubjectAlternativeNameBuilder builder = new();
            builder.AddDnsName(names);
            request.CertificateExtensions.Add(builder.Build());
        }

        DateTimeOffset from = s_now.AddHours(-1), until = s_now.AddDays(issuer is null ? 3 : 1);
        if (issuer is null) return request.CreateSelfSigned(from, until);
        using X509Certificate2 signed = request.Create(issuer.SubjectName,
            X509SignatureGenerator.CreateForECDsa(issuer.GetECDsaPrivateKey()!), from, until,
            RandomNumberGenerator.GetBytes(12));
        return signed.CopyWithPrivateKey(key);
    }

    private static X509Certificate2 Keyless(X509Certificate2 certificate) =>
        X509CertificateLoader.LoadCertificate(certificate.RawData);

    private static X509Certificate2 Portable(X509Certificate2 certificate) => certificate.HasPrivateKey
        ? X509CertificateLoader.LoadPkcs12(certificate.Export(X509ContentType.Pkcs12),
            null, X509KeyStorageFlags.Exportable)
        : certificate;
}
