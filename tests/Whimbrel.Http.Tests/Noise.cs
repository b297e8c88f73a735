using System.Buffers.Binary;

namespace Whimbrel.Http.Tests;

// Bytes that nothing compresses, the same for the same seed. Random with a seed makes one byte at a time, and tests want gigabytes.
internal static class Noise
{
    internal static void Fill(Span<byte> bytes, int seed)
    {
        ulong state = (ulong)seed * 0x9E3779B97F4A7C15;
        while (bytes.Length >= sizeof(ulong))
        {
            BinaryPrimitives.WriteUInt64LittleEndian(bytes, Next(ref state));
            bytes = bytes[sizeof(ulong)..];
        }

        for (int i = 0; i < bytes.Length; i++) bytes[i] = (byte)Next(ref state);
    }

    // SplitMix64.
    private static ulong Next(ref ulong state)
    {
        ulong x = state += 0x9E3779B97F4A7C15;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
        return x ^ (x >> 31);
    }
}
