using System.Diagnostics;
using System.Net;

namespace Whimbrel.Relays;

/// <summary>
/// A TCP proxy: forwards each connection in both directions to one of its targets. FIN is forwarded per direction,
/// back-pressure applies to the source, and an aborted side aborts the other. A connection is assigned to the target
/// with the fewest connections among those that are up. The client is not read until a target has answered. A target
/// that cannot be reached, or that closes a connection immediately without sending a byte, is down. It is used last
/// until a single connection (<see cref="RelayOptions.RetryAfter"/>) or a check (<see cref="RelayOptions.CheckEvery"/>)
/// succeeds.
/// </summary>
/// <remarks><see cref="StopAsync"/> stops accepting; open connections continue until its deadline.</remarks>
public sealed class Relay : IAsyncDisposable
{
    private const int OwnPart = 256; // two Unix paths and a checksum, at most

    private readonly RelayOptions _options;
    private readonly RelayTarget[] _targets;
    private RelayChecks? _checks;
    private int _turn;
    private long _unserved;

    /// <summary>Checks the options; <see cref="StartAsync"/> listens.</summary>
    /// <param name="listen">
    /// Listening address, TLS of the clients, limits (<see cref="ServerLimits.Connections"/>).
    /// </param>
    /// <param name="options">Targets and how to connect to them.</param>
    /// <exception cref="ArgumentException">
    /// There is no target, or an address is invalid or is one at which the relay itself listens.
    /// </exception>
    public Relay(ServerOptions listen, RelayOptions options)
    {
        ArgumentNullException.ThrowIfNull(listen);
        ArgumentNullException.ThrowIfNull(options);
        if (options.Targets is not { Count: > 0 })
            throw new ArgumentException("A relay needs a target.", nameof(options));
        string[] mistakes = [.. options.Targets.Select(static t => NetworkAddress.TryParse(t, out _,
            out string? mistake) ? null : mistake ?? $"'{t}' is no address").OfType<string>()];
        if (mistakes.Length > 0) throw new ArgumentException(
            $"Targets of a relay: {string.Join("; ", mistakes.Select(static m => m.TrimEnd('.')))}.", nameof(options));
        if (options.Targets.FirstOrDefault(t => IsOwn(listen, NetworkAddress.Parse(t))) is { } own)
        {
            throw new ArgumentException($"The target {own} is where the relay itself listens: each connection "
                + $"would open the next one, without end. Give the address of the server that it relays to.",
                nameof(options));
        }

        if (options
            is { TargetHeader: ProxyHeaderForm.Binary, Clients.HeaderLimitBytes: > ProxyHeader.MaxLength - OwnPart })
        {
            throw new ArgumentException(
                $"Clients.HeaderLimitBytes is {options.Clients.HeaderLimitBytes}: the header for the targets has "
                + $"addresses of its own beside the extensions that came, so at most {ProxyHeader.MaxLength - OwnPart} "
                + $"can be passed on.", nameof(options));
        }

        _options = options;
        Server = new Server(listen, Accept);
        _targets = [.. options.Targets.Select(address => new RelayTarget(address, ConnectorFor(address), options,
            options.OnTargetChanged ?? Report))];
    }

    /// <summary>The server that accepts the clients.</summary>
    public Server Server { get; }

    /// <summary>The targets, in the order of the options.</summary>
    public IReadOnlyList<RelayTarget> Targets => _targets;

    /// <summary>Number of client connections that were reset because no target could be reached.</summary>
    public long Unserved => Volatile.Read(ref _unserved);

    internal RelayOptions Options => _options;

    /// <summary>Starts listening.</summary>
    /// <exception cref="NetworkException">The address is taken, or cannot be used.</exception>
    public async ValueTask StartAsync()
    {
        await Server.StartAsync().ConfigureAwait(false);
        if (_options.CheckEvery != Timeout.InfiniteTimeSpan) _checks ??= new RelayChecks(_targets, _options);
    }

