using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Three nodes that talk while links are cut and restored and envelopes are lost, doubled and delayed. At the end each member must have had
// each broadcast of each node once and in order, or its node was told of as many losses.
internal static class ClusterStory
{
    internal static void Run(int seed)
    {
        Random random = new(seed);
        MemoryEngine engine = new(seed, faults: MemoryFaults.None);
        MemoryBus bus = new(seed);
        TestNode[] nodes = [.. Enumerable.Range(0, 3).Select(i => new TestNode(engine, bus, $"{(char)('a' + i)}"))];
        TestNode.Member[] members = [.. nodes.Select(static n => n.Connect("g"))];
        engine.RunFor(TimeSpan.FromSeconds(2));
        (bus.Loss, bus.Doubled, bus.MaxDelay) = (random.Next(2) * 0.1, random.Next(2) * 0.1, TimeSpan.FromMilliseconds(random.Next(2) * 50));
        int[] said = new int[3];
        for (int step = 0; step < 60; step++)
        {
            int who = random.Next(3);
            if (random.Next(8) == 0) nodes[who].Link.Link.IsCut ^= true;
            else Assert.Equal(SendResult.Queued, nodes[who].Cluster.Group("g").Broadcast($"{(char)('a' + who)}{++said[who]} "));
            engine.RunFor(TimeSpan.FromMilliseconds(random.Next(200)));
        }

        bus.Loss = 0;
        foreach (TestNode node in nodes) node.Link.Link.IsCut = false;
        engine.RunFor(TimeSpan.FromSeconds(5));
        for (int at = 0; at < 3; at++)
        {
            string[] heard = members[at].Heard.Split(' ', StringSplitOptions.RemoveEmptyEntries);
            for (int of = 0; of < 3; of++)
            {
                int[] stream = [.. heard.Where(h => h[0] == 'a' + of).Select(static h => int.Parse(h.AsSpan(1), System.Globalization.CultureInfo.InvariantCulture))];
                long told = nodes[at].Gaps.Where(g => g.Node == $"{(char)('a' + of)}").Sum(static g => g.Missed);
                Assert.True(stream.SequenceEqual(stream.Distinct().Order()), $"seed {seed}: out of order at {at} of {of}");
                Assert.True(stream.Length + told == said[of], $"seed {seed}: at {at} of {of} came {stream.Length} of {said[of]}, and {told} were told");
            }

            Assert.True(members[at].IsConnected, $"seed {seed}");
        }

        foreach (TestNode node in nodes) node.End();
        engine.Run(engine.DisposeAsync());
    }
}
