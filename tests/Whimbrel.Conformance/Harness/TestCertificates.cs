using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Conformance;

/// <summary>A small certificate authority in memory: created once per process, P-256, valid for the tests' names
/// only.</summary>
public static class TestCertificates
{
    private static readonly Dictionary<(string Subject, int Bits), RSA> s_rsaKeys = [];
    private static readonly Lazy<X509Certificate2> s_root = new(() => MakeRoot("CN=Whimbrel test root"));
    private static readonly Lazy<X509Certificate2> s_otherRoot = new(() => MakeRoot("CN=Another test root"));
    private static readonly Lazy<X509Certificate2> s_rsaRoot =
        new(static () => MakeRsaRoot("Whimbrel test root of RSA", 2048));
    private static readonly Lazy<X509Certificate2> s_intermediate = new(() => MakeIntermediate(s_root.Value));
    private static readonly Lazy<X509Certificate2> s_server =
        new(() => Make("chat.test", "chat.test", "localhost", "127.0.0.1"));
    private static readonly Lazy<X509Certificate2> s_slow = new(() => Make("slow", "chat.test", rsaBits: 3072));
    private static readonly Lazy<X509Certificate2> s_client = new(() => Make("a client", forServers: false));

    /// <summary>Issuer of everything else, directly or indirectly.</summary>
    public static X509Certificate2 Root => s_root.Value;

    /// <summary>A root with an RSA key, self-signed with SHA-1 like many roots that are still trusted.</summary>
    public static X509Certificate2 RsaRoot => s_rsaRoot.Value;

    /// <summary>A root that no other certificate uses.</summary>
    public static X509Certificate2 OtherRoot => s_otherRoot.Value;

    /// <summary>Issued by the root.</summary>
    public static X509Certificate2 Intermediate => s_intermediate.Value;

    /// <summary>For chat.test, localhost and 127.0.0.1.</summary>
    public static X509Certificate2 Server => s_server.Value;

    /// <summary>With an RSA key so long that handshakes run off the loop. Creating one takes seconds.</summary>
    public static X509Certificate2 Slow => s_slow.Value;

    public static X509Certificate2 Client => s_client.Value;

    public static X509Certificate2Collection Roots => [new X509Certificate2(Root)];

    /// <summary>Server options with the usual certificate.</summary>
    public static TlsOptions ServerOptions { get; } = new() { Certificate = TlsCertificate.From(Server) };

    /// <summary>Client options that trust the test root.</summary>
    public static TlsOptions ClientOptions { get; } = new() { HostName = "chat.test", Roots = Roots };

