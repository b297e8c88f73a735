using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// The contract at the head of RecoverableGroup, by number, in virtual time. Members receive "offset:text ".
public sealed class RecoverableTests : VirtualNodes
{
    private readonly List<(GroupPosition At, ResumeOutcome Why)> _broken = [];

    private RecoverableGroup Group(TestNode node, HistoryLimits? limits = null, int queueLimitBytes = 4 << 20) =>
        node.Cluster.RecoverableGroup("g", new RecoverableOptions
        {
            History = limits ?? new HistoryLimits(),
            QueueLimitBytes = queueLimitBytes,
            Deliver =
                static (members, at, payload) => members.Broadcast($"{at.Offset}:{Encoding.UTF8.GetString(payload)} "),
            OnBroken = (_, at, why) => _broken.Add((at, why)),
        });

    private ResumeResult Await(Task<ResumeResult> result)
    {
        Engine.RunUntil(() => result.IsCompleted);
        return result.GetAwaiter().GetResult();
    }

    private TestNode.Member Joined(TestNode node, RecoverableGroup group, out GroupPosition at)
    {
        TestNode.Member member = node.Connect();
        ResumeResult result = Await(group.JoinAsync(member));
        Assert.Equal(ResumeOutcome.Recovered, result.Outcome);
        at = result.Position;
        return member;
    }

    private static void Say(RecoverableGroup group, params string[] texts)
    {
        foreach (string text in texts) Assert.Equal(SendResult.Queued, group.Broadcast(text));
    }

    [Fact] // 1
    public void Members_of_all_nodes_get_the_same_messages_in_the_order_of_the_stream()
    {
        TestNode one = Node("one"), two = Node("two");
        RecoverableGroup atOne = Group(one), atTwo = Group(two);
        TestNode.Member a = Joined(one, atOne, out _), b = Joined(two, atTwo, out _);
        for (int i = 0; i < 300; i++)
        {
            Say(atOne, $"a{i}");
            Say(atTwo, $"b{i}");
            if (i % 50 == 0) Pass(0.01);
        }

        Pass();
        Assert.Equal(a.Heard, b.Heard);
        string[] heard = a.Heard.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        Assert.Equal(Enumerable.Range(1, 600),
            heard.Select(static h => int.Parse(h.Split(':')[0], System.Globalization.CultureInfo.InvariantCulture)));
        foreach (char of in "ab")
            Assert.Equal(Enumerable.Range(0, 300).Select(i => $"{of}{i}"),
                heard.Select(static h => h.Split(':')[1]).Where(h => h[0] == of));
    }

    [Fact] // 1
    public void News_that_is_lost_is_found_with_the_next_tick()
    {
        TestNode one = Node("one"), two = Node("two");
        RecoverableGroup atOne = Group(one), atTwo = Group(two);
        TestNode.Member b = Joined(two, atTwo, out _);
        Bus.Loss = 1;
        Say(atOne, "x");
        Pass(1.5);
        Assert.Equal("1:x ", b.Heard);
    }

    [Fact] // 2
    public void A_member_that_was_away_gets_missed_messages_on_any_node_and_then_new_ones()
    {
        TestNode one = Node("one"), two = Node("two");
        RecoverableGroup atOne = Group(one), atTwo = Group(two);
        TestNode.Member a = Joined(one, atOne, out GroupPosition start);
        Say(atOne, "x", "y");
        Pass();
        atOne.Leave(a);
        Say(atOne, "z");
        Pass();
        Assert.Equal("1:x 2:y ", a.Heard);
        TestNode.Member again = two.Connect();
        ResumeResult result = Await(atTwo.ResumeAsync(again, start with { Offset = 2 }));
        Assert.Equal(new ResumeResult(ResumeOutcome.Recovered, 1, start with { Offset = 3 }), result);
        Say(atOne, "w");
        Pass();
        Assert.Equal("3:z 4:w ", again.Heard);
        Assert.Equal(1, atTwo.LocalCount);
    }

