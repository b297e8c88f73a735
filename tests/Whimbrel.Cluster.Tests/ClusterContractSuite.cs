using System.Diagnostics;
using System.Globalization;
using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

/// <summary>The contract at the head of <see cref="Cluster"/>, by number, for nodes on real loops with a broker: one
/// class for each bus. <see cref="ClusterTests"/> tests all orders of events.</summary>
public abstract class ClusterContractSuite : IAsyncLifetime
{
    private const string Subject = "contract.group.g";

    // On a busy machine a node may need more than the default to reconnect to its broker. The deep run uses the
    // default.
    private static readonly TimeSpan s_grace = Depth.IsDeep ? TimeSpan.FromSeconds(2) : TimeSpan.FromSeconds(20);

    private readonly Engine _engine = new(new EngineOptions { Loops = 2 });
    private readonly List<IAsyncDisposable> _open = [];
    private TestBroker? _broker;

    protected abstract ValueTask<TestBroker> StartBrokerAsync();

    // Number of restarts of the broker, in a run that is not deep.
    protected virtual int Restarts => 2;

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

    // A node with one member and a registered subscription: the question sent with it has come back.
    private async Task<(RealNode Node, RealMember Member)> NodeAsync(string name, string application = "contract",
        string key = "", Action<string>? onTwin = null, string? id = null, int queueLimitBytes = 32 << 10)
    {
        RealNode node = await RealNode.StartAsync(_engine, name, _broker!.Connect(),
            (_, gap, state) => new ClusterOptions
            {
                Application = application,
                NodeId = id ?? name,
                Key = Encoding.ASCII.GetBytes(key),
                MaxPayloadBytes = 10_000,
                QueueLimitBytes = queueLimitBytes,
                RejoinGrace = s_grace,
                OnGap = gap,
                OnStateChanged = state,
                OnTwin = onTwin,
            });
        _open.Add(node);
        RealMember member = await node.ConnectAsync("g");
        await RealNode.UntilAsync(() => node.Cluster.ReadCounters().Echoes > 0, () => $"{name} is not subscribed");
        return (node, member);
    }

    [Fact] // 1, 2, 5, 7
    public async Task Members_of_all_nodes_receive_each_broadcast_once_and_in_the_order_of_its_node()
    {
        RealNode[] nodes = [(await NodeAsync("a")).Node, (await NodeAsync("b")).Node, (await NodeAsync("c")).Node];
        for (int round = 0; round < 20; round++)
        {
            foreach (RealNode node in nodes) node.Say(25);
            await RealNode.UntilAsync(() => nodes.All(static n => n.Members[0].Heard(n.Name).Count == n.Said),
                () => "members of the own node wait");
            await RealNode.UntilAsync(() => nodes.All(static n => n.Cluster.ReadCounters().PendingBytes == 0),
                () => "the bus takes no more");
        }

        await RealNode.SettleAsync(nodes);
        foreach (RealNode node in nodes)
        {
            ClusterCounters counters = node.Cluster.ReadCounters();
            Assert.Equal((500L, 1_000L, 0L, 0L, 0L),
                (counters.Published, counters.Received, counters.Missed, counters.Dropped, counters.Duplicates));
            Assert.True(counters.Echoes > 1);
        }
    }

    [Fact] // 1, 3, 4
    public async Task A_lost_broker_ends_no_connection_and_what_the_queue_cannot_hold_is_reported_on_all_nodes()
    {
        (RealNode a, RealMember atA) = await NodeAsync("a");
        (RealNode b, RealMember atB) = await NodeAsync("b");
        a.Say(5);
        await RealNode.SettleAsync(a, b);
        await _broker!.LoseAsync();
        await RealNode.UntilAsync(() => a.Cluster.State != ClusterState.Healthy
            && b.Cluster.State != ClusterState.Healthy, () => "not aware of it");
        a.Say(20);
        a.Say(50, $"-{new string('x', 2_000)}");
        await RealNode.UntilAsync(() => atA.Heard("a").Count == a.Said, () => "members of the own node wait");
        Assert.InRange(a.Cluster.ReadCounters().PendingBytes, 1, (32 << 10) + 10_000);
        await _broker.RestoreAsync();
        await RealNode.UntilAsync(
            () => a.Cluster.State == ClusterState.Healthy && b.Cluster.State == ClusterState.Healthy, () => "not back");
        a.Say(5);
        b.Say(5);
        await RealNode.SettleAsync(a, b);
        Assert.True(a.ToldOf("a") > 0 && b.ToldOf("a") >= a.ToldOf("a"));
        Assert.True(atA.IsConnected && atB.IsConnected);
        Assert.Equal([ClusterState.Healthy, ClusterState.Degraded], a.States.Take(2));
        Assert.Equal(ClusterState.Healthy, a.States.Last());
    }

