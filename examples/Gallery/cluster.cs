#:project ../../src/Whimbrel.Cluster/Whimbrel.Cluster.csproj
// One room on two servers: what a guest of one says, the guests of the other see.
// Try it: nc 127.0.0.1 1111, and nc 127.0.0.1 1112 in a second terminal
using System.Text;
using Whimbrel;
using Whimbrel.Clusters;

string[] addresses = args.Length > 0 ? args : ["tcp://127.0.0.1:1111", "tcp://127.0.0.1:1112"];
MemoryBus bus = new(); // nodes of one process; with NATS the line with JoinAsync has "nats://127.0.0.1:4222" instead
await using Node first = await Node.StartAsync(addresses[0], bus);
await using Node second = await Node.StartAsync(addresses[^1], bus);
Console.WriteLine($"Listening at {first.Server.EndPoint} and {second.Server.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

sealed class Node : IAsyncDisposable
{
    private Cluster? _cluster;

    private Node(string address) => Server = new Server(
        new ServerOptions { Address = address, Accept = new() { AtStart = false } },
        () => new Guest(_cluster!.Group("room")));

    public Server Server { get; }

    // The node joins before the first guest is accepted, so that a guest never misses the others.
    public static async Task<Node> StartAsync(string address, MemoryBus bus)
    {
        Node node = new(address);
        await node.Server.StartAsync();
        node._cluster = await Cluster.JoinAsync(node.Server, bus.Connect(), new ClusterOptions
        {
            Application = "chat",
            OnGap = gap => Console.Error.WriteLine($"{gap.Missed} messages of {gap.Node} are lost"),
            OnStateChanged = (state, why) => Console.Error.WriteLine($"{state}: {why}"),
        });
        await node.Server.StartAcceptingAsync();
        return node;
    }

    public async ValueTask DisposeAsync()
    {
        await Server.DisposeAsync(); // drains, and guests still reach the other node
        if (_cluster is not null) await _cluster.DisposeAsync();
    }
}

sealed class Guest(ClusterGroup room) : FramedSession(FrameFormat.Line(limitBytes: 1024))
{
    protected override void OnConnected() => room.Join(this);

    protected override void OnFrame(in Frame line) =>
        room.Broadcast($"{RemoteEndPoint}: {Encoding.UTF8.GetString(line.Message)}\n", except: this);
}
