using System.Buffers;

namespace Whimbrel.Buffers;

/// <summary>Where the bytes of a <see cref="Block"/> live, and so what happens to them when it is returned.</summary>
internal enum BlockKind : byte
{
    /// <summary>Native memory of the pool's fixed size; goes back to the pool.</summary>
    Pooled,

    /// <summary>Native memory of the size that one large message needed; freed.</summary>
    Large,

    /// <summary>Memory that the user handed over; pinned while queued, then disposed.</summary>
    Owned,

    /// <summary>A stretch of a <see cref="Run"/> that several connections share; one reference is given back.</summary>
    Run,
}

/// <summary>
/// One run of queued bytes in a connection's send queue. Owner: the connection that queues it, from Take to Return;
/// then the pool of its loop. Only the loop's thread touches it.
/// </summary>
// Safe: holds pointers only; whoever follows one owns the block, and Start and End stay inside Capacity.
internal sealed unsafe class Block
{
    internal Block? Next;

    /// <summary>First byte of the memory; <see cref="Start"/> and <see cref="End"/> count from here.</summary>
    internal byte* Memory;

    /// <summary>What the allocator gave, for pooled blocks; Memory lies a little behind it (staggered).</summary>
    internal byte* Origin;

    /// <summary>First byte not yet sent.</summary>
    internal int Start;

    /// <summary>One past the last queued byte.</summary>
    internal int End;

    internal int Capacity;

    internal BlockKind Kind;
    internal Run? Run;
    internal IMemoryOwner<byte>? Owner;
    internal MemoryHandle Pin;

    internal int Length => End - Start;

    /// <summary>Copies what is queued in this block and in those behind it, as far as there is room, and takes nothing out. How much that was.</summary>
    internal int CopyTo(Span<byte> target)
    {
        int copied = 0;
        for (Block? block = this; block is not null && copied < target.Length; block = block.Next)
        {
            int part = Math.Min(block.Length, target.Length - copied);
            new ReadOnlySpan<byte>(block.Memory + block.Start, part).CopyTo(target[copied..]);
            copied += part;
        }

        return copied;
    }
}
