using System.Diagnostics;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// Nodes on a real broker with a connection between them that is slow, blocked or cut: one class for each bus. Whatever
// happens, no member is disconnected; members of the own node receive everything; each other member receives each
// broadcast once and in order, or its node reports the loss.
public abstract class ClusterFaultSuite : IAsyncLifetime
{
    private readonly Engine _engine = new(new EngineOptions { Loops = 2 });
    private readonly List<IAsyncDisposable> _open = [];
    private ProgramBroker? _broker;

    public enum Fault
    {
        Cut,
        Silence,
        BrokerKilled,
    }

    private protected ProgramBroker Broker => _broker!;

    private protected abstract Task<ProgramBroker> StartBrokerAsync();

    // Options that detect a silent broker quickly, and reconnect quickly.
    private protected abstract IGroupBus BusAt(params int[] ports);

    // Number of subscriptions that the broker has.
    private protected abstract Task<int> SubscriptionsAsync();

    private protected static ReconnectPolicy Quick { get; } = new()
    {
        InitialDelay = TimeSpan.FromMilliseconds(20),
        MaxDelay = TimeSpan.FromMilliseconds(100),
        RetryFirstConnect = false
    };

    public async ValueTask InitializeAsync()
    {
        await _engine.StartAsync();
        _broker = await StartBrokerAsync();
    }

