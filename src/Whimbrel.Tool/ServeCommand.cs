using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Dashboard;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>
/// <c>whimbrel serve</c>. Prints the listening line, answers to benchmark signals and finally the totals on stdout;
/// everything else goes to stderr.
/// </summary>
internal static class ServeCommand
{
    internal static async Task<int> RunAsync(ServeSettings settings)
    {
        await using NoticePrinter notices = new();
        Task stop = StopSignal.WaitAsync();
        Engine? engine = null;
        int code = ExitCode.Failed;
        try
        {
            engine = new Engine(new EngineOptions
            {
                Kind = settings.Engine,
                Loops = settings.Loops,
                BlockedLoopMs = NoticePrinter.BlockedLoopMs,
                OnDiagnosticEvent = notices.Add
            });
            X509Certificate2? own = null;
            TlsOptions? tls = settings.Tls?.ToServerOptions(NetworkAddress.Parse(settings.Address), out own);
            await using ProcessUpgrade? upgrade = settings.UpgradePath is { } path ? new ProcessUpgrade(path) : null;
            Service service = Service.Create(settings, engine, tls, upgrade);
            await engine.StartAsync();
            await using IAsyncDisposable? cluster = settings.Cluster is { } broker
                ? await service.Room!.JoinAsync(service.Server, broker, settings.Node)
                : null;
            await service.Server.StartAsync();
            await using HttpServer? dashboard = await StartDashboardAsync(settings.DashboardPort, engine);
            if (upgrade is not null) await upgrade.ReadyAsync();
            StopReport report = await ServeAsync(settings, service, own, stop, upgrade);
            if (report.IsComplete) code = ExitCode.Done;
            else await Console.Error.WriteLineAsync($"whimbrel: not everything has ended: {report}.");
            // What delays the server delays the engine as well, so it is reported and waited for once.
            if (!report.IsComplete) engine = null;
        }
        catch (Exception e) when (e is NetworkException or ArgumentException or PlatformNotSupportedException
            or IOException or UnauthorizedAccessException or CryptographicException)
        {
            // A port in use, no descriptor, an unavailable engine or an unreadable certificate: the message is
            // complete.
            await Console.Error.WriteLineAsync($"whimbrel: {e.Message}");
        }

        if (engine is not null && !await DatagramRun.EndAsync(engine)) code = ExitCode.Failed;
        return code;
    }

    private static async Task<HttpServer?> StartDashboardAsync(int? port, Engine engine)
    {
        if (port is null) return null;
        HttpServer web = new(new ServerOptions { Address = $"http://127.0.0.1:{port}", Engine = engine });
        web.AddDashboard();
        await web.StartAsync();
        await Console.Error.WriteLineAsync($"dashboard at http://{web.EndPoint}/whimbrel");
        return web;
    }

    private static async Task<StopReport> ServeAsync(ServeSettings settings, Service service,
        X509Certificate2? own, Task asked, ProcessUpgrade? upgrade)
    {
        Server server = service.Server;
        long start = Stopwatch.GetTimestamp();
        using MeasurementSignals signals = new(server.Engine);
        using CancellationTokenSource ending = new();
        service.Producer?.Start(server);
        Console.Out.WriteLine($"listening on {server.EndPoint} (engine {server.Engine.KindName}, loops "
            + $"{server.Engine.LoopCount}"
            + $"{(server.TlsProvider is { } layer ? $", TLS {layer.Split(' ')[0].ToLowerInvariant()}" : "")})");
        if (own is not null)
            Console.Error.WriteLine($"TLS with a temporary certificate of this process, for {NamesOf(own)}. For a "
                + $"permanent one: whimbrel certs. SHA-256 {CertsCommand.FingerprintOf(own)}");
        Console.Error.WriteLine($"serving {settings.Kind.ToString().ToLowerInvariant()}; Ctrl-C ends. Talk to it: "
            + HowToReach(settings, server.EndPoint!, own));
        if (upgrade?.OldProcess is { } old)
            Console.Error.WriteLine($"the listening socket is that of process {old}, which drains and ends");
        Task stats = settings.Stats ? PrintStatsAsync(service, ending.Token) : Task.CompletedTask;

        if (upgrade is not null) asked = Task.WhenAny(asked, upgrade.Replaced);
        if (settings.Duration is { } duration) await Task.WhenAny(asked, Task.Delay(duration, ending.Token));
        else await asked;
        if (upgrade is { IsReplaced: true })
            Console.Error.WriteLine("a new process serves from now on: this one drains and ends");

        await ending.CancelAsync();
        await stats;
        service.Producer?.Dispose();
        StopReport report = await server.StopAsync();
        Console.Out.WriteLine(string.Create(
            CultureInfo.InvariantCulture,
            $"total: {server.AcceptedCount} connections, {server.BytesReceived} bytes in, {server.BytesSent} "
            + $"bytes out, {Stopwatch.GetElapsedTime(start).TotalSeconds:0.0} seconds, {report.Drained} drained, "
            + $"{report.Aborted} aborted{Handshakes(settings, server.ReadCounters())}"));
        return report;
    }

