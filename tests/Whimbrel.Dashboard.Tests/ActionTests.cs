using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;
using Whimbrel.Tool.Tests;

namespace Whimbrel.Dashboard.Tests;

// Actions: what they do, what they report, and what is not allowed.
public class ActionTests
{
    private static readonly (string, string) _bearer = ("Authorization", $"Bearer {Site.Token}");

    private static Task<Site> StartAsync(DashboardActions actions, TlsOptions? tls = null) =>
        Site.StartAsync(new DashboardOptions { Token = Site.Token, Actions = actions }, sessionTls: tls);

    [Theory]
    [InlineData("disconnect", "closed", CloseCause.LocalClose)]
    [InlineData("abort", "reset", CloseCause.LocalAbort)]
    public async Task A_connection_is_ended_and_the_audit_line_has_the_client_and_the_connection(string action,
        string word, CloseCause cause)
    {
        await using Site site = await StartAsync(DashboardActions.Disconnect);
        // Until decimal and hexadecimal ids differ.
        for (int i = 0; i < 16; i++) await site.ConnectAsync();
        (Socket socket, Session session) = await site.ConnectAsync();
        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, $"/{action}/{session.Id:x}", _bearer);
        Assert.Equal(HttpStatusCode.Accepted, answer.StatusCode);
        try
        {
            Assert.Equal(0, await socket.ReceiveAsync(new byte[1], Site.End));
        }
        catch (SocketException)
        {
            // Reset.
        }

        socket.Dispose();
        Assert.Equal(cause, (await session.EndedAsync()).Cause);
        DiagnosticEvent audit =
            await site.NoticeAsync($" {word} Echo (session {session.Id:x}, peer {session.RemoteEndPoint}).");
        Assert.Equal(DiagnosticEventKind.Dashboard, audit.Kind);
        Assert.StartsWith("Dashboard: 127.0.0.1:", audit.Message, StringComparison.Ordinal);

