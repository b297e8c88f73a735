using System.Net;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Http;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Acme.Tests;

/// <summary>Orders at a real authority.</summary>
public sealed class PebbleTests : IDisposable
{
    private readonly string _folder = AcmeNode.NewFolder();

    [Fact]
    public async Task A_certificate_of_two_names_is_issued_over_http_and_stored_with_its_key()
    {
        await using Pebble pebble = await Pebble.StartAsync();
        await using AcmeNode node = new(pebble.Directory, _folder, new AcmeOptions
        {
            Names = ["one.test", "www.one.test"],
            HttpAddress = $"http://127.0.0.1:{pebble.HttpPort}",
        });
        await node.Certificate.StartAsync();
        await node.Certificate.WaitAsync().WaitAsync(RealProgram.Patience);

        X509Certificate2 certificate = node.Certificate.Current!;
        Assert.True(certificate.MatchesHostname("one.test") && certificate.MatchesHostname("www.one.test"));
        Assert.InRange(node.Certificate.RenewsAt!.Value, certificate.NotBefore, certificate.NotAfter);
        Assert.Null(node.Certificate.LastFailure);
        string file = Path.Combine(_folder, $"localhost_{pebble.Port}", "one.test.pem");
        IssuedCertificate stored = IssuedCertificate.FromPem(await File.ReadAllTextAsync(file));
        Assert.True(stored.Leaf.HasPrivateKey);
        Assert.Single(stored.Intermediates);
        Assert.Empty(Directory.GetFiles(Path.Combine(_folder, $"localhost_{pebble.Port}", "challenges")));
        Assert.Empty(node.Events);
    }

    [Theory]
    [InlineData(TlsProvider.OpenSsl)]
    [InlineData(TlsProvider.Portable)]
    public async Task A_server_validates_by_alpn_at_its_own_port_while_it_serves(TlsProvider provider)
    {
        Assert.SkipWhen(provider == TlsProvider.OpenSsl && !OperatingSystem.IsLinux(), "OpenSSL is for Linux.");
        await using Pebble pebble = await Pebble.StartAsync();
        await using AcmeNode node = new(pebble.Directory, _folder, new AcmeOptions
        {
            Names = ["one.test", "two.test"],
            Challenge = AcmeChallenge.TlsAlpn01,
            SelfSignedUntilIssued = true,
        });
        int sessions = 0;
        await using Server server = new(new ServerOptions
        {
            Address = $"tls://127.0.0.1:{pebble.TlsPort}",
            Tls = new TlsOptions
            {
                Provider = provider,
                SelectCertificate = node.Certificate.Select,
                ChallengeCertificate = node.Certificate.SelectChallengeAsync,
            },
            OnDiagnosticEvent = e => node.Events.Enqueue(e.Message),
        }, () =>
        {
            Interlocked.Increment(ref sessions);
            return new Echo();
        });
        await server.StartAsync();
        await node.Certificate.StartAsync();
        await node.Certificate.WaitAsync().WaitAsync(RealProgram.Patience);

        (SslStream stream, X509Certificate2 certificate, int chain) =
            await AcmeNode.ConnectAsync(pebble.TlsPort, "one.test");
        await using (stream)
        {
            Assert.Equal(node.Certificate.Current!.Thumbprint, certificate.Thumbprint);
            Assert.Equal(2, chain); // with the leaf
            Assert.True(certificate.MatchesHostname("two.test"));
        }

        Assert.Empty(node.Events);
        Assert.Equal(0, server.ReadCounters().TlsFailed);
    }

