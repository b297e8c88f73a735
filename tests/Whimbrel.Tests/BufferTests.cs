using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Connections;

namespace Whimbrel.Tests;

// Safe: memory is touched through blocks and runs that the test holds.
public sealed unsafe class BufferTests
{
    [Fact]
    public void The_block_returned_last_is_taken_first()
    {
        BlockPool pool = new();
        Block a = pool.Take();
        Block b = pool.Take();
        Assert.Equal(2, pool.Outstanding);
        pool.Return(a);
        pool.Return(b);
        Assert.Equal(0, pool.Outstanding);
        Assert.Same(b, pool.Take());
        Assert.Same(a, pool.Take());
        Assert.Equal((0, 0), (a.Start, a.End));
        pool.Return(a);
        pool.Return(b);
        pool.Clear();
    }

    [Fact]
    public void Every_byte_of_every_block_can_be_written_and_starts_are_staggered()
    {
        BlockPool pool = new();
        List<Block> blocks = [.. Enumerable.Range(0, 70).Select(_ => pool.Take())];
        for (int i = 0; i < blocks.Count; i++) new Span<byte>(blocks[i].Memory, blocks[i].Capacity).Fill((byte)i);
        for (int i = 0; i < blocks.Count; i++)
            Assert.Equal(-1, new Span<byte>(blocks[i].Memory, blocks[i].Capacity).IndexOfAnyExcept((byte)i));
        Assert.Equal(32, blocks.Select(b => (long)(b.Memory - b.Origin)).Distinct().Count());
        foreach (Block block in blocks) pool.Return(block);
        pool.Clear();
    }

    [Fact]
    public void At_most_the_limit_of_free_blocks_is_kept()
    {
        BlockPool pool = new();
        List<Block> blocks = [.. Enumerable.Range(0, BlockPool.MaxKept + 1).Select(_ => pool.Take())];
        foreach (Block block in blocks) pool.Return(block);
        Assert.Equal(0, pool.Outstanding);
        // The last one was returned to the system, the others are kept.
        Assert.True(blocks[^1].Memory == null);
        Assert.True(blocks[^2].Memory != null);
        Assert.Same(blocks[^2], pool.Take());
        pool.Return(blocks[^2]);
        pool.Clear();
    }

    [Fact]
    public void Memory_that_was_passed_is_pinned_while_queued_and_disposed_when_returned()
    {
        BlockPool pool = new();
        Disposable owner = new([1, 2, 3, 4]);
        Block block = pool.TakeOwned(owner, ((System.Buffers.IMemoryOwner<byte>)owner).Memory, 3);
        Assert.Equal([1, 2, 3], new ReadOnlySpan<byte>(block.Memory + block.Start, block.Length).ToArray());
        Assert.Equal(0, owner.Disposals);
        pool.Return(block);
        Assert.Equal(1, owner.Disposals);
        Assert.Equal(0, pool.Outstanding);
        // The header is reused for another kind.
        Block large = pool.TakeLarge(100_000);
        Assert.Same(block, large);
        new Span<byte>(large.Memory, 100_000).Fill(7);
        pool.Return(large);
        pool.Clear();
    }

    [Fact]
    public void A_run_lives_until_its_last_reference_is_returned()
    {
        BlockPool pool = new();
        Run run = pool.TakeRun(100);
        run.Append("hello world"u8);
        Block first = pool.TakeReference(run, 0, 5);
        Block second = pool.TakeReference(run, 6, 5);
        Assert.Equal(3, run.References);
        pool.Release(run);
        pool.Return(first);
        Assert.Equal("world"u8.ToArray(),
            new ReadOnlySpan<byte>(second.Memory + second.Start, second.Length).ToArray());
        Assert.NotSame(run, pool.TakeRun(1));
        pool.Return(second);
        // Without references it is handed out again, empty, with one reference.
        Assert.Same(run, pool.TakeRun(1));
        Assert.Equal((0, 1), (run.Length, run.References));
        Assert.Equal(0, pool.Outstanding);
    }

