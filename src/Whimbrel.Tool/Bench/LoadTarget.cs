using System.Net;
using Whimbrel.Http;

namespace Whimbrel.Tool.Bench;

/// <summary>Opens the connections of a load. Created once for all cells.</summary>
internal abstract class LoadTarget(BenchSettings settings)
{
    private const int FrameBytes = 64;

    protected BenchSettings Settings => settings;

    protected Payload Payload { get; } = new(settings.SizeBytes);

    internal static async Task<LoadTarget> CreateAsync(BenchSettings settings, CancellationToken cancellation) =>
        settings.Protocol == BenchProtocol.Udp
            ? new DatagramTarget(settings, await DatagramText.LookUpAsync(
                DatagramText.ReadForSending(settings.Address, out _)!, cancellation))
            : new ClientTarget(settings);

    /// <summary>Opens a connection. Its loop is <paramref name="loops"/>[key % count], except for datagrams.</summary>
    /// <exception cref="NetworkException">It could not be opened.</exception>
    internal abstract Task<OpenLane> OpenAsync(int key, IReadOnlyList<LoadLoop> loops, CancellationToken cancellation);

    /// <summary>A lane and what ends its connection.</summary>
    internal readonly record struct OpenLane(Lane Lane, IAsyncDisposable Connection);

    private sealed class ClientTarget(BenchSettings settings) : LoadTarget(settings)
    {
        // A lost connection is replaced at once, and a server that refuses is not flooded.
        private static readonly ReconnectPolicy s_policy = new()
        {
            InitialDelay = TimeSpan.FromMilliseconds(1),
            MaxDelay = TimeSpan.FromSeconds(1),
            ResetAfter = TimeSpan.Zero,
            Jitter = false,
            RetryFirstConnect = false,
            StopWhen = static _ => false,
        };

        private readonly TlsOptions? _tls = settings.Tls?.ToClientOptions();
        private readonly Uri? _url = settings.Protocol is BenchProtocol.Ws or BenchProtocol.Http
            ? new Uri(settings.Address) : null;

        internal override async Task<OpenLane> OpenAsync(int key, IReadOnlyList<LoadLoop> loops,
            CancellationToken cancellation)
        {
            LoadLoop load = loops[key % loops.Count];
            Lane lane = new(load, key, Settings.InFlight);
            Client client = ClientOf(lane);
            client.Reconnecting += (attempt, _, reason) =>
            {
                // The first attempt follows the end of a connection, which its session has reported.
                if (attempt > 1) lane.Failed(ErrorCounts.KindOf(reason.Cause), reason.ToString());
            };
            client.Reconnected += (_, _) => load.Figures.Reconnects++;
            try
            {
                await client.ConnectAsync(cancellation);
            }
            catch
            {
                await client.DisposeAsync();
                throw;
            }

            return new OpenLane(lane, client);
        }

        private Client ClientOf(Lane lane)
        {
            ClientOptions options = OptionsFor(lane.Load.Loop);
            switch (Settings.Protocol)
            {
                case BenchProtocol.Ws:
                    return new WebSocketClient(Settings.Address, options, () => new WebSocketLane(lane, Payload),
                        new WebSocketOptions { MessageLimitBytes = BenchSettings.MostBytes + FrameBytes });
                case BenchProtocol.Http:
                    byte[] request = HttpLane.RequestFor(_url!);
                    return new Client(options, () => new HttpLane(lane, request));
                default:
                    return new Client(options, () => new StreamLane(lane, Payload));
            }
        }

        private ClientOptions OptionsFor(Loop loop) => new()
        {
            Address = _url is null ? Settings.Address
                : $"{(_url.Scheme is "wss" or "https" ? "tls" : "tcp")}://{_url.Host}:{_url.Port}",
            Loop = loop,
            Tls = _tls,
            Reconnect = s_policy,
            Limits = new() { SlowConsumer = SlowConsumer.Wait, SendBytes = 2 * BenchSettings.MostBytes },
            Timeouts = new() { Drain = TimeSpan.FromSeconds(1) },
            // Ends and failed connects are counted by kind.
            OnDiagnosticEvent = static _ => { },
        };
    }

    private sealed class DatagramTarget(BenchSettings settings, EndPoint peer) : LoadTarget(settings)
    {
        internal override async Task<OpenLane> OpenAsync(int key, IReadOnlyList<LoadLoop> loops,
            CancellationToken cancellation)
        {
            DatagramLane handler = new(Payload);
            DatagramSocket socket = new(new DatagramOptions
            {
                Engine = loops[0].Loop.Engine,
                RemoteEndPoint = peer,
                Loops = 1
            }, () => handler);
            await socket.StartAsync(cancellation);
            LoadLoop load = loops[socket.Loop!.Index];
            Lane lane = new(load, key, Settings.InFlight);
            await load.Loop.PostAsync(() => handler.Begin(lane));
            return new OpenLane(lane, socket);
        }
    }
}
