using System.Buffers.Binary;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Intrinsics;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Masks and unmasks, which is the same operation (RFC 6455, 5.3). A key is its four bytes as a little-endian number;
/// its lowest byte masks the first byte of a payload.
/// </summary>
internal static class WebSocketMask
{
    /// <summary>Returns the key for the bytes after a number of bytes.</summary>
    internal static uint Rotate(uint key, long bytes) => BitOperations.RotateRight(key, 8 * (int)(bytes & 3));

    /// <summary>Masks in place.</summary>
    internal static void Apply(Span<byte> data, uint key) => Copy(data, data, key);

    /// <summary>Masks while copying. Source and target are the same or do not overlap.</summary>
    /// <param name="source">Bytes to mask or unmask.</param>
    /// <param name="target">Buffer, at least as long.</param>
    /// <param name="key">Key of the first byte.</param>
    internal static void Copy(ReadOnlySpan<byte> source, Span<byte> target, uint key)
    {
        if (target.Length < source.Length) throw new ArgumentException("The target is too small.", nameof(target));
        // Safe because every access below ends at or before `length`, which is within both.
        nuint length = (uint)source.Length;
        nuint at = 0;
        ref byte from = ref MemoryMarshal.GetReference(source);
        ref byte to = ref MemoryMarshal.GetReference(target);
        uint pattern = BitConverter.IsLittleEndian ? key : BinaryPrimitives.ReverseEndianness(key);
        if (Vector512.IsHardwareAccelerated && length >= 64)
        {
            Vector512<byte> keys = Vector512.Create(pattern).AsByte();
            for (; at + 64 <= length; at += 64) (Vector512.LoadUnsafe(ref from, at) ^ keys).StoreUnsafe(ref to, at);
        }
        else if (Vector256.IsHardwareAccelerated && length >= 32)
        {
            Vector256<byte> keys = Vector256.Create(pattern).AsByte();
            for (; at + 32 <= length; at += 32) (Vector256.LoadUnsafe(ref from, at) ^ keys).StoreUnsafe(ref to, at);
        }

        if (Vector128.IsHardwareAccelerated)
        {
            Vector128<byte> keys = Vector128.Create(pattern).AsByte();
            for (; at + 16 <= length; at += 16) (Vector128.LoadUnsafe(ref from, at) ^ keys).StoreUnsafe(ref to, at);
        }

        // Vectors contain whole keys, so the key of the rest is the same.
        for (; at < length; at++)
        {
            Unsafe.Add(ref to, at) = (byte)(Unsafe.Add(ref from, at) ^ (byte)key);
            key = BitOperations.RotateRight(key, 8);
        }
    }
}
