using System.Buffers.Binary;

namespace Whimbrel;

// Incompressible bytes, reproducible by seed, with values that depend on their offset. Random with a seed produces one
// byte at a time, which is too slow for gigabytes.
internal static class Noise
{
    internal static void Fill(Span<byte> bytes, int seed)
    {
        // SplitMix64 produces eight bytes per step.
        Span<byte> step = stackalloc byte[sizeof(ulong)];
        ulong state = (uint)seed;
        for (int at = 0; at < bytes.Length; at += step.Length)
        {
            state += 0x9E3779B97F4A7C15;
            ulong mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
            mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
            BinaryPrimitives.WriteUInt64LittleEndian(step, mixed ^ (mixed >> 31));
            step[..Math.Min(step.Length, bytes.Length - at)].CopyTo(bytes[at..]);
        }
    }
}
