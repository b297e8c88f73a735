using System.Diagnostics;
using System.Globalization;
using System.Net;
using Whimbrel.Clusters;

namespace Whimbrel.Bench.Peers;

/// <summary>Broadcasts to members of the own node, alternately through a group of the server and one of a cluster: the
/// cost of a cluster when all members are local.</summary>
internal static class ClusterLocal
{
    private const int Members = 100, MessageBytes = 64, Windows = 31, Warm = 6;

    private static readonly byte[] s_message = new byte[MessageBytes];
    private static long s_received;

    public static async Task RunAsync(string? broker, int each, int count)
    {
        await using var engine = new Engine(new EngineOptions { Loops = 1 });
        await using var clients = new Engine(new EngineOptions { Loops = 1 });
        SessionGroup plain = new("plain"), twin = new("twin");
        ClusterGroup? everywhere = null;
        await using var server = new Server(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Limits = new() { SendBytes = 64 << 20 }
        }, () => new Member(plain, twin, () => everywhere!));
        await server.StartAsync();
        var options = new ClusterOptions { Application = "bench", NodeId = "a" };
        await using var cluster = broker is null ? await Cluster.JoinAsync(server, options) : await Cluster.JoinAsync(
            server,
            broker.StartsWith("nats", StringComparison.Ordinal) ? new NatsBus(broker) : new RedisBus(broker), options);
        everywhere = cluster.Group("all");
        var connected = new List<Client>();
        for (var i = 0; i < Members; i++)
        {
            connected.Add(new Client(new ClientOptions { Engine = clients, EndPoint = server.EndPoint! },
                static () => new Discard()));
            await connected[^1].ConnectAsync();
        }

        while (everywhere.LocalCount < Members || plain.Count < Members)
        {
            await Task.Delay(10);
        }

        List<double> ofCluster = [], ofTwin = [];
        for (var i = 0; i < Warm + Windows; i++)
        {
            // Alternating order, so that neither always runs after the other.
            var first = await WindowAsync(engine, () => plain.Broadcast(s_message), each, count);
            var through = await WindowAsync(engine, () => everywhere.Broadcast(s_message), each, count);
            var again = await WindowAsync(engine, () => twin.Broadcast(s_message), each, count);
            if (i < Warm)
            {
                continue;
            }

            ofCluster.Add(through * 2 / (first + again));
            ofTwin.Add(again / first);
        }

        ofCluster.Sort();
        ofTwin.Sort();
        Console.Out.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{Members} members, {each} "
            + $"broadcasts a turn: time through a cluster's group / a server's {ofCluster[Windows / 2]:0.000} "
            + $"[{ofCluster[Windows / 4]:0.000} - {ofCluster[Windows * 3 / 4]:0.000}]; a server's / the same "
            + $"{ofTwin[Windows / 2]:0.000} [{ofTwin[Windows / 4]:0.000} - {ofTwin[Windows * 3 / 4]:0.000}]"));
        foreach (var client in connected)
        {
            await client.DisposeAsync();
        }
    }

    /// <summary>Seconds until all members have received `count` broadcasts, of which `each` are sent per loop
    /// iteration.</summary>
    private static async Task<double> WindowAsync(Engine engine, Func<SendResult> broadcast, int each, int count)
    {
        Volatile.Write(ref s_received, 0);
        var loop = engine.GetLoop(0);
        var left = count;
        var sent = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var start = Stopwatch.GetTimestamp();
        loop.Post(Turn);
        await sent.Task;
        var all = (long)count * Members * MessageBytes;
        while (Volatile.Read(ref s_received) < all)
        {
            Thread.Yield();
        }

        return Stopwatch.GetElapsedTime(start).TotalSeconds;

        void Turn()
        {
            for (var i = 0; i < each && left > 0; i++, left--)
            {
                _ = broadcast();
            }

            if (left > 0)
            {
                loop.Post(Turn);
            }
            else
            {
                sent.SetResult();
            }
        }
    }

    private sealed class Member(SessionGroup plain, SessionGroup twin, Func<ClusterGroup> everywhere) : Session
    {
        protected override void OnConnected()
        {
            plain.Join(this);
            twin.Join(this);
            everywhere().Join(this);
        }
    }

    private sealed class Discard : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Interlocked.Add(ref s_received, data.Length);
    }
}
