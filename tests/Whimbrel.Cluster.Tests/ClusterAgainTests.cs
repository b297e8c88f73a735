using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// State of a node that must be reset after its first use, and what must not grow with each use, in virtual time.
public sealed class ClusterAgainTests : VirtualNodes
{
    [Fact]
    public void Each_loss_of_the_broker_repeats_as_much_as_the_first()
    {
        TestNode one = Node("one",
            static o => new ClusterOptions { Application = o.Application, NodeId = o.NodeId, RepeatLimitBytes = 400 });
        TestNode two = Node("two");
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        string all = "";
        for (int loss = 0; loss < 5; loss++)
        {
            Bus.Loss = 1;
            for (int i = 0; i < 2; i++) // an envelope of 35 bytes counts for 163, so that two are kept
            {
                Say(one, $"{loss}{i} ");
                all += $"{loss}{i} ";
                Pass(0.01);
            }

            one.Link.Link.IsCut = true;
            Pass();
            Bus.Loss = 0;
            one.Link.Link.IsCut = false;
            Pass(3);
            Assert.Equal(all, atTwo.Heard);
        }

        Assert.Empty(two.Gaps);
    }

    [Fact]
    public void A_group_whose_broadcasts_were_repeated_is_forgotten_like_any_other()
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        for (int loss = 0; loss < 3; loss++)
        {
            Say(one, "a ");
            Pass();
            one.Link.Link.IsCut = true;
            Pass();
            one.Link.Link.IsCut = false;
            Pass(3);
        }

