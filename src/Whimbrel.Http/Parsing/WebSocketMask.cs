using System.Buffers.Binary;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Intrinsics;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Masks and unmasks, which is the same (RFC 6455, 5.3). A key is its four bytes as a little-endian number: the first byte of a payload
/// meets the lowest.
/// </summary>
internal static class WebSocketMask
{
    /// <summary>The key for what comes behind so many bytes.</summary>
    internal static uint Rotate(uint key, long bytes) => BitOperations.RotateRight(key, 8 * (int)(bytes & 3));

    /// <summary>In place.</summary>
    internal static void Apply(Span<byte> data, uint key) => Copy(data, data, key);

    /// <summary>From one place to another, or to the same; never to one that overlaps it otherwise.</summary>
    /// <param name="source">What is masked, or is to be.</param>
    /// <param name="target">At least as long.</param>
    /// <param name="key">For the first byte.</param>
    internal static void Copy(ReadOnlySpan<byte> source, Span<byte> target, uint key)
    {
        if (target.Length < source.Length) throw new ArgumentException("The target is too small.", nameof(target));
        // Every access below ends at or before `length`, which both have.
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

        // Whole vectors have whole keys: the key of the rest is the same.
        for (; at < length; at++)
        {
            Unsafe.Add(ref to, at) = (byte)(Unsafe.Add(ref from, at) ^ (byte)key);
            key = BitOperations.RotateRight(key, 8);
        }
    }
}