        using HttpResponseMessage again = await site.SendAsync(HttpMethod.Post, $"/{action}/{session.Id:x}", _bearer);
        Assert.Equal(HttpStatusCode.NotFound, again.StatusCode);
    }

    [Fact]
    public async Task A_connection_of_a_client_is_ended_and_reported_to_the_server_of_the_dashboard()
    {
        await using Site site = await StartAsync(DashboardActions.Disconnect);
        await using Connector connector = new(new ClientOptions
        {
            Engine = site.Engine, EndPoint = site.Server.EndPoint!
        });
        Session client = await connector.ConnectAsync(static () => new Upstream(), cancellationToken: Site.End);
        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, $"/abort/{client.Id:x}", _bearer);
        Assert.Equal(HttpStatusCode.Accepted, answer.StatusCode);
        Assert.Equal(CloseCause.LocalAbort, (await client.EndedAsync()).Cause);
        await site.NoticeAsync($" reset Upstream (session {client.Id:x}, peer {site.Server.EndPoint}).");
    }

    private sealed class Upstream : Session;

    [Theory]
    [InlineData("disconnect/xyz", "is hexadecimal, as on the page")]
    [InlineData("abort/0x1", "is hexadecimal, as on the page")]
    [InlineData("abort/-1", "is hexadecimal, as on the page")]
    [InlineData("drain/1a", "the one in its link in the overview")]
    [InlineData("reload/chat", "the one in its link in the overview")]
    public async Task An_id_that_is_none_gets_400_with_its_form(string action, string form)
    {
        await using Site site = await StartAsync(DashboardActions.All);
        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, $"/{action}", _bearer);
        Assert.Equal(HttpStatusCode.BadRequest, answer.StatusCode);
        Assert.Contains(form, await Site.TextOf(answer), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(DashboardActions.None, "disconnect", "Disconnect")]
    [InlineData(DashboardActions.None, "abort", "Disconnect")]
    [InlineData(DashboardActions.Disconnect, "drain", "Drain")]
    [InlineData(DashboardActions.Drain, "reload", "ReloadCertificate")]
    public async Task An_action_that_is_off_is_rejected_with_the_option_that_enables_it(DashboardActions allowed,
        string action, string needed)
    {
        await using Site site = await StartAsync(allowed);
        (_, Session session) = await site.ConnectAsync();
        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, $"/{action}/{session.Id:x}", _bearer);
        Assert.Equal(HttpStatusCode.Forbidden, answer.StatusCode);
        Assert.Contains($"Enable it with DashboardOptions.Actions = DashboardActions.{needed}",
            await Site.TextOf(answer), StringComparison.Ordinal);
        await site.NoticeAsync($"The action {needed} is off");
        Assert.True(session.IsConnected);
    }

    [Fact]
    public async Task Draining_stops_the_server_and_reports_begin_and_result()
    {
        await using Site site = await StartAsync(DashboardActions.Drain);
        (Socket socket, Session session) = await site.ConnectAsync();
        string address = site.Server.EndPoint!.ToString()!;
        long id = await ServerIdAsync(site, address);
        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, $"/drain/{id}", _bearer);
        Assert.Equal(HttpStatusCode.Accepted, answer.StatusCode);
        await site.NoticeAsync($"began to drain the server at {address} with 1 sessions");
        Assert.Equal(0, await socket.ReceiveAsync(new byte[1], Site.End));
        socket.Dispose();
        Assert.Equal(CloseCause.ServerStopped, (await session.EndedAsync()).Cause);
        await site.NoticeAsync("has stopped: 1 drained, 0 aborted");
        using HttpResponseMessage again = await site.SendAsync(HttpMethod.Post, $"/drain/{id}", _bearer);
        Assert.Equal(HttpStatusCode.NotFound, again.StatusCode);
    }

    [Fact]
    public async Task A_certificate_is_loaded_again_and_a_broken_file_keeps_the_one_in_use()
    {
        using TemporaryFolder folder = new();
        string file = folder["both.pem"];
        await File.WriteAllTextAsync(file, PemOf(TestCertificates.Make("first", "chat.test")), Site.End);
        TlsCertificate certificate = TlsCertificate.FromPemFile(file);
        await using Site site =
            await StartAsync(DashboardActions.ReloadCertificate, new TlsOptions { Certificate = certificate });
        string path = $"/reload/{await ServerIdAsync(site, site.Server.EndPoint!.ToString()!)}";

        await File.WriteAllTextAsync(file, PemOf(TestCertificates.Make("second", "chat.test")), Site.End);
        using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, path, _bearer);
        Assert.Equal("loaded", await Site.TextOf(answer));
        Assert.Equal("CN=second", certificate.Current.Subject);
        await site.NoticeAsync("loaded the certificate of");

        await File.WriteAllTextAsync(file, "nothing", Site.End);
        using HttpResponseMessage broken = await site.SendAsync(HttpMethod.Post, path, _bearer);
        Assert.Equal(HttpStatusCode.Conflict, broken.StatusCode);
        Assert.Contains("The certificate in use stays", await Site.TextOf(broken), StringComparison.Ordinal);
        await site.NoticeAsync("could not load the certificate of");
        Assert.Equal("CN=second", certificate.Current.Subject);
    }

    [Fact]
    public async Task A_server_without_certificate_files_and_an_unknown_target_get_a_reason()
    {
        await using Site site = await StartAsync(DashboardActions.All);
        long id = await ServerIdAsync(site, site.Server.EndPoint!.ToString()!);
        using HttpResponseMessage none = await site.SendAsync(HttpMethod.Post, $"/reload/{id}", _bearer);
        Assert.Equal(HttpStatusCode.Conflict, none.StatusCode);
        foreach (string path in (string[])["/disconnect/77777", "/drain/77777", "/reload/77777", "/abort/77777"])
        {
            using HttpResponseMessage answer = await site.SendAsync(HttpMethod.Post, path, _bearer);
            Assert.Equal(HttpStatusCode.NotFound, answer.StatusCode);
            Assert.Contains("There is no such", await Site.TextOf(answer), StringComparison.Ordinal);
        }
    }

    private static async Task<long> ServerIdAsync(Site site, string address)
    {
        using Page page = await site.OpenAsync(Site.Token);
        return (await page.NextAsync())!.Value.GetProperty("engines")[0].GetProperty("servers").EnumerateArray()
            .First(s => s.GetProperty("addresses")[0].GetString() == address).GetProperty("id").GetInt64();
    }

    private static string PemOf(X509Certificate2 certificate) =>
        $"{certificate.ExportCertificatePem()}\n{certificate.GetECDsaPrivateKey()!.ExportPkcs8PrivateKeyPem()}\n";
}
