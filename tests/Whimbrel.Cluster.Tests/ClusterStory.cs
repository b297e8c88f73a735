using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Three nodes with fifty members send messages, singly and in bursts, while links are cut and restored and envelopes
// are lost, duplicated and delayed. At the end each member must have received each broadcast of each node once and in
// order, or its node must have reported that many losses, the same for all members of a node.
internal static class ClusterStory
{
    private const int Members = 50;

    internal static void Run(int seed)
    {
        Random random = new(seed);
        MemoryEngine engine = new(seed, faults: MemoryFaults.None);
        MemoryBus bus = new(seed);
        TestNode[] nodes = [.. Enumerable.Range(0, 3).Select(i => new TestNode(engine, bus, $"{(char)('a' + i)}"))];
        TestNode.Member[] members = [.. Enumerable.Range(0, Members).Select(i => nodes[i % 3].Connect("g"))];
        engine.RunFor(TimeSpan.FromSeconds(2));
        (bus.Loss, bus.Doubled, bus.MaxDelay) = (random.Next(2) * 0.1, random.Next(2) * 0.1,
            TimeSpan.FromMilliseconds(random.Next(2) * 50));
        int[] said = new int[3];
        for (int step = 0; step < 60; step++)
        {
            int who = random.Next(3);
            if (random.Next(8) == 0) nodes[who].Link.Link.IsCut ^= true;
            else engine.GetLoop(0).Post(() => Say(nodes[who], said, who, random.Next(4) == 0 ? 30 : 1));
            engine.RunFor(TimeSpan.FromMilliseconds(random.Next(200)));
        }

        bus.Loss = 0;
        foreach (TestNode node in nodes) node.Link.Link.IsCut = false;
        engine.RunFor(TimeSpan.FromSeconds(5));
        for (int at = 0; at < 3; at++)
        {
            string heard = members[at].Heard;
            for (int of = 0; of < 3; of++)
            {
                int[] stream = [.. heard.Split(' ', StringSplitOptions.RemoveEmptyEntries).Where(h => h[0] == 'a' + of)
                    .Select(static h => int.Parse(h.AsSpan(1), System.Globalization.CultureInfo.InvariantCulture))];
                long told = nodes[at].Gaps.Where(g => g.Node == $"{(char)('a' + of)}").Sum(static g => g.Missed);
                Assert.True(stream.SequenceEqual(stream.Distinct().Order()),
                    $"seed {seed}: out of order at {at} of {of}");
                Assert.True(stream.Length + told == said[of], $"seed {seed}: at {at} of {of} came {stream.Length} of "
                    + $"{said[of]}, and {told} losses were reported");
            }

            for (int other = at; other < Members; other += 3)
            {
                Assert.True(members[other].IsConnected, $"seed {seed}");
                Assert.True(other == at || members[other].Heard == heard,
                    $"seed {seed}: members {at} and {other} of one node received different messages");
            }
        }

        foreach (TestNode node in nodes) node.End();
        engine.Run(engine.DisposeAsync());
    }

    private static void Say(TestNode node, int[] said, int who, int count)
    {
        for (int i = 0; i < count; i++)
            Assert.Equal(SendResult.Queued, node.Cluster.Group("g").Broadcast($"{(char)('a' + who)}{++said[who]} "));
    }
}
