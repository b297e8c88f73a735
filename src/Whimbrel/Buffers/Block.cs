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

    /// <summary>A part of a file, with no memory at all; one loan of the file is given back.</summary>
    File,
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

    /// <summary>Of a part of a file: where in it <see cref="Start"/> and <see cref="End"/> count from.</summary>
    internal OpenFile? File;
    internal long FileOffset;

    /// <summary>The system does not send this part of a file by itself: it is read.</summary>
    internal bool IsRead;

    /// <summary>Owned memory with bytes that were read from a file.</summary>
    internal bool IsOfFile;

    internal int Length => End - Start;

    /// <summary>The next one, if its bytes are in memory.</summary>
    internal Block? NextInMemory => Next is { Kind: not BlockKind.File } next ? next : null;

    /// <summary>What it counts as against the limit. What was read ahead does not: that it is little has its own reason.</summary>
    internal int Charge => Kind == BlockKind.File ? Math.Min(Length, FileRange.ChargeBytes) : IsOfFile ? 0 : Length;

    /// <summary>Copies what is queued in this block and in those behind it, up to a file and as far as there is room, and takes nothing out. How much that was.</summary>
    internal int CopyTo(Span<byte> target)
    {
        int copied = 0;
        for (Block? block = this; block is not null && copied < target.Length; block = block.NextInMemory)
        {
            int part = Math.Min(block.Length, target.Length - copied);
            new ReadOnlySpan<byte>(block.Memory + block.Start, part).CopyTo(target[copied..]);
            copied += part;
        }

        return copied;
    }
}
