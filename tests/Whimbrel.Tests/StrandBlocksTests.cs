using Whimbrel.Connections;

namespace Whimbrel.Tests;

public sealed class StrandBlocksTests
{
    [Fact]
    public void The_block_that_came_back_last_is_taken_first()
    {
        StrandBlocks blocks = new();
        StrandBlock[] taken = [blocks.Take(), blocks.Take(), blocks.Take()];
        Assert.Equal(3, taken.Distinct().Count());
        foreach (StrandBlock block in taken) blocks.Return(block);
        Assert.Same(taken[2], blocks.Take());
        Assert.Same(taken[1], blocks.Take());
        // A recently returned block is reused before older ones.
        blocks.Return(taken[2]);
        Assert.Same(taken[2], blocks.Take());
        Assert.Same(taken[0], blocks.Take());
        Assert.DoesNotContain(blocks.Take(), taken);
    }

    [Fact]
    public void A_block_that_is_taken_again_is_empty_and_alone()
    {
        StrandBlocks blocks = new();
        StrandBlock first = blocks.Take();
        StrandBlock second = blocks.Take();
        second.Room[0] = 1;
        second.Length = 1;
        second.Next = first;
        blocks.Return(first);
        blocks.Return(second);
        StrandBlock again = blocks.Take();
        Assert.Same(second, again);
        Assert.Null(again.Next);
        Assert.Equal((0, StrandBlock.Capacity), (again.Written.Length, again.Room.Length));
        Assert.Null(blocks.Take().Next);
    }

    [Theory]
    [InlineData(StrandBlock.SmallCapacity, 4096)]
    [InlineData(StrandBlock.Capacity, 256)]
    [InlineData(StrandBlock.LargeCapacity, 64)]
    public void No_more_free_blocks_are_kept_than_the_limit(int capacity, int limit)
    {
        const int more = 10;
        StrandBlocks blocks = new();
        List<StrandBlock> taken = [];
        for (int i = 0; i < limit + more; i++) taken.Add(Take());
        Assert.All(taken, block => Assert.Equal(capacity, block.Room.Length));
        foreach (StrandBlock block in taken) blocks.Return(block);
        HashSet<StrandBlock> known = [.. taken];
        int kept = 0;
        for (int i = 0; i < limit + more; i++)
        {
            if (known.Remove(Take())) kept++;
        }

        Assert.Equal(limit, kept);
        // The first returned blocks were kept, the surplus was left to the collector.
        Assert.Equal(taken.TakeLast(more), taken.Where(known.Contains));

        StrandBlock Take() => capacity switch
        {
            StrandBlock.SmallCapacity => blocks.TakeSmall(),
            StrandBlock.Capacity => blocks.Take(),
            _ => blocks.TakeLarge(),
        };
    }

    [Theory] // the first message in a block of its size; what follows in larger ones, none of it in two
    [InlineData(new[] { 1 }, new[] { 1 })]
    [InlineData(new[] { 1000, 24 }, new[] { 1024 })]
    [InlineData(new[] { 1000, 25 }, new[] { 1000, 25 })]
    [InlineData(new[] { 1024, 1 }, new[] { 1024, 1 })]
    [InlineData(new[] { 1025 }, new[] { 1025 })]
    [InlineData(new[] { 10, 2000, 30_000, 1000 }, new[] { 10, 32_768, 232 })]
    public void Data_waits_in_blocks_of_the_size_that_it_needs(int[] messages, int[] expected)
    {
        StrandBlocks blocks = new();
        StrandQueue queue = new(blocks);
        byte[] sent = new byte[messages.Sum()];
        for (int i = 0; i < sent.Length; i++) sent[i] = (byte)(i % 251);
        int at = 0;
        foreach (int length in messages) queue.Add(sent.AsSpan((at += length) - length, length));
        List<StrandBlock> waiting = [];
        for (StrandBlock? block = queue.TakeBlocks(out _); block is not null; block = block.Next) waiting.Add(block);
        Assert.Equal(expected, waiting.Select(static block => block.Length));
        Assert.Equal(sent, waiting.SelectMany(static block => block.Written.ToArray()));
        Assert.Equal(waiting.Count, blocks.Outstanding);
    }

    [Fact]
    public void Sizes_never_take_each_others_place()
    {
        StrandBlocks blocks = new();
        StrandBlock small = blocks.TakeSmall(), other = blocks.Take(), large = blocks.TakeLarge();
        blocks.Return(large);
        blocks.Return(other);
        blocks.Return(small);
        Assert.Same(large, blocks.TakeLarge());
        Assert.Same(other, blocks.Take());
        Assert.Same(small, blocks.TakeSmall());
        Assert.Equal(3, blocks.Outstanding);
    }

    [Fact]
    public void Much_is_held_from_two_MiB_on_until_enough_came_back()
    {
        StrandBlocks blocks = new();
        List<StrandBlock> held = [.. Enumerable.Range(0, 31).Select(_ => blocks.TakeLarge()), blocks.Take(),
            blocks.Take()];
        Assert.False(blocks.IsMuchHeld);
        StrandBlock one = blocks.Take();
        Assert.True(blocks.IsMuchHeld);
        one.Dispose();
        Assert.False(blocks.IsMuchHeld);
        foreach (StrandBlock block in held) block.Dispose();
        Assert.False(blocks.IsMuchHeld);
        Assert.Equal(0, blocks.Outstanding);
    }

    [Fact]
    public void Outstanding_counts_what_is_held_also_beyond_the_limit()
    {
        StrandBlocks blocks = new();
        Assert.Equal(0, blocks.Outstanding);
        Stack<StrandBlock> taken = [];
        for (int i = 1; i <= StrandBlocks.MaxKept + 10; i++)
        {
            taken.Push(blocks.Take());
            Assert.Equal(i, blocks.Outstanding);
        }

        while (taken.TryPop(out StrandBlock? block))
        {
            // Dispose returns it as well.
            if (taken.Count % 2 == 0) block.Dispose();
            else blocks.Return(block);
            Assert.Equal(taken.Count, blocks.Outstanding);
        }
    }

    [Fact]
    public void A_block_has_one_owner_though_threads_take_and_return_at_once()
    {
        const int rounds = 50_000;
        const int threads = 3;
        StrandBlocks blocks = new();
        int strangers = 0;
        using Barrier barrier = new(threads);
        Thread[] users = new Thread[threads];
        HashSet<StrandBlock>[] seen = new HashSet<StrandBlock>[threads];
        for (int t = 0; t < threads; t++)
        {
            byte mark = (byte)(t + 1);
            HashSet<StrandBlock> mine = seen[t] = [];
            users[t] = new Thread(() =>
            {
                barrier.SignalAndWait();
                for (int i = 0; i < rounds; i++)
                {
                    StrandBlock one = blocks.Take();
                    StrandBlock two = blocks.Take();
                    mine.Add(one);
                    mine.Add(two);
                    one.Bytes[0] = mark;
                    two.Bytes[0] = mark;
                    one.Length = two.Length = 1;
                    if (ReferenceEquals(one, two) || one.Written[0] != mark || two.Written[0] != mark)
                        Interlocked.Increment(ref strangers);
                    blocks.Return(one);
                    blocks.Return(two);
                }
            });
        }

        foreach (Thread user in users) user.Start();
        foreach (Thread user in users) user.Join();
        Assert.Equal((0, 0), (strangers, blocks.Outstanding));
        // No more were created than can be in use at once: returned blocks were reused.
        Assert.InRange(seen.SelectMany(mine => mine).Distinct().Count(), 2, 2 * threads);
    }
}
