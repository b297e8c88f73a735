using System.Buffers.Binary;

namespace Whimbrel.Tool;

/// <summary>
/// The messages of <c>serve push</c>: a sequence number, then three words derived from it, so that a client can detect
/// mixed bytes of two messages; zeros up to the size. All little-endian.
/// </summary>
internal static class PushMessage
{
    internal const int MinSize = 32;

    internal static void Write(Span<byte> message, ulong sequence)
    {
        BinaryPrimitives.WriteUInt64LittleEndian(message, sequence);
        BinaryPrimitives.WriteUInt64LittleEndian(message[8..], Word(sequence, 0));
        BinaryPrimitives.WriteUInt64LittleEndian(message[16..], Word(sequence, 1));
        BinaryPrimitives.WriteUInt64LittleEndian(message[24..], Word(sequence, 2));
    }

    /// <summary>Reads the number of a message from <see cref="Write"/>. False for other bytes.</summary>
    internal static bool TryRead(ReadOnlySpan<byte> message, out ulong sequence)
    {
        sequence = message.Length >= MinSize ? BinaryPrimitives.ReadUInt64LittleEndian(message) : 0;
        return message.Length >= MinSize
            && BinaryPrimitives.ReadUInt64LittleEndian(message[8..]) == Word(sequence, 0)
            && BinaryPrimitives.ReadUInt64LittleEndian(message[16..]) == Word(sequence, 1)
            && BinaryPrimitives.ReadUInt64LittleEndian(message[24..]) == Word(sequence, 2);
    }

    private static ulong Word(ulong sequence, ulong index) => Mix(sequence ^ (0x9E3779B97F4A7C15 * (index + 1)));

    // The finaliser of splitmix64.
    private static ulong Mix(ulong z)
    {
        z ^= z >> 30;
        z *= 0xBF58476D1CE4E5B9;
        z ^= z >> 27;
        z *= 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }
}
