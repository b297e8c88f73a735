using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Safe: the memory is only checked for presence.
public sealed unsafe class LargeBlockTests
{
    [Fact]
    public void An_unused_block_is_freed_after_a_while_and_allocated_again()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Loop loop = engine.GetLoop(0);
        LargeBlock block = new(loop);
        Assert.False(block.IsThere);
        Take();
        for (int i = 0; i < 6; i++)
        {
            engine.RunFor(TimeSpan.FromMilliseconds(700));
            // Not freed and allocated again.
            Assert.True(block.IsThere);
            Take();
        }

        engine.RunFor(TimeSpan.FromMilliseconds(900));
        Assert.True(block.IsThere);
        engine.RunFor(TimeSpan.FromMilliseconds(1_200));
        Assert.False(block.IsThere);
        Take();
        block.Free();
        Assert.False(block.IsThere);

        void Take()
        {
            bool isTaken = false;
            loop.Post(() => isTaken = block.Take() is not null);
            engine.RunUntil(() => isTaken);
            Assert.True(block.IsThere);
        }
    }
}