    [Fact]
    public async Task A_validation_of_a_name_without_a_challenge_is_rejected_and_other_clients_are_served()
    {
        await using Pebble pebble = await Pebble.StartAsync();
        await using AcmeNode node = new(pebble.Directory, _folder, new AcmeOptions
        {
            Names = ["one.test"],
            Challenge = AcmeChallenge.TlsAlpn01,
            SelfSignedUntilIssued = true,
        });
        await using Server server = new(new ServerOptions
        {
            Address = "tls://127.0.0.1:0",
            Tls = node.Certificate.Tls,
            OnDiagnosticEvent = _ => { },
        }, () => new Echo());
        await server.StartAsync();
        await node.Certificate.StartAsync();
        int port = ((IPEndPoint)server.EndPoint!).Port;
        // The name of the order has a challenge meanwhile.
        foreach (string name in (string[])["other.test", "localhost"])
            await Assert.ThrowsAnyAsync<Exception>(async () => await AcmeNode.ConnectAsync(port, name, "acme-tls/1"));
        (SslStream stream, X509Certificate2 certificate, _) = await AcmeNode.ConnectAsync(port, "one.test");
        await using (stream) Assert.Contains("self-signed", certificate.Subject, StringComparison.Ordinal);
        string notice = await node.EventAsync("No validation has reached this process");
        Assert.Contains("could not validate one.test by tls-alpn-01", notice, StringComparison.Ordinal);
        Assert.Contains("self-signed certificate stays in use", notice, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_certificate_is_renewed_and_swapped_under_open_connections()
    {
        await using Pebble pebble = await Pebble.StartAsync(""", "certificateValidityPeriod": 24""");
        await using AcmeNode node = new(pebble.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], HttpAddress = $"http://127.0.0.1:{pebble.HttpPort}" });
        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        await using Server server = new(new ServerOptions { Address = "tls://127.0.0.1:0", Tls = node.Certificate.Tls },
            () => new Echo());
        await server.StartAsync();
        int port = ((IPEndPoint)server.EndPoint!).Port;

        (SslStream old, X509Certificate2 before, _) = await AcmeNode.ConnectAsync(port, "one.test");
        await node.NextCertificateAsync();
        (SslStream young, X509Certificate2 after, _) = await AcmeNode.ConnectAsync(port, "one.test");
        await using (old)
        await using (young)
        {
            Assert.NotEqual(before.SerialNumber, after.SerialNumber);
            Assert.Equal(node.Certificate.Current!.SerialNumber, after.SerialNumber);
            foreach (SslStream stream in (SslStream[])[old, young])
            {
                await stream.WriteAsync("hello"u8.ToArray());
                byte[] answer = new byte[5];
                await stream.ReadExactlyAsync(answer).AsTask().WaitAsync(RealProgram.Patience);
                Assert.Equal("hello"u8, answer);
            }
        }

        Assert.Empty(node.Events);
    }

    [Fact]
    public async Task Two_nodes_with_one_folder_order_once_and_either_answers_the_challenge()
    {
        await using Pebble pebble = await Pebble.StartAsync();
        AcmeOptions two = new() { Names = ["one.test", "two.test", "three.test"] };
        await using AcmeNode orders = new(pebble.Directory, _folder, two),
            answers = new(pebble.Directory, _folder, two);
        // The authority reaches the second node only.
        await using HttpServer plain = new($"http://127.0.0.1:{pebble.HttpPort}");
        plain.AddAcmeChallenges(answers.Certificate);
        await plain.StartAsync();
        await orders.Certificate.StartAsync();
        await orders.NextCertificateAsync();
        await answers.Certificate.StartAsync();
        await answers.NextCertificateAsync();
        Assert.Equal(orders.Certificate.Current!.SerialNumber, answers.Certificate.Current!.SerialNumber);

        // The next order of either node reaches both.
        orders.Certificate.RequestRenewal();
        await orders.NextCertificateAsync();
        await answers.NextCertificateAsync();
        Assert.Equal(orders.Serials, answers.Serials);
        Assert.Equal(2, orders.Serials.Distinct().Count());
        Assert.Empty(orders.Events.Concat(answers.Events));
    }

    [Fact]
    public async Task Nodes_that_start_together_get_one_certificate()
    {
        await using Pebble pebble = await Pebble.StartAsync();
        await using AcmeNode first = new(pebble.Directory, _folder), second = new(pebble.Directory, _folder),
            third = new(pebble.Directory, _folder);
        await using HttpServer plain = new($"http://127.0.0.1:{pebble.HttpPort}");
        plain.AddAcmeChallenges(third.Certificate);
        await plain.StartAsync();
        AcmeNode[] all = [first, second, third];
        await Task.WhenAll(all.Select(n => n.Certificate.StartAsync()));
        foreach (AcmeNode node in all) await node.NextCertificateAsync();
        Assert.Single(all.SelectMany(n => n.Serials).Distinct());
        Assert.Empty(all.SelectMany(n => n.Events));
    }

