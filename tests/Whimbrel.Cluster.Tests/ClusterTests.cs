using System.Diagnostics.Metrics;
using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// The contract at the head of Cluster, by number, in virtual time.
public sealed class ClusterTests : VirtualNodes
{
    private readonly List<DiagnosticEvent> _notices;

    public ClusterTests()
        : this([])
    {
    }

    private ClusterTests(List<DiagnosticEvent> notices)
        : base(notices.Add) => _notices = notices;

    private (TestNode One, TestNode.Member AtOne, TestNode Two, TestNode.Member AtTwo) Pair(
        Func<ClusterOptions, ClusterOptions>? change = null)
    {
        TestNode one = Node("one", change), two = Node("two", change);
        (TestNode, TestNode.Member, TestNode, TestNode.Member) pair = (one, one.Connect("g"), two, two.Connect("g"));
        Pass(1.5);
        return pair;
    }

    [Fact] // 1, 4
    public void Members_here_are_served_in_order_while_the_broker_is_away_and_those_elsewhere_when_it_is_back()
    {
        (TestNode one, TestNode.Member atOne, TestNode two, TestNode.Member atTwo) = Pair();
        one.Link.Link.IsCut = true;
        Pass();
        Say(one, "a ");
        Say(one, "b ");
        Pass();
        Assert.Equal("a b ", atOne.Heard);
        Assert.Equal("", atTwo.Heard);
        Assert.Equal(ClusterState.Degraded, one.Cluster.State);
        Pass(12);
        Assert.Equal(ClusterState.Isolated, one.Cluster.State);
        one.Link.Link.IsCut = false;
        Pass();
        Assert.Equal("a b ", atTwo.Heard);
        Assert.Empty(two.Gaps);
        Assert.Equal([ClusterState.Healthy, ClusterState.Degraded, ClusterState.Isolated, ClusterState.Healthy],
            one.States);
        Assert.All(Nodes, static n => Assert.All(n.Members, static m => Assert.True(m.IsConnected)));
    }