    /// <summary>Stops accepting, and waits until the open connections have ended.</summary>
    /// <param name="deadline">
    /// Time after which open connections are reset. The default is that of <see cref="Server.StopAsync(TimeSpan?)"/>.
    /// </param>
    public async ValueTask<StopReport> StopAsync(TimeSpan? deadline = null)
    {
        // The server is stopped first, so that it accepts no more.
        ValueTask<StopReport> stopped = Server.StopAsync(deadline);
        if (Interlocked.Exchange(ref _checks, null) is { } checks) await checks.DisposeAsync().ConfigureAwait(false);
        return await stopped.ConfigureAwait(false);
    }

    /// <summary>Stops at once and resets open connections. For a drain call <see cref="StopAsync"/> first.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(TimeSpan.Zero).ConfigureAwait(false);
        await Server.DisposeAsync().ConfigureAwait(false);
        foreach (RelayTarget target in _targets) await target.Connector.DisposeAsync().ConfigureAwait(false);
    }

    internal void CountUnserved() => Interlocked.Increment(ref _unserved);

    /// <summary>
    /// Selects the next target that is not in <paramref name="asked"/>: one that is due for a retry, otherwise the one
    /// with the fewest connections, first among those that are up, then among all.
    /// </summary>
    internal RelayTarget? Next(List<RelayTarget> asked)
    {
        RelayTarget? best = null;
        bool isBestUp = false;
        long now = Stopwatch.GetTimestamp();
        int from = Interlocked.Increment(ref _turn) & int.MaxValue;
        for (int i = 0; i < _targets.Length; i++)
        {
            RelayTarget target = _targets[(int)(((long)from + i) % _targets.Length)];
            if (asked.Contains(target)) continue;
            if (target.TryTurn(now)) return target;
            bool isUp = target.IsUp;
            if (best is null || (isUp && !isBestUp)
                || (isBestUp == isUp && target.OpenConnections < best.OpenConnections))
                (best, isBestUp) = (target, isUp);
        }

        return best;
    }

    private static bool IsOwn(ServerOptions listen, NetworkAddress target)
    {
        IEnumerable<(string Host, int Port)> own = listen.EndPoints.Append(listen.EndPoint).OfType<IPEndPoint>()
            .Select(static e => (e.Address.ToString(), e.Port));
        if (NetworkAddress.TryParse(listen.Address ?? "", out NetworkAddress? address, out _) && address.Port > 0)
            own = own.Append((address.Host, address.Port));
        return own.Any(o => o.Port != 0 && o.Port == target.Port && (Plain(o.Host) == Plain(target.Host)
            || (o.Host is "*" or "0.0.0.0" or "::" && IPAddress.TryParse(Plain(target.Host), out IPAddress? ip)
                && IPAddress.IsLoopback(ip))));

        static string Plain(string host) => host == "localhost" ? "127.0.0.1" : host;
    }

    private void Report(RelayTarget target)
    {
        string others = _targets.Length > 1
            ? "Other targets get the clients"
            : "There is no other target: clients are reset until it serves";
        string tries = _options.CheckEvery != Timeout.InfiniteTimeSpan ? "; it rests until a check passes"
            : _targets.Length > 1 ? "; from time to time one client tries it" : "";
        string text = target.IsUp ? "serves again" : $"has failed: {target.LastFailure?.TrimEnd('.')}. {others}{tries}";
        Server.Report(new DiagnosticEvent(DiagnosticEventKind.RelayTarget,
            $"Relay at {Server.EndPoint}: target {target.Address} {text}.", "relay-target.md"));
    }

    private Session Accept() => _options.Clients is { } clients
        ? new ProxySession(clients, header => new RelayFront(this, header))
        : new RelayFront(this, null);

    // With a PROXY header TLS starts after the connect, by an upgrade.
    private Connector ConnectorFor(string address) => new(new ClientOptions
    {
        Address = address,
        Engine = Server.Engine,
        Timeouts = new() { Connect = _options.ConnectTimeout },
        Tls = _options.TargetHeader == ProxyHeaderForm.None ? _options.TargetTls : null,
    });
}