    // The check of restarts: 20 of them in the deep run. Each message goes from one node to a group of another node.
    [Fact] // 10
    public async Task A_broker_that_is_restarted_loses_nothing_that_fits_the_queue()
    {
        const int MessagesPerSecond = 1_000;
        int restarts = Depth.IsDeep ? 20 : Restarts;
        List<string> restarted = [];
        RealNode[] nodes = [];
        foreach (string name in (string[])["a", "b", "c"])
            nodes = [.. nodes, (await NodeAsync(name, queueLimitBytes: 4 << 20)).Node];
        DirectedPair[] pairs = [.. nodes.SelectMany(from => nodes.Where(to => to != from),
            static (from, to) => new DirectedPair(from, to))];
        // a question comes back for each group
        await RealNode.UntilAsync(() => nodes.All(n => n.Cluster.ReadCounters().Echoes >= nodes.Length),
            () => "not subscribed");
        foreach (DirectedPair pair in pairs) pair.Say();
        await UntilSettledAsync();
        using CancellationTokenSource end = new();
        Task talking = TalkAsync();
        for (int restart = 1; restart <= restarts; restart++)
        {
            long start = Stopwatch.GetTimestamp();
            bool isKilled = restart % 2 == 1;
            if (isKilled) await _broker!.LoseAsync();
            else await _broker!.StopAsync();
            await RealNode.UntilAsync(() => nodes.All(static n => n.Cluster.State != ClusterState.Healthy),
                () => "not aware of it");
            await _broker.RestoreAsync();
            TimeSpan away = Stopwatch.GetElapsedTime(start);
            await RealNode.UntilAsync(() => nodes.All(static n => n.Cluster.State == ClusterState.Healthy),
                () => $"not back: {string.Join("; ", nodes.Select(static n => n.Cluster.StateReason))}");
            restarted.Add(string.Create(
                CultureInfo.InvariantCulture,
                $"restart {restart} ({(isKilled ? "killed" : "asked to end")}): away for {away.TotalSeconds:0.0} "
                + $"s, all nodes back after {Stopwatch.GetElapsedTime(start).TotalSeconds:0.0} s, "
                + $"{pairs.Sum(static p => p.Said)} said, {pairs.Sum(static p => p.Reported)} reported as lost"));
            int said = pairs.Sum(static p => p.Said);
            await RealNode.UntilAsync(() => talking.IsFaulted || pairs.Sum(static p => p.Said) > said + 200,
                () => "no node publishes");
            if (talking.IsFaulted) await talking;
        }

        await end.CancelAsync();
        await talking;
        await UntilSettledAsync();
        foreach (string line in (string[])[.. restarted, Account()])
            TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.All(pairs, pair => Assert.True(pair.Said == pair.HeardCount && pair.Reported == 0, Account()));
        Assert.All(nodes,
            static n => Assert.Equal((0L, 0L), (n.Cluster.ReadCounters().Missed, n.Cluster.ReadCounters().Dropped)));

        async Task TalkAsync()
        {
            using PeriodicTimer clock = new(TimeSpan.FromMilliseconds(5));
            long start = Stopwatch.GetTimestamp();
            for (int said = 0; !end.IsCancellationRequested
                && await clock.WaitForNextTickAsync(TestContext.Current.CancellationToken);)
            {
                for (double due = Stopwatch.GetElapsedTime(start).TotalSeconds * MessagesPerSecond; said < due; said++)
                    pairs[said % pairs.Length].Say();
            }
        }

        // Waits until each message is delivered or reported as lost; none may be delivered twice or out of order.
        async Task UntilSettledAsync()
        {
            await RealNode.UntilAsync(() => pairs.All(static p => p.HeardCount + p.Reported >= p.Said), Account);
            Assert.All(pairs,
                pair => Assert.True(pair.HeardCount + pair.Reported == pair.Said && pair.IsInOrder, Account()));
        }

        string Account() =>
            $"{GetType().Name}: {restarts} restarts, {pairs.Sum(static p => p.Said)} directed messages, "
            + $"{pairs.Sum(static p => p.HeardCount)} came, {pairs.Sum(static p => p.Reported)} reported as lost, "
                + $"{nodes.Sum(static n => n.Cluster.ReadCounters().Dropped)} refused by a full queue, "
            + $"{nodes.Sum(static n => n.Cluster.ReadCounters().Duplicates)} came again and were dropped. "
            + $"{string.Join(", ", (object[])pairs)}. {string.Join("; ", restarted)}";
    }

