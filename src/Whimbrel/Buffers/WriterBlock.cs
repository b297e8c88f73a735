using System.Buffers;

namespace Whimbrel.Buffers;

/// <summary>
/// A stretch of a message that a <see cref="MessageWriter"/> writes. Owner: the writer; then the send queue. Managed
/// memory, never a loop's, so that late writes of the application reach no queue of a loop.
/// </summary>
internal sealed class WriterBlock : ReadOnlySequenceSegment<byte>, IMemoryOwner<byte>
{
    /// <summary>Size of the block for small messages, and of the blocks of a long message.</summary>
    internal const int Capacity = 32 * 1024;

    private readonly byte[]? _own;

    /// <param name="own">Its permanent memory, or null: each use then rents memory.</param>
    internal WriterBlock(byte[]? own)
    {
        _own = own;
        Bytes = own ?? [];
    }

    internal byte[] Bytes { get; private set; }

    /// <summary>Number of bytes written, from the start.</summary>
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

    /// <summary>Sets its position, for reading the message as a sequence.</summary>
    internal void SetPlace(long runningIndex)
    {
        Memory = Bytes.AsMemory(0, Length);
        RunningIndex = runningIndex;
    }

    /// <summary>Returns it, and the blocks that follow it. Any thread.</summary>
    public void Dispose() => WriterBlocks.Return(this);
}