    [Fact]
    public async Task An_external_account_is_bound_and_a_missing_or_wrong_one_is_named()
    {
        const string Key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
        await using Pebble pebble = await Pebble.StartAsync($$"""
            , "externalAccountBindingRequired": true, "externalAccountMACKeys": { "kid-1": "{{Key}}" }
            """);
        string address = $"http://127.0.0.1:{pebble.HttpPort}";
        await using (AcmeNode missing = new(pebble.Directory, AcmeNode.NewFolder()))
        {
            await missing.Certificate.StartAsync();
            await missing.EventAsync("set AcmeOptions.ExternalAccount");
        }

        await using (AcmeNode wrong = new(pebble.Directory, AcmeNode.NewFolder(),
            new AcmeOptions { Names = ["one.test"], ExternalAccount = new AcmeExternalAccount("kid-1", "AAAA") }))
        {
            await wrong.Certificate.StartAsync();
            await wrong.EventAsync("unauthorized");
        }

        await using AcmeNode right = new(pebble.Directory, _folder, new AcmeOptions
        {
            Names = ["one.test"],
            HttpAddress = address,
            ExternalAccount = new AcmeExternalAccount("kid-1", Key),
        });
        await right.Certificate.StartAsync();
        await right.NextCertificateAsync();
        Assert.Empty(right.Events);
    }

    [Fact]
    public async Task An_authority_that_has_forgotten_the_account_gets_it_again()
    {
        await using Pebble pebble = await Pebble.StartAsync();
        await using AcmeNode node = new(pebble.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], HttpAddress = $"http://127.0.0.1:{pebble.HttpPort}" });
        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        await pebble.RestartAsync();
        node.Certificate.RequestRenewal();
        await node.NextCertificateAsync();
        Assert.Equal(2, node.Serials.Distinct().Count());
        Assert.Empty(node.Events);
    }

    [Fact]
    public async Task A_name_that_does_not_lead_here_is_reported_with_a_hint_and_a_restart_uses_the_stored_certificate()
    {
        await using Pebble pebble = await Pebble.StartAsync();
        await using (AcmeNode lost = new(pebble.Directory, _folder))
        {
            await lost.Certificate.StartAsync();
            string notice = await lost.EventAsync("could not validate one.test by http-01");
            Assert.Contains("No request for the challenge has reached this process: port 80", notice,
                StringComparison.Ordinal);
            Assert.Contains("There is none yet, so handshakes fail. The next attempt is at ", notice,
                StringComparison.Ordinal);
            Assert.IsType<AcmeException>(lost.Certificate.LastFailure);
        }

        string serial;
        await using (AcmeNode node = new(pebble.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], HttpAddress = $"http://127.0.0.1:{pebble.HttpPort}" }))
        {
            await node.Certificate.StartAsync();
            await node.NextCertificateAsync();
            serial = node.Certificate.Current!.SerialNumber;
        }

        await pebble.DisposeAsync();
        await using AcmeNode again = new(pebble.Directory, _folder);
        await again.Certificate.StartAsync();
        Assert.Equal(serial, again.Certificate.Current!.SerialNumber);
        Assert.Empty(again.Events);
    }

    [Fact]
    public async Task The_responder_redirects_everything_else_to_https_of_its_names()
    {
        await using Pebble pebble = await Pebble.StartAsync();
        await using AcmeNode node = new(pebble.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], HttpAddress = $"http://127.0.0.1:{pebble.HttpPort}" });
        await node.Certificate.StartAsync();
        using HttpClient client = new(new SocketsHttpHandler { AllowAutoRedirect = false });
        async Task<HttpResponseMessage> Get(string path, string host)
        {
            using HttpRequestMessage request = new(HttpMethod.Get, $"http://127.0.0.1:{pebble.HttpPort}{path}");
            request.Headers.Host = host;
            return await client.SendAsync(request);
        }

        using HttpResponseMessage moved = await Get("/a/b?c=d", "one.test");
        Assert.Equal((HttpStatusCode.PermanentRedirect, "https://one.test/a/b?c=d"),
            (moved.StatusCode, moved.Headers.Location?.ToString()));
        using HttpResponseMessage stranger = await Get("/", "evil.test");
        Assert.Equal(HttpStatusCode.NotFound, stranger.StatusCode);
        foreach (string token in (string[])["short", "..%2F..%2F..%2Fone.test.pem", "0123456789abcdef0123456789abcdef"])
        {
            using HttpResponseMessage none = await Get($"/.well-known/acme-challenge/{token}", "one.test");
            Assert.Equal(HttpStatusCode.NotFound, none.StatusCode);
        }
    }

    public void Dispose() => RealProgram.Remove(_folder);

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }
}