    // The messages arrive in one burst, which the loops of the members must process.
    [Fact] // 10
    public async Task A_backlog_that_fits_the_queue_reaches_members_on_every_loop_complete()
    {
        const int Messages = 200_000;
        RealNode a = (await NodeAsync("a", queueLimitBytes: 4 << 20)).Node,
            b = (await NodeAsync("b", queueLimitBytes: 4 << 20)).Node;
        ClusterGroup group = a.Cluster.Group("ab");
        for (int i = 0; i < 8; i++) await b.ConnectAsync("ab");
        RealMember[] members = [.. b.Members.Skip(1)];
        await RealNode.UntilAsync(() => b.Cluster.ReadCounters().Echoes >= 2 && b.Cluster.Group("ab").LocalCount == 8,
            () => "not subscribed");
        group.Broadcast("ab1 ");
        await RealNode.UntilAsync(() => members.All(static m => m.HeardCount("ab") == 1), () => "not received");
        await _broker!.LoseAsync();
        await RealNode.UntilAsync(() => a.Cluster.State != ClusterState.Healthy
            && b.Cluster.State != ClusterState.Healthy, () => "not aware of it");
        for (int i = 2; i <= Messages; i++) Assert.Equal(SendResult.Queued, group.Broadcast($"ab{i} "));
        Assert.Equal(0, a.Cluster.ReadCounters().Dropped);
        await _broker.RestoreAsync();
        await RealNode.UntilAsync(() => members.All(m => m.HeardCount("ab") + b.ReportedIn("ab") >= Messages), Account);
        Assert.True(b.ReportedIn("ab") == 0, Account());
        Assert.All(members, static m => Assert.True(m.Heard("ab").SequenceEqual(Enumerable.Range(1, Messages))));

        string Account() => $"{string.Join(", ", members.Select(static m => m.HeardCount("ab")))} of {Messages} came, "
            + $"{b.ReportedIn("ab")} are reported as lost, {b.Cluster.StateReason}";
    }

    [Fact] // 8
    public async Task Foreign_messages_on_the_broker_are_skipped_and_counted()
    {
        (RealNode a, _) = await NodeAsync("a");
        (RealNode b, RealMember atB) = await NodeAsync("b");
        BusNode stranger = new(_broker!.Connect(), _engine.GetLoop(1));
        _open.Add(stranger.Bus);
        await stranger.StartAsync();
        await stranger.SubscribeAsync(Subject);
        a.Say(1);
        await RealNode.UntilAsync(
            () => stranger.Heard.Any(static h => h.EndsWith("\u0003a1 ", StringComparison.Ordinal)),
            () => "the stranger receives nothing");
        string said = stranger.Heard.Single(static h => h.EndsWith("\u0003a1 ", StringComparison.Ordinal));
        await RealNode.UntilAsync(() => atB.Heard("a").Count == 1, () => "b receives nothing");
        ClusterCounters before = b.Cluster.ReadCounters();
        // Truncated, foreign, too large.
        foreach (string bytes in (string[])[said[..20], said[..^1], $"{said}x",
            $"\u0002{said[1..10]}", "", new string('\u0002', 20_000)])
            Assert.Equal(1, await stranger.OfferAsync(Subject, bytes));
        // of another version
        foreach (string bytes in (string[])[$"\u0001{said[1..]}", $"\u0003{said[1..]}", "GET / HTTP/1.1"])
            Assert.Equal(1, await stranger.OfferAsync(Subject, bytes));
        for (int i = 0; i < 3; i++) Assert.Equal(1, await stranger.OfferAsync(Subject, said)); // replayed
        a.Say(1);
        await RealNode.UntilAsync(() => atB.Heard("a").Count == 2, () => "b receives nothing any more");
        // The stranger has a connection of its own to the broker, so its messages may come after those of a.
        await RealNode.UntilAsync(() => Counted() is (>= 6, >= 3, >= 3), () => $"of (6, 3, 3) came {Counted()}");
        Assert.Equal((6L, 3L, 3L), Counted());
        await RealNode.SettleAsync(a, b);
        Assert.Equal(0, b.Cluster.ReadCounters().Missed);

        (long Refused, long UnknownVersions, long Duplicates) Counted()
        {
            ClusterCounters now = b.Cluster.ReadCounters();
            return (now.Refused - before.Refused, now.UnknownVersions - before.UnknownVersions,
                now.Duplicates - before.Duplicates);
        }
    }

