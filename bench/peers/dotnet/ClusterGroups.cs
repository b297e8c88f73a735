using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Bench.Peers;

/// <summary>Many groups on three nodes of this process with a broker: bytes per group and node, and the time from the
/// first join until the first message of another node.</summary>
internal static class ClusterGroups
{
    private const int Nodes = 3, FirstJoins = 2_000;

    private static readonly byte[] s_message = Encoding.ASCII.GetBytes(new string('m', 64));

    public static async Task RunAsync(string broker, int groups)
    {
        var nodes = new Node[Nodes];
        for (var i = 0; i < Nodes; i++)
        {
            nodes[i] = await Node.StartAsync($"{(char)('a' + i)}", broker);
        }

        // One-time allocations of the first groups are not counted.
        await FillAsync(nodes, "warm", 100);
        var before = GC.GetTotalMemory(forceFullCollection: true);
        await FillAsync(nodes, "g", groups);
        var joined = GC.GetTotalMemory(forceFullCollection: true);
        await SayAsync(nodes, "g", groups);
        var told = GC.GetTotalMemory(forceFullCollection: true);
        Console.Out.WriteLine(
            $"{groups} groups on {Nodes} nodes, a member on each: {(joined - before) / Nodes / groups} B for each "
            + $"group and node; {(told - before) / Nodes / groups} B when all nodes have published to all");
        var waits = FirstJoinWaits(nodes);
        Console.Out.WriteLine(FormattableString.Invariant(
            $"first member to first message of another node, {waits.Length} times: p50 {waits[waits.Length / 2]:0} ")
            + FormattableString.Invariant($"us, p99 {waits[waits.Length * 99 / 100]:0} us, longest {waits[^1]:0} us"));
        foreach (var node in nodes)
        {
            await node.DisposeAsync();
        }
    }

    private static async Task FillAsync(Node[] nodes, string name, int groups)
    {
        foreach (var node in nodes)
        {
            var echoes = node.Cluster.ReadCounters().Echoes;
            for (var i = 0; i < groups; i++)
            {
                node.Cluster.Group($"{name}{i}").Join(node.Session);
            }

            // The question that is sent with a subscription returns after it.
            await UntilAsync(() => node.Cluster.ReadCounters().Echoes >= echoes + groups);
        }
    }

    private static async Task SayAsync(Node[] nodes, string name, int groups)
    {
        var heard = nodes.Sum(static n => n.Cluster.ReadCounters().Received);
        foreach (var node in nodes)
        {
            for (var i = 0; i < groups; i++)
            {
                node.Cluster.Group($"{name}{i}").Broadcast(s_message);
                // In small steps, so that what a burst leaves in the pools of the loops is not counted as memory of
                // groups.
                if (i % 20 == 19)
                {
                    heard += 20 * (Nodes - 1);
                    await UntilAsync(() => nodes.Sum(static n => n.Cluster.ReadCounters().Received) >= heard,
                        yields: true);
                }
            }
        }

        await Task.Delay(TimeSpan.FromSeconds(8)); // the marks that follow
    }

    /// <summary>One node joins an empty group while another broadcasts every tenth of a millisecond; measures the time
    /// until the member receives the first message.</summary>
    private static double[] FirstJoinWaits(Node[] nodes)
    {
        var waits = new double[FirstJoins];
        for (var i = 0; i < FirstJoins; i++)
        {
            var (here, there) = (nodes[i % Nodes], nodes[(i + 1) % Nodes].Cluster.Group($"first{i}"));
            here.HeardAt = 0;
            var start = Stopwatch.GetTimestamp();
            here.Cluster.Group(there.Name).Join(here.Session);
            for (var next = start; here.HeardAt == 0;)
            {
                if (Stopwatch.GetTimestamp() < next)
                {
                    Thread.Yield();
                    continue;
                }

                there.Broadcast(s_message);
                next = Stopwatch.GetTimestamp() + (Stopwatch.Frequency / 10_000);
            }

            waits[i] = Stopwatch.GetElapsedTime(start, here.HeardAt).TotalMicroseconds;
        }

        Array.Sort(waits);
        return waits;
    }

    private static async Task UntilAsync(Func<bool> isSo, bool yields = false)
    {
        for (var start = Stopwatch.GetTimestamp(); !isSo();)
        {
            if (Stopwatch.GetElapsedTime(start) > TimeSpan.FromSeconds(60))
            {
                throw new TimeoutException("A node has not received its messages within a minute.");
            }

            await (yields ? Task.Run(Thread.Yield) : Task.Delay(5));
        }
    }

    private sealed class Node(Engine engine, Server server, Cluster cluster, Socket peer, Session session)
        : IAsyncDisposable
    {
        private long _heardAt;

        public Cluster Cluster { get; } = cluster;

        public Session Session { get; } = session;

        public long HeardAt
        {
            get => Volatile.Read(ref _heardAt);
            set => Volatile.Write(ref _heardAt, value);
        }

        public static async Task<Node> StartAsync(string name, string broker)
        {
            var engine = new Engine(new EngineOptions { Loops = 1 });
            var connected = new TaskCompletionSource<Session>();
            var server = new Server(new ServerOptions
            {
                Engine = engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Limits = new() { SendBytes = 64 << 20 }
            }, () => new Guest(connected));
            await server.StartAsync();
            Node? made = null;
            IGroupBus bus =
                broker.StartsWith("nats", StringComparison.Ordinal) ? new NatsBus(broker) : new RedisBus(broker);
            var cluster = await Cluster.JoinAsync(server, bus, new ClusterOptions
            {
                Application = "bench",
                NodeId = name,
                Deliver = (members, payload, except) =>
                {
                    if (made is { HeardAt: 0 } && members.Count > 0)
                    {
                        made.HeardAt = Stopwatch.GetTimestamp();
                    }

                    return members.Broadcast(payload, except);
                },
            });
            var peer = new Socket(SocketType.Stream, ProtocolType.Tcp);
            await peer.ConnectAsync(server.EndPoint!);
            _ = DrainAsync(peer);
            return made = new Node(engine, server, cluster, peer, await connected.Task);
        }

        public async ValueTask DisposeAsync()
        {
            await Cluster.DisposeAsync();
            peer.Dispose();
            await server.DisposeAsync();
            await engine.DisposeAsync();
        }

        private static async Task DrainAsync(Socket peer)
        {
            var buffer = new byte[64 * 1024];
            try
            {
                while (await peer.ReceiveAsync(buffer.AsMemory()) > 0)
                {
                }
            }
            catch (Exception e) when (e is SocketException or ObjectDisposedException)
            {
                // The connection has ended.
            }
        }

        private sealed class Guest(TaskCompletionSource<Session> connected) : Session
        {
            protected override void OnConnected() => connected.TrySetResult(this);
        }
    }
}