    public async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        _open.Reverse();
        foreach (IAsyncDisposable each in _open) await each.DisposeAsync();
        if (_broker is not null) await _broker.DisposeAsync();
        await _engine.DisposeAsync();
    }

    private T Keep<T>(T each)
        where T : IAsyncDisposable
    {
        _open.Add(each);
        return each;
    }

    private FaultyRelay Relay() => Keep(new FaultyRelay(Broker.Port));

    private Task<RealNode> NodeAsync(string name, int port, TimeSpan presence = default) =>
        NodeAsync(name, presence, port);

    private protected async Task<RealNode> NodeAsync(string name, TimeSpan presence, params int[] ports) =>
        Keep(await RealNode.StartAsync(_engine, name, BusAt(ports), (id, gap, state) => new ClusterOptions
        {
            Application = "faults",
            NodeId = id,
            MaxPayloadBytes = 8_000,
            QueueLimitBytes = 64 << 10,
            UnsubscribeAfter = TimeSpan.FromMilliseconds(200),
            PresenceInterval = presence,
            AnnounceInterval = TimeSpan.FromMilliseconds(300),
            OnGap = gap,
            OnStateChanged = state,
        }));

    [Fact]
    public async Task A_slow_broker_loses_nothing_and_a_blocked_one_no_more_than_is_reported()
    {
        FaultyRelay relay = Relay();
        RealNode near = await NodeAsync("n", relay.Port), far = await NodeAsync("f", Broker.Port);
        RealMember atNear = await near.ConnectAsync("g"), atFar = await far.ConnectAsync("g");
        // The echo of the question follows the subscription, so both nodes are subscribed.
        await RealNode.UntilAsync(() => near.Cluster.ReadCounters().Echoes > 0 && far.Cluster.ReadCounters().Echoes > 0,
            () => "not subscribed");
        relay.Delay = TimeSpan.FromMilliseconds(50);
        for (int i = 0; i < 5; i++)
        {
            near.Say(10);
            far.Say(10);
            await RealNode.UntilAsync(() => atNear.Heard("n").Count == near.Said, () => "not local at once");
        }

        await RealNode.SettleAsync(near, far);
        relay.Delay = default;
        relay.Hold();
        string filling = $"-{new string('x', 4_000)}";
        long most = 0;
        for (int round = 0; round < 400
            && (near.Cluster.ReadCounters().Dropped < 200 || near.Cluster.State == ClusterState.Healthy); round++)
        {
            near.Say(50, filling);
            far.Say(1);
            most = Math.Max(most, near.Cluster.ReadCounters().PendingBytes);
            await RealNode.UntilAsync(() => atNear.Heard("n").Count == near.Said,
                () => "local members wait for the broker");
            // Loops without a member may be a round late, and have room for 256 KiB of broadcasts.
            for (int i = 0; i < _engine.LoopCount; i++) await _engine.GetLoop(i).PostAsync(static () => { });
        }

        Assert.InRange(most, 1, (64 << 10) + 8_000);
        Assert.True(near.Cluster.ReadCounters().Dropped >= 200);
        await RealNode.UntilAsync(() => near.Cluster.State == ClusterState.Degraded, () => $"{near.Cluster.State}");
        relay.Heal();
        await RealNode.UntilAsync(() => near.Cluster.State == ClusterState.Healthy, () => $"{near.Cluster.State}");
        near.Say(5);
        far.Say(5);
        await RealNode.SettleAsync(near, far);
        Assert.Equal(near.Said, atNear.Heard("n").Count);
        Assert.Equal(far.Said, atFar.Heard("f").Count);
        Assert.True(far.ToldOf("n") >= near.Cluster.ReadCounters().Dropped);
        Assert.Equal([ClusterState.Healthy, ClusterState.Degraded], near.States.Take(2));
    }

    [Fact]
    public async Task Ten_thousand_groups_are_subscribed_while_they_have_members_and_no_longer()
    {
        const int Groups = 10_000;
        RealNode one = await NodeAsync("a", Broker.Port), two = await NodeAsync("b", Broker.Port);
        RealMember member = await one.ConnectAsync();
        int before = await SubscriptionsAsync();
        for (int i = 0; i < Groups; i++) one.Cluster.Group($"g{i}").Join(member.Session);
        await UntilSubscribedAsync(before + Groups);
        for (int i = 1; i <= Groups; i++)
        {
            two.Cluster.Group($"g{i - 1}").Broadcast($"b{i} ");
            if (i % 200 > 0) continue; // all at once would exceed the queue
            await RealNode.UntilAsync(() => member.Heard("b").Count == i,
                () => $"came {member.Heard("b").Count} of {i}");
        }

        Assert.Equal(Enumerable.Range(1, Groups), member.Heard("b"));
        for (int i = 0; i < Groups; i++) one.Cluster.Group($"g{i}").Leave(member.Session);
        await UntilSubscribedAsync(before);
        Assert.Equal((0L, 0L), (one.Cluster.ReadCounters().Missed, two.Cluster.ReadCounters().Dropped));
        Assert.True(member.IsConnected);

        async Task UntilSubscribedAsync(int count)
        {
            for (long start = Stopwatch.GetTimestamp(); await SubscriptionsAsync() is var now && now != count;)
            {
                Assert.True(Stopwatch.GetElapsedTime(start) < BusNode.Patience,
                    $"{now} subscriptions instead of {count}");
                await Task.Delay(20); // tidy: waits because the broker does not report its subscriptions unless asked
            }
        }
    }

    [Fact]
    public async Task A_server_that_accepts_and_never_responds_does_not_hide_the_next_one()
    {
        FaultyRelay relay = Relay();
        relay.Hold();
        RealNode first = await NodeAsync("a", default, relay.Port, Broker.Port);
        await UntilReachedAsync(first, Broker.Port);
        relay.Heal();
        RealNode again = await NodeAsync("b", default, relay.Port, Broker.Port);
        await UntilReachedAsync(again, relay.Port);
        relay.Hold();
        await RealNode.UntilAsync(() => again.States.Contains(ClusterState.Degraded), () => "not aware of it");
        await UntilReachedAsync(again, Broker.Port);

        static Task UntilReachedAsync(RealNode node, int port) => RealNode.UntilAsync(
            () => node.Cluster.State == ClusterState.Healthy
                && node.Cluster.StateReason.Split(" (of ")[0].EndsWith($":{port}", StringComparison.Ordinal),
            () => $"{node.Cluster.State}, {node.Cluster.StateReason}");
    }

    // The first server comes back, and a node connects to it after its connection was cut.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Nodes_on_two_partitioned_servers_are_Degraded_and_name_each_other(bool hasPresence)
    {
        TimeSpan presence = TimeSpan.FromSeconds(hasPresence ? 0.1 : 0);
        FaultyRelay relay = Relay();
        await using ProgramBroker old = await StartBrokerAsync();
        await old.LoseAsync();
        RealNode[] nodes = [await NodeAsync("a", presence, old.Port, Broker.Port),
            await NodeAsync("b", presence, old.Port, Broker.Port),
            await NodeAsync("c", presence, old.Port, relay.Port)];
        await old.RestoreAsync();
        Assert.All(nodes, static n => Assert.Equal(ClusterState.Healthy, n.Cluster.State));
        // tidy: waits because nodes do not report when they have received all announcements, three per interval
        await Task.Delay(2_000);
        relay.Cut();
        await UntilMissedAsync(nodes[2], $":{old.Port}", "'a', 'b'");
        foreach (RealNode node in nodes[..2]) await UntilMissedAsync(node, $":{Broker.Port}", "'c'");
        await old.LoseAsync();
        relay.Heal();
        await RealNode.UntilAsync(() => nodes.All(static n => n.Cluster.State == ClusterState.Healthy),
            () => string.Join("; ", nodes.Select(static n => n.Cluster.StateReason)));
    }

    // Waits until the node reports its server and the missing nodes.
    private protected static Task UntilMissedAsync(RealNode at, string server, string names) => RealNode.UntilAsync(
        () => at.Cluster.State == ClusterState.Degraded && at.Cluster.StateReason is var reason
            && reason.Contains($"goodbye: {names}.", StringComparison.Ordinal)
            && reason.Split(" (of ")[0].EndsWith(server, StringComparison.Ordinal),
        () => $"{at.Name} misses not {names} at {server}: {at.Cluster.State}, {at.Cluster.StateReason}");

    [Theory]
    [InlineData(Fault.Cut)]
    [InlineData(Fault.Silence)]
    [InlineData(Fault.BrokerKilled)]
    public async Task Partitioned_parts_of_a_cluster_serve_their_own_members_and_join_again(Fault fault)
    {
        FaultyRelay relay = Relay();
        TimeSpan beat = TimeSpan.FromMilliseconds(100);
        RealNode[] nodes = [await NodeAsync("a", Broker.Port, beat), await NodeAsync("b", Broker.Port, beat),
            await NodeAsync("c", relay.Port, beat)];
        foreach (RealNode node in nodes)
        {
            await node.ConnectAsync("g");
            await node.ConnectAsync("g");
        }

        // A node that is counted elsewhere announced itself after its subscription.
        await CountAsync(6, 6, 6);
        foreach (RealNode node in nodes) node.Say(20);
        if (fault == Fault.Cut) relay.Cut();
        else if (fault == Fault.Silence) relay.Hold();
        else await Broker.LoseAsync();
        foreach (RealNode node in nodes) node.Say(20);
        if (fault == Fault.BrokerKilled) await CountAsync(2, 2, 2);
        else await CountAsync(4, 4, 2);
        await RealNode.UntilAsync(() => nodes[2].Cluster.State != ClusterState.Healthy, () => "not aware of it");
        foreach (RealNode node in nodes) node.Say(20);
        await RealNode.UntilAsync(() => nodes.All(static n => n.Members.All(m => m.Heard(n.Name).Count == n.Said)),
            () => "members of the own node wait");
        if (fault == Fault.BrokerKilled) await Broker.RestoreAsync();
        else relay.Heal();
        await CountAsync(6, 6, 6);
        foreach (RealNode node in nodes) node.Say(20);
        await RealNode.SettleAsync(nodes);
        Assert.All(nodes, static n => Assert.Equal(ClusterState.Healthy, n.Cluster.State));

        Task CountAsync(params int[] counts) => RealNode.UntilAsync(
            () => nodes.Select(static n => n.Group.Count).SequenceEqual(counts),
            () => $"counted {string.Join(' ', nodes.Select(static n => $"{n.Group.Count} ({n.Cluster.State})"))} "
                + $"instead of {string.Join(' ', counts)}");
    }
}
