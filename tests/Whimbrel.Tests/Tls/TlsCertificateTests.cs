using System.Formats.Asn1;
using System.Numerics;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
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

    private static string Key(X509Certificate2 certificate) =>
        certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem();

    private static string EncryptedKey(X509Certificate2 certificate) =>
        certificate.GetECDsaPrivateKey()!.ExportEncryptedPkcs8PrivateKeyPem("secret",
            new PbeParameters(PbeEncryptionAlgorithm.Aes128Cbc, HashAlgorithmName.SHA256, 1000));

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

        // Both have keys here, so the leaf is the first one with a key; a real file has one key.
        X509Certificate2Collection real = [X509CertificateLoader.LoadCertificate(TestCertificates.Intermediate.RawData),
            leaf];
        File.WriteAllBytes(pfx, real.Export(X509ContentType.Pkcs12, "secret")!);
        File.WriteAllBytes(open, real.Export(X509ContentType.Pkcs12)!);
        foreach (TlsCertificate source in (TlsCertificate[])[TlsCertificate.FromPfxFile(pfx, "secret"),
            TlsCertificate.FromPfxFile(open)])
        {
            Assert.Null(source.Mistake);
            Assert.Equal("CN=below", source.Current.Subject);
            Assert.Equal(["CN=Whimbrel test intermediate"], source.Take().Intermediates.Select(static c => c.Subject));
        }
    }

    [Fact]
    public void A_certificate_covers_its_alternative_names_and_not_its_common_name()
    {
        TlsCertificate named = TlsCertificate.From(TestCertificates.Make("common.test", "chat.test", "*.rooms.test"));
        foreach (string name in (string[])["chat.test", "a.rooms.test", "*.rooms.test"])
            Assert.True(named.Covers(name), name);
        foreach (string name in (string[])["common.test", "rooms.test", "a.b.rooms.test", "other.test"])
            Assert.False(named.Covers(name), name);
        // Without a subject alternative name, where older rules used the common name.
        Assert.False(TlsCertificate.From(TestCertificates.Make("chat.test")).Covers("chat.test"));
    }

    [Fact]
    public void Mistakes_name_the_file_and_what_is_wrong_with_it()
    {
        X509Certificate2 leaf = TestCertificates.Make("x", "chat.test");
        string chain = Put("chain.pem", leaf.ExportCertificatePem());
        Assert.StartsWith($"{chain} cannot be loaded", TlsCertificate.FromPemFile(chain).Mistake,
            StringComparison.Ordinal);
        Assert.StartsWith($"{chain} cannot be loaded", TlsCertificate.FromPemFile(chain,
            Put("other.pem", Key(TestCertificates.Server))).Mistake, StringComparison.Ordinal);
        Assert.Contains("cannot be loaded", TlsCertificate.FromPemFile(chain, Put("locked.pem", EncryptedKey(leaf)),
            "wrong").Mistake, StringComparison.Ordinal);
        Assert.Contains("cannot be loaded", TlsCertificate.FromPfxFile(Path.Combine(_folder, "none.pfx")).Mistake,
            StringComparison.Ordinal);
        Assert.Contains("has no private key",
            TlsCertificate.From(X509CertificateLoader.LoadCertificate(leaf.RawData)).Mistake, StringComparison.Ordinal);
        Assert.Contains("cannot be loaded", TlsCertificate.FromStore($"nobody {Guid.NewGuid():N}").Mistake,
            StringComparison.Ordinal);
    }

    [Fact]
    public void Reload_takes_the_new_files_or_throws_and_keeps_the_old()
    {
        X509Certificate2 first = TestCertificates.Make("first", "chat.test"),
            second = TestCertificates.Make("second", "chat.test");
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
        X509Certificate2 bad = TestCertificates.Make("bad", "chat.test"),
            good = TestCertificates.Make("good", "chat.test");
        CertificateRevocationListBuilder list = new();
        list.AddEntry(bad);
        byte[] der = list.Build(TestCertificates.Root, BigInteger.One, DateTimeOffset.UtcNow.AddDays(5),
            HashAlgorithmName.SHA256);
        string asDer = Path.Combine(_folder, "list.crl");
        File.WriteAllBytes(asDer, der);
        string asPem = Put("list.pem", PemEncoding.WriteString("X509 CRL", der));
        foreach (string file in (string[])[asDer, asPem])
        {
            TlsTrust trust = new(new TlsOptions { Roots = TestCertificates.Roots, RevocationLists = [file] },
                isServer: false);
            Assert.Contains("was revoked", trust.Judge(bad, (X509Certificate2Collection?)null, "chat.test"),
                StringComparison.Ordinal);
            Assert.Null(trust.Judge(good, (X509Certificate2Collection?)null, "chat.test"));
        }

        Assert.Throws<CryptographicException>(
            () => new TlsTrust(new TlsOptions { RevocationLists = [Put("no.crl", "no list")] }, isServer: false));
    }

    [Fact]
    public void The_lists_of_all_files_count()
    {
        X509Certificate2[] bad =
            [.. Enumerable.Range(0, 3).Select(static i => TestCertificates.Make($"b{i}", "chat.test"))];
        string[] files = [.. bad.Select((b, i) =>
            Put($"{i}.pem", PemEncoding.WriteString("X509 CRL", ListOf(TestCertificates.Root, b))))];
        TlsTrust trust = new(new TlsOptions { Roots = TestCertificates.Roots, RevocationLists = files },
            isServer: false);
        foreach (X509Certificate2 each in bad)
            Assert.Contains("was revoked", trust.Judge(each, (X509Certificate2Collection?)null, "chat.test"),
                StringComparison.Ordinal);
    }

    [Fact]
    public void All_lists_of_a_bundle_count_for_every_issuer_and_at_every_place_of_the_chain()
    {
        X509Certificate2 direct = TestCertificates.Make("direct", "chat.test"),
            other = TestCertificates.Make("other", "chat.test", issuer: TestCertificates.OtherRoot);
        X509Certificate2 below = TestCertificates.Make("below", "chat.test", issuer: TestCertificates.Intermediate);
        X509Certificate2Collection sent = [TestCertificates.Intermediate];
        // The middle list has the same issuer as the first: both count.
        byte[][] lists = [ListOf(TestCertificates.Root, direct),
            ListOf(TestCertificates.Root, TestCertificates.Intermediate), ListOf(TestCertificates.OtherRoot, other)];
        string pem = Put("bundle.pem",
            "# lists of today\n" + string.Join("\n", lists.Select(static l => PemEncoding.WriteString("X509 CRL", l))));
        string der = Path.Combine(_folder, "bundle.crl");
        File.WriteAllBytes(der, [.. lists.SelectMany(static l => l)]);
        foreach (string file in (string[])[pem, der])
        {
            TlsTrust trust = new(new TlsOptions
            {
                Roots = [.. TestCertificates.Roots, new X509Certificate2(TestCertificates.OtherRoot)],
                RevocationLists = [file]
            }, isServer: false);
            Assert.Contains("'CN=direct' was revoked",
                trust.Judge(direct, (X509Certificate2Collection?)null, "chat.test"), StringComparison.Ordinal);
            Assert.Contains("'CN=Whimbrel test intermediate' was revoked", trust.Judge(below, sent, "chat.test"),
                StringComparison.Ordinal);
            Assert.Contains("'CN=other' was revoked",
                trust.Judge(other, (X509Certificate2Collection?)null, "chat.test"), StringComparison.Ordinal);
            Assert.Null(trust.Judge(TestCertificates.Make("fine", "chat.test"), (X509Certificate2Collection?)null,
                "chat.test"));
        }

        // A serial number with a leading zero, which the two sides write differently.
        X509Certificate2 zero = OnCurve("1.3.132.0.34");
        TlsTrust numbers = new(new TlsOptions
        {
            Roots = TestCertificates.Roots,
            RevocationLists =
                [Put("zero.pem", PemEncoding.WriteString("X509 CRL", ListOf(TestCertificates.Root, zero)))]
        }, isServer: false);
        Assert.Contains("was revoked", numbers.Judge(zero, (X509Certificate2Collection?)null, "chat.test"),
            StringComparison.Ordinal);

        // A list of another issuer has no effect, even if it has the same serial number.
        string foreign = Put("foreign.pem",
            PemEncoding.WriteString("X509 CRL", ListOf(TestCertificates.OtherRoot, direct)));
        TlsTrust elsewhere = new(new TlsOptions { Roots = TestCertificates.Roots, RevocationLists = [foreign] },
            isServer: false);
        Assert.Null(elsewhere.Judge(direct, (X509Certificate2Collection?)null, "chat.test"));
    }

    [Fact]
    public void A_file_that_holds_anything_but_whole_lists_is_refused_by_name()
    {
        byte[] list = ListOf(TestCertificates.Root, TestCertificates.Server);
        string pem = PemEncoding.WriteString("X509 CRL", list);
        // Version 2 with the delta CRL extension: only changes.
        byte[] delta = DeltaOf(TestCertificates.Root);
        (string Name, byte[] Bytes, string Words)[] cases =
        [
            ("mixed.pem", Encoding.ASCII.GetBytes(pem + "\n" + TestCertificates.Root.ExportCertificatePem()),
                "there is a CERTIFICATE in it"),
            ("cut.pem", Encoding.ASCII.GetBytes(pem + "\n" + pem[..^30]), "broken"),
            ("cut.crl", [.. list, .. list.AsSpan(0, list.Length - 3)], "no whole one"),
            ("tail.crl", [.. list, 1, 2, 3], "no whole one"),
            ("empty.pem", [], "no X509 CRL in it"),
            ("delta.crl", [.. list, .. delta], "delta list"),
        ];
        foreach ((string name, byte[] bytes, string words) in cases)
        {
            string file = Path.Combine(_folder, name);
            File.WriteAllBytes(file, bytes);
            CryptographicException e = Assert.Throws<CryptographicException>(
                () => new TlsTrust(new TlsOptions { RevocationLists = [file] }, isServer: false));
            Assert.Contains(file, e.Message, StringComparison.Ordinal);
            Assert.Contains(words, e.Message, StringComparison.Ordinal);
        }
    }

    [Fact]
    public void Keys_and_hashes_are_known_in_every_encoding()
    {
        X509Certificate2 weakRoot = TestCertificates.MakeRsaRoot("weak root", 1024);
        TlsTrust trust = new(new TlsOptions
        {
            Roots = [.. TestCertificates.Roots,
                new X509Certificate2(TestCertificates.RsaRoot), new X509Certificate2(weakRoot)]
        }, isServer: false);
        string? Judge(X509Certificate2 leaf) => trust.Judge(leaf, (X509Certificate2Collection?)null, "chat.test");
        Assert.Null(Judge(TestCertificates.MakeRsa("pss", 2048, HashAlgorithmName.SHA256, isPss: true)));
        Assert.Contains("'CN=old pss' is signed with SHA-1",
            Judge(TestCertificates.MakeRsa("old pss", 2048, HashAlgorithmName.SHA1, isPss: true)),
            StringComparison.Ordinal);
        Assert.Contains("'CN=oldest' is signed with MD5",
            Judge(TestCertificates.MakeRsa("oldest", 2048, HashAlgorithmName.MD5)), StringComparison.Ordinal);
        // A root's own signature does not count, its key does.
        Assert.Contains("'CN=weak root' has an RSA key of 1024 bits",
            Judge(TestCertificates.MakeRsa("below", 2048, HashAlgorithmName.SHA256, issuer: weakRoot)),
            StringComparison.Ordinal);
        Assert.Contains("has a key on a curve of 192 bits", Judge(OnCurve("1.2.840.10045.3.1.1")),
            StringComparison.Ordinal);
        Assert.Null(Judge(OnCurve("1.3.132.0.33")));
        Assert.Null(Judge(OnCurve("1.3.132.0.35")));
    }

    private static X509Certificate2 OnCurve(string curve)
    {
        using ECDsa key = ECDsa.Create(ECCurve.CreateFromValue(curve));
        CertificateRequest request = new("CN=on a curve", key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        names.AddDnsName("chat.test");
        request.CertificateExtensions.Add(names.Build());
        return request.Create(
            TestCertificates.Root.SubjectName,
            X509SignatureGenerator.CreateForECDsa(TestCertificates.Root.GetECDsaPrivateKey()!),
            DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(5), [1, 2, 3]);
    }

    private static byte[] ListOf(X509Certificate2 issuer, X509Certificate2 revoked)
    {
        CertificateRevocationListBuilder list = new();
        list.AddEntry(revoked);
        return list.Build(issuer, BigInteger.One, DateTimeOffset.UtcNow.AddDays(5), HashAlgorithmName.SHA256);
    }

    /// <summary>The platform cannot create one: the structure of a delta list, with a signature that is not
    /// checked.</summary>
    private static byte[] DeltaOf(X509Certificate2 issuer)
    {
        AsnWriter writer = new(AsnEncodingRules.DER);
        using (writer.PushSequence())
        {
            using (writer.PushSequence())
            {
                writer.WriteInteger(1);
                using (writer.PushSequence()) writer.WriteObjectIdentifier("1.2.840.10045.4.3.2");
                writer.WriteEncodedValue(issuer.SubjectName.RawData);
                writer.WriteUtcTime(DateTimeOffset.UtcNow);
                writer.WriteUtcTime(DateTimeOffset.UtcNow.AddDays(1));
                using (writer.PushSequence(new Asn1Tag(TagClass.ContextSpecific, 0)))
                using (writer.PushSequence())
                using (writer.PushSequence())
                {
                    writer.WriteObjectIdentifier("2.5.29.27");
                    writer.WriteBoolean(true);
                    writer.WriteOctetString([2, 1, 1]);
                }
            }

            using (writer.PushSequence()) writer.WriteObjectIdentifier("1.2.840.10045.4.3.2");
            writer.WriteBitString([0]);
        }

        return writer.Encode();
    }

    [Theory]
    [InlineData("Portable", TlsProvider.Auto, "Portable (WHIMBREL_TLS says so)")]
    [InlineData("portable", TlsProvider.Auto, "Portable (WHIMBREL_TLS says so)")]
    [InlineData("", TlsProvider.Portable, "Portable (TlsOptions.Provider says so)")]
    [InlineData("nonsense", TlsProvider.Auto, "allowed Auto, Portable, OpenSsl")]
    public void The_variable_wins_over_the_options_and_the_reason_is_given(string variable, TlsProvider provider,
        string expected)
    {
        string? before = Environment.GetEnvironmentVariable(TlsSelector.Variable);
        try
        {
            Environment.SetEnvironmentVariable(TlsSelector.Variable, variable);
            TlsOptions options =
                new() { Certificate = TlsCertificate.From(TestCertificates.Server), Provider = provider };
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
