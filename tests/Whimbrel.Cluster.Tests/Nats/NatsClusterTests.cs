using Whimbrel.Clusters;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tests.Nats;

// Two NATS servers that forward messages to each other, over a route that a test can cut.
public sealed class NatsClusterTests : IAsyncLifetime
{
    private readonly Engine _engine = new(new EngineOptions { Loops = 2 });
    private readonly List<IAsyncDisposable> _open = [];
    private readonly int _routes = RealProgram.FreePort(); // port of the first server
    private NatsBroker _one = null!;
    private NatsBroker _two = null!;
    private FaultyRelay _route = null!;

    public async ValueTask InitializeAsync()
    {
        await _engine.StartAsync();
        _one = Keep(await NatsBroker.StartAsync(ClusterAt(_routes, _routes), isStreaming: true, name: "one"));
        _route = Keep(new FaultyRelay(_routes));
        _two = Keep(await NatsBroker.StartAsync(ClusterAt(RealProgram.FreePort(), _route.Port), isStreaming: true,
            name: "two"));
    }

    public async ValueTask DisposeAsync()
    {
        _open.Reverse();
        foreach (IAsyncDisposable each in _open) await each.DisposeAsync();
        await _engine.DisposeAsync();
    }

    // JetStream in a cluster requires a route: the first server gets one to itself, which it ignores.
    private static string ClusterAt(int port, int route) => $"cluster {{ name: parted, listen: \"127.0.0.1:{port}\", "
        + $"no_advertise: true, routes: [\"nats-route://127.0.0.1:{route}\"] }}";

    private T Keep<T>(T each)
        where T : IAsyncDisposable
    {
        _open.Add(each);
        return each;
    }

    private async Task<RealNode> NodeAsync(string name, NatsBroker at, TimeSpan presence = default)
    {
        RealNode node = Keep(await RealNode.StartAsync(_engine, name, at.Connect(),
            (id, gap, state) => new ClusterOptions
            {
                Application = "parted",
                NodeId = id,
                PresenceInterval = presence,
                AnnounceInterval = TimeSpan.FromMilliseconds(300),
                OnGap = gap,
                OnStateChanged = state,
            }));
        await node.ConnectAsync("g");
        return node;
    }

    // Both connections stay open, so only the nodes themselves can detect the partition.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Nodes_on_parted_servers_are_Degraded_name_each_other_and_report_what_was_lost(bool hasPresence)
    {
        TimeSpan presence = TimeSpan.FromSeconds(hasPresence ? 0.1 : 0);
        RealNode a = await NodeAsync("a", _one, presence), b = await NodeAsync("b", _one, presence),
            c = await NodeAsync("c", _two, presence);
        RealNode[] nodes = [a, b, c];
        // Waits until each node knows the others: it received their broadcasts, so subscriptions have crossed the
        // route.
        await RealNode.UntilAsync(() => Crossed(nodes), () => "the servers do not pass on");
        Assert.All(nodes, static n => Assert.Equal(ClusterState.Healthy, n.Cluster.State));
        await UntilAnnouncedAsync();
        _route.Cut();
        await UntilMissedAsync(c, _two, "'a', 'b'");
        foreach (RealNode node in (RealNode[])[a, b]) await UntilMissedAsync(node, _one, "'c'");
        int had = c.Members[0].HeardCount("a");
        a.Say(10);
        await RealNode.UntilAsync(() => b.Members[0].HeardCount("a") == a.Said,
            () => "nodes of one server do not receive each other's messages");
        Assert.Equal(had, c.Members[0].HeardCount("a"));
        _route.Heal();
        await RealNode.UntilAsync(() => nodes.All(static n => n.Cluster.State == ClusterState.Healthy),
            () => string.Join("; ", nodes.Select(static n => n.Cluster.StateReason)));
        a.Say(1);
        await RealNode.UntilAsync(() => c.Members[0].Heard("a").LastOrDefault() == a.Said,
            () => "c receives nothing of a");
        int[] heard = [.. c.Members[0].Heard("a")];
        Assert.Equal(heard.Distinct().Order(), heard);
        // Messages sent before its subscription crossed the route were never addressed to it.
        Assert.Equal((10L, a.Said - heard[0] + 1 - 10), (c.ToldOf("a"), heard.Length));
        Assert.Equal(0, b.ToldOf("a"));
    }

    // The broker sends no message, and has no time limit: a client could keep trying forever.
    [Fact]
    public async Task To_join_a_recoverable_group_on_a_cluster_is_answered_with_the_reason()
    {
        RealNode node = await NodeAsync("a", _one);
        RecoverableGroup group = node.Cluster.RecoverableGroup("r",
            new RecoverableOptions { Deliver = static (members, _, payload) => members.Broadcast(payload) });
        RealMember member = await node.ConnectAsync();
        foreach (Task<ResumeResult> entering in (Task<ResumeResult>[])[group.JoinAsync(member.Session),
            group.ResumeAsync(member.Session, new GroupPosition(1, 1))])
        {
            ResumeResult result = await entering.WaitAsync(BusNode.Patience, TestContext.Current.CancellationToken);
            Assert.Equal(ResumeOutcome.NotSupported, result.Outcome);
            Assert.Contains("not built for clusters of NATS servers", result.Reason, StringComparison.Ordinal);
            Assert.Contains($":{_one.Port}", result.Reason, StringComparison.Ordinal);
        }
    }

    // A node does not report that it has received all announcements. All nodes announce themselves by timers of this
    // loop, so if it is delayed, this check is delayed as well.
    private async Task UntilAnnouncedAsync()
    {
        for (int i = 0; i < 8; i++)
        {
            TaskCompletionSource passed = new(TaskCreationOptions.RunContinuationsAsynchronously);
            await _engine.GetLoop(0).PostAsync(() => _engine.GetLoop(0).StartTimer(TimeSpan.FromMilliseconds(300),
                static p => ((TaskCompletionSource)p!).SetResult(), passed));
            await passed.Task.WaitAsync(BusNode.Patience, TestContext.Current.CancellationToken);
        }
    }

    private static bool Crossed(RealNode[] nodes)
    {
        foreach (RealNode node in nodes) node.Say(1);
        return nodes.All(at => nodes.All(of => at.Members[0].HeardCount(of.Name) > 0));
    }

    private static Task UntilMissedAsync(RealNode at, NatsBroker server, string names) => RealNode.UntilAsync(
        () => at.Cluster.State == ClusterState.Degraded && at.Cluster.StateReason is var reason
            && reason.Contains($"goodbye: {names}.", StringComparison.Ordinal)
            && reason.Contains($":{server.Port} ", StringComparison.Ordinal),
        () => $"{at.Name} misses not {names} at {server.Port}: {at.Cluster.State}, {at.Cluster.StateReason}");
}