    // The member's node has left the group's subscription and taken it again while the publisher was away, so the
    // publisher's repetition arrives at a new subscription.
    [Fact] // 2, 10
    public void A_repetition_after_an_outage_does_not_come_twice_to_a_group_that_was_left_and_joined_again()
    {
        (TestNode one, _, TestNode two, TestNode.Member atTwo) = Pair(static o => new()
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            UnsubscribeAfter = TimeSpan.FromSeconds(1)
        });
        Say(one, "1 ");
        Say(one, "2 ");
        Pass();
        Assert.Equal("1 2 ", atTwo.Heard);
        one.Link.Link.IsCut = true;
        two.Cluster.Group("g").Leave(atTwo);
        Pass(5);
        two.Cluster.Group("g").Join(atTwo);
        Pass(5);
        Say(one, "3 ");
        one.Link.Link.IsCut = false;
        Pass(5);
        Assert.Equal("1 2 3 ", atTwo.Heard);
        Assert.Empty(two.Gaps);
    }

    [Fact] // 2, 5
    public void Each_member_gets_each_broadcast_once_even_if_the_bus_duplicates_and_echoes()
    {
        Bus.Doubled = 1;
        (TestNode one, TestNode.Member atOne, TestNode two, TestNode.Member atTwo) = Pair();
        for (int i = 0; i < 5; i++)
        {
            Say(one, $"{i} ");
            if (i != 3) Pass(0.01); // two of them share an envelope
        }

        Pass();
        Assert.Equal("0 1 2 3 4 ", atOne.Heard);
        Assert.Equal("0 1 2 3 4 ", atTwo.Heard);
        Assert.True(one.Cluster.ReadCounters().Echoes >= 10);
        Assert.Equal(5, two.Cluster.ReadCounters().Duplicates);
        Assert.Empty(two.Gaps);
    }

    [Fact] // 3
    public void A_loss_is_reported_with_its_number_and_the_last_one_too()
    {
        (TestNode one, _, TestNode two, TestNode.Member atTwo) = Pair();
        Say(one, "a ");
        Pass();
        Bus.Loss = 1;
        Say(one, "b ");
        Say(one, "c ");
        Pass();
        Bus.Loss = 0;
        Pass(3);
        Assert.Equal("a ", atTwo.Heard);
        Assert.Equal([new ClusterGap("one", "g", 2)], two.Gaps);
        Assert.Equal(2, two.Cluster.ReadCounters().Missed);
    }

    [Fact] // 3
    public void A_node_that_was_cut_off_gets_its_losses_reported_also_of_a_publisher_unknown_to_it()
    {
        (TestNode one, _, TestNode two, TestNode.Member atTwo) = Pair();
        two.Link.Link.IsCut = true;
        Pass();
        for (int i = 0; i < 7; i++) Say(one, $"{i} ");
        Pass(20);
        two.Link.Link.IsCut = false;
        Pass();
        Assert.Equal([new ClusterGap("one", "g", 7)], two.Gaps);
        Say(one, "x ");
        Pass();
        Assert.Equal("x ", atTwo.Heard);
    }

    [Fact] // 3
    public void A_publisher_that_lost_the_broker_repeats_its_position_and_earlier_losses_are_reported()
    {
        (TestNode one, _, TestNode two, _) = Pair();
        Bus.Loss = 1;
        Say(one, "a ");
        Pass(12); // so long that it is not published again
        one.Link.Link.IsCut = true;
        Pass();
        Bus.Loss = 0;
        Pass(3);
        Assert.Empty(two.Gaps);
        one.Link.Link.IsCut = false;
        Pass(3);
        Assert.Equal([new ClusterGap("one", "g", 1)], two.Gaps);
    }

    [Theory] // 3
    [InlineData(false)]
    [InlineData(true)]
    public void A_loss_right_after_the_subscription_of_a_group_is_reported_too(bool isCutOff)
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atTwo = two.Connect("g");
        Pass(0.1);
        if (isCutOff) two.Link.Link.IsCut = true;
        else Bus.Loss = 1;
        for (int i = 0; i < 3; i++) Say(one, $"{i} ");
        Pass(0.1);
        two.Link.Link.IsCut = false;
        Bus.Loss = 0;
        Pass(0.1);
        Say(one, "x ");
        Pass(5);
        Assert.Equal("x ", atTwo.Heard);
        Assert.Equal([new ClusterGap("one", "g", 3)], two.Gaps);
    }

    [Fact] // 3
    public void A_member_that_joins_while_another_publishes_gets_no_report_of_earlier_losses()
    {
        TestNode one = Node("one"), two = Node("two");
        Bus.MaxDelay = TimeSpan.FromMilliseconds(40);
        TestNode.Member? atTwo = null;
        for (int i = 0; i < 60; i++)
        {
            if (i == 20) atTwo = two.Connect("g");
            Say(one, $"{i:D2} ");
            Pass(0.02);
        }

        Pass(5);
        Assert.EndsWith("57 58 59 ", atTwo!.Heard, StringComparison.Ordinal);
        Assert.InRange(atTwo.Heard.Length / 3, 35, 40);
        Assert.Empty(two.Gaps);
    }

    [Fact] // 3
    public void A_member_that_joins_late_gets_no_report_of_earlier_losses()
    {
        TestNode one = Node("one"), two = Node("two");
        for (int i = 0; i < 9; i++) Say(one, $"{i} ");
        Pass(30);
        TestNode.Member atTwo = two.Connect("g");
        Pass(30);
        Say(one, "x ");
        Pass();
        Assert.Equal("x ", atTwo.Heard);
        Assert.Empty(two.Gaps);
    }

    [Theory] // 3, 4
    [InlineData(QueuePolicy.DropOldest)]
    [InlineData(QueuePolicy.DropNewest)]
    public void A_full_queue_loses_by_its_policy_and_both_nodes_report_it(QueuePolicy policy)
    {
        (TestNode one, TestNode.Member atOne, TestNode two, TestNode.Member atTwo) = Pair(o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            MaxPayloadBytes = 100,
            QueueLimitBytes = 600,
            QueuePolicy = policy,
        });
        one.Link.Link.IsCut = true;
        Pass();
        string all = "";
        for (int i = 0; i < 40; i++)
        {
            Say(one, $"{i:D2} ");
            all += $"{i:D2} ";
        }

        Pass();
        Assert.Equal(all, atOne.Heard);
        one.Link.Link.IsCut = false;
        Pass(5);
        string heard = atTwo.Heard;
        int lost = (all.Length - heard.Length) / 3;
        Assert.InRange(lost, 1, 39);
        Assert.True(policy == QueuePolicy.DropOldest
            ? all.EndsWith(heard, StringComparison.Ordinal) : all.StartsWith(heard, StringComparison.Ordinal));
        Assert.Equal(lost, one.Cluster.ReadCounters().Dropped);
        Assert.Equal(lost, one.Gaps.Sum(static g => g.Missed));
        Assert.Equal(lost, two.Gaps.Sum(static g => g.Missed));
        Assert.Equal(0, one.Cluster.ReadCounters().PendingBytes);
    }

    [Theory] // 3, 4
    [InlineData(QueuePolicy.DropOldest)]
    [InlineData(QueuePolicy.DropNewest)]
    public void A_bus_that_accepts_nothing_fills_the_queue_to_its_limit_and_no_further(QueuePolicy policy)
    {
        (TestNode one, TestNode.Member atOne, TestNode two, TestNode.Member atTwo) = Pair(o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            MaxPayloadBytes = 100,
            QueueLimitBytes = 2_000,
            QueuePolicy = policy,
        });
        one.Link.Room = 0;
        for (int i = 0; i < 200; i++)
        {
            Say(one, $"{new string('-', 60)}{i:D3} ");
            Pass(0.001);
            Assert.InRange(one.Cluster.ReadCounters().PendingBytes, 1, 2_000);
        }

        one.Link.Room = int.MaxValue;
        Pass(5);
        Assert.Equal(200 * 64, atOne.Heard.Length);
        string heard = atTwo.Heard.Replace("-", "", StringComparison.Ordinal);
        Assert.Equal(policy == QueuePolicy.DropOldest, heard.EndsWith("198 199 ", StringComparison.Ordinal));
        Assert.Equal(policy == QueuePolicy.DropNewest, heard.StartsWith("000 001 ", StringComparison.Ordinal));
        Assert.InRange(heard.Length / 4, 15, 60);
        Assert.Equal(200 - (heard.Length / 4), one.Cluster.ReadCounters().Dropped);
        Assert.Equal(one.Cluster.ReadCounters().Dropped, two.Gaps.Sum(static g => g.Missed));
    }

    [Fact] // 1, 3
    public void A_broadcast_without_space_here_is_sent_nowhere_and_one_without_space_elsewhere_is_reported_there()
    {
        bool isFull = true;
        TestNode one = Node("one", o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            Deliver = (g, p, e) => isFull ? SendResult.Full : g.Broadcast(p, e)
        });
        TestNode two = Node("two");
        TestNode.Member atOne = one.Connect("g");
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        Assert.Equal(SendResult.Full, one.Cluster.Group("g").Broadcast("a "));
        Say(two, "b ");
        Pass(1.9);
        Assert.Empty(one.Gaps); // offered again until its time limit
        Pass(0.2);
        Assert.Equal([new ClusterGap("two", "g", 1)], one.Gaps);
        Say(two, "d ");
        Pass();
        isFull = false;
        Pass();
        Assert.Equal("d ", atOne.Heard);
        Say(one, "c ");
        Pass();
        Assert.Equal("b d c ", atTwo.Heard);
        Assert.Single(one.Gaps);
        Assert.Empty(two.Gaps);
    }

    [Fact] // 6
    public void A_group_is_subscribed_with_its_first_member_and_left_a_while_after_its_last()
    {
        TestNode one = Node("one");
        Assert.DoesNotContain("test.group.g", one.Link.Subjects);
        TestNode.Member a = one.Connect("g"), b = one.Connect("g");
        Pass();
        Assert.Single(one.Link.Subjects, "test.group.g");
        one.Cluster.Group("g").Leave(a);
        b.Close();
        Pass(3);
        Assert.Contains("test.group.g", one.Link.Subjects);
        one.Cluster.Group("g").Join(a);
        Pass(20);
        Assert.Single(one.Link.Subjects, "test.group.g");
        one.Cluster.Group("g").Leave(a);
        Pass(20);
        Assert.DoesNotContain("test.group.g", one.Link.Subjects);
    }

    [Fact] // 7
    public void Broadcasts_of_one_iteration_are_published_together_and_refused_ones_follow_later_in_order()
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atTwo = ConnectToEight(two);
        one.Link.Batches.Clear();
        one.Link.Room = 3;
        Engine.GetLoop(0).Post(() =>
        {
            for (int i = 0; i < 8; i++) one.Cluster.Group($"g{i}").Broadcast($"{i} ");
        });
        Pass();
        Assert.Equal([8], one.Link.Batches);
        Assert.Equal("0 1 2 ", atTwo.Heard);
        one.Link.Room = int.MaxValue;
        Pass(2);
        Assert.Equal("0 1 2 3 4 5 6 7 ", atTwo.Heard);
        Assert.Empty(two.Gaps);
    }

    private TestNode.Member ConnectToEight(TestNode node)
    {
        TestNode.Member member = node.Connect();
        for (int i = 0; i < 8; i++) node.Cluster.Group($"g{i}").Join(member);
        Pass(1.5);
        return member;
    }

    [Fact] // 2, 7
    public void Broadcasts_of_one_iteration_to_one_group_share_an_envelope_until_it_is_full()
    {
        (TestNode one, TestNode.Member atOne, TestNode two, TestNode.Member atTwo) = Pair();
        List<int> lengths = [];
        two.Link.OnEnvelope = bytes => lengths.Add(bytes);
        string all = "";
        Engine.GetLoop(0).Post(() =>
        {
            for (int i = 0; i < 1_000; i++)
            {
                string text = $"{i}{new string('-', i % 40)} ";
                one.Cluster.Group("g").Broadcast(text);
                one.Cluster.Group("nobody").Broadcast("x"); // no order between different groups is guaranteed
                all += text;
            }

            string large = new string('l', 20_000) + " ";
            one.Cluster.Group("g").Broadcast(large);
            one.Cluster.Group("g").Broadcast("end ");
            all += large + "end ";
        });
        Pass();
        Assert.Equal(all, atOne.Heard);
        Assert.Equal(all, atTwo.Heard);
        Assert.Empty(two.Gaps);
        Assert.Equal((1_002L, 0L), (two.Cluster.ReadCounters().Received, two.Cluster.ReadCounters().Duplicates));
        Assert.Equal(2_002, one.Cluster.ReadCounters().Published);
        Assert.InRange(lengths.Count, 5, 7);
        Assert.All(lengths.Where(static l => l < 20_000), static l => Assert.InRange(l, 1, Envelope.MostJoinedBytes));
        // Messages of a later loop iteration get their own envelope.
        Say(one, "later ");
        Pass();
        Assert.Equal(all + "later ", atTwo.Heard);
    }

    [Theory] // 3
    [InlineData(0.0)]
    [InlineData(1.0)]
    public void A_lost_envelope_is_reported_with_all_its_broadcasts_and_a_duplicate_counts_them_all(double doubled)
    {
        (TestNode one, _, TestNode two, TestNode.Member atTwo) = Pair();
        SayMany(10);
        Bus.Loss = 1;
        SayMany(7);
        (Bus.Loss, Bus.Doubled) = (0, doubled);
        SayMany(5);
        Pass(2);
        Assert.Equal([new ClusterGap("one", "g", 7)], two.Gaps);
        Assert.Equal(15, two.Cluster.ReadCounters().Received);
        Assert.Equal(doubled == 0 ? 0 : 5, two.Cluster.ReadCounters().Duplicates);
        Assert.Equal(string.Concat(Enumerable.Repeat("x ", 15)), atTwo.Heard);

        void SayMany(int count)
        {
            Engine.GetLoop(0).Post(() =>
            {
                for (int i = 0; i < count; i++) Say(one, "x ");
            });
            Pass(0.05);
        }
    }

    [Theory] // 3, 4
    [InlineData(QueuePolicy.DropOldest)]
    [InlineData(QueuePolicy.DropNewest)]
    public void All_losses_of_envelopes_that_grow_in_a_full_queue_are_reported(QueuePolicy policy)
    {
        (TestNode one, _, TestNode two, TestNode.Member atTwo) = Pair(o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            MaxPayloadBytes = 10_000,
            QueueLimitBytes = 20_000,
            QueuePolicy = policy,
        });
        one.Link.Link.IsCut = true;
        Pass();
        for (int i = 0; i < 3_000; i++)
        {
            one.Cluster.Group("g").Broadcast($"{i:D9}{new string(',', i % 30)} ");
            if (i % 7 == 0) one.Cluster.Group("other").Broadcast(new string('o', i % 900));
            Assert.InRange(one.Cluster.ReadCounters().PendingBytes, 1, 20_000);
        }

        one.Link.Link.IsCut = false;
        Pass(10);
        int[] heard = [.. atTwo.Heard.Replace(",", "", StringComparison.Ordinal)
            .Split(' ', StringSplitOptions.RemoveEmptyEntries)
            .Select(static n => int.Parse(n, System.Globalization.CultureInfo.InvariantCulture))];
        Assert.Equal(heard.Distinct().Order(), heard);
        Assert.InRange(heard.Length, 100, 2_900);
        Assert.Equal(policy == QueuePolicy.DropNewest ? 0 : 2_999,
            policy == QueuePolicy.DropNewest ? heard[0] : heard[^1]);
        Assert.Equal(3_000 - heard.Length, two.Gaps.Where(static g => g.Group == "g").Sum(static g => g.Missed));
        Assert.Equal(3_000 - heard.Length, one.Gaps.Where(static g => g.Group == "g").Sum(static g => g.Missed));
        Assert.Equal(0, one.Cluster.ReadCounters().PendingBytes);
    }

    [Fact] // 7
    public void A_bus_that_reports_space_gets_the_rest_at_once()
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atTwo = ConnectToEight(two);
        one.Link.Room = 2;
        Engine.GetLoop(0).Post(() =>
        {
            for (int i = 0; i < 6; i++) one.Cluster.Group($"g{i}").Broadcast($"{i} ");
            Engine.GetLoop(0).Post(() => one.Link.Listener!.OnRoom());
        });
        Pass(0.05);
        Assert.Equal("0 1 2 3 ", atTwo.Heard);
    }

    [Fact] // 3
    public void A_broadcast_too_large_for_the_broker_reaches_members_here_and_both_nodes_report_it()
    {
        (TestNode one, TestNode.Member atOne, TestNode two, TestNode.Member atTwo) = Pair();
        one.Link.MaxEnvelopeBytes = 200;
        one.Link.Link.IsCut = true; // a bus reports it with each connection
        Pass();
        one.Link.Link.IsCut = false;
        Pass(2);
        Say(one, "a ");
        Say(one, new string('x', 200) + " ");
        Say(one, "b ");
        Pass(2);
        Assert.Equal(205, atOne.Heard.Length);
        Assert.Equal("a b ", atTwo.Heard);
        Assert.Equal([new ClusterGap("one", "g", 1)], one.Gaps);
        Assert.Equal([new ClusterGap("one", "g", 1)], two.Gaps);
        Assert.Equal((1L, 0L), (one.Cluster.ReadCounters().Dropped, one.Cluster.ReadCounters().PendingBytes));
    }

    [Fact] // 3
    public void An_unused_group_is_forgotten_and_a_later_member_receives_it_from_its_beginning()
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        Say(one, "a ");
        Pass(660);
        Assert.Null(one.Cluster.Find("g"));
        Say(one, "b ");
        Say(one, "c ");
        Pass(10);
        Assert.Equal("a b c ", atTwo.Heard);
        Assert.Empty(two.Gaps);
    }

    [Fact] // 1, 6
    public void A_member_that_joins_a_group_while_it_is_forgotten_receives_the_messages_of_others()
    {
        TestNode one = Node("one"), two = Node("two");
        Say(one, "a ");
        GroupState old = one.Cluster.Find("g")!;
        Assert.True(old.TryForget(long.MaxValue)); // as the loop does, just before it removes it from the list
        TestNode.Member atOne = one.Connect("g");
        Assert.NotSame(old, one.Cluster.Find("g"));
        Pass(1.5);
        Say(one, "b ");
        Say(two, "c ");
        Pass();
        Assert.Equal("b c ", atOne.Heard);
        Assert.False(old.TryUse(0));
        Assert.False(old.TryForget(long.MaxValue));
    }

    [Theory] // 3
    [InlineData(false)]
    [InlineData(true)]
    public void A_publisher_remembers_its_position_while_it_cannot_send_it_to_the_others(bool isBehind)
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member atTwo = two.Connect("g");
        Pass(1.5);
        Say(one, "a ");
        Pass(0.05);
        Bus.Loss = 1;
        Say(one, "b ");
        Pass(isBehind ? 0.05 : 12); // and perhaps its marks; it is not published again
        if (isBehind) one.Link.Room = 0;
        else one.Link.Link.IsCut = true;
        Bus.Loss = 0;
        Pass(1_300);
        Assert.Empty(two.Gaps);
        if (isBehind) one.Link.Room = int.MaxValue;
        else one.Link.Link.IsCut = false;
        Pass(10);
        Assert.Equal([new ClusterGap("one", "g", 1)], two.Gaps);
        Say(one, "c ");
        Pass();
        Assert.Equal("a c ", atTwo.Heard);
        Pass(700);
        Assert.Null(one.Cluster.Find("g"));
        Assert.Single(two.Gaps);
    }

    [Fact] // 3, 4
    public void Marks_and_questions_of_many_groups_wait_without_taking_space_while_the_bus_is_slow()
    {
        const int Groups = 5_000, Most = Outbox.ControlLimitBytes + 2_000 + 1_000;
        TestNode one = Node("one", static o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            OnGap = o.OnGap,
            MaxPayloadBytes = 100,
            QueueLimitBytes = 2_000
        });
        TestNode two = Node("two");
        TestNode.Member atOne = one.Connect(), atTwo = two.Connect();
        for (int i = 0; i < Groups; i++) two.Cluster.Group($"g{i}").Join(atTwo);
        Pass(10);
        one.Link.Room = 0;
        for (int i = 0; i < Groups; i++)
        {
            one.Cluster.Group($"g{i}").Join(atOne);
            one.Cluster.Group($"g{i}").Broadcast("a ");
            if (i % 50 == 0) Pass(0.01);
            Assert.InRange(one.Cluster.ReadCounters().PendingBytes, 0, Most);
        }

        for (int second = 0; second < 10; second++)
        {
            Pass(1);
            Assert.InRange(one.Cluster.ReadCounters().PendingBytes, 0, Most);
        }

        long dropped = one.Cluster.ReadCounters().Dropped;
        Assert.InRange(dropped, 1, Groups);
        one.Link.Room = int.MaxValue;
        Pass(20);
        Assert.Equal(dropped, two.Gaps.Sum(static g => g.Missed));
        Assert.Equal(dropped, two.Gaps.Count);
        Assert.Equal(2 * (Groups - dropped), atTwo.Heard.Length);
        Assert.Equal(0, one.Cluster.ReadCounters().PendingBytes);
        // For each group a question and six marks, and the broadcast unless it was lost.
        Assert.Equal((7 * Groups) + (Groups - dropped), one.Cluster.ReadCounters().Echoes);
    }

    [Fact] // 8
    public void Messages_of_the_broker_that_are_not_ours_are_skipped_and_counted()
    {
        (_, _, TestNode two, TestNode.Member atTwo) = Pair(static o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            MaxPayloadBytes = 100,
            Key = new byte[16]
        });
        byte[] forged = new byte[Envelope.Length(1, 1, 5, false)];
        Envelope.Write(forged, EnvelopeKind.Broadcast, 5, 1, "x"u8, "g"u8, [4, .. "bad "u8], false);
        Envelope.Seal(forged, 1, default);
        Engine.GetLoop(0).Post(() =>
        {
            foreach (byte[] bytes in new byte[][]
            {
                [],
                [9],
                Encoding.ASCII.GetBytes("hello, is this a chat?"),
                forged,
                new byte[100_000]
            })
                two.Link.Listener!.OnEnvelope(bytes);
        });
        Pass();
        ClusterCounters counters = two.Cluster.ReadCounters();
        Assert.Equal((3L, 2L), (counters.Refused, counters.UnknownVersions));
        Assert.Equal("", atTwo.Heard);
    }

    [Fact] // 3
    public void Of_more_publishers_than_a_group_remembers_the_least_recent_one_is_forgotten()
    {
        TestNode one = Node("one");
        TestNode.Member atOne = one.Connect("g");
        Pass(2);
        for (ulong instance = 1; instance <= 256; instance++) Hear(instance, 1);
        Hear(1, 2);
        Hear(257, 1); // the second publisher is evicted for it
        Hear(1, 3);
        Hear(256, 2);
        Assert.Empty(one.Gaps);
        Hear(2, 2);
        Pass();
        Assert.Equal([new ClusterGap("n2", "g", 1)], one.Gaps);
        Assert.Equal(261 * 2, atOne.Heard.Length);

        void Hear(ulong instance, ulong sequence)
        {
            byte[] node = Encoding.ASCII.GetBytes($"n{instance}"),
                envelope = new byte[Envelope.Length(node.Length, 1, 3, false)];
            Envelope.Write(envelope, EnvelopeKind.Broadcast, instance, 1, node, "g"u8, [2, .. "x "u8], false);
            Envelope.Seal(envelope, sequence, default);
            Engine.GetLoop(0).Post(() => one.Link.Listener!.OnEnvelope(envelope));
            Pass(0.001);
        }
    }

    [Fact] // 8
    public void Two_nodes_of_one_id_receive_each_others_messages_and_are_reported()
    {
        List<string> told = [];
        Func<ClusterOptions, ClusterOptions> change =
            o => new ClusterOptions { Application = o.Application, NodeId = "same", OnTwin = told.Add };
        (TestNode one, _, _, TestNode.Member atTwo) = Pair(change);
        Say(one, "a ");
        Pass();
        Assert.Equal("a ", atTwo.Heard);
        Assert.All(told, static t => Assert.Contains("'same'", t, StringComparison.Ordinal));
        Assert.NotEmpty(told);
    }

    [Fact]
    public void Without_OnTwin_one_diagnostic_event_reports_that_two_nodes_have_one_id()
    {
        (TestNode one, _, _, _) = Pair(static o => new ClusterOptions { Application = o.Application, NodeId = "same" });
        Say(one, "a ");
        Pass(5);
        Assert.All(_notices,
            static n => Assert.Equal((DiagnosticEventKind.Cluster, "cluster-nodes.md"), (n.Kind, n.Page)));
        Assert.Equal(2, _notices.Count); // one on each node
        Assert.Contains("Another process is node 'same' of 'test', too", _notices[0].Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Nodes_with_different_keys_report_it_once_a_minute(bool hasOtherKey)
    {
        byte[] key = new byte[16], other = hasOtherKey ? [.. key[1..], 1] : [];
        TestNode one = Node("one",
            o => new ClusterOptions { Application = o.Application, NodeId = o.NodeId, Key = key });
        TestNode two = Node("two",
            o => new ClusterOptions { Application = o.Application, NodeId = o.NodeId, Key = other });
        TestNode.Member atOne = one.Connect("g");
        Pass(5);
        Say(two, "a ");
        Pass(20);
        Assert.Equal("", atOne.Heard);
        Assert.True(one.Cluster.ReadCounters().Refused > 5);
        DiagnosticEvent notice = Assert.Single(_notices,
            static n => n.Message.StartsWith("Node 'one' of 'test'", StringComparison.Ordinal));
        Assert.Equal((DiagnosticEventKind.Cluster, "cluster-nodes.md"), (notice.Kind, notice.Page));
        Assert.Contains("not signed with its Key", notice.Message, StringComparison.Ordinal);
        Assert.Equal(hasOtherKey ? 2 : 1, _notices.Count);
    }

    [Fact]
    public void A_node_that_has_left_returns_Closed_and_accepts_no_members()
    {
        (TestNode one, TestNode.Member atOne, _, TestNode.Member atTwo) = Pair();
        Engine.Run(one.Cluster.DisposeAsync());
        Assert.Equal(SendResult.Closed, one.Cluster.Group("g").Broadcast("late "));
        Assert.Throws<ObjectDisposedException>(() => one.Cluster.Group("other").Join(atOne));
        Pass();
        Assert.Equal(("", ""), (atOne.Heard, atTwo.Heard));
    }

    [Fact]
    public void Options_that_cannot_be_are_refused_by_name()
    {
        TestNode one = Node("one");
        ArgumentException e = Assert.Throws<ArgumentException>(
            () => Engine.Run(Cluster.JoinAsync(one.Server, new ClusterOptions { Application = "a.b" })));
        Assert.Contains("Application", e.Message, StringComparison.Ordinal);
        Assert.Throws<ArgumentException>(() => one.Cluster.Group(new string('x', 257)));
        Assert.Throws<ArgumentException>(() => one.Cluster.Group("g").Broadcast(new byte[(1 << 20) + 1]));
    }

    [Fact]
    public void A_node_reports_its_counters_and_its_state_to_the_meter_until_it_leaves()
    {
        (TestNode one, _, TestNode two, _) = Pair();
        Say(one, "a ");
        Pass();
        Bus.Loss = 1;
        Say(one, "b ");
        Pass();
        Bus.Loss = 0;
        two.Link.Listener!.OnEnvelope("x"u8);
        Pass(2);
        Dictionary<string, long> seen = [];
        using MeterListener listener = ListenToInstruments(seen);
        one.Link.Link.IsCut = true;
        Pass();
        listener.RecordObservableInstruments();
        Assert.Equal(2, seen["whimbrel.cluster.messages test one transmit"]);
        Assert.Equal(1, seen["whimbrel.cluster.messages test two receive"]);
        Assert.Equal(1, seen["whimbrel.cluster.gaps test two receive"]);
        Assert.Equal(0, seen["whimbrel.cluster.gaps test one transmit"]);
        Assert.Equal(1, seen["whimbrel.cluster.rejected_envelopes test two version"]);
        Assert.Equal(0, seen["whimbrel.cluster.queue.usage test two"]);
        Assert.Equal(1, seen["whimbrel.cluster.connection.state test one"]);
        Assert.Equal(0, seen["whimbrel.cluster.connection.state test two"]);
        one.End();
        Nodes.Remove(one);
        seen.Clear();
        listener.RecordObservableInstruments();
        Assert.Contains("whimbrel.cluster.connection.state test two", seen.Keys);
        Assert.DoesNotContain("whimbrel.cluster.connection.state test one", seen.Keys);
    }

    // Listens to all instruments of clusters, and stores each measurement by the instrument's name and its labels.
    private static MeterListener ListenToInstruments(Dictionary<string, long> seen)
    {
        ManualResetEventSlim hasAll = new();
        MeterListener listener = new()
        {
            InstrumentPublished = (instrument, l) =>
            {
                if (!instrument.Name.StartsWith("whimbrel.cluster.", StringComparison.Ordinal)) return;
                l.EnableMeasurementEvents(instrument);
                // The last instrument that is created.
                if (instrument.Name == "whimbrel.cluster.connection.state") hasAll.Set();
            }
        };
        listener.SetMeasurementEventCallback<long>((instrument, value, labels, _) =>
            seen[$"{instrument.Name} {string.Join(' ', labels.ToArray().Select(static l => l.Value))}"] = value);
        listener.Start();
        Assert.True(hasAll.Wait(BusNode.Patience, TestContext.Current.CancellationToken));
        return listener;
    }

    [Fact] // siblings: each counter has another value
    public void Each_instrument_of_a_node_reports_its_own_counter()
    {
        TestNode one = Node("one", static o => new ClusterOptions
        {
            Application = "siblings",
            NodeId = o.NodeId,
            MaxPayloadBytes = 100,
            QueueLimitBytes = 2_000,
            QueuePolicy = QueuePolicy.DropNewest
        });
        TestNode two = Node("two", static o => new ClusterOptions { Application = "siblings", NodeId = o.NodeId });
        _ = one.Connect("g");
        Pass(1.5);
        Each(2, () => Say(two, "r "));
        Bus.Loss = 1;
        Each(3, () => Say(two, "m "));
        Bus.Loss = 0;
        Each(5, () => Say(one, "p "));
        Each(7, () => one.Link.Listener!.OnEnvelope([]));
        Each(11, () => one.Link.Listener!.OnEnvelope("x"u8));
        Pass(3);
        one.Link.Link.IsCut = true;
        Pass();
        for (int i = 0; i < 200 && one.Cluster.ReadCounters().Dropped < 13; i++)
            Each(1, () => one.Cluster.Group("g").Broadcast(new byte[50]));
        ClusterCounters counters = one.Cluster.ReadCounters();
        Assert.Equal((2L, 3L, 5L, 7L, 11L, 13L), (counters.Received, counters.Missed, counters.Published,
            counters.Refused, counters.UnknownVersions, counters.Dropped));
        Dictionary<string, long> seen = [];
        using MeterListener listener = ListenToInstruments(seen);
        listener.RecordObservableInstruments();
        Assert.Equal((2L, 3L, 5L, 7L, 11L, 13L, counters.PendingBytes), (
            Of("messages", "receive"), Of("gaps", "receive"), Of("messages", "transmit"),
            Of("rejected_envelopes", "refused"), Of("rejected_envelopes", "version"), Of("gaps", "transmit"),
            seen["whimbrel.cluster.queue.usage siblings one"]));

        long Of(string name, string label) => seen[$"whimbrel.cluster.{name} siblings one {label}"];

        void Each(int count, Action action)
        {
            for (int i = 0; i < count; i++)
            {
                Engine.GetLoop(0).Post(action);
                Pass(0.02);
            }
        }
    }

    [Theory, InlineData(false), InlineData(true)]
    public void A_listener_receives_the_time_that_a_broadcast_waited_for_the_broker(bool throws)
    {
        (TestNode one, _, _, TestNode.Member atTwo) = Pair();
        using ManualResetEventSlim hasAll = new();
        List<(double Seconds, string Labels)> seen = [];
        using MeterListener listener = new();
        listener.InstrumentPublished = (instrument, l) =>
        {
            if (instrument.Name == "whimbrel.cluster.publish.duration") l.EnableMeasurementEvents(instrument);
            // The last instrument that is created.
            if (instrument.Name == "whimbrel.cluster.connection.state") hasAll.Set();
        };
        listener.SetMeasurementEventCallback<double>((_, value, labels, _) =>
        {
            seen.Add((Math.Round(value, 3), string.Join(' ', labels.ToArray().Select(static l => l.Value))));
            if (throws) throw new InvalidOperationException("a listener");
        });
        one.Link.Link.IsCut = true;
        Pass();
        Say(one, "before "); // no listener yet
        listener.Start();
        Assert.True(hasAll.Wait(BusNode.Patience, TestContext.Current.CancellationToken));
        Say(one, "a ");
        Pass(2);
        one.Link.Link.IsCut = false;
        Pass();
        Assert.Equal("before a ", atTwo.Heard);
        (double seconds, string labels) = Assert.Single(seen);
        Assert.Equal("test one", labels);
        Assert.InRange(seconds, 2, 2.1);
        Engine.GetLoop(0).Post(() => Say(one, "b ")); // in a loop iteration, where the clock is up to date
        Pass();
        Assert.Equal("before a b ", atTwo.Heard);
        Assert.Equal((0, "test one"), seen[1]);
        Assert.Equal(throws ? 2 : 0, Engine.UserExceptionCount);
    }

    [Theory] // 1, 2, 3, 9: seeds
    [InlineData(false)]
    [InlineData(true)]
    public void Each_of_fifty_nodes_with_changing_members_receives_what_the_model_predicts(bool hasFaults)
    {
        foreach (int seed in Seeds.Some(Depth.IsDeep ? 200 : 2))
            CrowdStory.Run(seed, hasFaults);
    }

    [Fact] // 2, 3: seeds
    public void With_losses_delays_and_cuts_every_stream_is_in_order_and_every_loss_is_reported()
    {
        foreach (int seed in Seeds.Some(Depth.IsDeep ? 20_000 : 2_000))
            ClusterStory.Run(seed);
    }
}
