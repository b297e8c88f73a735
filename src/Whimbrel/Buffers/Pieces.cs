using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.InteropServices;
using Whimbrel.Diagnostics;

namespace Whimbrel.Buffers;

/// <summary>
/// The pieces of one message. Each is read once, and up to 16 are stored, so that the application cannot change them
/// between the count and the copy. Empty pieces are omitted.
/// </summary>
internal readonly ref struct Pieces
{
    /// <summary>Maximum number of stored pieces; more are joined by a copy first.</summary>
    internal const int MostInRow = 16;

    private readonly ReadOnlySpan<ReadOnlyMemory<byte>> _first;
    private readonly ReadOnlySequence<byte> _rest;
    private readonly MemoryRow _row;

    internal Pieces(ReadOnlySpan<ReadOnlyMemory<byte>> first, in ReadOnlySequence<byte> rest)
    {
        _first = first;
        _rest = rest;
        int count = 0;
        foreach (ReadOnlyMemory<byte> piece in first)
        {
            if (piece.IsEmpty) continue;
            if (count < MostInRow) _row[count] = piece;
            count++;
            Length += piece.Length;
            AsksUser |= IsOfUser(piece);
        }

        foreach (ReadOnlyMemory<byte> piece in rest)
        {
            if (piece.IsEmpty) continue;
            if (count < MostInRow) _row[count] = piece;
            count++;
            Length += piece.Length;
            AsksUser |= IsOfUser(piece);
        }

        Count = count;
    }

    /// <summary>Total number of bytes.</summary>
    internal long Length { get; }

    internal int Count { get; }

    /// <summary>True if the span of a piece comes from user code, which may throw or send.</summary>
    internal bool AsksUser { get; }

    /// <summary>True if all pieces are stored.</summary>
    internal bool IsWhole => Count <= MostInRow;

    internal ReadOnlyMemory<byte> this[int index] => _row[index];

    /// <summary>Returns the number of bytes in the segments, ignoring their running indexes.</summary>
    internal static long LengthOf(in ReadOnlySequence<byte> sequence)
    {
        if (sequence.IsSingleSegment) return sequence.First.Length;
        long length = 0;
        foreach (ReadOnlyMemory<byte> piece in sequence) length += piece.Length;
        return length;
    }

    /// <summary>Copies all pieces from their original memory.</summary>
    internal void CopyTo(Span<byte> target)
    {
        int copied = 0;
        foreach (ReadOnlyMemory<byte> piece in _first) copied += Copy(piece, target[copied..]);
        foreach (ReadOnlyMemory<byte> piece in _rest) copied += Copy(piece, target[copied..]);
        if (copied != Length) Changed();
    }

    private static int Copy(ReadOnlyMemory<byte> piece, Span<byte> target)
    {
        piece.Span.CopyTo(target);
        return piece.Length;
    }

    private static bool IsOfUser(ReadOnlyMemory<byte> piece) =>
        MemoryMarshal.TryGetMemoryManager<byte, MemoryManager<byte>>(piece, out _);

    [DoesNotReturn]
    internal static void Changed() => Throw.State("The pieces of a message were changed while it was sent. They must "
        + "stay as they are until Send returns, or SendAsync completes.");
}
