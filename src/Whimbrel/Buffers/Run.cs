using System.Buffers;
using System.Runtime.InteropServices;

namespace Whimbrel.Buffers;

/// <summary>
/// The joined broadcasts of one group, written once and queued by reference by every member on one loop. Bytes are only
/// appended, so a member may send a stretch while more is added after it. References are counted on the loop's thread;
/// the pool reuses a run when the count is zero.
/// </summary>
internal sealed unsafe class Run
{
    internal const int FixedCapacity = 64 * 1024;

    internal Run? Next;
    internal byte* Memory;
    internal int Length;
    internal int Capacity;

    /// <summary>Number of members with a queued stretch, plus one while code may append. Loop's thread only.</summary>
    internal int References;

    /// <summary>Changes whenever appending ends: code with an older number may not append any more.</summary>
    internal int Lease;

    /// <summary>
    /// True if code may append: closed when there are no other references (<see cref="BlockPool.CloseIdleRuns"/>).
    /// </summary>
    internal bool IsOpen;

    /// <summary>True if it is listed for <see cref="BlockPool.CloseIdleRuns"/>.</summary>
    internal bool IsNotedIdle;

    /// <summary>
    /// Owner of the memory, if it is not the run's own: pinned while the run has references, then disposed.
    /// </summary>
    internal IMemoryOwner<byte>? Owner;
    internal MemoryHandle Pin;

    // Safe: freed exactly once, by the pool that allocated it, when it has no references.
    internal Run(int capacity)
    {
        Memory = (byte*)NativeMemory.Alloc((nuint)capacity);
        Capacity = capacity;
    }

    /// <summary>Creates a run without memory of its own.</summary>
    internal Run()
    {
    }

    internal int Room => Capacity - Length;

    // Safe: the memory is valid while the run has references.
    internal ReadOnlySpan<byte> AsSpan() => new(Memory, Length);

    // Safe: the caller has checked Room.
    internal void Append(ReadOnlySpan<byte> data)
    {
        data.CopyTo(new Span<byte>(Memory + Length, data.Length));
        Length += data.Length;
    }

    internal void Free()
    {
        NativeMemory.Free(Memory);
        Memory = null;
    }
}
