using System.Net;
using System.Security.Cryptography;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Acme.Tests;

/// <summary>Keys of session tickets that nodes of one store share.</summary>
public sealed class TicketTests : IDisposable
{
    private readonly string _folder = AcmeNode.NewFolder();
    private readonly AcmeRecords _records;

    public TicketTests() => _records = new AcmeRecords(
        new AcmeOptions { Names = ["one.test"], Directory = "https://localhost:1/dir", Folder = _folder });

    [Fact]
    public async Task One_node_replaces_the_secret_after_a_day_and_the_others_take_it()
    {
        DateTimeOffset now = DateTimeOffset.UtcNow;
        AcmeTickets one = new(_records, "one"), two = new(_records, "two");
        await Task.WhenAll(one.LookAsync(now, default), two.LookAsync(now, default));
        await two.LookAsync(now, default); // one of them had the lease
        await one.LookAsync(now, default);
        Assert.Equal(one.Secret, two.Secret);

        // The object stays while the secret does: another one would cost the contexts of all connections.
        byte[] first = one.Secret;
        await one.LookAsync(now + AcmeTickets.Life - TimeSpan.FromSeconds(1), default);
        Assert.Same(first, one.Secret);

        // The lease of the first secret is over by then.
        await _records.DeleteAsync("localhost_1/one.test.tickets.lease", default);
        await two.LookAsync(now + AcmeTickets.Life, default);
        Assert.NotEqual(first, two.Secret);
        await one.LookAsync(now + AcmeTickets.Life, default);
        Assert.Equal(one.Secret, two.Secret);
    }

    [Theory]
    [InlineData("")]
    [InlineData("hello")]
    [InlineData("2026-01-01T00:00:00.0000000Z c2hvcnQ=")]
    [InlineData("9999-01-01T00:00:00.0000000Z AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")]
    public async Task A_record_that_is_no_secret_or_of_the_future_is_replaced(string record)
    {
        await _records.WriteAsync(_records.Tickets, System.Text.Encoding.ASCII.GetBytes(record), default);
        AcmeTickets node = new(_records, "one"), other = new(_records, "two");
        await node.LookAsync(DateTimeOffset.UtcNow, default);
        await other.LookAsync(DateTimeOffset.UtcNow, default);
        Assert.Equal(node.Secret, other.Secret);
        Assert.Contains(node.Secret, static b => b != 0);
    }

    [Fact]
    public async Task A_client_resumes_at_another_node_without_a_full_handshake()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Ticket keys need TLS by OpenSSL, which Linux has.");
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        AcmeOptions shared = new() { Names = ["one.test"], SharesTickets = true };
        await using AcmeNode one = new(authority.Directory, _folder, shared),
            two = new(authority.Directory, _folder, shared);
        await one.Certificate.StartAsync();
        await one.NextCertificateAsync();
        await two.Certificate.StartAsync();
        await two.NextCertificateAsync();
        await using Server first = await ServeAsync(one), second = await ServeAsync(two);

        string session = Path.Combine(_folder, "session");
        await ShakeAsync(first, "-sess_out", session);
        Assert.Contains("Reused, TLSv1.2", await ShakeAsync(second, "-sess_in", session), StringComparison.Ordinal);
        Assert.Equal((0, 1), (first.ReadCounters().TlsResumed, second.ReadCounters().TlsResumed));

        // A ticket of the day before is no failure.
        two.Certificate.Tls.TicketKeys!.Replace(RandomNumberGenerator.GetBytes(32));
        Assert.Contains("New, TLSv1.2", await ShakeAsync(second, "-sess_in", session, "-sess_out", session),
            StringComparison.Ordinal);
        Assert.Equal((0, 2, 1), (second.ReadCounters().TlsFailed, second.ReadCounters().TlsHandshakes,
            second.ReadCounters().TlsResumed));
        Assert.Contains("Reused, TLSv1.2", await ShakeAsync(second, "-sess_in", session), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_store_that_fails_costs_resumptions_only_and_is_reported_once()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        // A directory in the place of the record: it can be neither read nor replaced.
        AcmeRecords records = new(new AcmeOptions
        {
            Names = ["one.test"],
            Directory = authority.Directory,
            Folder = _folder
        });
        Directory.CreateDirectory(Path.Combine(_folder, records.Tickets));
        await using AcmeNode node = new(authority.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], SharesTickets = true });
        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        string notice = await node.EventAsync("The secret of session tickets ");
        Assert.Contains("This node keeps its keys", notice, StringComparison.Ordinal);
        node.Certificate.RequestRenewal();
        await node.NextCertificateAsync();
        Assert.Single(node.Events);
    }

    private static async Task<Server> ServeAsync(AcmeNode node)
    {
        Server server = new(new ServerOptions { Address = "tls://127.0.0.1:0", Tls = node.Certificate.Tls },
            static () => new Quiet());
        await server.StartAsync();
        return server;
    }

    private static Task<string> ShakeAsync(Server server, params string[] options) => RealProgram.RunAsync("openssl",
        ["s_client", "-connect", $"127.0.0.1:{((IPEndPoint)server.EndPoint!).Port}", "-servername", "one.test",
            "-tls1_2", .. options]);

    public void Dispose() => RealProgram.Remove(_folder);

    private sealed class Quiet : Session;
}