    private static string Handshakes(ServeSettings settings, ServerCounters counters) =>
        settings.Tls is null ? "" : string.Create(CultureInfo.InvariantCulture, $", {counters.TlsHandshakes} "
            + $"handshakes of which {counters.TlsResumed} resumed, {counters.TlsFailed} failed");

    private static string NamesOf(X509Certificate2 certificate)
    {
        X509SubjectAlternativeNameExtension names = certificate.Extensions.OfType<X509SubjectAlternativeNameExtension>()
            .Single();
        return string.Join(", ",
            [.. names.EnumerateDnsNames(), .. names.EnumerateIPAddresses().Select(static a => a.ToString())]);
    }

    private static string HowToReach(ServeSettings settings, EndPoint endPoint, X509Certificate2? own)
    {
        bool isTls = settings.Tls is not null;
        return settings.Kind switch
        {
            ServeKind.Ws => $"new WebSocket(\"{(isTls ? "wss" : "ws")}://{endPoint}\") in a browser's console",
            ServeKind.Chat when endPoint is IPEndPoint at =>
                $"{(isTls ? "https" : "http")}://{Reachable(at)}/ in a browser, {HowToTalk(settings, at, own)}",
            ServeKind.Http => HowToAsk(endPoint, isTls),
            _ => HowToTalk(settings, endPoint, own),
        };
    }

    private static string HowToAsk(EndPoint endPoint, bool isTls)
    {
        string scheme = isTls ? "--insecure https" : "http";
        return endPoint is IPEndPoint ip
            ? $"curl {scheme}://{Reachable(ip)}"
            : $"curl --unix-socket {endPoint} {scheme}://localhost";
    }

    private static string HowToTalk(ServeSettings settings, EndPoint endPoint, X509Certificate2? own) =>
        settings.Tls is { } tls ? HowToTalk(endPoint, tls, own) : HowToTalk(endPoint);

    private static string HowToTalk(EndPoint endPoint)
    {
        if (endPoint is not IPEndPoint ip) return $"whimbrel connect --unix {endPoint}, or nc -U {endPoint}";
        ip = Reachable(ip);
        return $"whimbrel connect {ip}, or nc {ip.Address} {ip.Port}";
    }

    private static string HowToTalk(EndPoint endPoint, TlsArguments tls, X509Certificate2? own)
    {
        string trust = own is not null ? $"--pin {TlsCertificate.PinOf(own)}" : "--ca FILE";
        string proof = tls.AuthorityFile is null ? "" : " --cert FILE --key FILE";
        if (endPoint is not IPEndPoint ip)
            return $"whimbrel connect --unix {endPoint} --tls {trust}{proof}, or openssl s_client -unix {endPoint}";
        ip = Reachable(ip);
        return $"whimbrel connect {trust}{proof} tls://{ip}, or openssl s_client -connect {ip}";
    }

    private static IPEndPoint Reachable(IPEndPoint ip) =>
        ip.Address.Equals(IPAddress.Any) || ip.Address.Equals(IPAddress.IPv6Any)
            ? new IPEndPoint(IPAddress.Loopback, ip.Port)
            : ip;

    private static async Task PrintStatsAsync(Service service, CancellationToken ending)
    {
        using PeriodicTimer timer = new(TimeSpan.FromSeconds(1));
        long last = Stopwatch.GetTimestamp();
        (long Count, long In, long Out) before = Read();
        try
        {
            while (await timer.WaitForNextTickAsync(ending))
            {
                (long Count, long In, long Out) now = Read();
                double seconds = Stopwatch.GetElapsedTime(last).TotalSeconds;
                last = Stopwatch.GetTimestamp();
                await Console.Error.WriteLineAsync(string.Create(
                    CultureInfo.InvariantCulture,
                    $"{service.Server.SessionCount} connections, {(now.Count - before.Count) / seconds:0} "
                    + $"{service.Unit}/s, {(now.In - before.In) / seconds / 1e6:0.0} MB/s in, "
                    + $"{(now.Out - before.Out) / seconds / 1e6:0.0} MB/s out"));
                before = now;
            }
        }
        catch (OperationCanceledException)
        {
            // The server ends.
        }

        (long Count, long In, long Out) Read() =>
            (service.Count(), service.Server.BytesReceived, service.Server.BytesSent);
    }
}
