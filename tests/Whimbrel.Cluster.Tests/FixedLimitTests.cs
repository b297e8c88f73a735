using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// Limits of docs/limits.md that nothing else shows: at the number, and one past it.
public sealed class FixedLimitTests : VirtualNodes
{
    [Fact]
    public void Names_of_groups_have_up_to_256_bytes_and_those_of_nodes_up_to_64()
    {
        TestNode one = Node("one");
        _ = one.Cluster.Group(new string('x', 256));
        _ = one.Cluster.Group(new string('é', 128));
        Assert.Throws<ArgumentException>(() => one.Cluster.Group(new string('x', 257)));
        Assert.Throws<ArgumentException>(() => one.Cluster.Group(new string('é', 128) + "x"));
        Node("long", static o => new ClusterOptions { Application = o.Application, NodeId = new string('x', 64) });
        Assert.Throws<ArgumentException>(() => Node("longer",
            static o => new ClusterOptions { Application = o.Application, NodeId = new string('x', 65) }));
    }

    [Fact]
    public void A_broadcast_has_up_to_1_MiB()
    {
        TestNode one = Node("one");
        Assert.Equal(SendResult.Queued, one.Cluster.Group("g").Broadcast(new byte[1 << 20]));
        Assert.Throws<ArgumentException>(() => one.Cluster.Group("g").Broadcast(new byte[(1 << 20) + 1]));
    }

    [Theory]
    [InlineData(256, 1)]
    [InlineData(257, 2)]
    public void A_bus_is_given_up_to_256_envelopes_at_once(int count, int calls)
    {
        TestNode one = Node("one");
        Pass(2);
        one.Link.Batches.Clear();
        Engine.Run(Engine.GetLoop(0).PostAsync(() =>
        {
            for (int i = 0; i < count; i++) Say(one, "x", $"g{i}");
        }));
        Pass(0.01);
        Assert.Equal(calls, one.Link.Batches.Count);
        Assert.Equal((256, count), (one.Link.Batches.Max(), one.Link.Batches.Sum()));
    }

    [Fact]
    public void A_bus_in_memory_keeps_65_536_streams()
    {
        HistoryLimits limits = new();
        for (int i = 0; i < 65_536; i++) Assert.NotNull(Bus.Read($"{i}", limits, 0, 1, 0));
        Assert.Null(Bus.Read("one more", limits, 0, 1, 0));
        Assert.False(Bus.Append("one more", limits, [new byte[1]], 0));
        Assert.NotNull(Bus.Read("0", limits, 0, 1, 0));
        Bus.ForgetHistory();
        Assert.NotNull(Bus.Read("one more", limits, 0, 1, 0));
    }

    [Theory]
    [InlineData(65_536)]
    [InlineData(65_538)]
    public void Of_the_groups_published_to_65_536_are_kept_while_the_broker_is_away(int count)
    {
        TestNode one = Node("one", static o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            MarkInterval = TimeSpan.FromMinutes(1)
        });
        Pass(2);
        Engine.Run(Engine.GetLoop(0).PostAsync(() =>
        {
            for (int i = 0; i < count; i++) Say(one, "x", $"g{i}");
        }));
        Pass(2);
        one.Link.Link.IsCut = true;
        Pass(800);
        Assert.Equal(65_536, one.Cluster.Groups.Count());
    }
}
