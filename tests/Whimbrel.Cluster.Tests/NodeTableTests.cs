using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// The table of the other nodes by itself: its numbers, each at the number and one past it.
public sealed class NodeTableTests
{
    [Theory] // the longer interval of both nodes counts
    [InlineData(1_000, 10_000)]
    [InlineData(10_000, 1_000)]
    [InlineData(10_000, 10_000)]
    public void A_node_is_missing_one_millisecond_after_three_of_the_longer_intervals(int itsMs, int ownMs)
    {
        NodeTable nodes = new();
        for (long begin = 0; begin <= 100_000; begin += 100_000) // and the second time
        {
            nodes.Announce(1, "n", itsMs, begin);
            Assert.False(nodes.Judge(begin + 30_000, ownMs, 600_000) || nodes.IsMissing);
            Assert.True(nodes.Judge(begin + 30_001, ownMs, 600_000));
            Assert.True(nodes.IsMissing);
            Assert.True(nodes.Hear(1, begin + 30_002, out _));
            Assert.False(nodes.IsMissing);
        }
    }

    [Theory]
    [InlineData(1, "'n1'")]
    [InlineData(8, "'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8'")]
    [InlineData(9, "'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7', 'n8' and 1 more")]
    public void Up_to_eight_missing_nodes_are_named_and_the_others_are_counted(int count, string expected)
    {
        NodeTable nodes = new();
        for (int i = 1; i <= count; i++) nodes.Announce((ulong)i, $"n{i}", 1_000, 0);
        nodes.Judge(10_000, 1_000, 600_000);
        Assert.Equal(expected, nodes.NameMissing());
    }

    [Fact]
    public void A_missing_node_is_forgotten_one_millisecond_after_its_time()
    {
        NodeTable nodes = new();
        nodes.Announce(1, "n", 1_000, 0);
        nodes.Await();
        nodes.EndAwaiting(5_000); // missing from here on, although it announced itself earlier
        Assert.False(nodes.Judge(605_000, 1_000, 600_000));
        Assert.True(nodes.IsMissing);
        Assert.True(nodes.Judge(605_001, 1_000, 600_000));
        Assert.False(nodes.IsMissing);
    }

    [Fact]
    public void No_more_nodes_are_watched_than_the_limit_and_a_goodbye_makes_room()
    {
        NodeTable nodes = new();
        for (int i = 1; i <= NodeTable.MostNodes; i++)
        {
            Assert.False(nodes.Hear((ulong)i, 0, out bool isNew));
            Assert.True(isNew);
            nodes.Add((ulong)i, $"n{i}", 0);
        }

        for (int i = 0; i < 2; i++)
        {
            nodes.Hear(5_000, 0, out bool isNew);
            Assert.False(isNew);
            nodes.Announce(5_000, "late", 1_000, 0);
            nodes.Hear(5_000, 0, out isNew);
            Assert.False(isNew);
        }

        nodes.Forget(7);
        nodes.Hear(5_000, 0, out bool hasRoom);
        Assert.True(hasRoom);
    }

    [Fact] // the node that was heard last is remembered beside the table
    public void A_node_that_said_goodbye_is_new_when_it_is_heard_again()
    {
        NodeTable nodes = new();
        for (int i = 0; i < 2; i++)
        {
            nodes.Hear(1, 0, out bool isNew);
            Assert.True(isNew);
            nodes.Add(1, "n", 0);
            nodes.Hear(1, 0, out isNew);
            Assert.False(isNew);
            nodes.Forget(1);
        }
    }
}