        Assert.Equal("a a a ", atTwo.Heard);
        Assert.NotNull(one.Cluster.Find("g"));
        Pass(1_300);
        Assert.Null(one.Cluster.Find("g"));
    }

    [Fact]
    public void What_was_published_while_a_group_had_no_subscription_is_no_loss_at_any_of_its_subscriptions()
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        string all = "";
        for (int subscription = 0; subscription < 3; subscription++)
        {
            Say(one, "in ");
            all += "in ";
            Pass();
            two.Cluster.Group("g").Leave(atTwo);
            Pass(10);
            Assert.DoesNotContain("test.group.g", two.Link.Subjects);
            for (int i = 0; i < 3; i++) Say(one, "out ");
            Pass(10);
            two.Cluster.Group("g").Join(atTwo);
            Pass();
            Say(one, "in ");
            all += "in ";
            Pass(3);
            Assert.Equal(all, atTwo.Heard);
            Assert.Empty(two.Gaps);
        }
    }

    [Fact] // UnsubscribeAfter, from both sides, each time that a group becomes empty
    public void An_emptied_group_stays_subscribed_for_its_whole_time_each_time()
    {
        TestNode one = Node("one", static o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            UnsubscribeAfter = TimeSpan.FromSeconds(10)
        });
        TestNode.Member a = one.Connect();
        ClusterGroup group = one.Cluster.Group("g");
        for (int emptying = 0; emptying < 3; emptying++)
        {
            group.Join(a);
            Pass(1);
            group.Leave(a);
            Pass(8);
            group.Join(a); // just before the end
            Pass(1);
            group.Leave(a);
            Pass(9.9);
            Assert.Contains("test.group.g", one.Link.Subjects);
            Pass(1.3); // the next tick
            Assert.DoesNotContain("test.group.g", one.Link.Subjects);
        }
    }

    [Fact] // RejoinGrace, from both sides, after a second loss during the first hold
    public void A_hold_lasts_the_whole_grace_also_after_a_loss_during_the_hold_before_it()
    {
        TestNode one = Node("one"), two = Node("two"), three = Node("three");
        TestNode.Member atThree = three.Connect("g");
        Pass(1.5);
        one.Link.Link.IsCut = two.Link.Link.IsCut = true;
        Pass();
        Say(one, "a ");
        one.Link.Link.IsCut = false;
        Pass(1.5);
        one.Link.Link.IsCut = true;
        Pass();
        one.Link.Link.IsCut = false;
        Pass(1.9);
        Assert.Equal("", atThree.Heard);
        Pass(0.2);
        Assert.Equal("a ", atThree.Heard);
    }

    [Fact] // IsolatedAfter and the number in its text, each time
    public void Each_isolation_begins_after_its_time_and_names_the_seconds()
    {
        TestNode one = Node("one");
        for (int loss = 0; loss < 3; loss++)
        {
            one.Link.Link.IsCut = true;
            Pass(9.9);
            Assert.Equal(ClusterState.Degraded, one.Cluster.State);
            Pass(1.2);
            Assert.Equal(ClusterState.Isolated, one.Cluster.State);
            Assert.Matches("has been away for 1[01] s;", one.Cluster.StateReason);
            one.Link.Link.IsCut = false;
            Pass(5);
            Assert.Equal(ClusterState.Healthy, one.Cluster.State);
        }
    }

    [Fact]
    public void A_process_that_was_suspended_reports_no_node_as_missing()
    {
        TestNode one = Node("one");
        _ = Node("two");
        Pass(10);
        for (int i = 0; i < 2; i++)
        {
            Engine.GetLoop(0).Post(() => Engine.Block(TimeSpan.FromSeconds(60)));
            Pass(10);
        }

        Assert.All(Nodes, static n => Assert.Equal([ClusterState.Healthy], n.States));
        Assert.Equal(ClusterState.Healthy, one.Cluster.State);
    }

    [Fact] // ForgetNodesAfter, from both sides, counted from the time at which the node was found missing
    public void A_node_that_does_not_come_back_is_missing_for_the_whole_time_after_the_reconnect()
    {
        TestNode one = Node("one"), two = Node("two");
        Pass(3);
        one.Link.Link.IsCut = true;
        Pass(300);
        two.Link.Link.Part = 1; // a crash, as the other sees it
        Pass(200);
        one.Link.Link.IsCut = false;
        Pass(3);
        Assert.Equal(ClusterState.Degraded, one.Cluster.State);
        Pass(590);
        Assert.Equal(ClusterState.Degraded, one.Cluster.State);
        Pass(15);
        Assert.Equal(ClusterState.Healthy, one.Cluster.State);
    }

    [Fact] // slow growth: what waited for members and was delivered takes no room
    public void Messages_that_waited_for_members_take_no_room_later()
    {
        bool isFull = false;
        TestNode one = Node("one"), two = Node("two", o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            MaxPayloadBytes = 100,
            QueueLimitBytes = 2_000,
            Deliver = (g, p, e) => isFull ? SendResult.Full : g.Broadcast(p, e)
        });
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        string all = "";
        for (int i = 0; i < 200; i++)
        {
            isFull = true;
            Say(one, $"{i} ");
            all += $"{i} ";
            Pass(0.02);
            isFull = false;
            Pass(0.02);
        }

        Assert.Equal(all, atTwo.Heard);
        Assert.Empty(two.Gaps);
    }

    [Fact] // from both sides, each time
    public void Messages_wait_two_seconds_for_room_and_are_reported_then()
    {
        bool isFull = true;
        TestNode one = Node("one"), two = Node("two", o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            Deliver = (g, p, e) => isFull ? SendResult.Full : g.Broadcast(p, e)
        });
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        for (int i = 1; i <= 3; i++)
        {
            isFull = true;
            Say(one, "in ");
            Pass(1.9);
            Assert.Equal(i - 1, two.Gaps.Count);
            isFull = false;
            Pass(0.05);
            isFull = true;
            Say(one, "out ");
            Pass(2.1);
            Assert.Equal(i, two.Gaps.Count);
            Assert.Equal(string.Concat(Enumerable.Repeat("in ", i)), atTwo.Heard);
        }

        Assert.All(two.Gaps, static g => Assert.Equal(new ClusterGap("one", "g", 1), g));
    }

    [Fact] // an envelope of three broadcasts, of which members take one at a time
    public void A_kept_envelope_continues_where_its_last_retry_ended()
    {
        int room = 0;
        TestNode one = Node("one"), two = Node("two", o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            Deliver = (g, p, e) => room-- > 0 ? g.Broadcast(p, e) : SendResult.Full
        });
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        string all = "";
        for (int i = 0; i < 3; i++)
        {
            Engine.Run(Engine.GetLoop(0).PostAsync(() =>
            {
                foreach (string text in (string[])["a ", "b ", "c "]) Say(one, text);
            }));
            for (int each = 0; each < 3; each++)
            {
                Pass(0.02);
                room = 1;
            }

            Pass(0.02);
            all += "a b c ";
            Assert.Equal(all, atTwo.Heard);
        }

        Assert.Empty(two.Gaps);
    }

    [Fact] // marks are lost as well; those after the last broadcast report it
    public void A_broadcast_during_the_marks_of_the_last_one_is_marked_as_often()
    {
        TestNode one = Node("one"), two = Node("two");
        _ = two.Connect("g");
        Pass(1.5);
        Say(one, "a ");
        Pass(4.5);
        Bus.Loss = 1;
        Say(one, "b ");
        Pass(4);
        Assert.Empty(two.Gaps);
        Bus.Loss = 0;
        Pass(3);
        Assert.Equal([new ClusterGap("one", "g", 1)], two.Gaps);
    }

    [Fact] // slow growth of an engine that outlives its nodes
    public void A_node_that_has_left_has_no_timers()
    {
        _ = Node("first").Connect("g");
        Pass(1.5);
        for (int i = 0; i < 3; i++)
        {
            int before = Engine.GetLoop(0).ReadCounters().Timers;
            TestNode one = Node($"one{i}");
            _ = one.Connect("g");
            Pass(1.5);
            one.End();
            Nodes.Remove(one);
            Assert.Equal(before, Engine.GetLoop(0).ReadCounters().Timers);
        }
    }

    [Theory] // two features at once: a queue that drops, and envelopes that are open for more broadcasts
    [InlineData(QueuePolicy.DropOldest)]
    [InlineData(QueuePolicy.DropNewest)]
    public void A_full_queue_stays_within_its_limit_and_reports_all_that_it_drops(QueuePolicy policy)
    {
        const int Limit = 2_000, Count = 300;
        foreach (int seed in Seeds.Some(10))
        {
            Random random = new(seed);
            TestNode one = Node($"one{seed}", o => new ClusterOptions
            {
                Application = o.Application,
                NodeId = o.NodeId,
                OnGap = o.OnGap,
                MaxPayloadBytes = 200,
                QueueLimitBytes = Limit,
                QueuePolicy = policy
            });
            TestNode two = Node($"two{seed}");
            int groups = random.Next(1, 40), most = random.Next(10, 100);
            TestNode.Member atTwo = two.Connect();
            for (int i = 0; i < groups; i++) two.Cluster.Group($"g{i}").Join(atTwo);
            Pass(1.5);
            one.Link.Link.IsCut = true;
            Pass();
            for (int i = 0; i < Count; i++)
            {
                Say(one, new string('x', random.Next(1, most)), $"g{random.Next(groups)}");
                Assert.True(one.Cluster.ReadCounters().PendingBytes <= Limit, $"seed {seed}, broadcast {i}");
            }

            Pass();
            one.Link.Link.IsCut = false;
            Pass(10);
            long dropped = one.Cluster.ReadCounters().Dropped;
            Assert.Equal((dropped, dropped, Count - dropped), (one.Gaps.Sum(static g => g.Missed),
                two.Gaps.Sum(static g => g.Missed), two.Cluster.ReadCounters().Received));
            foreach (TestNode node in (TestNode[])[one, two])
            {
                node.End();
                Nodes.Remove(node);
            }
        }
    }
}
