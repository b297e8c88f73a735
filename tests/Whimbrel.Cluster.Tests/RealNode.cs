using System.Collections.Concurrent;
using System.Diagnostics;
using System.Net;
using System.Threading.Channels;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// A node on a real engine with a real broker; its members connect over TCP. Its messages are numbered: "a1 ", "a2 " of
// node a.
internal sealed class RealNode : IAsyncDisposable
{
    private readonly Channel<Session> _connected = Channel.CreateUnbounded<Session>();
    private readonly ConcurrentQueue<ClusterGap> _gaps = [];
    private readonly ConcurrentQueue<ClusterState> _states = [];
    private readonly Server _server;

    private RealNode(Engine engine, string name)
    {
        Name = name;
        _server = new Server(new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Limits = new() { SendBytes = 64 << 20 }
        }, () => new Guest(_connected.Writer));
    }

    internal string Name { get; }

    internal Cluster Cluster { get; private set; } = null!;

    internal List<RealMember> Members { get; } = [];

    internal int Said { get; private set; }

    internal IReadOnlyCollection<ClusterState> States => _states;

    internal ClusterGroup Group => Cluster.Group("g");

    // The callback receives the name, and where to record losses and states.
    internal static async Task<RealNode> StartAsync(Engine engine, string name, IGroupBus bus,
        Func<string, Action<ClusterGap>, Action<ClusterState, string>, ClusterOptions> options)
    {
        RealNode node = new(engine, name);
        await node._server.StartAsync();
        node.Cluster = await Cluster.JoinAsync(node._server, bus,
            options(name, node._gaps.Enqueue, (state, _) => node._states.Enqueue(state)));
        return node;
    }

    internal async Task<RealMember> ConnectAsync(params string[] groups)
    {
        RealMember member = await RealMember.ConnectAsync((IPEndPoint)_server.EndPoint!, _connected.Reader);
        Members.Add(member);
        foreach (string group in groups) Cluster.Group(group).Join(member.Session);
        return member;
    }

    internal void Say(int count, string more = "")
    {
        for (int i = 0; i < count; i++) Assert.Equal(SendResult.Queued, Group.Broadcast($"{Name}{++Said}{more} "));
    }

    // Number of lost broadcasts of that node, as reported here.
    internal long ToldOf(string node) => _gaps.Where(g => g.Node == node).Sum(static g => g.Missed);

    // Number of lost broadcasts of other nodes to that group, as reported here.
    internal long ReportedIn(string group) =>
        _gaps.Where(g => g.Group == group && g.Node != Name).Sum(static g => g.Missed);

    public async ValueTask DisposeAsync()
    {
        if (Cluster is not null) await Cluster.DisposeAsync();
        foreach (RealMember member in Members) await member.DisposeAsync();
        await _server.DisposeAsync();
    }

    // Polls, because other programs, and counts of other nodes, raise no event.
    internal static async Task UntilAsync(Func<bool> isSo, Func<string> otherwise)
    {
        for (long start = Stopwatch.GetTimestamp(); !isSo();)
        {
            if (Stopwatch.GetElapsedTime(start) > BusNode.Patience) Assert.Fail(otherwise());
            await Task.Delay(5); // tidy: waits because counts and counters of nodes have no event
        }
    }

    // Each member of each node received each broadcast of each node once and in order, or its node reported that many
    // losses.
    internal static async Task SettleAsync(params RealNode[] nodes)
    {
        foreach (RealNode at in nodes)
        {
            foreach (RealNode of in nodes)
            {
                foreach (RealMember member in at.Members)
                {
                    await UntilAsync(() => member.Heard(of.Name).Count + Lost(at, of) >= of.Said,
                        () => Account(at, of, member));
                    int[] stream = [.. member.Heard(of.Name)];
                    Assert.True(stream.SequenceEqual(stream.Distinct().Order()),
                        $"out of order or twice: {Account(at, of, member)}");
                    Assert.True(stream.Length + Lost(at, of) == of.Said, Account(at, of, member));
                    Assert.True(member.IsConnected);
                }
            }

            Assert.Equal(nodes.Where(n => n != at).Sum(n => at.ToldOf(n.Name)), at.Cluster.ReadCounters().Missed);
            Assert.Equal(at.ToldOf(at.Name), at.Cluster.ReadCounters().Dropped);
        }

        // A node's own broadcasts are never lost on this node, even if they are lost elsewhere.
        static long Lost(RealNode at, RealNode of) => at == of ? 0 : at.ToldOf(of.Name);
        static string Account(RealNode at, RealNode of, RealMember member) =>
            $"at {at.Name} of {of.Name} came {member.Heard(of.Name).Count} of {of.Said}, and {Lost(at, of)} were "
            + $"reported lost. {at.Name}: {string.Join(' ', at._states)}; {of.Name}: {string.Join(' ', of._states)}";
    }

    private sealed class Guest(ChannelWriter<Session> connected) : Session
    {
        protected override void OnConnected() => Assert.True(connected.TryWrite(this));
    }
}
