using System.Buffers;
using System.Runtime.InteropServices;

namespace Whimbrel.Buffers;

/// <summary>
/// The joined broadcasts of one group, written once and queued by reference by every member on one loop.
/// Bytes are only ever appended, so a member may send a stretch while more is added behind it.
/// References are counted on the loop's thread; the pool hands a run out again when the count is zero.
/// </summary>
internal sealed unsafe class Run
{
    internal const int FixedCapacity = 64 * 1024;

    internal Run? Next;
    internal byte* Memory;
    internal int Length;
    internal int Capacity;

    /// <summary>Members that still have a stretch queued, plus one while somebody may append. Loop's thread only.</summary>
    internal int References;

    /// <summary>Changes whenever the run is given up for appending: who remembers another number may not append any more.</summary>
    internal int Lease;

    /// <summary>Somebody may append: closed when nobody else refers to it any more (<see cref="BlockPool.CloseIdleRuns"/>).</summary>
    internal bool IsOpen;

    /// <summary>Noted for <see cref="BlockPool.CloseIdleRuns"/>.</summary>
    internal bool IsNotedIdle;

    /// <summary>Whose memory it is, when it is not its own: pinned while somebody refers to the run, then given back.</summary>
    internal IMemoryOwner<byte>? Owner;
    internal MemoryHandle Pin;

    // Safe: freed exactly once, by the pool that allocated it, when nobody refers to it.
    internal Run(int capacity)
    {
        Memory = (byte*)NativeMemory.Alloc((nuint)capacity);
        Capacity = capacity;
    }

    /// <summary>Without memory of its own.</summary>
    internal Run()
    {
    }

    internal int Room => Capacity - Length;

    // Safe: the memory lives while somebody refers to the run.
    internal ReadOnlySpan<byte> AsSpan() => new(Memory, Length);

    // Safe: the caller checked Room.
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
