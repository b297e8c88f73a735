using System.Net;
using System.Reflection;
using System.Security.Cryptography.X509Certificates;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;
using Whimbrel.Conformance;
using Whimbrel.Http;

namespace Whimbrel.Hosting.Tests;

/// <summary>HTTP servers in a host: addresses in common notation, limits in a separate section, all errors reported at
/// once.</summary>
public sealed class HttpTests
{
    [Fact]
    public async Task A_server_of_HTTP_listens_at_an_http_address_with_the_limits_of_its_section()
    {
        await using TestHost host = new(
            static s => s.AddSingleton<Greeting>().AddWhimbrelHttpServer("Web", Map,
                http: static _ => new HttpOptions { FieldLimit = 7, AllowTrace = true }),
            ("Web:Addresses:0", "http://127.0.0.1:0"), ("Web:Addresses:1", "http://localhost:0/"),
            ("Web:Limits:Connections", "9"), ("Web:Http:BodyLimitBytes", "1000"),
            ("Web:Http:StrictTransport", "1.00:00:00"), ("Web:Http:Hosts:0", "here"));
        await host.StartAsync();
        HttpServer server = (HttpServer)host.Server("Web");
        Assert.Equal((2, 9, 1000L, 7, true, (TimeSpan?)TimeSpan.FromDays(1)),
            (server.EndPoints.Count, server.MaxConnections, server.Http.BodyLimitBytes, server.Http.FieldLimit,
                server.Http.AllowTrace, server.Http.StrictTransport));
        Assert.Equal("HTTP/1.1 200 OK", await TestHost.AskAsync((await host.ConnectAsync("Web")).GetStream(),
            "GET / HTTP/1.1\r\nHost: here\r\n\r\n", 15));
        Assert.Equal("HTTP/1.1 421 ", await TestHost.AskAsync((await host.ConnectAsync("Web")).GetStream(),
            "GET / HTTP/1.1\r\nHost: there\r\n\r\n", 13));
    }

    [Fact]
    public async Task An_https_address_has_TLS_and_agrees_on_HTTP()
    {
        TlsOptions tls = new()
        {
            Certificate = TlsCertificate.From(TestCertificates.Server),
            HandshakeTimeout = TimeSpan.FromSeconds(30)
        };
        await using TestHost host = new(
            s => s.AddSingleton<Greeting>().AddWhimbrelHttpServer("Web", Map,
                _ => new ServerOptions { Address = "https://127.0.0.1:0", Tls = tls }));
        await host.StartAsync();
        Assert.Equal(["http/1.1"], host.Server("Web").Options.Tls!.ApplicationProtocols);
        using SocketsHttpHandler handler = new()
        {
            SslOptions =
            {
                RemoteCertificateValidationCallback = static (_, shown, _, _) => shown is X509Certificate2 c
                    && c.Thumbprint == TestCertificates.Server.Thumbprint
            }
        };
        using HttpClient client = new(handler);
        Assert.Equal("hello ", await client.GetStringAsync(new Uri($"https://{host.Server("Web").EndPoint}/"),
            TestContext.Current.CancellationToken));
    }

    [Fact]
    public async Task Mistakes_of_HTTP_are_reported_with_all_others()
    {
        await using TestHost host = new(
            static s => s.AddSingleton<Greeting>().AddWhimbrelHttpServer("Web", Map).AddWhimbrelHttpServer("Other", Map)
                .AddWhimbrelServer<Echo>("Chat"),
            ("Web:Port", "70000"), ("Web:Http:FieldLimit", "0"), ("Web:Http:HeadTimeout", "5"),
            ("Web:Http:BodyLimit", "1"), ("Web:Http:Hosts:0", "here:80"), ("Web:Socket:Backlog", "0"),
            ("Web:Tls:ApplicationProtocols:0", "h2"), ("Chat:Address", "http://127.0.0.1:0"),
            ("Chat:Http:FieldLimit", "5"));
        string[] told = [.. (await Assert.ThrowsAsync<OptionsValidationException>(host.StartAsync)).Failures];
        string[] expected =
        [
            "Web:Http:HeadTimeout: '5' is no time", "Web:Http:BodyLimit: there is no such option; there are AllowTrace",
            "Web:Http:FieldLimit is 0: 1 up to", "Web:Http:Hosts has \"here:80\"",
            "Web:Tls:ApplicationProtocols: there is no http/1.1 among them", "Web:Port: 70000 is not a port",
            "Web:Socket:Backlog = 0, allowed 1 to 65535",
            "Other:Address: is missing, for example http://*:8080",
            "Chat:Http: there is no such option",
            "Chat:Address = http://127.0.0.1:0, but a plain Server does not speak HTTP",
        ];
        foreach (string each in expected) Assert.Contains(told, t => t.StartsWith(each, StringComparison.Ordinal));
    }

    [Fact]
    public void Every_limit_of_HTTP_can_be_a_text_or_stays_what_the_program_says()
    {
        IConfigurationSection empty = new ConfigurationBuilder().Build().GetSection("Http");
        HttpOptions code = new();
        object[] other = [TimeSpan.FromSeconds(77), true, 4321, 4321L, (string[])["here"], new HttpCors("*"),
            new HttpCompression()];
        foreach (PropertyInfo property in typeof(HttpOptions).GetProperties()
            .Where(static p => p.SetMethod is { IsPublic: true }))
        {
            Type type = Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType;
            object? value = other.FirstOrDefault(type.IsInstanceOfType);
            if (value is null) continue;
            if (value is bool) value = !(bool)property.GetValue(code)!;
            property.SetValue(code, value);
            HttpOptions read = HttpSection.Read(new SectionReader(empty, []), code);
            Assert.True(Equals(value, property.GetValue(read)), $"{property.Name} of the program is lost");
        }
    }

    private static void Map(IServiceProvider services, HttpServer web) =>
        web.Get("/", (_, response) => response.Text(services.GetRequiredService<Greeting>().Text));
}