    [Fact] // 2: the switch from history to live messages, at every position, while others publish at any time
    public void Resuming_while_others_publish_leaves_no_gap_and_no_duplicate()
    {
        TestNode one = Node("one"), two = Node("two");
        RecoverableGroup atOne = Group(one), atTwo = Group(two);
        _ = Joined(one, atOne, out GroupPosition start);
        Random random = new(7);
        List<(TestNode.Member Member, int From, Task<ResumeResult> Result)> all = [];
        int said = 0;
        for (int step = 0; step < 150; step++)
        {
            RecoverableGroup by = random.Next(2) == 0 ? atOne : atTwo;
            for (int i = random.Next(12); i > 0; i--) Say(by, $"{++said}");
            TestNode node = Nodes[random.Next(2)];
            if (step > 20 && step % 3 == 0)
            {
                TestNode.Member member = node.Connect();
                int from = random.Next(said / 2);
                all.Add((member, from, Group(node).ResumeAsync(member, start with { Offset = (ulong)from })));
            }

            if (random.Next(3) == 0) Pass(random.Next(3) * 0.001);
        }

        Pass(2);
        foreach ((TestNode.Member member, int from, Task<ResumeResult> result) in all)
        {
            Assert.Equal(ResumeOutcome.Recovered, Await(result).Outcome);
            Assert.Equal(Enumerable.Range(from + 1, said - from).Select(static i => $"{i}"),
                member.Heard.Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(static h => h.Split(':')[0]));
        }
    }

