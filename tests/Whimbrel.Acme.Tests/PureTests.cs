using System.Buffers.Text;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.Json;
using Whimbrel.Conformance;

namespace Whimbrel.Acme.Tests;

/// <summary>Times, signatures, certificates and options, without a network.</summary>
public sealed class PureTests
{
    private static readonly DateTimeOffset s_from = new(2026, 1, 1, 0, 0, 0, TimeSpan.Zero);

    [Theory]
    [InlineData(0, 58.2)]
    [InlineData(0.5, 60)]
    [InlineData(1, 61.8)]
    public void A_renewal_is_at_two_thirds_of_the_lifetime_with_jitter(double share, double days) =>
        Assert.Equal(days, (AcmeTime.RenewalOf(s_from, s_from.AddDays(90), share) - s_from).TotalDays, 6);

    [Theory]
    [InlineData(1, null, 2)]
    [InlineData(2, null, 4)]
    [InlineData(5, null, 32)]
    [InlineData(100, null, 720)]
    [InlineData(1, 30, 30)]
    [InlineData(5, 3, 32)]
    [InlineData(1, 1_000_000, 2880)]
    public void A_pause_doubles_up_to_its_limit_and_follows_the_authority(int failures, int? asked, int minutes) =>
        Assert.Equal(TimeSpan.FromMinutes(minutes), AcmeTime.PauseAfter(failures, TimeSpan.FromMinutes(2),
            TimeSpan.FromHours(12), asked is { } a ? TimeSpan.FromMinutes(a) : null, 0));

    [Fact]
    public void A_request_is_signed_with_the_key_that_it_names()
    {
        using AccountKey key = AccountKey.Create();
        using AccountKey again = AccountKey.FromPem(key.ToPem());
        Assert.Equal(key.Thumbprint, again.Thumbprint);
        byte[] body = key.Sign("https://a/b\"c", "n-1", null, "{}"u8);
        using JsonDocument jws = JsonDocument.Parse(body);
        string Member(string name) => jws.RootElement.GetProperty(name).GetString()!;
        using JsonDocument head = JsonDocument.Parse(Base64Url.DecodeFromChars(Member("protected")));
        Assert.Equal(("ES256", "n-1", "https://a/b\"c"), (head.RootElement.GetProperty("alg").GetString(),
            head.RootElement.GetProperty("nonce").GetString(), head.RootElement.GetProperty("url").GetString()));
        Assert.False(head.RootElement.TryGetProperty("kid", out _));
        JsonElement jwk = head.RootElement.GetProperty("jwk");
        using ECDsa verifier = ECDsa.Create(new ECParameters
        {
            Curve = ECCurve.NamedCurves.nistP256,
            Q = new ECPoint
            {
                X = Base64Url.DecodeFromChars(jwk.GetProperty("x").GetString()),
                Y = Base64Url.DecodeFromChars(jwk.GetProperty("y").GetString()),
            },
        });
        Assert.True(verifier.VerifyData(Encoding.ASCII.GetBytes($"{Member("protected")}.{Member("payload")}"),
            Base64Url.DecodeFromChars(Member("signature")), HashAlgorithmName.SHA256));
        Assert.Equal(Base64Url.EncodeToString(SHA256.HashData(Encoding.ASCII.GetBytes(
            $$"""{"crv":"P-256","kty":"EC","x":"{{jwk.GetProperty("x")}}","y":"{{jwk.GetProperty("y")}}"}"""))),
            key.Thumbprint);
        using JsonDocument known = JsonDocument.Parse(key.Sign("https://a", "n", "https://a/1", default));
        Assert.Equal("", known.RootElement.GetProperty("payload").GetString());
    }