    /// <summary>A certificate with its key; validity in days from today.</summary>
    public static X509Certificate2 Make(
        string subject, string? name = null, string? second = null, string? address = null, bool forServers = true,
        int fromDays = -1, int toDays = 30, X509Certificate2? issuer = null, int rsaBits = 0, bool selfSigned = false)
    {
        using ECDsa curve = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        RSA? rsa = rsaBits > 0 ? RsaKey(subject, rsaBits) : null;
        X500DistinguishedName distinguished = new("CN=" + subject);
        CertificateRequest request = rsa is not null
            ? new(distinguished, rsa, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1)
            : new(distinguished, curve, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        if (name is not null) names.AddDnsName(name);
        if (second is not null) names.AddDnsName(second);
        if (address is not null) names.AddIpAddress(IPAddress.Parse(address));
        if (name is not null || address is not null) request.CertificateExtensions.Add(names.Build());
        request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension(
            [new Oid(forServers ? "1.3.6.1.5.5.7.3.1" : "1.3.6.1.5.5.7.3.2")], false));
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(false, false, 0, true));
        DateTimeOffset from = DateTimeOffset.UtcNow.AddDays(fromDays), to = DateTimeOffset.UtcNow.AddDays(toDays);
        if (selfSigned) return Usable(request.CreateSelfSigned(from, to));
        using X509Certificate2 bare = request.Create(
            (issuer ?? Root).SubjectName, X509SignatureGenerator.CreateForECDsa((issuer ?? Root).GetECDsaPrivateKey()!),
            from, to, RandomNumberGenerator.GetBytes(12));
        return Usable(rsa is not null ? bare.CopyWithPrivateKey(rsa) : bare.CopyWithPrivateKey(curve));
    }

    /// <summary>For chat.test, with an RSA key of this many bits, signed by the RSA root with an obsolete or a current
    /// hash.</summary>
    public static X509Certificate2 MakeRsa(string subject, int bits, HashAlgorithmName hash, bool forServers = true,
        X509Certificate2? issuer = null, bool isAuthority = false, bool isPss = false)
    {
        RSA key = RsaKey(subject, bits);
        CertificateRequest request = new("CN=" + subject, key, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        SubjectAlternativeNameBuilder names = new();
        names.AddDnsName("chat.test");
        if (!isAuthority) request.CertificateExtensions.Add(names.Build());
        if (!isAuthority)
            request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension(
                [new Oid(forServers ? "1.3.6.1.5.5.7.3.1" : "1.3.6.1.5.5.7.3.2")], false));
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(isAuthority, false, 0, true));
        using RSA issuing = (issuer ?? RsaRoot).GetRSAPrivateKey()!;
        using X509Certificate2 bare = request.Create(
            (issuer ?? RsaRoot).SubjectName, isPss && hash == HashAlgorithmName.SHA256
                ? X509SignatureGenerator.CreateForRSA(issuing, RSASignaturePadding.Pss)
                : new OldSignature(issuing, hash, isPss),
            DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(30), RandomNumberGenerator.GetBytes(12));
        return Usable(bare.CopyWithPrivateKey(key));
    }

    // One key for all certificates of a name, because generating one takes up to a second.
    private static RSA RsaKey(string subject, int bits)
    {
        lock (s_rsaKeys)
        {
            if (!s_rsaKeys.TryGetValue((subject, bits), out RSA? key))
                s_rsaKeys.Add((subject, bits), key = RSA.Create(bits));
            return key;
        }
    }

    /// <summary>Self-signed, with SHA-1.</summary>
    public static X509Certificate2 MakeRsaRoot(string subject, int bits)
    {
        RSA key = RsaKey(subject, bits);
        X500DistinguishedName name = new("CN=" + subject);
        CertificateRequest request = new(name, key, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        using X509Certificate2 bare = request.Create(name, new OldSignature(key, HashAlgorithmName.SHA1, isPss: false),
            DateTimeOffset.UtcNow.AddDays(-400), DateTimeOffset.UtcNow.AddDays(400),
            RandomNumberGenerator.GetBytes(12));
        return Usable(bare.CopyWithPrivateKey(key));
    }

    /// <summary>Signs with hashes that the framework refuses for certificates.</summary>
    private sealed class OldSignature(RSA key, HashAlgorithmName hash, bool isPss) : X509SignatureGenerator
    {
        protected override PublicKey BuildPublicKey() => new(key);

        public override byte[] GetSignatureAlgorithmIdentifier(HashAlgorithmName hashAlgorithm)
        {
            // RSASSA-PSS without parameters means SHA-1.
            if (isPss) return [0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 10, 0x30, 0x00];
            // SEQUENCE { 1.2.840.113549.1.1.x, NULL }
            byte last = hash == HashAlgorithmName.MD5 ? (byte)4 : hash == HashAlgorithmName.SHA1 ? (byte)5 : (byte)11;
            return [0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, last, 0x05, 0x00];
        }

        public override byte[] SignData(byte[] data, HashAlgorithmName hashAlgorithm) =>
            key.SignData(data, hash, isPss ? RSASignaturePadding.Pss : RSASignaturePadding.Pkcs1);
    }

    private static X509Certificate2 MakeRoot(string subject)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new(subject, key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        request.CertificateExtensions.Add(
            new X509KeyUsageExtension(X509KeyUsageFlags.KeyCertSign | X509KeyUsageFlags.CrlSign, true));
        return Usable(request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-400),
            DateTimeOffset.UtcNow.AddDays(400)));
    }

    private static X509Certificate2 MakeIntermediate(X509Certificate2 root)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new("CN=Whimbrel test intermediate", key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        request.CertificateExtensions.Add(new X509KeyUsageExtension(X509KeyUsageFlags.KeyCertSign, true));
        using X509Certificate2 bare = request.Create(root.SubjectName,
            X509SignatureGenerator.CreateForECDsa(root.GetECDsaPrivateKey()!), DateTimeOffset.UtcNow.AddDays(-390),
            DateTimeOffset.UtcNow.AddDays(390), RandomNumberGenerator.GetBytes(12));
        return Usable(bare.CopyWithPrivateKey(key));
    }

    // On some systems a key that was never exported cannot be used for TLS.
    private static X509Certificate2 Usable(X509Certificate2 made)
    {
        using (made)
            return X509CertificateLoader.LoadPkcs12(made.Export(X509ContentType.Pkcs12), null,
                X509KeyStorageFlags.Exportable);
    }
}
