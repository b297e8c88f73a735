using System.Numerics;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

public sealed class TlsCertificateTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    private string Put(string name, string text)
    {
        string path = Path.Combine(_folder, name);
        File.WriteAllText(path, text);
        return path;
    }

    private static string Key(X509Certificate2 certificate) => certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem();

    private static string EncryptedKey(X509Certificate2 certificate) =>
        certificate.GetECDsaPrivateKey()!.ExportEncryptedPkcs8PrivateKeyPem("secret", new PbeParameters(PbeEncryptionAlgorithm.Aes128Cbc, HashAlgorithmName.SHA256, 1000));

    [Fact]
    public void Certificates_come_from_PEM_and_PFX_with_and_without_password()
    {
        X509Certificate2 leaf = TestCertificates.Make("below", "chat.test", issuer: TestCertificates.Intermediate);
        string chain = leaf.ExportCertificatePem() + "\n" + TestCertificates.Intermediate.ExportCertificatePem() + "\n";
        X509Certificate2Collection all = [TestCertificates.Intermediate, leaf];
        string pfx = Path.Combine(_folder, "all.pfx"), open = Path.Combine(_folder, "open.pfx");
        File.WriteAllBytes(pfx, all.Export(X509ContentType.Pkcs12, "secret")!);
        File.WriteAllBytes(open, all.Export(X509ContentType.Pkcs12)!);
        TlsCertificate[] sources =
        [
            TlsCertificate.FromPemFile(Put("chain.pem", chain), Put("key.pem", Key(leaf))),
            TlsCertificate.FromPemFile(Put("both.pem", chain + Key(leaf))),
            TlsCertificate.FromPemFile(Put("chain2.pem", chain), Put("locked.pem", EncryptedKey(leaf)), "secret"),
            TlsCertificate.FromPem(chain, Key(leaf)),
            TlsCertificate.From(leaf, [TestCertificates.Intermediate]),
        ];
        foreach (TlsCertificate source in sources)
        {
            Assert.Null(source.Mistake);
            Assert.Equal("CN=below", source.Current.Subject);
            Assert.Equal(["CN=Whimbrel test intermediate"], source.Take().Intermediates.Select(static c => c.Subject));
            Assert.True(source.Covers("chat.test"));
        }

        // Both have keys here, so the leaf is whichever is the first with one; a real file has one key.
        X509Certificate2Collection real = [X509CertificateLoader.LoadCertificate(TestCertificates.Intermediate.RawData), leaf];
        File.WriteAllBytes(pfx, real.Export(X509ContentType.Pkcs12, "secret")!);
        File.WriteAllBytes(open, real.Export(X509ContentType.Pkcs12)!);
        foreach (TlsCertificate source in (TlsCertificate[])[TlsCertificate.FromPfxFile(pfx, "secret"), TlsCertificate.FromPfxFile(open)])
        {
            Assert.Null(source.Mistake);
            Assert.Equal("CN=below", source.Current.Subject);
            Assert.Equal(["CN=Whimbrel test intermediate"], source.Take().Intermediates.Select(static c => c.Subject));
        }
    }

    [Fact]
    public void Mistakes_name_the_file_and_what_is_wrong_with_it()
    {
        X509Certificate2 leaf = TestCertificates.Make("x", "chat.test");
        string chain = Put("chain.pem", leaf.ExportCertificatePem());
        Assert.StartsWith($"{chain} cannot be loaded", TlsCertificate.FromPemFile(chain).Mistake, StringComparison.Ordinal);
        Assert.StartsWith($"{chain} cannot be loaded", TlsCertificate.FromPemFile(chain, Put("other.pem", Key(TestCertificates.Server))).Mistake, StringComparison.Ordinal);
        Assert.Contains("cannot be loaded", TlsCertificate.FromPemFile(chain, Put("locked.pem", EncryptedKey(leaf)), "wrong").Mistake, StringComparison.Ordinal);
        Assert.Contains("cannot be loaded", TlsCertificate.FromPfxFile(Path.Combine(_folder, "none.pfx")).Mistake, StringComparison.Ordinal);
        Assert.Contains("has no private key", TlsCertificate.From(X509CertificateLoader.LoadCertificate(leaf.RawData)).Mistake, StringComparison.Ordinal);
        Assert.Contains("cannot be loaded", TlsCertificate.FromStore($"nobody {Guid.NewGuid():N}").Mistake, StringComparison.Ordinal);
    }

    [Fact]
    public void Reload_takes_the_new_files_or_throws_and_keeps_the_old()
    {
        X509Certificate2 first = TestCertificates.Make("first", "chat.test"), second = TestCertificates.Make("second", "chat.test");
        string path = Put("both.pem", first.ExportCertificatePem() + "\n" + Key(first));
        TlsCertificate source = TlsCertificate.FromPemFile(path);
        Assert.Equal("CN=first", source.Current.Subject);
        source.Reload();
        Assert.Equal(0, source.ReloadCount);
        Put("both.pem", "nothing");
        Assert.ThrowsAny<Exception>(source.Reload);
        Assert.Equal("CN=first", source.Current.Subject);
        Put("both.pem", second.ExportCertificatePem() + "\n" + Key(second));
        source.Reload();
        Assert.Equal("CN=second", source.Current.Subject);
        Assert.Equal(1, source.ReloadCount);
    }

    [Fact]
    public void A_certificate_that_its_issuers_list_names_is_refused_and_no_other()
    {
        X509Certificate2 bad = TestCertificates.Make("bad", "chat.test"), good = TestCertificates.Make("good", "chat.test");
        CertificateRevocationListBuilder list = new();
        list.AddEntry(bad);
        byte[] der = list.Build(TestCertificates.Root, BigInteger.One, DateTimeOffset.UtcNow.AddDays(5), HashAlgorithmName.SHA256);
        string asDer = Path.Combine(_folder, "list.crl");
        File.WriteAllBytes(asDer, der);
        string asPem = Put("list.pem", PemEncoding.WriteString("X509 CRL", der));
        foreach (string file in (string[])[asDer, asPem])
        {
            TlsTrust trust = new(new TlsOptions { Roots = TestCertificates.Roots, RevocationLists = [file] }, isServer: false);
            Assert.Contains("was revoked", trust.Judge(bad, (X509Certificate2Collection?)null, "chat.test"), StringComparison.Ordinal);
            Assert.Null(trust.Judge(good, (X509Certificate2Collection?)null, "chat.test"));
        }

        Assert.Throws<CryptographicException>(() => new TlsTrust(new TlsOptions { RevocationLists = [Put("no.crl", "no list")] }, isServer: false));
    }

    [Theory]
    [InlineData("Portable", TlsProvider.Auto, "Portable (WHIMBREL_TLS says so)")]
    [InlineData("portable", TlsProvider.Auto, "Portable (WHIMBREL_TLS says so)")]
    [InlineData("", TlsProvider.Portable, "Portable (TlsOptions.Provider says so)")]
    [InlineData("nonsense", TlsProvider.Auto, "allowed Auto, Portable, OpenSsl")]
    public void The_variable_wins_over_the_options_and_the_reason_is_told(string variable, TlsProvider provider, string expected)
    {
        string? before = Environment.GetEnvironmentVariable(TlsSelector.Variable);
        try
        {
            Environment.SetEnvironmentVariable(TlsSelector.Variable, variable);
            TlsOptions options = new() { Certificate = TlsCertificate.From(TestCertificates.Server), Provider = provider };
            string text;
            try
            {
                TlsProfile profile = TlsSelector.Prepare(options, isServer: true);
                text = $"{profile.Provider} ({profile.Reason})";
            }
            catch (ArgumentException e)
            {
                text = e.Message;
            }

            Assert.Contains(expected, text, StringComparison.Ordinal);
        }
        finally
        {
            Environment.SetEnvironmentVariable(TlsSelector.Variable, before);
        }
    }
}
