using System.Runtime.CompilerServices;

namespace Whimbrel.Tls;

/// <summary>
/// Buffer for outgoing cipher text: a window onto memory that the owner of the layer provides and sends. Of fixed size;
/// a layer that needs more returns <see cref="TlsStep.OutputFull"/>. Owner: the caller of the layer, for the duration
/// of a call.
/// </summary>
// Safe: Memory points at Capacity bytes, valid while the layer is called, and Length never exceeds Capacity.
internal sealed unsafe class CipherBlock
{
    /// <summary>Minimum size for a call, so that every alert and small record fits.</summary>
    internal const int LeastBytes = 1024;

    internal byte* Memory { get; private set; }

    internal int Capacity { get; private set; }

    /// <summary>Number of bytes written so far.</summary>
    internal int Length { get; set; }

    internal int Room => Capacity - Length;

    internal Span<byte> Free => new(Memory + Length, Capacity - Length);

    internal ReadOnlySpan<byte> Written => new(Memory, Length);

    /// <summary>Uses other memory, empty.</summary>
    internal void Use(byte* memory, int capacity)
    {
        Memory = memory;
        Capacity = capacity;
        Length = 0;
    }

    /// <summary>Copies as many bytes as fit. Returns their number.</summary>
    internal int Write(ReadOnlySpan<byte> bytes)
    {
        int count = Math.Min(bytes.Length, Room);
        Unsafe.CopyBlockUnaligned(ref *(Memory + Length),
            ref Unsafe.AsRef(in System.Runtime.InteropServices.MemoryMarshal.GetReference(bytes)), (uint)count);
        Length += count;
        return count;
    }
}