    [Fact]
    public void A_run_above_the_fixed_size_is_made_for_its_message_and_not_kept()
    {
        BlockPool pool = new();
        Run exact = pool.TakeRun(Run.FixedCapacity);
        Assert.Equal(Run.FixedCapacity, exact.Capacity);
        Run large = pool.TakeRun(Run.FixedCapacity + 1);
        Assert.Equal(Run.FixedCapacity + 1, large.Capacity);
        Assert.Equal(large.Capacity, large.Room);
        pool.Release(large);
        Assert.True(large.Memory == null);
        pool.Release(exact);
        Assert.Same(exact, pool.TakeRun(5));
    }

    [Fact]
    public void Unread_bytes_agree_with_a_list()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            UnreadStore unread = default;
            List<byte> model = [];
            byte next = 0;
            for (int step = 0; step < 2_000; step++)
            {
                if (random.Next(2) == 0)
                {
                    byte[] data = new byte[random.Next(random.Next(2) == 0 ? 10 : 5_000)];
                    for (int i = 0; i < data.Length; i++) data[i] = next++;
                    unread.Append(data);
                    model.AddRange(data);
                }
                else if (random.Next(50) == 0)
                {
                    unread.Clear();
                    model.Clear();
                }
                else
                {
                    int count = random.Next(3) == 0 ? model.Count : random.Next(model.Count + 1);
                    unread.Consume(count);
                    model.RemoveRange(0, count);
                }

                Assert.Equal(model.Count, unread.Length);
                Assert.True(unread.Span.SequenceEqual(System.Runtime.InteropServices.CollectionsMarshal.AsSpan(model)));
            }

            unread.Clear();
        }
    }

    [Fact]
    public void Unread_bytes_in_steady_state_allocate_nothing()
    {
        UnreadStore unread = default;
        byte[] data = new byte[1000];
        void Round()
        {
            unread.Append(data);
            unread.Append(data);
            unread.Consume(1500);
            unread.Consume(500);
        }

        Assert.Equal(0, Allocated.By(() =>
        {
            for (int i = 0; i < 1000; i++) Round();
        }));
    }

    [Fact]
    public void An_arena_keeps_what_was_appended_while_it_grows()
    {
        foreach (int seed in Seeds.Some(5))
        {
            Random random = new(seed);
            ByteArena arena = new();
            for (int round = 0; round < 10; round++)
            {
                List<((int Chunk, int Offset) Place, byte[] Data)> model = [];
                int most = random.Next(3) == 0 ? 300_000 : 4_000;
                for (int i = 0; i < 200; i++)
                {
                    byte[] data = new byte[random.Next(most)];
                    random.NextBytes(data);
                    int cut = random.Next(data.Length + 1);
                    model.Add((arena.Append(data.AsSpan(0, cut), data.AsSpan(cut)), data));
                }

                foreach (((int chunk, int offset), byte[] data) in model)
                    Assert.True(arena.Slice(chunk, offset, data.Length).SequenceEqual(data));
                Assert.True(arena.Capacity >= model.Sum(m => m.Data.Length));
                arena.Reset();
                Assert.True(arena.Capacity <= ByteArena.KeptBytes, $"seed {seed}: {arena.Capacity} bytes are kept");
            }

            arena.Free();
            Assert.Equal(0, arena.Capacity);
        }
    }

    [Fact]
    public void Consecutive_data_in_an_arena_is_contiguous_until_a_chunk_ends()
    {
        ByteArena arena = new();
        (int Chunk, int Offset) last = arena.Append(new byte[100], default);
        for (int i = 0; i < 10_000; i++)
        {
            (int chunk, int offset) = arena.Append(new byte[100], default);
            if (chunk == last.Chunk) Assert.Equal(last.Offset + 100, offset);
            else Assert.Equal(0, offset);
            last = (chunk, offset);
        }

        // A million bytes: chunks of 64, 64, 128, 256, 512 KiB, without copying from one to the next.
        Assert.Equal(4, last.Chunk);
        arena.Free();
    }

    private sealed class Disposable(byte[] data) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => data;

        internal int Disposals { get; private set; }

        public void Dispose() => Disposals++;
    }
}
