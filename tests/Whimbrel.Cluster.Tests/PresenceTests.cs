using System.Buffers.Binary;
using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Presence in virtual time: the contract at the head of Cluster, 9.
public sealed class PresenceTests : IDisposable
{
    private const int IntervalMs = 1000;

    private readonly List<TestNode> _nodes = [];
    private MemoryEngine _engine = new(1, faults: MemoryFaults.None);
    private MemoryBus _bus = new();

    public void Dispose() => End();

    private void End()
    {
        foreach (TestNode node in _nodes) node.End();
        _nodes.Clear();
        _engine.Run(_engine.DisposeAsync());
    }

    private TestNode Node(string name, int intervalMs = IntervalMs, int maxPayloadBytes = 1024)
    {
        TestNode node = new(_engine, _bus, name, o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            PresenceInterval = TimeSpan.FromMilliseconds(intervalMs),
            MaxPayloadBytes = maxPayloadBytes,
        });
        _nodes.Add(node);
        return node;
    }

    private void Pass(double intervals) => _engine.RunFor(TimeSpan.FromMilliseconds(intervals * IntervalMs));

    private static string Seen(TestNode node, string group = "g") => string.Join(' ', node.Cluster.Group(group)
        .ReadPresence().OrderBy(static n => n.Node, StringComparer.Ordinal).Select(static n => $"{n.Node}={n.Count}"));

    [Fact]
    public void Members_of_all_nodes_are_counted_as_they_come_and_go()
    {
        TestNode one = Node("one"), two = Node("two");
        TestNode.Member a = one.Connect("g"), b = two.Connect("g");
        two.Connect("g");
        two.Connect("other");
        Assert.Equal(1, one.Cluster.Group("g").Count);
        Pass(1.5);
        Assert.All(_nodes, static n => Assert.Equal("one=1 two=2", Seen(n)));
        Assert.Equal("one=0 two=1", Seen(one, "other"));
        Assert.Equal((3, 1), (one.Cluster.Group("g").Count, one.Cluster.Group("g").LocalCount));
        two.Cluster.Group("g").Leave(b);
        a.Abort();
        Pass(1.5);
        Assert.Equal("one=0 two=1", Seen(one));
        Assert.Equal("two=1", Seen(two));
    }

    [Fact]
    public void A_later_node_receives_all_counts_and_a_leaving_one_is_removed_at_once()
    {
        TestNode one = Node("one");
        one.Connect("g");
        Pass(20);
        TestNode two = Node("two");
        Pass(1.5);
        Assert.Equal("one=1 two=0", Seen(two));
        _engine.Run(one.Cluster.DisposeAsync());
        _engine.RunFor(TimeSpan.FromMilliseconds(1));
        Assert.Equal("two=0", Seen(two));
    }

    [Fact]
    public void A_silent_node_has_no_members_after_the_lease_and_has_them_again_when_it_is_back()
    {
        TestNode one = Node("one"), two = Node("two");
        one.Connect("g");
        Pass(1.5);
        one.Link.Link.IsCut = true;
        Pass(2);
        Assert.Equal("one=1 two=0", Seen(two));
        Pass(2.1);
        Assert.Equal("two=0", Seen(two));
        one.Connect("g");
        one.Link.Link.IsCut = false;
        Pass(1.5);
        Assert.Equal("one=2 two=0", Seen(two));
    }

    [Fact]
    public void A_lost_change_is_detected_with_the_next_beat_and_requested()
    {
        TestNode one = Node("one"), two = Node("two");
        one.Connect("g");
        Pass(1.5);
        _bus.Loss = 1;
        one.Connect("g");
        Pass(1);
        _bus.Loss = 0;
        Assert.Equal("one=1 two=0", Seen(two));
        Pass(3);
        Assert.Equal("one=2 two=0", Seen(two));
    }

    [Fact]
    public void Without_presence_a_node_sends_and_receives_nothing_of_it()
    {
        TestNode one = Node("one"), two = Node("two", intervalMs: 0);
        one.Connect("g");
        two.Connect("g");
        Pass(5);
        Assert.Equal("one=1", Seen(one));
        Assert.Equal("two=1", Seen(two));
        Assert.Equal(1, two.Cluster.Group("g").Count);
        Assert.Equal(0, two.Cluster.ReadCounters().Refused);
    }

    [Fact]
    public void While_the_bus_is_slow_nothing_is_added_to_the_pending_messages()
    {
        TestNode one = new(_engine, _bus, "one", static o => new ClusterOptions
        {
            Application = o.Application,
            NodeId = o.NodeId,
            PresenceInterval = TimeSpan.FromMilliseconds(IntervalMs),
            MaxPayloadBytes = 1024,
            QueueLimitBytes = 3000,
        });
        _nodes.Add(one);
        TestNode two = Node("two");
        Pass(1.5);
        one.Link.Room = 0;
        one.Cluster.Group("g").Broadcast(new byte[1000]);
        one.Cluster.Group("g").Broadcast(new byte[1000]);
        Pass(4); // marks
        long waiting = one.Cluster.ReadCounters().PendingBytes;
        one.Connect("h");
        Pass(50);
        // the question of its first member
        Assert.InRange(one.Cluster.ReadCounters().PendingBytes, waiting, waiting + 100);
        one.Link.Room = int.MaxValue;
        Pass(4);
        Assert.Equal("one=1 two=0", Seen(two, "h"));
        Assert.Equal(0, one.Cluster.ReadCounters().PendingBytes);
    }

    // Three nodes with many groups; members join and leave, while links are cut and envelopes are lost, duplicated
    // and delayed. Three intervals after the last fault all nodes count correctly.
    [Fact]
    public void With_losses_delays_and_cuts_all_counts_are_right_in_the_end()
    {
        foreach (int seed in Seeds.Some(Depth.IsDeep ? 3_000 : 150))
        {
            End();
            Random random = new(seed);
            _engine = new MemoryEngine(seed, faults: MemoryFaults.None);
            _bus = new MemoryBus(seed)
            {
                Loss = random.Next(3) * 0.15,
                Doubled = random.Next(2) * 0.3,
                MaxDelay = TimeSpan.FromMilliseconds(random.Next(2) * 700)
            };
            // Four fit into an envelope.
            string[] groups = [.. Enumerable.Range(0, 14).Select(static i => $"{i} {new string('x', 240)}")];
            for (int i = 0; i < 3; i++) Node($"{(char)('a' + i)}");
            List<(TestNode Node, TestNode.Member Member, string Group)> members = [];
            for (int step = 0; step < 40; step++)
            {
                TestNode node = _nodes[random.Next(3)];
                int what = random.Next(10);
                if (what == 0) node.Link.Link.IsCut ^= true;
                else if (what < 4 && members.Count > 0)
                {
                    (TestNode at, TestNode.Member member, string group) = members[random.Next(members.Count)];
                    members.RemoveAll(m => m.Member == member);
                    if (what == 1) member.Abort();
                    else at.Cluster.Group(group).Leave(member);
                }
                else
                {
                    string group = groups[random.Next(groups.Length)];
                    members.Add((node, node.Connect(group), group));
                }

                Pass(random.NextDouble() / 2);
            }

            (_bus.Loss, _bus.Doubled, _bus.MaxDelay) = (0, 0, TimeSpan.Zero);
            foreach (TestNode node in _nodes) node.Link.Link.IsCut = false;
            Pass(1); // the delayed envelopes
            Pass(3.1);
            foreach (TestNode node in _nodes)
            {
                foreach (string group in groups)
                {
                    string expected = string.Join(' ', _nodes.Select(n => (Id: n.Cluster.NodeId,
                        Count: members.Count(m => m.Node == n && m.Group == group), IsHere: n == node))
                        .Where(static n => n.Count > 0 || n.IsHere).Select(static n => $"{n.Id}={n.Count}"));
                    Assert.True(expected == Seen(node, group),
                        $"seed {seed}: {node.Cluster.NodeId} sees {Seen(node, group)} and not {expected}");
                }
            }
        }
    }

    [Fact]
    public void An_incomplete_snapshot_is_not_used_and_requested_again()
    {
        Presence presence = new(1024);
        Assert.Equal(PresenceHeard.Known, Hear(presence, 4, PresencePart.Snapshot, 0, ("a", 1)));
        Assert.Equal(PresenceHeard.Known, Hear(presence, 4, PresencePart.Snapshot, 0, ("a", 1))); // duplicated
        Assert.Equal(PresenceHeard.Ask, Hear(presence, 4, PresencePart.SnapshotEnd, 2, ("c", 1)));
        Assert.Equal("", Read(presence, "a"));
        Assert.Equal(PresenceHeard.Known, Hear(presence, 5, PresencePart.Snapshot, 0, ("a", 2)));
        Assert.Equal(PresenceHeard.Ask, Hear(presence, 5, PresencePart.Beat, 0)); // the last part is lost
        Assert.Equal(PresenceHeard.Ask, Hear(presence, 6, PresencePart.Change, 0, ("a", 3)));
        Assert.Equal("", Read(presence, "a"));
        Hear(presence, 7, PresencePart.Snapshot, 0, ("a", 4));
        Assert.Equal(PresenceHeard.Known, Hear(presence, 7, PresencePart.SnapshotEnd, 1, ("b", 5)));
        Assert.Equal(PresenceHeard.Known, Hear(presence, 8, PresencePart.Change, 0, ("a", 6), ("b", 0)));
        Assert.Equal(PresenceHeard.Known, Hear(presence, 6, PresencePart.Change, 0, ("a", 3))); // replayed
        Assert.Equal("n=6", Read(presence, "a"));
        Assert.Equal("", Read(presence, "b"));
    }

    [Fact]
    public void Any_bytes_are_read_or_refused_and_nodes_have_a_limit()
    {
        foreach (int seed in Seeds.Some(100))
        {
            Random random = new(seed);
            Presence presence = new(1024);
            for (int i = 0; i < 300; i++)
            {
                byte[] payload = Payload((PresencePart)random.Next(6), random.Next(2), [("a", random.Next(-1, 3))]);
                if (random.Next(2) == 0) payload[random.Next(payload.Length)] = (byte)random.Next(256);
                presence.Hear(new Envelope
                {
                    Kind = EnvelopeKind.Presence,
                    Instance = (ulong)random.Next(1000),
                    Sequence = (ulong)random.Next(1, 4),
                    Node = "n"u8,
                    Payload = payload.AsSpan(0, random.Next(payload.Length + 1))
                }, i, 0);
            }

            Assert.InRange(Read(presence, "a").Split(' ').Length, 0, Presence.MostNodes);
        }

        Presence full = new(1024);
        for (ulong i = 0; i < 300; i++)
            full.Hear(new Envelope
            {
                Kind = EnvelopeKind.Presence,
                Instance = i,
                Sequence = 1,
                Node = "n"u8,
                Payload = Payload(PresencePart.SnapshotEnd, 0, [("a", 1)])
            }, (long)i, 0);
        Assert.Equal(Presence.MostNodes, Read(full, "a").Split(' ').Length);
        Assert.Equal(PresenceHeard.Refused, Hear(full, 1, PresencePart.SnapshotEnd, 0, ("a", -1)));
        Assert.Equal(PresenceHeard.Refused, Hear(full, 1, (PresencePart)5, 0));
    }

    [Fact] // a change that takes several envelopes
    public void A_large_change_arrives_whole_after_the_snapshot_and_again()
    {
        TestNode one = Node("one"), two = Node("two");
        one.Connect("first");
        Pass(3);
        TestNode.Member member = one.Connect();
        string[] groups = [.. Enumerable.Range(0, 30).Select(static i => $"{i} {new string('x', 240)}")];
        foreach (string group in groups) one.Cluster.Group(group).Join(member);
        Pass(1.5);
        Assert.All(groups, g => Assert.Equal("one=1 two=0", Seen(two, g)));
        foreach (string group in groups) one.Cluster.Group(group).Leave(member);
        Pass(1.5);
        Assert.All(groups, g => Assert.Equal("two=0", Seen(two, g)));
    }

    [Fact] // seven groups take one byte more than a part has
    public void Groups_that_fill_a_part_but_for_the_last_byte_continue_in_the_next_one()
    {
        TestNode one = Node("one"), two = Node("two");
        Pass(3);
        TestNode.Member member = one.Connect();
        string[] groups = [.. Enumerable.Range(0, 7).Select(static i => $"{i} {new string('x', 138)}")];
        foreach (string group in groups) one.Cluster.Group(group).Join(member);
        Pass(1.5);
        Assert.All(groups, g => Assert.Equal("one=1 two=0", Seen(two, g)));
    }

    [Fact]
    public void At_the_limit_the_node_that_was_silent_for_longest_is_forgotten()
    {
        Presence presence = new(1024);
        for (ulong i = 0; i < Presence.MostNodes; i++) HearOf(i, (long)i);
        HearOf(0, 1_000); // again
        for (ulong more = 0; more < 3; more++)
        {
            HearOf(5_000 + more, 2_000 + (long)more);
            string[] known = Read(presence, "a").Split(' ');
            Assert.Equal(Presence.MostNodes, known.Length);
            Assert.Contains("n0=1", known);
            Assert.Contains($"n{5_000 + more}=1", known);
            Assert.DoesNotContain($"n{1 + more}=1", known);
        }

        void HearOf(ulong instance, long nowMs) => presence.Hear(new Envelope
        {
            Kind = EnvelopeKind.Presence,
            Instance = instance,
            Sequence = 1,
            Node = Encoding.UTF8.GetBytes($"n{instance}"),
            Payload = Payload(PresencePart.SnapshotEnd, 0, [("a", 1)])
        }, nowMs, 0);
    }

    [Fact] // at the number and one past it
    public void Of_a_node_with_more_groups_than_the_limit_the_known_ones_are_still_counted()
    {
        Presence presence = new(1024);
        (string, int)[] all = [.. Enumerable.Range(0, Presence.MostGroupsOfNode).Select(static i => ($"{i}", 1))];
        Hear(presence, 1, PresencePart.SnapshotEnd, 0, all);
        Hear(presence, 2, PresencePart.Change, 0, ("0", 2), ("65535", 3), ("one more", 1));
        Assert.Equal(("n=2", "n=3", ""), (Read(presence, "0"), Read(presence, "65535"), Read(presence, "one more")));
        Hear(presence, 3, PresencePart.Change, 0, ("0", 0), ("one more", 1));
        Assert.Equal(("", "n=1"), (Read(presence, "0"), Read(presence, "one more")));
    }

    [Fact]
    public void Options_that_cannot_be_are_refused_by_name()
    {
        Assert.Contains("PresenceInterval",
            Refusal(new ClusterOptions { Application = "a", PresenceInterval = TimeSpan.FromMilliseconds(9) }),
            StringComparison.Ordinal);
        Assert.Contains("PresenceLease", Refusal(new ClusterOptions
        {
            Application = "a",
            PresenceInterval = TimeSpan.FromSeconds(2),
            PresenceLease = TimeSpan.FromSeconds(3)
        }), StringComparison.Ordinal);
        Assert.Contains("MaxPayloadBytes", Refusal(new ClusterOptions
        {
            Application = "a",
            PresenceInterval = TimeSpan.FromSeconds(1),
            MaxPayloadBytes = 1000
        }), StringComparison.Ordinal);

        static string Refusal(ClusterOptions options) => Assert.Throws<ArgumentException>(options.Check).Message;
    }

    private static string Read(Presence presence, string group)
    {
        List<NodePresence> nodes = [];
        presence.Read(group, nodes);
        return string.Join(' ', nodes.Select(static n => $"{n.Node}={n.Count}"));
    }

    private static PresenceHeard Hear(Presence presence, ulong revision, PresencePart part, int number,
        params (string Group, int Count)[] groups) =>
        presence.Hear(new Envelope
        {
            Kind = EnvelopeKind.Presence,
            Instance = 9,
            Sequence = revision,
            Node = "n"u8,
            Payload = Payload(part, number, groups)
        }, 0, 0);

    private static byte[] Payload(PresencePart part, int number, (string Group, int Count)[] groups)
    {
        List<byte> bytes = [(byte)part, (byte)number, 0];
        foreach ((string group, int count) in groups)
        {
            byte[] length = new byte[2], value = new byte[4];
            BinaryPrimitives.WriteUInt16LittleEndian(length, (ushort)group.Length);
            BinaryPrimitives.WriteInt32LittleEndian(value, count);
            bytes.AddRange([.. length, .. Encoding.UTF8.GetBytes(group), .. value]);
        }

        return [.. bytes];
    }
}
