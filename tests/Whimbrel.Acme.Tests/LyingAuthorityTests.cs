using Whimbrel.Conformance;
using Whimbrel.Http;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Acme.Tests;

/// <summary>
/// An authority that is away, wrong or malicious: each lie has a clear message, and the certificate stays.
/// </summary>
public sealed class LyingAuthorityTests : IDisposable
{
    private const string Token = "0123456789abcdef";
    private readonly string _folder = AcmeNode.NewFolder();

    public static TheoryData<string, string> Lies() => new()
    {
        { "html", "was answered (200) by something else than the JSON of RFC 8555: '<html>" },
        { "no directory", "is no ACME directory: newNonce, newAccount or newOrder is missing" },
        { "status", "failed (503): 'no'" },
        { "redirect", "was answered by a redirect (302) to 'https://" },
        { "huge", "configured maximum buffer size" },
        { "slow", "was not answered within 3 s" },
        { "plain url", "which is no https:// URL" },
        { "no nonce", "was answered without a nonce" },
        { "nonces", "rejected 10 nonces, each of them new" },
        { "no account", "created an account and did not give its URL" },
        { "no order", "created an order and did not give its URL" },
        { "limited", "rateLimited: too many certificates" },
        { "invalid order", "is invalid: caa: CAA forbids it" },
        { "strange status", "The order https" },
        { "other name", "asks for a proof of 'evil.test', which was not ordered" },
        { "no challenge", "The authority offers no http-01 for one.test, only dns-01" },
        { "bad token", "which is no token of RFC 8555" },
        { "garbage", "cannot be used: there is no certificate in it" },
        { "other key", "its key is not the one that was requested" },
        { "wrong chain", "is not the issuer of the one before" },
    };

    [Theory, MemberData(nameof(Lies))]
    public async Task A_lie_is_named_and_the_certificate_in_use_stays(string lie, string message)
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        await using AcmeNode node = new(authority.Directory, _folder, new AcmeOptions
        {
            Names = ["one.test"],
            RequestTimeout = TimeSpan.FromSeconds(lie == "slow" ? 3 : 20),
        });
        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        string serial = node.Certificate.Current!.SerialNumber;
        Tell(authority, lie);
        node.Certificate.RequestRenewal();
        string notice = await node.EventAsync(message);
        Assert.Contains("No new certificate for one.test: ", notice, StringComparison.Ordinal);
        Assert.Contains("stays in use. The next attempt is at ", notice, StringComparison.Ordinal);
        Assert.Equal(serial, node.Certificate.Select("one.test")!.Current.SerialNumber);

