using System.Globalization;
using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Fifty nodes with one member each, and eight groups that the members join and leave while others broadcast. A model
// tracks the memberships. Without faults each member receives exactly the messages sent while it was a member. With
// faults it still receives all of its own node's broadcasts and those of other nodes once and in order, and losses are
// reported. At the end all nodes count correctly.
internal sealed class CrowdStory
{
    private const int Nodes = 50;
    private const int Groups = 8;
    private const int Steps = 500;

    // A question needs 40 ms or more to reach the others. Messages they sent before it arrived cannot be distinguished
    // from messages sent before the subscription.
    private const int StepsUntilAsked = 8;

    private readonly Dictionary<(int Node, int Group), int> _said = [];
    // Since the first join of the group.
    private readonly Dictionary<(int At, int Group, int Of), List<int>> _expected = [];
    // since shortly after the last join of the group
    private readonly Dictionary<(int At, int Group, int Of), List<int>> _expectedLast = [];
    private readonly bool[,] _isMember = new bool[Nodes, Groups];
    private readonly long[] _joinedAtStep = new long[Nodes];
    private readonly int[,] _joinedGroupAtStep = new int[Nodes, Groups];
    private readonly MemoryEngine _engine;
    private readonly MemoryBus _bus;
    private readonly Random _random;
    private readonly TestNode[] _nodes;
    private readonly TestNode.Member[] _members;
    private readonly string _seed;

    private CrowdStory(int seed, bool hasFaults)
    {
        _seed = $"seed {seed}, {(hasFaults ? "with" : "without")} faults";
        _random = new Random(seed);
        _engine = new MemoryEngine(seed, faults: MemoryFaults.None);
        _bus = new MemoryBus(seed);
        _nodes = [.. Enumerable.Range(0, Nodes).Select(i => new TestNode(_engine, _bus, $"n{i}", Options))];
        _members = [.. _nodes.Select(static n => n.Connect())];
        if (hasFaults) (_bus.Loss, _bus.Doubled, _bus.MaxDelay) = (0.05, 0.05, TimeSpan.FromMilliseconds(30));
    }

    private static ClusterOptions Options(ClusterOptions o) =>
        new()
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            OnStateChanged = o.OnStateChanged,
            PresenceInterval = TimeSpan.FromSeconds(0.5)
        };

    internal static void Run(int seed, bool hasFaults)
    {
        CrowdStory story = new(seed, hasFaults);
        for (int step = 0; step < Steps; step++) story.Step(step, hasFaults);
        story._bus.Loss = story._bus.Doubled = 0;
        foreach (TestNode node in story._nodes) node.Link.Link.IsCut = false;
        story._engine.RunFor(TimeSpan.FromSeconds(5));
        // If all marks and answers after a loss are lost as well, the next broadcast reveals it.
        foreach ((int node, int group) in story._said.Keys.ToList()) story.Say(node, group, Steps + StepsUntilAsked);
        story._engine.RunFor(TimeSpan.FromSeconds(5));
        story.Check(hasFaults);
        foreach (TestNode node in story._nodes) node.End();
        story._engine.Run(story._engine.DisposeAsync());
    }

    private void Step(int step, bool hasFaults)
    {
        int node = _random.Next(Nodes), group = _random.Next(Groups);
        MemoryBusLink link = _nodes[node].Link.Link;
        switch (_random.Next(100))
        {
            case < 55: Say(node, group, step); break;
            case < 80 when !link.IsCut && !_isMember[node, group]: Join(node, group, step); break;
            case < 94 when _isMember[node, group]: Leave(node, group); break;
            // A node that is cut off before its question came back may not be subscribed yet.
            case >= 94 when hasFaults && (link.IsCut || _joinedAtStep[node] < step - 100): link.IsCut ^= true; break;
        }

        _engine.RunFor(TimeSpan.FromMilliseconds(_random.Next(5, 40)));
    }

    private void Say(int node, int group, int step)
    {
        int number = _said[(node, group)] = _said.GetValueOrDefault((node, group)) + 1;
        Assert.Equal(SendResult.Queued, _nodes[node].Cluster.Group($"g{group}").Broadcast($"{node}.{group}.{number} "));
        for (int at = 0; at < Nodes; at++)
        {
            if (!_isMember[at, group]) continue;
            Of(_expected, at, group, node).Add(number);
            if (step - _joinedGroupAtStep[at, group] >= StepsUntilAsked) Of(_expectedLast, at, group, node).Add(number);
        }
    }

    private void Join(int node, int group, int step)
    {
        _nodes[node].Cluster.Group($"g{group}").Join(_members[node]);
        _isMember[node, group] = true;
        _joinedAtStep[node] = _joinedGroupAtStep[node, group] = step;
        for (int of = 0; of < Nodes; of++) Of(_expectedLast, node, group, of).Clear();
    }

    private void Leave(int node, int group)
    {
        _nodes[node].Cluster.Group($"g{group}").Leave(_members[node]);
        _isMember[node, group] = false;
    }

    private static List<int> Of(Dictionary<(int At, int Group, int Of), List<int>> lists, int at, int group, int of)
    {
        if (!lists.TryGetValue((at, group, of), out List<int>? list)) lists.Add((at, group, of), list = []);
        return list;
    }

    private void Check(bool hasFaults)
    {
        for (int at = 0; at < Nodes; at++)
        {
            Assert.True(_members[at].IsConnected, _seed);
            if (!hasFaults)
                Assert.True(_nodes[at].Gaps.Count == 0, $"{_seed}: {_nodes[at].Gaps.FirstOrDefault()} at {at}");
            ILookup<(int Of, int Group), int> heard = _members[at].Heard
                .Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(static w => w.Split('.'))
                .ToLookup(static w => (Number(w[0]), Number(w[1])), static w => Number(w[2]));
            for (int group = 0; group < Groups; group++)
            {
                for (int of = 0; of < Nodes; of++) CheckStream(hasFaults, at, group, of, [.. heard[(of, group)]]);
                int members = Enumerable.Range(0, Nodes).Count(n => _isMember[n, group]);
                Assert.True(_nodes[at].Cluster.Group($"g{group}").Count == members, $"{_seed}: {at} counts "
                    + $"{_nodes[at].Cluster.Group($"g{group}").Count} in {group} instead of {members}");
            }
        }
    }

    private void CheckStream(bool hasFaults, int at, int group, int of, int[] heard)
    {
        List<int> expected = Of(_expected, at, group, of);
        if (!hasFaults || at == of)
        {
            Assert.True(expected.SequenceEqual(heard), $"{_seed}: at {at} of {of} in {group} came "
                + $"{string.Join(',', heard)} instead of {string.Join(',', expected)}");
            return;
        }

        Assert.True(heard.SequenceEqual(heard.Distinct().Order()),
            $"{_seed}: at {at} of {of} in {group} came {string.Join(',', heard)}");
        if (!_isMember[at, group]) return;
        int missing = Of(_expectedLast, at, group, of).Except(heard).Count();
        long told = _nodes[at].Gaps.Where(g => g.Node == $"n{of}" && g.Group == $"g{group}").Sum(static g => g.Missed);
        Assert.True(missing <= told,
            $"{_seed}: at {at} of {of} in {group} {missing} are missing, and {told} were reported");
    }

    private static int Number(string text) => int.Parse(text, CultureInfo.InvariantCulture);
}