    [Theory] // 3: at the limit and just past it
    [InlineData(4, ResumeOutcome.Trimmed, "")]
    [InlineData(5, ResumeOutcome.Recovered, "6:m6 7:m7 8:m8 ")]
    [InlineData(8, ResumeOutcome.Recovered, "")]
    [InlineData(9, ResumeOutcome.Replaced, "")]
    public void A_position_is_recovered_when_everything_after_it_is_kept(int from, ResumeOutcome outcome, string heard)
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one, new HistoryLimits { MaxCount = 3 });
        _ = Joined(one, group, out GroupPosition start);
        for (int i = 1; i <= 8; i++) Say(group, $"m{i}");
        Pass();
        TestNode.Member member = one.Connect();
        Assert.Equal(outcome, Await(group.ResumeAsync(member, start with { Offset = (ulong)from })).Outcome);
        Say(group, "live");
        Pass();
        Assert.Equal(outcome == ResumeOutcome.Recovered ? heard + "9:live " : "", member.Heard);
        Assert.Equal(ResumeOutcome.Replaced,
            Await(group.ResumeAsync(one.Connect(), new GroupPosition(start.Epoch + 1, 1))).Outcome);
    }

    [Fact] // 3
    public void Bytes_and_age_trim_too()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one, new HistoryLimits { MaxBytes = 3000, MaxAge = TimeSpan.FromSeconds(10) });
        _ = Joined(one, group, out GroupPosition start);
        for (int i = 0; i < 4; i++) Say(group, new string('x', 900));
        Pass();
        Assert.Equal(ResumeOutcome.Trimmed, Await(group.ResumeAsync(one.Connect(), start)).Outcome);
        Assert.Equal(3, Await(group.ResumeAsync(one.Connect(), start with { Offset = 1 })).Count);
        Pass(11);
        Assert.Equal(ResumeOutcome.Trimmed, Await(group.ResumeAsync(one.Connect(), start with { Offset = 3 })).Outcome);
        Assert.Equal(ResumeOutcome.Recovered,
            Await(group.ResumeAsync(one.Connect(), start with { Offset = 4 })).Outcome);
    }

    [Fact] // 3
    public void Members_are_notified_when_the_stream_is_another_or_was_trimmed_before_their_node_read_it()
    {
        TestNode one = Node("one"), two = Node("two");
        HistoryLimits limits = new() { MaxCount = 2 };
        RecoverableGroup atOne = Group(one, limits), atTwo = Group(two, limits);
        TestNode.Member b = Joined(two, atTwo, out GroupPosition start);
        two.Link.Link.IsCut = true;
        // This many are kept beyond the limit.
        string rest = string.Concat(Enumerable.Range(6, 64).Select(static i => $"{i}:x "));
        foreach (string text in (string[])[.. "a b c d e".Split(' '), .. Enumerable.Repeat("x", 64)])
        {
            Say(atOne, text);
            Pass(); // the publishing node reads each of them before it is trimmed
        }

        two.Link.Link.IsCut = false;
        Pass();
        Assert.Equal([(start with { Offset = 3 }, ResumeOutcome.Trimmed)], _broken);
        Assert.Equal("4:d 5:e " + rest, b.Heard);
        Assert.Equal(3, two.Cluster.ReadCounters().Missed);
        Bus.ForgetHistory();
        Say(atOne, "new");
        Pass(1.5);
        Assert.Contains(_broken, b => b.Why == ResumeOutcome.Replaced && b.At.Epoch != start.Epoch && b.At.Offset == 0);
        Assert.Equal($"4:d 5:e {rest}1:new ", b.Heard);
        Assert.Equal(ResumeOutcome.Replaced,
            Await(atTwo.ResumeAsync(two.Connect(), start with { Offset = 5 })).Outcome);
    }

    [Fact] // 4
    public void Without_the_broker_broadcasts_are_queued_up_to_the_limit_and_delivered_in_order_later()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one, null, 1024);
        TestNode.Member a = Joined(one, group, out GroupPosition start);
        one.Link.Link.IsCut = true;
        Pass();
        int taken = 0;
        while (group.Broadcast($"{taken}") == SendResult.Queued) taken++;
        Assert.InRange(taken, 10, 50);
        Assert.Equal("", a.Heard);
        Assert.Equal(ResumeOutcome.Unavailable, Await(group.ResumeAsync(one.Connect(), start)).Outcome);
        one.Link.Link.IsCut = false;
        Pass();
        Assert.Equal(string.Concat(Enumerable.Range(0, taken).Select(static i => $"{i + 1}:{i} ")), a.Heard);
        Assert.Empty(one.Gaps);
        Assert.True(a.IsConnected);
    }

    [Fact] // 4: the response was lost with the broker
    public void A_possible_loss_with_the_broker_is_reported_and_not_sent_twice()
    {
        TestNode one = Node("one"), two = Node("two");
        RecoverableGroup atOne = Group(one), atTwo = Group(two);
        TestNode.Member b = Joined(two, atTwo, out _);
        Pass();
        Task asked = one.Server.Engine.GetLoop(0).PostAsync(() =>
        {
            Say(atOne, "x");
            // After the append, before its response.
            one.Server.Engine.GetLoop(0).Post(() => one.Link.Link.IsCut = true);
        }).AsTask();
        Engine.RunUntil(() => asked.IsCompleted);
        Pass();
        one.Link.Link.IsCut = false;
        Pass(1.5);
        Assert.Equal([new ClusterGap("one", "g", 1)], one.Gaps);
        Assert.Equal("1:x ", b.Heard);
        Say(atOne, "y");
        Pass();
        Assert.Equal("1:x 2:y ", b.Heard);
    }

    [Fact] // 4: later messages do not wait for it
    public void A_message_too_large_for_the_broker_is_reported_and_the_rest_arrives()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one);
        TestNode.Member a = Joined(one, group, out _);
        int most = one.Cluster.EnvelopeLength(1, 100);
        one.Link.MaxEnvelopeBytes = most;
        string right = new('r', 100), wrong = new('w', 101);
        Say(group, wrong, "x", wrong, wrong, right, "y", wrong);
        Pass();
        Assert.Equal($"1:x 2:{right} 3:y ", a.Heard);
        Assert.All(one.Gaps, static g => Assert.Equal(("one", "g"), (g.Node, g.Group)));
        Assert.Equal(4, one.Gaps.Sum(static g => g.Missed));
        Assert.Equal(4, one.Cluster.ReadCounters().Dropped);
    }

    [Fact] // 1: a batch also has a limit in bytes
    public void Large_messages_are_appended_in_several_parts_and_arrive_in_order()
    {
        TestNode one = Node("one");
        List<string> given = [];
        RecoverableGroup group = one.Cluster.RecoverableGroup("g", new RecoverableOptions
        {
            History = new HistoryLimits { MaxBytes = 16 << 20 },
            Deliver = (_, at, payload) =>
            {
                given.Add($"{at.Offset}:{(char)payload[0]}");
                return SendResult.Queued;
            },
        });
        _ = Joined(one, group, out _);
        int before = one.Link.Appends;
        for (int i = 0; i < 10; i++) Say(group, new string((char)('a' + i), 300_000));
        Pass(1);
        Assert.Equal(Enumerable.Range(0, 10).Select(static i => $"{i + 1}:{(char)('a' + i)}"), given);
        Assert.InRange(one.Link.Appends - before, 4, 10);
    }

    [Theory] // 3: messages that members are about to read are not trimmed
    [InlineData(1, 50, 10)]
    [InlineData(20, 500, 10)]
    [InlineData(1000, 5_000, 10)]
    [InlineData(1_000_000, 300, 10_000)]
    public void A_burst_above_the_limits_reaches_all_members_and_is_not_reported_as_trimmed(int maxCount,
        int count, int length)
    {
        TestNode one = Node("one");
        List<string> given = [];
        HistoryLimits limits = new() { MaxCount = maxCount };
        RecoverableGroup atOne = Group(one, limits),
            atTwo = Node("two").Cluster.RecoverableGroup("g", new RecoverableOptions
            {
                History = limits,
                OnBroken = (_, at, why) => _broken.Add((at, why)),
                Deliver = (_, _, payload) =>
                {
                    given.Add(Encoding.UTF8.GetString(payload).TrimStart('-'));
                    return SendResult.Queued;
                },
            });
        _ = Joined(Nodes[1], atTwo, out _);
        for (int i = 0; i < count; i++) Say(atOne, $"{i}".PadLeft(length, '-'));
        Engine.RunUntil(() => given.Count == count || _broken.Count > 0);
        Assert.Empty(_broken);
        Assert.Equal(Enumerable.Range(0, count).Select(static i => $"{i}"), given);
        Assert.Equal(0, Nodes[1].Cluster.ReadCounters().Missed);
    }

    [Theory] // 4
    [InlineData(false)]
    [InlineData(true)]
    public void A_resume_without_an_answer_reports_Unavailable_and_the_cause_within_five_seconds(bool isOpen)
    {
        TestNode one = Node("one");
        if (!isOpen) one.Link.IsSilent = true;
        RecoverableGroup group = Group(one);
        GroupPosition start = new(5, 1);
        if (isOpen) _ = Joined(one, group, out start);
        one.Link.IsSilent = true;
        // More members than one read serves: queued members do not wait for them.
        Task<ResumeResult>[] all = [.. Enumerable.Range(0, 40).Select(_ => group.ResumeAsync(one.Connect(), start))];
        Pass(3.5);
        Assert.DoesNotContain(all, static t => t.IsCompleted);
        Pass(1.5);
        foreach (Task<ResumeResult> each in all)
        {
            ResumeResult result = Await(each);
            Assert.Equal(ResumeOutcome.Unavailable, result.Outcome);
            Assert.Contains("has not answered for 4.5 s", result.Reason, StringComparison.Ordinal);
        }

        one.Link.Link.IsCut = true;
        Pass();
        one.Link.IsSilent = false;
        one.Link.Link.IsCut = false;
        Pass();
        if (isOpen) Assert.Equal(ResumeOutcome.Recovered, Await(group.ResumeAsync(one.Connect(), start)).Outcome);
    }

    [Fact]
    public void A_resume_on_a_broker_without_histories_reports_it_at_once_and_broadcasts_are_reported_as_lost()
    {
        TestNode one = Node("one");
        one.Link.Unsupported = "no histories there";
        RecoverableGroup group = Group(one);
        Task<ResumeResult> join = group.JoinAsync(one.Connect());
        Pass(0.05);
        Assert.True(join.IsCompleted);
        Assert.Equal(new ResumeResult(ResumeOutcome.NotSupported, 0, default) { Reason = "no histories there" },
            Await(join));
        Say(group, "a");
        Pass();
        Assert.Equal([new ClusterGap("one", "g", 1)], one.Gaps);
    }

    [Fact] // a count that is not decremented would reject joins after 65,536
    public void More_sessions_than_can_resume_concurrently_resume_one_after_the_other()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one);
        TestNode.Member member = Joined(one, group, out GroupPosition start);
        for (int i = 0; i < 35_000; i++)
        {
            group.Leave(member);
            Task<ResumeResult> join = group.JoinAsync(member), resume = group.ResumeAsync(member, start);
            if (i % 1_000 < 999) continue;
            Assert.Equal(ResumeOutcome.Recovered, Await(join).Outcome);
            Assert.Equal(ResumeOutcome.Recovered, Await(resume).Outcome);
        }

        Assert.Equal(ResumeOutcome.Recovered, Await(group.JoinAsync(member)).Outcome);
        Assert.Equal(ResumeOutcome.Replaced,
            Await(group.ResumeAsync(one.Connect(), start with { Offset = 3 })).Outcome);
    }

    [Fact] // as above, for sessions that end at each step of their way
    public void Sessions_that_ended_while_they_joined_or_resumed_take_no_place_of_later_ones()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one);
        _ = Joined(one, group, out GroupPosition start);
        TestNode.Member ended = one.Connect();
        ended.Abort();
        Pass();
        for (int i = 0; i < 66; i++)
        {
            Task<ResumeResult>[] all = [.. Enumerable.Range(0, 1_000).Select(n =>
                n % 2 == 0 ? group.JoinAsync(ended) : group.ResumeAsync(ended, start))];
            foreach (Task<ResumeResult> each in all) Assert.Equal(ResumeOutcome.Ended, Await(each).Outcome);
        }

        for (int i = 0; i < 33_000; i++) _ = group.JoinAsync(ended);
        Pass();
        Assert.Equal(ResumeOutcome.Recovered, Await(group.JoinAsync(one.Connect())).Outcome);
    }

    [Fact] // the time limit is for an answer of the broker, and not for the whole history
    public void A_resumption_of_many_slow_pages_takes_as_long_as_it_takes()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one, new HistoryLimits { MaxCount = 2_000 });
        _ = Joined(one, group, out GroupPosition start);
        for (int i = 0; i < 1_500; i++) Say(group, "x");
        Pass();
        one.Link.ReadTime = TimeSpan.FromSeconds(2);
        for (int i = 0; i < 2; i++)
        {
            TestNode.Member late = one.Connect();
            ResumeResult result = Await(group.ResumeAsync(late, start));
            Assert.Equal((ResumeOutcome.Recovered, 1_500), (result.Outcome, result.Count));
        }

        one.Link.ReadTime = TimeSpan.FromSeconds(6);
        Assert.Equal(ResumeOutcome.Unavailable, Await(group.ResumeAsync(one.Connect(), start)).Outcome);
    }

    [Fact] // slow growth
    public void Messages_too_large_for_the_broker_take_no_room_of_later_ones()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one, null, 1024);
        TestNode.Member a = Joined(one, group, out _);
        one.Link.MaxEnvelopeBytes = one.Cluster.EnvelopeLength(1, 100);
        string all = "";
        for (int i = 1; i <= 50; i++)
        {
            Say(group, new string('w', 101), $"m{i}");
            all += $"{i}:m{i} ";
            Pass();
        }

        Assert.Equal(all, a.Heard);
        Assert.Equal(50, one.Gaps.Sum(static g => g.Missed));
    }

    [Fact]
    public void A_node_opens_groups_up_to_its_limit()
    {
        TestNode one = Node("one", static o =>
            new ClusterOptions { Application = o.Application, NodeId = o.NodeId, MaxRecoverableGroups = 2 });
        RecoverableOptions options = new() { Deliver = static (members, _, payload) => members.Broadcast(payload) };
        RecoverableGroup a = one.Cluster.RecoverableGroup("a", options);
        one.Cluster.RecoverableGroup("b", options);
        Assert.Same(a, one.Cluster.RecoverableGroup("a", options));
        Assert.Contains("MaxRecoverableGroups",
            Assert.Throws<InvalidOperationException>(() => one.Cluster.RecoverableGroup("c", options)).Message,
            StringComparison.Ordinal);
    }

    [Fact] // 5
    public void Entries_that_are_not_signed_or_of_another_group_are_left_out()
    {
        byte[] key = new byte[16];
        TestNode one = Node("one",
            o => new ClusterOptions { Application = o.Application, NodeId = o.NodeId, Key = key, OnGap = o.OnGap });
        RecoverableGroup group = Group(one);
        TestNode.Member a = Joined(one, group, out GroupPosition start);
        byte[] Made(string name, byte[] sign)
        {
            byte[] bytes = new byte[Envelope.Length(1, name.Length, 1, true)];
            Envelope.Write(bytes, EnvelopeKind.Entry, 1, 0, "n"u8, Encoding.ASCII.GetBytes(name), "!"u8, true);
            Envelope.Seal(bytes, 1, sign);
            return bytes;
        }

        ReadOnlyMemory<byte>[] bad = ["junk"u8.ToArray(), Array.Empty<byte>(),
            Made("g", [.. key.Select(static _ => (byte)1)]), Made("other", key), Made("g", key)];
        Assert.True(Bus.Append(Subjects.OfHistory("test", "g"), new HistoryLimits(), bad, 0));
        Say(group, "x");
        Pass();
        Assert.Equal("5:! 6:x ", a.Heard);
        Assert.Equal(4, one.Cluster.ReadCounters().Refused);
        TestNode.Member b = one.Connect();
        Assert.Equal(2, Await(group.ResumeAsync(b, start)).Count);
        Pass();
        Assert.Equal("5:! 6:x ", b.Heard);
    }

    [Fact] // 1: the news of each message finds the pending retry, and starts no other
    public void While_members_have_no_space_the_stream_is_read_once_per_retry_for_any_number_of_messages()
    {
        TestNode one = Node("one"), two = Node("two");
        bool isFull = true;
        RecoverableGroup atOne = Group(one), atTwo = two.Cluster.RecoverableGroup("g", new RecoverableOptions
        {
            Deliver = (members, at, payload) =>
                isFull ? SendResult.Full : members.Broadcast($"{at.Offset}:{Encoding.UTF8.GetString(payload)} "),
        });
        TestNode.Member b = Joined(two, atTwo, out _);
        for (int i = 0; i < 50; i++)
        {
            Say(atOne, "x");
            Pass(0.007);
        }

        Pass();
        int before = two.Link.Reads;
        Pass(1);
        Assert.InRange(two.Link.Reads - before, 40, 60); // one per 20 ms, and those of the ticks
        Assert.Equal("", b.Heard);
        isFull = false;
        Pass();
        Assert.Equal(string.Concat(Enumerable.Range(1, 50).Select(static i => $"{i}:x ")), b.Heard);
    }

    [Fact]
    public void A_session_that_leaves_or_ends_while_it_resumes_is_no_member()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one);
        _ = Joined(one, group, out GroupPosition start);
        Say(group, "x");
        Pass();
        TestNode.Member leaving = one.Connect(), ending = one.Connect();
        Task<ResumeResult> left = group.ResumeAsync(leaving, start);
        group.Leave(leaving);
        ending.Abort();
        Pass();
        Task<ResumeResult> ended = group.ResumeAsync(ending, start);
        Assert.Equal(ResumeOutcome.Ended, Await(ended).Outcome);
        Assert.Equal(ResumeOutcome.Ended, Await(left).Outcome);
        Assert.Equal(1, group.LocalCount);
    }

    [Fact]
    public void A_leaving_node_refuses_calls_and_completes_all_pending_ones()
    {
        TestNode one = Node("one");
        RecoverableGroup group = Group(one);
        TestNode.Member a = Joined(one, group, out GroupPosition start);
        one.Link.Link.IsCut = true;
        Pass();
        Say(group, "x", "y");
        Engine.Run(one.Cluster.DisposeAsync());
        Assert.Equal([new ClusterGap("one", "g", 2)], one.Gaps);
        Assert.Equal(SendResult.Full, group.Broadcast("z"));
        Assert.Equal(ResumeOutcome.Unavailable, Await(group.ResumeAsync(one.Connect(), start)).Outcome);
        Assert.True(a.IsConnected);
    }

    [Theory]
    [InlineData("0-0", true)]
    [InlineData("ffffffffffffffff-18446744073709551615", true)]
    [InlineData("10000000000000000-1", false)]
    [InlineData("1-18446744073709551616", false)]
    [InlineData("1", false)]
    [InlineData("-", false)]
    [InlineData("1--1", false)]
    [InlineData("+1-1", false)]
    [InlineData(" 1-1", false)]
    [InlineData("1- 1", false)]
    public void Positions_are_read_as_they_are_written_and_nothing_else_is(string text, bool isOne)
    {
        Assert.Equal(isOne, GroupPosition.TryParse(text, out GroupPosition position));
        if (isOne) Assert.Equal(text, position.ToString());
    }

    [Fact]
    public void Options_out_of_range_are_refused()
    {
        TestNode one = Node("one");
        foreach (HistoryLimits limits in new HistoryLimits[]
        {
            new() { MaxCount = 0 },
            new() { MaxCount = 1_000_001 },
            new() { MaxBytes = 1023 },
            new() { MaxAge = TimeSpan.FromMilliseconds(999) },
            new() { MaxAge = TimeSpan.FromDays(8) }
        })
        {
            Assert.Throws<ArgumentException>(() => Group(one, limits));
        }

        Assert.Throws<ArgumentException>(() => Group(one, null, 1023));
        Assert.Throws<ArgumentException>(() => Group(one).Broadcast(new byte[(1 << 20) + 1]));
    }
}
