using System.Buffers;
using Whimbrel.Buffers;

namespace Whimbrel.Streams;

/// <summary>A stretch of the bytes of a <see cref="ConnectionPipe"/>, in rented memory. Owner: the reader or the writer of the pipe, which gives it back.</summary>
internal sealed class PipeSegment : ReadOnlySequenceSegment<byte>
{
    private byte[] _bytes = [];

    /// <summary>Bytes written, from the start.</summary>
    internal int Length { get; private set; }

    internal Memory<byte> Room => _bytes.AsMemory(Length);

    internal Span<byte> RoomSpan => _bytes.AsSpan(Length);

    internal int RoomLength => _bytes.Length - Length;

    internal PipeSegment? NextSegment => (PipeSegment?)Next;

    /// <summary>So much room at least: of the loop's small blocks, or rented when it is more.</summary>
    internal void Rent(SmallBlocks small, int least, long index)
    {
        _bytes = least <= SmallBlocks.Length ? small.Take() : ArrayPool<byte>.Shared.Rent(least);
        RunningIndex = index;
        Next = null;
    }

    /// <summary>So many bytes more are written. One thread at a time; who reads sees them by the next sequence it is given.</summary>
    internal void Advance(int count)
    {
        Length += count;
        Memory = _bytes.AsMemory(0, Length);
    }

    internal void Append(PipeSegment next) => Next = next;

    /// <summary>Gives its memory back; the object may be used again, and stands in front of <paramref name="next"/> until then.</summary>
    internal void GiveBack(SmallBlocks small, PipeSegment? next)
    {
        // What was rented is longer.
        if (_bytes.Length == SmallBlocks.Length) small.Return(_bytes);
        else ArrayPool<byte>.Shared.Return(_bytes);
        _bytes = [];
        Length = 0;
        Memory = default;
        Next = next;
        RunningIndex = long.MinValue; // a position in it is none any more
    }
}
