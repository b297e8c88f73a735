using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// The outbox by itself: its counts after many uses, and envelopes of consecutive sequences.
public sealed class OutboxTests : VirtualNodes
{
    private const int Limit = 20_000; // envelopes are joined up to a sixteenth of it

    private readonly EnvelopeForm _form = new(1, "one"u8.ToArray(), isSigned: false);
    private TestNode? _node;

    private Outbox Box(QueuePolicy policy, int repeatLimitBytes = 0)
    {
        Outbox box = new(Limit, repeatLimitBytes, policy, _form);
        box.SetMostEnvelopeBytes(int.MaxValue);
        return box;
    }

    private GroupState Group(string name) => new((_node ??= Node("node")).Cluster, name, epoch: 1, nowMs: 0);

    private static int Add(Outbox box, GroupState group, string message)
    {
        List<(GroupState Group, int Count)>? dropped = null;
        box.Add(group, Encoding.ASCII.GetBytes(message), 0, ref dropped);
        return dropped?.Sum(static d => d.Count) ?? 0;
    }

    private static List<Clusters.Outgoing> Take(Outbox box)
    {
        List<Clusters.Outgoing> items = [];
        box.Take(items, int.MaxValue, isHeld: false);
        return items;
    }

    [Fact] // slow growth: marks that were published would use up their room, and widen that of broadcasts
    public void A_hundred_thousand_published_marks_leave_the_room_of_marks_and_of_broadcasts_as_it_was()
    {
        Outbox box = Box(QueuePolicy.DropNewest);
        GroupState group = Group("g");
        for (int i = 0; i < 100_000; i++)
        {
            Assert.True(box.TryAddControl(_form.Control(EnvelopeKind.Mark, group, group.Subject, []), out _));
            box.Sent(Take(box).ToArray(), nowMs: i);
        }

        Assert.Equal(0, box.Bytes);
        int most = 0;
        while (Add(box, group, new string('x', 2_000)) == 0) most++;
        Assert.Equal(Limit / _form.Length(group.NameBytes.Length, Envelope.MessageLength(2_000)), most);
    }

    // Presence that was due in the same turn kept a node from announcing itself, so that it was never missed.
    [Fact]
    public void Only_an_announcement_counts_as_a_queued_announcement()
    {
        Outbox box = Box(QueuePolicy.DropNewest);
        foreach (EnvelopeKind kind in (EnvelopeKind[])[EnvelopeKind.Presence, EnvelopeKind.PresenceQuery])
            Assert.True(box.TryAddControl(_form.Control(kind, (ReadOnlySpan<byte>)[], "nodes", []), out _));
        Assert.False(box.HasAnnouncement);
        Assert.True(box.TryAddControl(
            _form.Control(EnvelopeKind.Announcement, (ReadOnlySpan<byte>)[], "nodes", []), out _));
        Assert.True(box.HasAnnouncement);
        Assert.Equal(3, Take(box).Count);
        Assert.False(box.HasAnnouncement);
    }

    [Fact]
    public void Joined_broadcasts_count_with_the_bytes_that_they_have_in_the_envelope()
    {
        Outbox box = Box(QueuePolicy.DropOldest);
        GroupState group = Group("g");
        for (int use = 0; use < 3; use++)
        {
            long before = 0;
            for (int i = 1; i <= 5; i++)
            {
                Add(box, group, new string('x', 10 * i));
                long added = i == 1
                    ? _form.Length(group.NameBytes.Length, Envelope.MessageLength(10))
                    : Envelope.MessageLength(10 * i);
                Assert.Equal(before + added, box.Bytes);
                before = box.Bytes;
            }

            Clusters.Outgoing[] items = [.. Take(box)];
            Assert.Equal(5, Assert.Single(items).Count);
            Assert.Equal(before, items[0].Length);
            box.Sent(items, nowMs: 0);
            Assert.Equal(0, box.Bytes);
        }
    }

    [Fact] // sequences in an envelope are consecutive: otherwise the next broadcast has the sequence of the dropped one
    public void A_broadcast_after_a_dropped_newest_one_is_not_in_the_envelope_before_it()
    {
        Outbox box = Box(QueuePolicy.DropNewest);
        GroupState group = Group("g"), other = Group("o");
        while (Add(box, other, new string('x', 3_000)) == 0)
        {
        }

        Assert.Equal(0, Add(box, group, "first"));
        Assert.Equal(1, Add(box, group, new string('x', 3_000)));
        Assert.Equal(0, Add(box, group, "third"));
        Clusters.Outgoing[] ours = [.. Take(box).Where(o => o.Group == group)];
        Assert.Equal([(1ul, 1), (3ul, 1)], ours.Select(static o => (o.Sequence, o.Count)));
    }

    [Fact] // the broker is lost again in the middle of a repetition, again and again
    public void Repeated_envelopes_keep_their_order_and_come_once_each_however_often_the_broker_is_lost()
    {
        Outbox box = Box(QueuePolicy.DropOldest, repeatLimitBytes: 1 << 20);
        GroupState group = Group("g");
        for (int i = 0; i < 9; i++)
        {
            Add(box, group, $"{i}");
            box.Sent(Take(box).ToArray(), nowMs: 0);
        }

        for (int loss = 0; loss < 4; loss++)
        {
            box.Repeat();
            List<Clusters.Outgoing> some = [];
            box.Take(some, 2 + loss, isHeld: false);
            Assert.Equal(Enumerable.Range(1, 2 + loss).Select(static n => (ulong)n),
                some.Select(static o => o.Sequence));
            box.Sent(some.ToArray(), nowMs: 0);
        }

        box.Repeat();
        Assert.Equal(Enumerable.Range(1, 9).Select(static n => (ulong)n), Take(box).Select(static o => o.Sequence));
    }

    [Fact]
    public void Envelopes_that_were_given_back_are_taken_again_in_their_order()
    {
        Outbox box = Box(QueuePolicy.DropOldest);
        GroupState[] groups = [Group("a"), Group("b"), Group("c")];
        for (int use = 0; use < 3; use++)
        {
            foreach (GroupState group in groups) Add(box, group, "x");
            List<Clusters.Outgoing> items = Take(box);
            string[] order = [.. items.Select(static o => o.Subject)];
            Assert.Equal(groups.Select(static g => g.Subject), order);
            box.GiveBack(items);
            Add(box, groups[0], "y"); // follows them
            Assert.Equal([.. order, groups[0].Subject], Take(box).Select(static o => o.Subject));
            Assert.Empty(items);
        }
    }
}
