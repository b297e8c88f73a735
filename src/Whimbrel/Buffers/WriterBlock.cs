using System.Buffers;

namespace Whimbrel.Buffers;

/// <summary>
/// A stretch of a message that a <see cref="MessageWriter"/> writes. Owner: the writer; then the send queue that the message was given to.
/// Memory of the collector's, never a loop's: whoever writes too late reaches no queue by it.
/// </summary>
internal sealed class WriterBlock : ReadOnlySequenceSegment<byte>, IMemoryOwner<byte>
{
    /// <summary>What small messages are joined in, and what a long one is a row of.</summary>
    internal const int Capacity = 32 * 1024;

    private readonly byte[]? _own;

    /// <param name="own">Its memory for good, or null: each use rents what it needs.</param>
    internal WriterBlock(byte[]? own)
    {
        _own = own;
        Bytes = own ?? [];
    }

    internal byte[] Bytes { get; private set; }

    /// <summary>Bytes written, from the start.</summary>
    internal int Length { get; set; }

    internal bool IsRented => _own is null;

    internal WriterBlock? NextBlock
    {
        get => (WriterBlock?)Next;
        set => Next = value;
    }

    internal ReadOnlySpan<byte> Written => Bytes.AsSpan(0, Length);

    Memory<byte> IMemoryOwner<byte>.Memory => Bytes.AsMemory(0, Length);

    internal void Rent(int length) => Bytes = ArrayPool<byte>.Shared.Rent(length);

    internal void GiveBackRented()
    {
        ArrayPool<byte>.Shared.Return(Bytes);
        Bytes = [];
    }

    /// <summary>For who reads the message as a sequence.</summary>
    internal void SetPlace(long runningIndex)
    {
        Memory = Bytes.AsMemory(0, Length);
        RunningIndex = runningIndex;
    }

    /// <summary>Gives it back, and those that still hang behind it. Any thread.</summary>
    public void Dispose() => WriterBlocks.Return(this);
}