    [Fact]
    public void A_challenge_certificate_has_the_hash_of_its_answer_and_one_name()
    {
        X509Certificate2 leaf =
            IssuedCertificate.ForChallenge("one.test", "token.thumb", DateTimeOffset.UtcNow).Current;
        X509Extension extension = leaf.Extensions["1.3.6.1.5.5.7.1.31"]!;
        Assert.True(extension.Critical);
        Assert.Equal([0x04, 0x20, .. SHA256.HashData("token.thumb"u8)], extension.RawData);
        Assert.Equal(["one.test"],
            leaf.Extensions.OfType<X509SubjectAlternativeNameExtension>().Single().EnumerateDnsNames());
    }

    [Fact]
    public void A_chain_is_rejected_with_a_reason()
    {
        using X509Certificate2 leaf = TestCertificates.Make("one", "one.test");
        using ECDsa key = leaf.GetECDsaPrivateKey()!, other = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        string pem = leaf.ExportCertificatePem();
        DateTimeOffset now = DateTimeOffset.UtcNow;
        string? Wrong(string chain, ECDsa? with = null, string name = "one.test", int days = 0) =>
            IssuedCertificate.WrongWith(chain, with ?? key, [name], now.AddDays(days));
        Assert.Null(Wrong(pem));
        Assert.Null(Wrong(pem + "\n" + TestCertificates.Root.ExportCertificatePem()));
        Assert.Equal("it does not cover two.test", Wrong(pem, name: "two.test"));
        Assert.StartsWith("it expired", Wrong(pem, days: 31), StringComparison.Ordinal);
        Assert.Contains("clock", Wrong(pem, days: -3), StringComparison.Ordinal);
        Assert.Contains("key", Wrong(pem, other), StringComparison.Ordinal);
        Assert.Contains("no certificate", Wrong("nothing"), StringComparison.Ordinal);
        Assert.Contains("is not the issuer", Wrong(pem + "\n" + TestCertificates.OtherRoot.ExportCertificatePem()),
            StringComparison.Ordinal);
        Assert.NotNull(Wrong(pem[..200] + "\n-----END CERTIFICATE-----"));
    }

    [Fact]
    public void A_hundred_names_are_possible_and_one_more_is_not()
    {
        AcmeOptions Of(int count) => new()
        {
            Names = [.. Enumerable.Range(1, count).Select(static n => $"n{n}.test")],
            AcceptsTerms = true,
            Folder = "unused",
        };
        Of(100).Check();
        ArgumentException e = Assert.Throws<ArgumentException>(Of(101).Check);
        Assert.Contains("Names has 101 entries, allowed 1 to 100", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_handshake_without_a_start_is_reported_once()
    {
        string folder = AcmeNode.NewFolder();
        await using (AcmeNode node = new("https://localhost:1/dir", folder))
        {
            Assert.Null(node.Certificate.Select("one.test"));
            Assert.Null(node.Certificate.Select("one.test"));
            await node.EventAsync("and there is none: AcmeCertificate.StartAsync was not called.");
            Assert.Single(node.Events);
        }

        Directory.Delete(folder, recursive: true);
    }

    [Fact]
    public void All_mistakes_of_the_options_are_reported_together_with_a_cure()
    {
        ArgumentException e = Assert.Throws<ArgumentException>(() => new AcmeCertificate(new AcmeOptions
        {
            Names = ["*.one.test", "https://one.test/", "10.0.0.1", "bücher.test", "one test", "a.test", "A.test"],
            Directory = "http://one.test/dir",
            Contact = "mailto:admin@one.test",
            ExternalAccount = new AcmeExternalAccount("id", "not base64!"),
            Challenge = AcmeChallenge.TlsAlpn01,
            HttpAddress = "http://*:80",
            RetryAfter = TimeSpan.FromDays(2),
        }));
        foreach (string part in (string[])["14 mistakes", "'*.one.test' is a wildcard", "is a URL", "is an address",
            "write it as xn--", "'one test' is no host name", "a name twice", "AcmeDirectories has those",
            "AcceptsTerms = false", "without mailto:", "MAC key in base64url", "HttpAddress is for Challenge = Http01",
            "give one of Folder and Store", "RetryAfter = 2.00:00:00"])
            Assert.Contains(part, e.Message, StringComparison.Ordinal);
    }
}
