using System.Diagnostics.Metrics;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text.RegularExpressions;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using OpenTelemetry.Metrics;
using Whimbrel.Clusters;
using Whimbrel.Http;

namespace Whimbrel.Docs.Metrics;

// A program that uses every instrument of the meter once: a TLS server, a broadcast, HTTP on both sides, a cluster. Its
// metrics are read as Prometheus reads them.
public sealed partial class MeasuredProgram : IAsyncLifetime
{
    private static readonly TimeSpan _limit = TimeSpan.FromSeconds(60);

    private readonly X509Certificate2 _certificate = NewCertificate();
    private readonly MeterListener _listener = new();
    private readonly Dictionary<string, Instrument> _instruments = [];

    /// The instruments of the meter.
    public IReadOnlyCollection<Instrument> Instruments => _instruments.Values;

    /// Labels by name of the series.
    public IReadOnlyDictionary<string, HashSet<string>> Series { get; private set; } =
        new Dictionary<string, HashSet<string>>();

    /// The name that OpenTelemetry's rules for Prometheus give to the instrument; of histograms that of their number.
    public static string NameOf(Instrument instrument)
    {
        var kind = instrument.GetType().Name;
        var unit = instrument.Unit switch { "s" => "_seconds", "By" => "_bytes", _ => "" };
        var suffix = kind.StartsWith("Histogram", StringComparison.Ordinal) ? "_count"
            : kind.StartsWith("Counter", StringComparison.Ordinal)
                || kind.StartsWith("ObservableCounter", StringComparison.Ordinal) ? "_total" : "";
        return instrument.Name.Replace('.', '_') + unit + suffix;
    }

    public async ValueTask InitializeAsync()
    {
        _listener.InstrumentPublished = (instrument, _) =>
        {
            lock (_instruments)
            {
                if (instrument.Meter.Name == "Whimbrel") _instruments[instrument.Name] = instrument;
            }
        };
        _listener.Start();
        await using var exporter = await StartExporterAsync();
        await using Server tls = new(new ServerOptions
        {
            Address = "tls://127.0.0.1:0",
            Tls = new TlsOptions { Certificate = TlsCertificate.From(_certificate) },
        }, static () => new Echo());
        await tls.StartAsync();
        await using HttpServer web = new("http://127.0.0.1:0");
        web.Get("/hello", static (request, response) => response.Text("hello"));
        await web.StartAsync();
        MemoryBus bus = new();
        ClusterOptions options = new() { Application = "docs" };
        await using Cluster here = await Cluster.JoinAsync(tls, bus.Connect(), options);
        await using Cluster there = await Cluster.JoinAsync(web, bus.Connect(), options);

        using HttpClient scraper = new();
        using CancellationTokenSource end = new(_limit);
        do
        {
            // Again, because instruments are created shortly after the first start, and record from then on.
            await EchoAsync(tls);
            await tls.Sessions.BroadcastAsync("news");
            here.Group("lobby").Broadcast("news");
            await using HttpPool pool = new();
            using HttpClientResponse response = await pool.GetAsync($"http://{web.EndPoint}/hello");
            Assert.Equal("hello", await response.ReadTextAsync());
            Series = Read(await scraper.GetStringAsync($"{exporter.Urls.First()}/metrics"));
            await Task.Delay(350); // tidy: waits because the exporter repeats an answer for 300 ms
        }
        while (!end.IsCancellationRequested && !IsComplete());
    }

    public ValueTask DisposeAsync()
    {
        _listener.Dispose();
        _certificate.Dispose();
        return ValueTask.CompletedTask;
    }

    // The three packages have created their instruments, and all of them have values.
    private bool IsComplete()
    {
        lock (_instruments)
        {
            return _instruments.ContainsKey("whimbrel.server.connection.duration")
                && _instruments.ContainsKey("http.server.request.duration")
                && _instruments.ContainsKey("whimbrel.cluster.connection.state")
                && _instruments.Values.All(i => Series.ContainsKey(NameOf(i)));
        }
    }

    private static async Task<WebApplication> StartExporterAsync()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Logging.ClearProviders();
        builder.Services.AddOpenTelemetry()
            .WithMetrics(static metrics => metrics.AddMeter("Whimbrel").AddPrometheusExporter());
        var app = builder.Build();
        app.MapPrometheusScrapingEndpoint();
        await app.StartAsync();
        return app;
    }

    private async Task EchoAsync(Server server)
    {
        using TcpClient client = new();
        await client.ConnectAsync((System.Net.IPEndPoint)server.EndPoint!);
        await using SslStream stream = new(client.GetStream(), leaveInnerStreamOpen: false,
            (_, certificate, _, _) => certificate!.GetCertHashString() == _certificate.GetCertHashString());
        await stream.AuthenticateAsClientAsync("localhost");
        await stream.WriteAsync("x"u8.ToArray());
        Assert.Equal(1, await stream.ReadAsync(new byte[1]));
    }

    private static X509Certificate2 NewCertificate()
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new("CN=localhost", key, HashAlgorithmName.SHA256);
        using var certificate = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1),
            DateTimeOffset.UtcNow.AddDays(1));
        return X509CertificateLoader.LoadPkcs12(certificate.Export(X509ContentType.Pfx), null);
    }

    private static Dictionary<string, HashSet<string>> Read(string exposition)
    {
        Dictionary<string, HashSet<string>> series = [];
        foreach (Match line in Sample().Matches(exposition))
        {
            var name = line.Groups["name"].Value;
            if (!series.TryGetValue(name, out var labels)) series[name] = labels = [];
            labels.UnionWith(Label().Matches(line.Groups["labels"].Value).Select(static m => m.Groups[1].Value));
        }

        return series;
    }

    [GeneratedRegex(@"^(?<name>[A-Za-z_:][\w:]*)(\{(?<labels>[^\n]*)\})? \S+", RegexOptions.Multiline)]
    private static partial Regex Sample();

    [GeneratedRegex(@"(\w+)=""(?:[^""\\]|\\.)*""")]
    private static partial Regex Label();

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }
}
