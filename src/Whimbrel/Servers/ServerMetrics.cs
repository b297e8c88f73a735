using System.Collections.Concurrent;
using System.Diagnostics;
using System.Diagnostics.Metrics;
using System.Net;
using System.Net.Sockets;
using System.Security.Authentication;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Metrics of servers. The duration of a connection is recorded at its end, on its loop; start times are kept only
/// while a listener is active.
/// </summary>
internal static class ServerMetrics
{
    private static readonly ConcurrentDictionary<Server.Host, KeyValuePair<string, object?>[]> s_servers = new();
    private static Instruments? s_instruments;
    private static int s_isMade;

    /// <summary>The histogram, or null before the meter is created.</summary>
    internal static Histogram<double>? ConnectionDuration => Volatile.Read(ref s_instruments)?.ConnectionDuration;

    internal static void ServerStarted(Server.Host server, EndPoint? endPoint)
    {
        s_servers[server] = LabelsOf(endPoint);
        WhimbrelMeter.MakeOnce(ref s_isMade, static () => Volatile.Write(ref s_instruments, new Instruments()));
        ServerTraces.Prepare();
    }

    internal static void ServerStopped(Server.Host server) => s_servers.TryRemove(server, out _);

    /// <summary>Number of servers of all engines that are started or stopping.</summary>
    internal static int ServerCount => s_servers.Count;

    /// <summary>Returns the servers of an engine that are started or stopping.</summary>
    internal static List<Server.Host> ServersOf(Engine engine) => [.. s_servers.Keys.Where(
        host => ReferenceEquals(host.Engine, engine))];

    /// <summary>
    /// Returns the labels of a server by the conventions of OpenTelemetry: its address, never that of a peer.
    /// </summary>
    internal static KeyValuePair<string, object?>[] LabelsOf(EndPoint? endPoint) => endPoint switch
    {
        IPEndPoint ip =>
        [
            new("network.transport", "tcp"),
            new("network.type", ip.AddressFamily == AddressFamily.InterNetwork ? "ipv4" : "ipv6"),
            new("server.address", ip.Address.ToString()), new("server.port", ip.Port),
        ],
        UnixDomainSocketEndPoint unix => [new("network.transport", "unix"), new("server.address", unix.ToString())],
        _ => [],
    };

    /// <summary>
    /// Records a connection that has ended. Runs on its loop. An exception of a listener affects no session.
    /// </summary>
    internal static void ConnectionEnded(Server.Host server, double seconds, CloseReason reason)
    {
        try
        {
            if (!s_servers.TryGetValue(server, out KeyValuePair<string, object?>[]? labels)) labels = [];
            ConnectionDuration?.Record(seconds,
                reason.IsGraceful ? labels : [.. labels, new("error.type", reason.Cause.ToString())]);
        }
        catch (Exception e)
        {
            server.Engine.ReportException($"a listener of the meter \"{WhimbrelMeter.Name}\"", e);
        }
    }

    /// <summary>
    /// Returns a timestamp if a listener measures the duration of the handshake that begins now, otherwise zero.
    /// </summary>
    internal static long HandshakeBegins(Engine engine) =>
        Volatile.Read(ref s_instruments) is { HandshakeDuration.Enabled: true } && engine.HasWatchdog
            ? Stopwatch.GetTimestamp()
            : 0;

    /// <summary>
    /// Records a handshake that succeeded (<paramref name="info"/> has the result) or failed. Runs on the connection's
    /// loop. An exception of a listener affects no session.
    /// </summary>
    internal static void HandshakeEnded(Server.Host server, long since, TlsInfo? info, string? failure)
    {
        try
        {
            if (Volatile.Read(ref s_instruments) is not { } instruments) return;
            if (!s_servers.TryGetValue(server, out KeyValuePair<string, object?>[]? labels)) labels = [];
            TagList all = new(labels);
            all.Add("whimbrel.tls.outcome", info is null ? "failed" : info.IsResumed ? "resumed" : "full");
            if (info is not null) all.Add("tls.protocol.version", VersionOf(info.Protocol));
            if (failure is not null) all.Add("error.type", failure);
            instruments.HandshakeDuration.Record(Stopwatch.GetElapsedTime(since).TotalSeconds, all);
        }
        catch (Exception e)
        {
            server.Engine.ReportException($"a listener of the meter \"{WhimbrelMeter.Name}\"", e);
        }
    }

    private static string VersionOf(SslProtocols protocol) => protocol switch
    {
        SslProtocols.Tls13 => "1.3",
        SslProtocols.Tls12 => "1.2",
        _ => protocol.ToString(),
    };

