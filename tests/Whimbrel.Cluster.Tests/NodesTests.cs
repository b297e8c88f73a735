using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Nodes that disappear, partitioned servers, and what a restart of the broker may lose, in virtual time.
public sealed class NodesTests : VirtualNodes
{
    private static Func<ClusterOptions, ClusterOptions> With(bool presence) =>
        o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            OnStateChanged = o.OnStateChanged,
            PresenceInterval = TimeSpan.FromSeconds(presence ? 1 : 0)
        };

    [Theory] // the split brain of two servers: the broker loses nothing, and half of the nodes are on the other server
    [InlineData(false)]
    [InlineData(true)]
    public void A_split_makes_every_node_Degraded_and_names_the_missing_ones_and_the_server_that_is_reached(
        bool presence)
    {
        TestNode one = Node("one", With(presence)), two = Node("two", With(presence)),
            three = Node("three", With(presence));
        TestNode.Member atTwo = two.Connect("g");
        Pass(3);
        Assert.All(Nodes, static n => Assert.Equal([ClusterState.Healthy], n.States));
        one.Link.Link.IsCut = true;
        Pass();
        one.Link.Link.Part = 2;
        one.Link.Link.IsCut = false;
        for (int i = 0; i < 10; i++) Say(one, $"{i} ");
        Pass(9);
        Assert.All(Nodes, static n => Assert.Equal(ClusterState.Degraded, n.Cluster.State));
        Assert.Contains("part 2 of the bus in memory is reached", one.Cluster.StateReason, StringComparison.Ordinal);
        Assert.Contains("'three', 'two'", one.Cluster.StateReason, StringComparison.Ordinal);
        Assert.Contains("'one'", two.Cluster.StateReason, StringComparison.Ordinal);
        Assert.DoesNotContain("'three'", two.Cluster.StateReason, StringComparison.Ordinal);
        Assert.Contains("'one'", three.Reasons[^1], StringComparison.Ordinal);
        Assert.Equal("", atTwo.Heard);
        one.Link.Link.IsCut = true;
        Pass();
        one.Link.Link.Part = 0;
        one.Link.Link.IsCut = false;
        Pass(3);
        Assert.All(Nodes, static n => Assert.Equal(ClusterState.Healthy, n.Cluster.State));
        // Its latest messages to the other server were published again.
        Assert.Equal("0 1 2 3 4 5 6 7 8 9 ", atTwo.Heard);
        Assert.Empty(two.Gaps);
    }

    [Fact]
    public void A_node_that_leaves_is_not_missed_and_one_that_vanishes_is_until_it_is_forgotten_or_replaced()
    {
        TestNode one = Node("one"), two = Node("two"), three = Node("three");
        Pass(3);
        three.End();
        Nodes.Remove(three);
        Pass(30);
        Assert.Equal([ClusterState.Healthy], one.States);
        two.Link.Link.Part = 1; // a crash, as the others see it
        Pass(5);
        Assert.Equal(ClusterState.Healthy, one.Cluster.State);
        Pass(5);
        Assert.Equal(ClusterState.Degraded, one.Cluster.State);
        Assert.Contains("'two'", one.Cluster.StateReason, StringComparison.Ordinal);
        TestNode again = Node("another",
            static o => new ClusterOptions { Application = o.Application, NodeId = "two" });
        Pass();
        Assert.Equal(ClusterState.Healthy, one.Cluster.State);
        again.Link.Link.Part = 3;
        Pass(10);
        Assert.Equal(ClusterState.Degraded, one.Cluster.State);
        Pass(580);
        Assert.Equal(ClusterState.Degraded, one.Cluster.State);
        Pass(30);
        Assert.Equal(ClusterState.Healthy, one.Cluster.State);
    }

    [Theory] // each order in which the nodes reconnect, and more than one restart
    [InlineData(0.0, 0.4)]
    [InlineData(0.4, 0.0)]
    [InlineData(0.0, 1.9)]
    [InlineData(1.9, 0.0)]
    public void A_broker_that_is_restarted_loses_nothing_that_fits_the_queue(double oneAfter, double twoAfter)
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atOne = one.Connect("toOne"), atTwo = two.Connect("toTwo");
        Pass(1.5);
        string all = "";
        int said = 0;
        Bus.MaxDelay = TimeSpan.FromMilliseconds(20);
        for (int restart = 0; restart < 3; restart++)
        {
            Talk(0.5);
            one.Link.Link.IsCut = two.Link.Link.IsCut = true; // and messages in transit are lost
            Talk(0.3);
            if (oneAfter < twoAfter) Back(one, two, twoAfter);
            else Back(two, one, oneAfter);
            Talk(0.3);
        }

        Pass(5);
        Assert.Equal(all, atOne.Heard);
        Assert.Equal(all, atTwo.Heard);
        Assert.Empty(one.Gaps);
        Assert.Empty(two.Gaps);
        Assert.Equal((2L * said, 0L), (one.Cluster.ReadCounters().Published + two.Cluster.ReadCounters().Published,
            one.Cluster.ReadCounters().PendingBytes));

        void Back(TestNode first, TestNode second, double later)
        {
            first.Link.Link.IsCut = false;
            Talk(later);
            second.Link.Link.IsCut = false;
        }

        void Talk(double seconds)
        {
            for (double passed = 0; passed < seconds; passed += 0.005)
            {
                all += $"a{++said} ";
                one.Cluster.Group("toTwo").Broadcast($"a{said} ");
                two.Cluster.Group("toOne").Broadcast($"a{said} ");
                Pass(0.005);
            }
        }
    }

    // A new node asks the others to announce themselves, which may take 100 ms. Messages received from them in that
    // time count as well.
    [Fact]
    public void A_broker_that_is_restarted_as_soon_as_a_node_has_joined_loses_nothing_either()
    {
        TestNode one = Node("one");
        TestNode.Member atOne = one.Connect("toOne");
        Pass(0.02);
        TestNode two = Node("two");
        TestNode.Member atTwo = two.Connect("toTwo");
        Pass(0.02);
        two.Cluster.Group("toOne").Broadcast("a1 ");
        one.Cluster.Group("toTwo").Broadcast("b1 ");
        Pass(0.02);
        Assert.Equal("b1 ", atTwo.Heard);
        one.Link.Link.IsCut = two.Link.Link.IsCut = true;
        two.Cluster.Group("toOne").Broadcast("a2 ");
        Pass(0.02);
        two.Link.Link.IsCut = false;
        Pass(0.2);
        one.Link.Link.IsCut = false;
        Pass(5);
        Assert.Equal("a1 a2 ", atOne.Heard);
        Assert.Empty(one.Gaps);
        Assert.Equal([ClusterState.Healthy, ClusterState.Degraded, ClusterState.Healthy], two.States);
    }

    [Fact]
    public void A_node_that_has_never_announced_itself_is_awaited_and_not_missing()
    {
        NodeTable nodes = new();
        Assert.False(nodes.Hear(1, 0, out bool isNew));
        Assert.True(isNew);
        nodes.Add(1, "silent", 0);
        Assert.False(nodes.Hear(1, 1_000, out isNew));
        Assert.False(isNew);
        nodes.Await();
        Assert.True(nodes.IsAwaiting);
        nodes.EndAwaiting(3_000);
        Assert.False(nodes.IsAwaiting || nodes.IsMissing);
        nodes.Add(1, "silent", 4_000);
        Assert.False(nodes.Judge(9_000, 2_000, 600_000));
        Assert.False(nodes.Hear(1, 10_000, out isNew) || isNew); // within three intervals
        Assert.False(nodes.Judge(17_000, 2_000, 600_000));
        Assert.False(nodes.Hear(1, 18_000, out isNew) || nodes.IsMissing);
        Assert.True(isNew);
    }

    [Fact]
    public void Broadcasts_wait_for_the_nodes_that_were_there_and_no_longer_than_the_grace()
    {
        TestNode one = Node("one"), two = Node("two"), three = Node("three");
        TestNode.Member atThree = three.Connect("g");
        Pass(1.5);
        foreach (TestNode node in Nodes) node.Link.Link.IsCut = true;
        Pass();
        Say(one, "a ");
        one.Link.Link.IsCut = three.Link.Link.IsCut = false;
        Pass(1.9);
        Assert.Equal("", atThree.Heard);
        Pass(0.3);
        Assert.Equal("a ", atThree.Heard);
        Assert.Equal(ClusterState.Degraded, one.Cluster.State);
        Assert.Contains("'two'", one.Cluster.StateReason, StringComparison.Ordinal);
        two.Link.Link.IsCut = false;
        Pass();
        Assert.All(Nodes, static n => Assert.Equal(ClusterState.Healthy, n.Cluster.State));
        // The next time, a node that has said goodbye meanwhile is not waited for.
        two.End();
        Nodes.Remove(two);
        Pass();
        one.Link.Link.IsCut = true;
        Pass();
        Say(one, "b ");
        one.Link.Link.IsCut = false;
        Pass();
        Assert.Equal("a b ", atThree.Heard);
    }

    [Fact]
    public void A_republished_message_is_ignored_by_a_new_subscription()
    {
        TestNode one = Node("one"), two = Node("two");
        Pass(1.5);
        for (int i = 0; i < 5; i++) Say(one, $"{i} ");
        Pass(1);
        one.Link.Link.IsCut = true;
        Pass();
        TestNode.Member atTwo = two.Connect("g"); // long after they were published
        one.Link.Link.IsCut = false;
        Pass();
        Say(one, "new ");
        Pass(5);
        Assert.Equal("new ", atTwo.Heard);
        Assert.Empty(two.Gaps);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(400)]
    public void No_more_is_kept_for_a_lost_broker_than_the_limit_and_for_ten_seconds(int limit)
    {
        TestNode one = Node("one",
            o => new ClusterOptions { Application = o.Application, NodeId = o.NodeId, RepeatLimitBytes = limit }),
            two = Node("two");
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        Bus.Loss = 1;
        for (int i = 0; i < 9; i++)
        {
            Say(one, $"{i} ");
            Pass(0.01);
        }

        one.Link.Link.IsCut = true;
        Pass();
        Bus.Loss = 0;
        one.Link.Link.IsCut = false;
        Pass(5);
        // An envelope of 35 bytes counts for 163.
        Assert.Equal(limit == 0 ? "" : "7 8 ", atTwo.Heard);
        Assert.Equal(limit == 0 ? 9 : 7, two.Gaps.Sum(static g => g.Missed));
        Say(one, "x ");
        Pass();
        int duplicates = (int)two.Cluster.ReadCounters().Duplicates;
        Pass(12);
        one.Link.Link.IsCut = true;
        Pass();
        one.Link.Link.IsCut = false;
        Pass(5);
        Assert.Equal(duplicates, two.Cluster.ReadCounters().Duplicates);
        Assert.EndsWith("x ", atTwo.Heard, StringComparison.Ordinal);
    }
}
