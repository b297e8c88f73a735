using System.Buffers.Binary;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// The numbered message of 32 bytes that push and multicast servers send; bench/README.md defines it.
/// </summary>
internal static class Message
{
    public const int Size = 32;

    public static void Write(Span<byte> to, ulong sequence)
    {
        BinaryPrimitives.WriteUInt64LittleEndian(to, sequence);
        for (var k = 0; k < 3; k++)
        {
            BinaryPrimitives.WriteUInt64LittleEndian(to[(8 * (k + 1))..],
                Mix(sequence ^ (0x9E3779B97F4A7C15 * (ulong)(k + 1))));
        }
    }

    private static ulong Mix(ulong z)
    {
        z ^= z >> 30;
        z *= 0xBF58476D1CE4E5B9;
        z ^= z >> 27;
        z *= 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }
}
