using System.IO.MemoryMappedFiles;
using System.Net;
using System.Runtime.InteropServices;
using Whimbrel.Clusters;

namespace Whimbrel.Bench.Peers;

/// <summary>A cluster node whose sessions are members of one group; it publishes as <c>load/pubsub.c</c> does, or only
/// has members.</summary>
internal static class ClusterNode
{
    private const int MessageBytes = 64, Window = 16_384, Batch = 64, Probe = 0, Counted = 1, End = 2;

    private static ulong s_published;

    public static async Task RunAsync(string name, string broker, string[] publishing, Action<IPEndPoint> tell)
    {
        var engine = new Engine(new EngineOptions { Loops = 1 });
        ClusterGroup? group = null;
        var server = new Server(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Limits = new() { SendBytes = 64 << 20 }
        }, () => new Member(() => group!));
        IGroupBus bus =
            broker.StartsWith("nats", StringComparison.Ordinal) ? new NatsBus(broker) : new RedisBus(broker);
        await server.StartAsync();
        await using var cluster = await Cluster.JoinAsync(server, bus,
            new ClusterOptions { Application = "bench", NodeId = name });
        group = cluster.Group("bench");
        tell((IPEndPoint)server.EndPoint!);
        if (publishing is [var rate, var warm, var seconds, var shared])
        {
            await Task.Factory.StartNew(() => Publish(cluster, group, int.Parse(rate, null), double.Parse(warm, null),
                double.Parse(seconds, null), shared), TaskCreationOptions.LongRunning);
            return;
        }

        await Task.Delay(Timeout.Infinite);
    }

    private static void Publish(Cluster cluster, ClusterGroup group, int rate, double warm, double seconds,
        string shared)
    {
        using var file = MemoryMappedFile.CreateFromFile(shared, FileMode.Open);
        using var view = file.CreateViewAccessor(0, 4096);
        var go = Task.Run(Console.In.ReadLine);
        while (!go.Wait(20))
        {
            Send(group, 1, Probe);
        }

        Run(group, view, rate, warm);
        view.Write(16, s_published + 1);
        Console.Out.WriteLine("begin");
        Run(group, view, rate, seconds);
        Console.Out.WriteLine("end");
        while (cluster.ReadCounters().PendingBytes > 0)
        {
            Thread.Sleep(1);
        }

        Send(group, 1, End);
        Thread.Sleep(200);
        var counters = cluster.ReadCounters();
        Console.Out.WriteLine($"dropped {counters.Dropped}");
    }

    private static void Run(ClusterGroup group, MemoryMappedViewAccessor shared, int rate, double seconds)
    {
        var began = System.Diagnostics.Stopwatch.GetTimestamp();
        for (long sent = 0; System.Diagnostics.Stopwatch.GetElapsedTime(began).TotalSeconds < seconds;)
        {
            if (rate == 0)
            {
                var slowest = Math.Min(shared.ReadUInt64(0), shared.ReadUInt64(8));
                if (s_published - slowest > Window - Batch)
                {
                    Thread.Sleep(1); // the window is tens of milliseconds long
                }
                else
                {
                    Send(group, Batch, Counted);
                }

                continue;
            }

            var due = (long)(System.Diagnostics.Stopwatch.GetElapsedTime(began).TotalSeconds * rate);
            Send(group, (int)(due - sent), Counted);
            sent = due;
            Thread.Sleep(1);
        }
    }

    private static void Send(ClusterGroup group, int count, ulong kind)
    {
        Span<byte> message = stackalloc byte[MessageBytes];
        message.Clear();
        var head = MemoryMarshal.Cast<byte, ulong>(message);
        for (var i = 0; i < count; i++)
        {
            head[0] = kind == Counted ? ++s_published : 0;
            head[1] = (ulong)System.Diagnostics.Stopwatch.GetTimestamp(); // ns of the monotonic clock, on Linux
            head[2] = kind;
            while (group.Broadcast(message) != SendResult.Queued)
            {
                Thread.Sleep(1);
            }
        }
    }

    private sealed class Member(Func<ClusterGroup> group) : Session
    {
        protected override void OnConnected() => group().Join(this);
    }
}