        // An authority that is right again gives the next one.
        Tell(authority, "");
        node.Certificate.RequestRenewal();
        await node.NextCertificateAsync();
        Assert.NotEqual(serial, node.Certificate.Current!.SerialNumber);
    }

    private static void Tell(FakeAuthority authority, string lie)
    {
        authority.Change = static pem => pem;
        authority.Lie = (path, response) => lie switch
        {
            "html" when path == "dir" => Say(response, 200, "<html>"),
            "no directory" when path == "dir" => Say(response, 200, "{}"),
            "status" when path == "dir" => Say(response, 503, "no"),
            "redirect" when path == "dir" => Redirect(response, authority.Directory),
            "huge" when path == "dir" => Say(response, 200, new string('x', 300_000)),
            "plain url" when path == "dir" => Say(response, 200,
                """{ "newNonce": "http://a/", "newAccount": "http://a/", "newOrder": "http://a/" }"""),
            "nonces" when path is not ("dir" or "nonce") => Problem(response, "badNonce"),
            "no account" when path == "order" => Problem(response, "accountDoesNotExist"),
            "no account" when path == "account" => Say(response, 201, "{}"),
            "no order" when path == "order" => Say(response, 201, """{ "status": "pending" }"""),
            "limited" when path == "order" => Problem(response, "rateLimited", "too many certificates"),
            "invalid order" when Is(path, "orders") => Say(response, 200, """
                { "status": "invalid",
                  "error": { "type": "urn:ietf:params:acme:error:caa", "detail": "CAA forbids it" } }
                """),
            "strange status" when Is(path, "orders") => Say(response, 200, """{ "status": "fine" }"""),
            "other name" when Is(path, "authz") => Authorization(response, "evil.test", "http-01", Token),
            "no challenge" when Is(path, "authz") => Authorization(response, "one.test", "dns-01", Token),
            "bad token" when Is(path, "authz") => Authorization(response, "one.test", "http-01", "../../../etc/passwd"),
            "garbage" when Is(path, "certificate") => Say(response, 200, "no certificate"),
            _ => false,
        };
        if (lie == "other key") authority.Change = static _ => TestCertificates.Server.ExportCertificatePem();
        if (lie == "wrong chain")
            authority.Change = static pem => pem[..(pem.IndexOf("-----END", StringComparison.Ordinal) + 25)] + "\n"
                + TestCertificates.OtherRoot.ExportCertificatePem();
        authority.LieSlowly = lie;
    }

    private static bool Say(HttpResponse response, int status, string body)
    {
        FakeAuthority.Json(response, status, body);
        return true;
    }

    private static bool Redirect(HttpResponse response, string url)
    {
        response.Redirect(url, 302);
        return true;
    }

    private static bool Is(string path, string what) => path.StartsWith(what, StringComparison.Ordinal);

    private static bool Problem(HttpResponse response, string type, string detail = "") => Say(response, 400,
        $$"""{ "type": "urn:ietf:params:acme:error:{{type}}", "detail": "{{detail}}" }""");

    private static bool Authorization(HttpResponse response, string name, string kind, string token) =>
        Say(response, 200, $$"""
            { "status": "pending", "identifier": { "type": "dns", "value": "{{name}}" },
              "challenges": [ { "type": "{{kind}}", "url": "https://localhost/c", "token": "{{token}}" } ] }
            """);

    [Fact]
    public async Task An_order_that_never_ends_is_given_up_after_its_time()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        authority.Lie = static (path, response) => Is(path, "orders")
            && Say(response, 200, """{ "status": "processing" }""");
        await using AcmeNode node = new(authority.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], OrderTimeout = TimeSpan.FromSeconds(5) });
        await node.Certificate.StartAsync();
        await node.EventAsync("was not finished within 00:00:05");
        authority.Lie = static (_, _) => false;
        await node.NextCertificateAsync();
    }

    [Fact]
    public async Task An_authority_that_is_away_is_named_and_failures_wait_longer_each_time()
    {
        int port = RealProgram.FreePort();
        await using AcmeNode node = new($"https://localhost:{port}/dir", _folder,
            new AcmeOptions { Names = ["one.test"], SelfSignedUntilIssued = true });
        await node.Certificate.StartAsync();
        string notice = await node.EventAsync($"GET https://localhost:{port}/dir failed: ");
        Assert.Contains("refused", notice, StringComparison.Ordinal);
        Assert.NotNull(node.Certificate.Select(null));
        Assert.Null(node.Certificate.Current);
    }

    [Fact]
    public async Task After_three_failures_a_restart_and_other_nodes_wait_until_asked()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        authority.Lie = static (path, response) => path == "order" && Problem(response, "rateLimited");
        await using (AcmeNode node = new(authority.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], RetryAfter = TimeSpan.FromMinutes(30) }))
        {
            await node.Certificate.StartAsync();
            for (int i = 1; i <= 3; i++)
            {
                await node.EventAsync("rateLimited");
                while (node.Events.TryDequeue(out _)) { }
                if (i < 3) node.Certificate.RequestRenewal();
            }
        }

        authority.Lie = static (_, _) => false;
        Assert.Equal(3, authority.Paths.Count(static p => p == "order"));
        await using AcmeNode restarted = new(authority.Directory, _folder);
        await restarted.Certificate.StartAsync();
        await Assert.ThrowsAsync<TimeoutException>(
            () => restarted.Certificate.WaitAsync().WaitAsync(TimeSpan.FromSeconds(1)));
        Assert.Equal(3, authority.Paths.Count(static p => p == "order"));
        restarted.Certificate.RequestRenewal();
        await restarted.NextCertificateAsync();
    }

    [Fact]
    public async Task The_authority_moves_the_renewal_and_learns_which_certificate_is_replaced()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        authority.Window = (TimeSpan.FromDays(3), TimeSpan.FromDays(4));
        await using AcmeNode node = new(authority.Directory, _folder);
        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        DateTimeOffset now = DateTimeOffset.UtcNow;
        // Without advice it would be at two thirds of 20 days.
        for (long start = Environment.TickCount64; node.Certificate.RenewsAt!.Value > now.AddDays(5);)
        {
            Assert.True(Environment.TickCount64 - start < 60_000, "no advice was taken");
            await Task.Delay(20); // tidy: waits because the background task of a node reports nothing of this
        }

        Assert.InRange(node.Certificate.RenewsAt.Value, now.AddDays(2.9), now.AddDays(4.1));
        string id = IssuedCertificate.RenewalIdOf(node.Certificate.Current!)!;
        Assert.Contains($"renewal/{id}", authority.Paths);
        node.Certificate.RequestRenewal();
        await node.NextCertificateAsync();
        Assert.DoesNotContain("replaces", authority.Orders[0], StringComparison.Ordinal);
        Assert.Contains($"\"replaces\":\"{id}\"", authority.Orders[1], StringComparison.Ordinal);
    }

    [Fact]
    public async Task Advice_that_is_always_in_the_past_orders_once_in_a_pause_and_wrong_advice_changes_nothing()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        authority.Window = (TimeSpan.FromDays(4), TimeSpan.FromDays(3));
        await using (AcmeNode node = new(authority.Directory, _folder))
        {
            await node.Certificate.StartAsync();
            await node.NextCertificateAsync();
            Assert.True(node.Certificate.RenewsAt > DateTimeOffset.UtcNow.AddDays(10));
            Assert.Empty(node.Events);
        }

        authority.Window = (TimeSpan.FromDays(-4), TimeSpan.FromDays(-3));
        await using AcmeNode second = new(authority.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], RetryAfter = TimeSpan.FromMinutes(30) });
        await second.Certificate.StartAsync();
        await second.NextCertificateAsync();
        await second.NextCertificateAsync();
        await second.EventAsync("due for renewal already");
        Assert.Equal(2, authority.Orders.Count);
    }

    public void Dispose() => RealProgram.Remove(_folder);
}
