using Whimbrel.Buffers;
using Whimbrel.Connections;

namespace Whimbrel.Tests;

// Safe: memory is touched through blocks that the test holds.
public sealed unsafe class SendQueueTests
{
    private readonly BlockPool _pool = new();

    [Fact]
    public void Blocks_come_out_in_the_order_they_went_in_and_may_go_in_again()
    {
        BlockQueue queue = default;
        Block[] blocks = [_pool.Take(), _pool.Take(), _pool.Take()];
        foreach (Block block in blocks) queue.Enqueue(block);
        Assert.Same(blocks[2], queue.Tail);
        Assert.Same(blocks[0], queue.Dequeue());
        Assert.Null(blocks[0].Next);
        queue.Enqueue(blocks[0]);
        Assert.Same(blocks[1], queue.Dequeue());
        Assert.Same(blocks[2], queue.Dequeue());
        Assert.Same(blocks[0], queue.Dequeue());
        Assert.True(queue.IsEmpty);
        Assert.Null(queue.Tail);
    }

    [Fact]
    public void Sent_bytes_remove_the_blocks_that_are_completely_sent()
    {
        BlockQueue queue = default;
        foreach (int length in (int[])[10, 0, 20]) queue.Enqueue(Filled(length));
        long count = 4;
        Assert.Null(queue.Advance(ref count));
        Assert.Equal(0, count);
        Assert.Equal((4, 6), (queue.Head!.Start, queue.Head.Length));

        count = 6 + 5;
        int taken = 0;
        while (count > 0) taken += queue.Advance(ref count) is { Length: 0 } ? 1 : 0;
        Assert.Equal(2, taken);
        Assert.Equal((5, 15), (queue.Head!.Start, queue.Head.Length));
        count = 15;
        Assert.NotNull(queue.Advance(ref count));
        Assert.True(queue.IsEmpty);
    }

    [Fact]
    public void A_chain_is_copied_as_far_as_there_is_room_and_stays()
    {
        BlockQueue queue = default;
        for (byte i = 1; i <= 3; i++)
        {
            Block block = Filled(10);
            new Span<byte>(block.Memory, 10).Fill(i);
            queue.Enqueue(block);
        }

        queue.Head!.Start = 8;
        byte[] target = new byte[15];
        Assert.Equal(15, queue.Head.CopyTo(target));
        Assert.Equal([1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3], target);
        Assert.Equal(22, queue.Head.CopyTo(new byte[100]));
        Assert.Equal(8, queue.Head.Start);
    }

    [Fact]
    public void The_fill_is_limited_by_the_block_and_by_the_send_limit()
    {
        SendQueue queue = NewQueue(100);
        Assert.False(queue.FitsFill(1));
        queue.Enqueue(_pool.Take());
        queue.OpenFill(1);
        Assert.Equal((100, 0L), (queue.Room, queue.Pending));
        Assert.False(queue.FitsFill(0));
        Assert.True(queue.FitsFill(100));
        Assert.False(queue.FitsFill(101));
        queue.Copy("hello"u8);
        Assert.Equal((95, 5L), (queue.Room, queue.Pending));
        // It is counted and in the block when the tail is closed.
        queue.CloseFill();
        Assert.Equal((0, 5L, 5), (queue.Room, queue.Pending, queue.Blocks.Tail!.Length));
        Assert.Equal("hello"u8, new ReadOnlySpan<byte>(queue.Blocks.Head!.Memory, 5));
        // Admitted data is accepted even if the limit is reached.
        Assert.True(queue.HasFreeTail);
        queue.Count(200);
        queue.OpenFill(7);
        Assert.Equal(7, queue.Room);
        Assert.Equal(7, queue.CopyPart(new byte[9]));
        Assert.Equal((0, 212L), (queue.Room, queue.Queued));
    }

    [Fact]
    public void Pending_data_of_other_threads_counts_and_reduces_the_fill()
    {
        SendQueue queue = NewQueue(100);
        queue.Foreign.Begin(3, isClosed: false);
        Assert.True(queue.Foreign.TryAdd(queue.Foreign.Read(), 60));
        Assert.Equal((0L, 60L, 60L), (queue.Queued, queue.Pending, queue.PendingFromElsewhere()));
        Assert.True(queue.HasRoomFor(40));
        Assert.False(queue.HasRoomFor(41));
        queue.Enqueue(_pool.Take());
        queue.OpenFill(1);
        Assert.Equal(40, queue.Room);
    }

    [Fact]
    public void The_state_word_of_other_threads_contains_its_tenant()
    {
        ForeignWord word = default;
        word.Begin(ForeignWord.GenerationMask, isClosed: true);
        Assert.True(word.IsOf(ForeignWord.GenerationMask));
        Assert.False(word.IsOpenFor(ForeignWord.GenerationMask));
        word.Begin(5, isClosed: false);
        long seen = word.Read();
        Assert.True(word.TryAdd(seen, 100));
        // It has changed since.
        Assert.False(word.TryAdd(seen, 100));
        Assert.Equal(100u, word.Bytes);
        word.Release(30, 5);
        word.Release(50, 4);
        Assert.Equal(70u, word.Bytes);
        Assert.False(word.TryClose(4));
        Assert.True(word.IsOpenFor(5));
        Assert.True(word.TryClose(5));
        Assert.False(word.TryClose(5));
        Assert.True(word.IsClosed);
        Assert.Equal((70u, true), (word.Bytes, word.IsOf(5)));
        word.Release(70, 5);
        Assert.Equal(0u, word.Bytes);
    }

    private static SendQueue NewQueue(long limit)
    {
        SendQueue queue = default;
        queue.Limit = limit;
        return queue;
    }

    private Block Filled(int length)
    {
        Block block = _pool.Take();
        block.End = length;
        return block;
    }
}