    /// <summary>All instruments. A nested class, so that no type of the meter is loaded before it is created.</summary>
    private sealed class Instruments
    {
        internal readonly Histogram<double> ConnectionDuration;
        internal readonly Histogram<double> HandshakeDuration;

        internal Instruments()
        {
            Meter meter = WhimbrelMeter.Instance;
            meter.CreateObservableUpDownCounter("whimbrel.server.active_connections",
                static () => OfServers(static c => c.Sessions), "{connection}",
                "Connections that are open, beginning or ending.");
            meter.CreateObservableCounter("whimbrel.server.accepted_connections",
                static () => OfServers(static c => c.Accepted), "{connection}", "Connections taken.");
            meter.CreateObservableCounter(
                "whimbrel.server.rejected_connections",
                static () => OfServers("error.type", ("limit", static c => c.Rejected),
                    ("admit", static c => c.Refused), ("descriptors", static c => c.Shed)),
                "{connection}",
                "Connections closed at once: at a limit of the server, by its filter, without a descriptor.");
            meter.CreateObservableCounter(
                "whimbrel.server.io",
                static () => OfServers("network.io.direction", ("receive", static c => c.BytesReceived),
                    ("transmit", static c => c.BytesSent)),
                "By",
                "Bytes received from and given to the system.");
            meter.CreateObservableCounter(
                "whimbrel.server.messages",
                static () => OfServers("network.io.direction", ("receive", static c => c.MessagesReceived),
                    ("transmit", static c => c.MessagesSent ?? 0)),
                "{message}",
                "Deliveries to sessions, and sends that were taken (these with ConnectionOptions.CountSends).");
            meter.CreateObservableUpDownCounter("whimbrel.server.send_queue.usage", PendingOfServers, "By",
                "Bytes that sends have queued and the system has not taken.");
            meter.CreateObservableCounter(
                "whimbrel.server.slow_consumers",
                static () => OfServers("action", ("disconnect", static c => c.SlowConsumers),
                    ("drop", static c => c.BroadcastsDropped)),
                "{event}",
                "Sessions ended because their peer read too slowly, and messages of broadcasts that one of "
                + "them missed.");
            meter.CreateObservableCounter(
                "whimbrel.server.tls_handshakes",
                static () => OfServers("whimbrel.tls.outcome", ("full", static c => c.TlsHandshakes - c.TlsResumed),
                    ("resumed", static c => c.TlsResumed), ("failed", static c => c.TlsFailed)),
                "{handshake}",
                "TLS handshakes that have ended.");
            meter.CreateObservableUpDownCounter("whimbrel.server.active_tls_handshakes",
                static () => OfServers(static c => c.TlsShaking), "{handshake}", "TLS handshakes that run.");
            meter.CreateObservableCounter("whimbrel.server.user_exceptions",
                static () => OfServers(static c => c.UserExceptions), "{exception}",
                "Exceptions of the program's code that were caught.");
            HandshakeDuration = meter.CreateHistogram(
                "whimbrel.server.tls_handshake.duration",
                "s",
                "Time from the moment that a TLS handshake may begin, the wait for the peer's first bytes included, "
                + "until it is done or has failed; error.type is the failure.",
                tags: null,
                new InstrumentAdvice<double>
                {
                    HistogramBucketBoundaries = [0.0005, 0.001, 0.0025, 0.005,
                        0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
                });
            ConnectionDuration = meter.CreateHistogram(
                "whimbrel.server.connection.duration",
                "s",
                "Time from OnConnected to the end; error.type is the cause, unless one side or the server closed it.",
                tags: null,
                new InstrumentAdvice<double>
                {
                    HistogramBucketBoundaries = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
                });
        }

        private static IEnumerable<Measurement<long>> OfServers(Func<ServerCounters, long> number)
        {
            foreach ((Server.Host server, KeyValuePair<string, object?>[] labels) in s_servers)
                yield return new Measurement<long>(number(server.ReadCounters()), labels);
        }

        private static IEnumerable<Measurement<long>> OfServers(string label,
            params (string Value, Func<ServerCounters, long> Number)[] numbers)
        {
            foreach ((Server.Host server, KeyValuePair<string, object?>[] labels) in s_servers)
            {
                ServerCounters counters = server.ReadCounters();
                foreach ((string value, Func<ServerCounters, long> number) in numbers)
                {
                    yield return new Measurement<long>(number(counters), [.. labels, new(label, value)]);
                }
            }
        }

        private static IEnumerable<Measurement<long>> PendingOfServers()
        {
            foreach ((Server.Host server, KeyValuePair<string, object?>[] labels) in s_servers)
                yield return new Measurement<long>(server.BytesPending, labels);
        }
    }
}