    [Fact] // 8
    public async Task Applications_do_not_receive_each_others_messages_and_without_the_key_none_are_received()
    {
        const string Key = "sixteen bytes or more";
        (RealNode a, RealMember atA) = await NodeAsync("a", key: Key);
        (RealNode b, RealMember atB) = await NodeAsync("b", key: Key);
        (RealNode wrong, RealMember atWrong) = await NodeAsync("w", key: "another of sixteen");
        (RealNode plain, _) = await NodeAsync("p");
        (RealNode other, RealMember atOther) = await NodeAsync("o", application: "contract2", key: Key);
        foreach (RealNode node in (RealNode[])[wrong, plain, other, a, b]) node.Say(3);
        await RealNode.SettleAsync(a, b);
        await RealNode.UntilAsync(() => a.Cluster.ReadCounters().Refused >= 2
            && wrong.Cluster.ReadCounters().Refused >= 2, () => "nothing was refused");
        foreach ((RealMember member, string own) in new[] { (atA, ""), (atB, ""), (atWrong, "w"), (atOther, "o") })
        {
            foreach (string name in (string[])["w", "p", "o"])
                Assert.Equal(name == own ? 3 : 0, member.Heard(name).Count);
        }

        Assert.Empty(atWrong.Heard("a"));
        Assert.Empty(atOther.Heard("a"));
        Assert.Equal((0L, 0L), (other.Cluster.ReadCounters().Refused, other.Cluster.ReadCounters().UnknownVersions));
    }

    [Fact] // 8
    public async Task Two_nodes_of_one_id_receive_each_others_messages_and_are_reported()
    {
        List<string> told = [];
        (RealNode a, RealMember atA) = await NodeAsync("a", id: "same", onTwin: Report);
        (RealNode b, RealMember atB) = await NodeAsync("b", id: "same", onTwin: Report);
        a.Say(10);
        b.Say(10);
        await RealNode.UntilAsync(() => atA.Heard("b").Count == 10 && atB.Heard("a").Count == 10,
            () => "they do not receive each other's messages");
        lock (told) Assert.All(told, static t => Assert.Contains("'same'", t, StringComparison.Ordinal));
        await RealNode.UntilAsync(
            () =>
            {
                lock (told) return told.Count == 2;
            },
            () => "not reported exactly once on each");

        void Report(string what)
        {
            lock (told) told.Add(what);
        }
    }

    [Fact] // 3, 6
    public async Task A_member_that_leaves_and_joins_again_receives_later_messages_only()
    {
        (RealNode a, _) = await NodeAsync("a");
        (RealNode b, RealMember atB) = await NodeAsync("b");
        a.Say(3);
        await RealNode.SettleAsync(a, b);
        b.Group.Leave(atB.Session);
        await RealNode.UntilAsync(() => b.Group.LocalCount == 0, () => "still there");
        a.Say(3);
        b.Group.Join(atB.Session);
        await RealNode.UntilAsync(() => b.Group.LocalCount == 1, () => "not there");
        a.Say(3);
        await RealNode.UntilAsync(() => atB.Heard("a").LastOrDefault() == 9,
            () => $"received {string.Join(' ', atB.Heard("a"))}");
        int[] heard = [.. atB.Heard("a")];
        Assert.Equal(heard.Distinct().Order(), heard);
        Assert.Equal([1, 2, 3], heard[..3]);
        Assert.Equal([7, 8, 9], heard[^3..]);
        Assert.Equal(0, b.ToldOf("a"));
    }
}
