using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>One piece of a sequence.</summary>
public sealed class PieceSegment : ReadOnlySequenceSegment<byte>
{
    /// <summary>Shortens the piece, as a user that continues to use its pieces.</summary>
    public void Cut(int length) => Memory = Memory[..length];

    /// <summary>A sequence of exactly these pieces, including empty ones.</summary>
    public static ReadOnlySequence<byte> Join(params ReadOnlySpan<ReadOnlyMemory<byte>> pieces)
    {
        PieceSegment first = new() { Memory = pieces[0] };
        PieceSegment last = first;
        foreach (ReadOnlyMemory<byte> piece in pieces[1..])
        {
            PieceSegment next = new() { Memory = piece, RunningIndex = last.RunningIndex + last.Memory.Length };
            last.Next = next;
            last = next;
        }

        return new ReadOnlySequence<byte>(first, 0, last, last.Memory.Length);
    }
}
