using System.Runtime.CompilerServices;

namespace Whimbrel.Tls;

/// <summary>
/// Room for cipher text that goes out: a window onto memory that the owner of the layer provides and sends. Of fixed size;
/// a layer that needs more returns <see cref="TlsStep.OutputFull"/>. Owner: whoever calls the layer, for the time of a call.
/// </summary>
// Safe: Memory points at Capacity bytes that the owner keeps while the layer is called, and Length never passes Capacity.
internal sealed unsafe class CipherBlock
{
    /// <summary>An owner gives no less than this for a call, so that every alert and small record has room.</summary>
    internal const int LeastBytes = 1024;

    internal byte* Memory { get; private set; }

    internal int Capacity { get; private set; }

    /// <summary>Bytes written so far.</summary>
    internal int Length { get; set; }

    internal int Room => Capacity - Length;

    internal Span<byte> Free => new(Memory + Length, Capacity - Length);

    internal ReadOnlySpan<byte> Written => new(Memory, Length);

    /// <summary>Shows new memory, empty.</summary>
    internal void Use(byte* memory, int capacity)
    {
        Memory = memory;
        Capacity = capacity;
        Length = 0;
    }

    /// <summary>Copies as much as there is room for. The number of bytes copied.</summary>
    internal int Write(ReadOnlySpan<byte> bytes)
    {
        int count = Math.Min(bytes.Length, Room);
        Unsafe.CopyBlockUnaligned(ref *(Memory + Length), ref Unsafe.AsRef(in System.Runtime.InteropServices.MemoryMarshal.GetReference(bytes)), (uint)count);
        Length += count;
        return count;
    }
}
