using System.Buffers;

namespace Whimbrel.Buffers;

/// <summary>Kind of memory of a <see cref="Block"/>, which determines what happens when it is returned.</summary>
internal enum BlockKind : byte
{
    /// <summary>Native memory of the pool's fixed size; returned to the pool.</summary>
    Pooled,

    /// <summary>Native memory of the size of one large message; freed.</summary>
    Large,

    /// <summary>Memory passed by the application; pinned while queued, then disposed.</summary>
    Owned,

    /// <summary>A stretch of a <see cref="Run"/> that several connections share; one reference is released.</summary>
    Run,

    /// <summary>A part of a file, without memory; one loan of the file ends.</summary>
    File,
}

/// <summary>
/// One stretch of queued bytes in a connection's send queue. Owner: the connection that queues it, from Take to Return;
/// then the pool of its loop. Used on the loop's thread only.
/// </summary>
// Safe: contains pointers only; code that uses one owns the block, and Start and End stay inside Capacity.
internal sealed unsafe class Block
{
    internal Block? Next;

    /// <summary>First byte of the memory; <see cref="Start"/> and <see cref="End"/> are offsets from it.</summary>
    internal byte* Memory;

    /// <summary>
    /// Address returned by the allocator, for pooled blocks; Memory is a little after it (staggered).
    /// </summary>
    internal byte* Origin;

    /// <summary>Offset of the first byte that was not sent yet.</summary>
    internal int Start;

    /// <summary>One past the last queued byte.</summary>
    internal int End;

    internal int Capacity;

    internal BlockKind Kind;
    internal Run? Run;
    internal IMemoryOwner<byte>? Owner;
    internal MemoryHandle Pin;

    /// <summary>
    /// For a part of a file: the file, and the offset in it that <see cref="Start"/> and <see cref="End"/> are relative
    /// to.
    /// </summary>
    internal OpenFile? File;
    internal long FileOffset;

    /// <summary>True if the kernel cannot send this part of a file directly, so that it is read.</summary>
    internal bool IsRead;

    /// <summary>True for owned memory with bytes that were read from a file.</summary>
    internal bool IsOfFile;

    internal int Length => End - Start;

    /// <summary>The next block, if its bytes are in memory.</summary>
    internal Block? NextInMemory => Next is { Kind: not BlockKind.File } next ? next : null;

    /// <summary>
    /// Accounted size against the send limit. Data read ahead from a file does not count, because its amount is limited
    /// elsewhere.
    /// </summary>
    internal int Charge => Kind == BlockKind.File ? Math.Min(Length, FileRange.ChargeBytes) : IsOfFile ? 0 : Length;

    /// <summary>
    /// Copies the queued bytes of this block and the following ones, up to a file and as far as they fit, without
    /// removing them. Returns their number.
    /// </summary>
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
