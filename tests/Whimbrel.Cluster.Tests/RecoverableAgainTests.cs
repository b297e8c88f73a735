using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// Recoverable groups on nodes that learn of entries by announcements only: the periodic check runs once an hour.
public sealed class RecoverableAgainTests : VirtualNodes
{
    private TestNode Quiet(string name) => Node(name, static o => new ClusterOptions
    {
        Application = o.Application,
        NodeId = o.NodeId,
        MarkInterval = TimeSpan.FromHours(1)
    });

    private static RecoverableGroup Group(TestNode node) =>
        node.Cluster.RecoverableGroup("g", new RecoverableOptions
        {
            Deliver =
                static (members, at, payload) => members.Broadcast($"{at.Offset}:{Encoding.UTF8.GetString(payload)} ")
        });

    private TestNode.Member Joined(TestNode node, RecoverableGroup group)
    {
        TestNode.Member member = node.Connect();
        Assert.Equal(ResumeOutcome.Recovered, Engine.Run(new ValueTask<ResumeResult>(group.JoinAsync(member))).Outcome);
        return member;
    }

    [Fact] // the subscription of the news is one of those that a reconnect repeats
    public void News_arrives_at_once_after_each_reconnect()
    {
        RecoverableGroup atOne = Group(Quiet("one")), atTwo = Group(Quiet("two"));
        TestNode.Member b = Joined(Nodes[1], atTwo);
        string all = "";
        for (int loss = 1; loss <= 3; loss++)
        {
            Nodes[1].Link.Link.IsCut = true;
            Pass();
            Nodes[1].Link.Link.IsCut = false;
            Pass(3);
            Assert.Equal(SendResult.Queued, atOne.Broadcast("x"));
            Pass(0.01);
            all += $"{loss}:x ";
            Assert.Equal(all, b.Heard);
        }
    }

    [Fact] // a lost wake-up: the read that is in progress began before the entry of the news
    public void News_that_arrives_during_a_read_is_read_after_it()
    {
        RecoverableGroup atOne = Group(Quiet("one")), atTwo = Group(Quiet("two"));
        TestNode.Member b = Joined(Nodes[1], atTwo);
        Pass();
        Nodes[1].Link.ReadTime = TimeSpan.FromSeconds(0.1);
        string all = "";
        for (int read = 1; read <= 3; read++)
        {
            Engine.GetLoop(0).Post(Nodes[1].Link.Listener!.OnRoom); // reads, and finds nothing
            Pass(0.05);
            Assert.Equal(SendResult.Queued, atOne.Broadcast("x"));
            Pass(0.3);
            all += $"{read}:x ";
            Assert.Equal(all, b.Heard);
        }
    }

    [Fact] // slow growth: the session outlives its resumption
    public void A_session_is_no_member_of_the_group_of_its_resumption_afterwards()
    {
        TestNode.Member member = Quiet("one").Connect();
        Resumption one = new(member, new GroupPosition(1, 1));
        SessionGroup alone = one.Alone;
        Pass();
        Assert.Equal(1, alone.Count);
        one.End(ResumeOutcome.Recovered, null);
        Pass();
        Assert.Equal(0, alone.Count);
        Assert.True(member.IsConnected);
    }
}
