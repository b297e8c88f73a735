using System.Net;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Server.Kestrel.Https;
using Microsoft.Extensions.Logging;
using Whimbrel.Http.Tests.Programs;
using Whimbrel.Kestrel;

namespace Whimbrel.Acme.Tests;

/// <summary>The program of the guide for Kestrel, on its own transport and on ours.</summary>
public sealed class KestrelTests : IDisposable
{
    private readonly string _folder = AcmeNode.NewFolder();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Kestrel_answers_the_challenge_and_presents_each_new_certificate_with_its_chain(bool isOurs)
    {
        await using Pebble pebble = await Pebble.StartAsync();
        await using AcmeNode node = new(pebble.Directory, _folder);
        await using WebApplication app = Make(node.Certificate, pebble.HttpPort, isOurs);
        await app.StartAsync();
        int port = new Uri(app.Urls.Single(static u => u.StartsWith("https:", StringComparison.Ordinal))).Port;
        Assert.Contains("There is no certificate for one.test yet: AcmeOptions.SelfSignedUntilIssued creates one.",
            Assert.Throws<InvalidOperationException>(node.Certificate.ForSslStream).Message, StringComparison.Ordinal);
        await Assert.ThrowsAnyAsync<Exception>(() => AcmeNode.ConnectAsync(port, "one.test"));

        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        await AssertServesAsync(port, node.Certificate.Current!);
        X509Certificate2 first = node.Certificate.Current!;
        node.Certificate.RequestRenewal();
        await node.NextCertificateAsync();
        Assert.NotEqual(first.SerialNumber, node.Certificate.Current!.SerialNumber);
        await AssertServesAsync(port, node.Certificate.Current!);
        Assert.Empty(node.Events);
    }

    private static WebApplication Make(AcmeCertificate certificate, int httpPort, bool isOurs)
    {
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseKestrelHttpsConfiguration();
        if (isOurs) builder.WebHost.UseWhimbrel();
        builder.WebHost.ConfigureKestrel(kestrel =>
        {
            kestrel.Listen(IPAddress.Loopback, httpPort);
            kestrel.Listen(IPAddress.Loopback, 0, port => port.UseHttps(new TlsHandshakeCallbackOptions
            {
                OnConnection = _ => new(certificate.ForSslStream()),
            }));
        });
        WebApplication app = builder.Build();
        app.MapGet("/.well-known/acme-challenge/{token}", async (string token) =>
            await certificate.AnswerAsync(token) is { } answer ? Results.Text(answer) : Results.NotFound());
        app.MapGet("/", static () => "hello");
        return app;
    }

    private static async Task AssertServesAsync(int port, X509Certificate2 expected)
    {
        (SslStream stream, X509Certificate2 seen, int chain) = await AcmeNode.ConnectAsync(port, "one.test");
        await using (stream)
        {
            Assert.Equal(expected.SerialNumber, seen.SerialNumber);
            Assert.InRange(chain, 1, 2); // the intermediate of the authority
            await stream.WriteAsync("GET / HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n"u8.ToArray());
            using StreamReader reader = new(stream);
            Assert.EndsWith("hello", (await reader.ReadToEndAsync().WaitAsync(RealProgram.Patience)).TrimEnd('\r',
                '\n', '0'), StringComparison.Ordinal);
        }
    }

    public void Dispose() => RealProgram.Remove(_folder);
}
