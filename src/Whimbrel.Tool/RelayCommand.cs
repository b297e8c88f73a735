using System.Globalization;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Relays;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel relay</c>. Prints the listening line and finally the totals of each target on stdout;
/// everything else goes to stderr.</summary>
internal static class RelayCommand
{
    private static readonly TimeSpan s_drain = TimeSpan.FromSeconds(10);

    internal static async Task<int> RunAsync(RelaySettings settings)
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
            code = await RelayAsync(settings, engine, notices, stop);
        }
        catch (Exception e) when (e is NetworkException or ArgumentException or PlatformNotSupportedException
            or IOException or UnauthorizedAccessException or CryptographicException)
        {
            notices.Tell($"whimbrel: {e.Message}");
        }

        if (engine is not null && !await DatagramRun.EndAsync(engine)) code = ExitCode.Failed;
        return code;
    }

    private static async Task<int> RelayAsync(RelaySettings settings, Engine engine, NoticePrinter notices, Task asked)
    {
        X509Certificate2? own = null;
        TlsOptions? tls = settings.Tls?.ToServerOptions(NetworkAddress.Parse(settings.Address), out own);
        ProxyOptions? proxies = settings.Proxies is null ? null : new ProxyOptions
        {
            Trusted = TrustedNetworks.Parse(settings.Proxies),
            Tls = tls, // after the header
            OnRefused = (session, fault) => notices.Tell($"refused {session.RemoteEndPoint}: {fault}"),
        };
        RelayOptions options = new()
        {
            // TLS to targets starts after the header, so the option enables it and not the address.
            Targets = [.. settings.Targets.Select(PlainOf)],
            TargetTls = settings.TargetTls?.ToClientOptions(),
            CheckEvery = settings.CheckEvery,
            TargetHeader = settings.Header,
            Clients = proxies,
            OnTargetChanged = target => notices.Tell(
                $"{target.Address} is {(target.IsUp ? "up again" : $"down: {target.LastFailure?.TrimEnd('.')}")}"),
        };
        // With a PROXY header TLS starts after it, so the listener itself has none.
        string address = proxies is not null ? PlainOf(settings.Address) : settings.Address;
        await using Relay relay = new(new ServerOptions
        {
            Address = address,
            Engine = engine,
            Tls = proxies is null ? tls : null,
            StatusPath = settings.StatusPath
        }, options);
        await relay.StartAsync();
        Console.Out.WriteLine(
            $"listening on {relay.Server.EndPoint} (engine {engine.KindName}, loops {engine.LoopCount})");
        if (own is not null)
            notices.Tell($"TLS with a temporary certificate of this process. For a permanent one: whimbrel certs. "
                + $"SHA-256 {CertsCommand.FingerprintOf(own)}");
        notices.Tell($"relaying to {string.Join(", ", settings.Targets)}; Ctrl-C ends.");
        using (CancellationTokenSource ending = new())
        {
            Task stats = settings.Stats ? PrintStatsAsync(relay, notices, ending.Token) : Task.CompletedTask;
            await Task.WhenAny(asked, Task.Delay(settings.Duration ?? Timeout.InfiniteTimeSpan, ending.Token));
            await ending.CancelAsync();
            await stats;
        }

        StopReport report = await relay.StopAsync(s_drain);
        foreach (RelayTarget target in relay.Targets) Console.Out.WriteLine(TotalOf(target));
        Console.Out.WriteLine(string.Create(CultureInfo.InvariantCulture, $"total: {relay.Server.AcceptedCount} "
            + $"connections, {relay.Unserved} not served, {report.Drained} drained, {report.Aborted} aborted"));
        if (!report.IsComplete) notices.Tell($"whimbrel: not everything has ended: {report}.");
        return report.IsComplete ? ExitCode.Done : ExitCode.Failed;
    }

    private static string PlainOf(string address) =>
        address.StartsWith("tls://", StringComparison.Ordinal) ? $"tcp{address[3..]}" : address;

    private static string TotalOf(RelayTarget target) => string.Create(
        CultureInfo.InvariantCulture, $"{target.Address}: {target.Connections} connections, {target.Failures} failed, "
            + $"{target.BytesToTarget} bytes to it, {target.BytesFromTarget} bytes from it");

    private static async Task PrintStatsAsync(Relay relay, NoticePrinter notices, CancellationToken ending)
    {
        using PeriodicTimer timer = new(TimeSpan.FromSeconds(1));
        try
        {
            while (await timer.WaitForNextTickAsync(ending)) notices.Tell(string.Join(", ", relay.Targets));
        }
        catch (OperationCanceledException)
        {
            // The relay ends.
        }
    }
}
