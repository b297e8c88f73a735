using System.Buffers;

namespace Whimbrel.Engines.Portable;

/// <summary>
/// Presents a range of native memory to an API that takes <see cref="Memory{T}"/>. Reused for one range at a time.
/// </summary>
// Safe: the range is a queued block, which the caller keeps until the operation has completed.
internal sealed unsafe class BlockMemory : MemoryManager<byte>
{
    private byte* _start;
    private int _length;

    internal Memory<byte> Over(byte* start, int length)
    {
        _start = start;
        _length = length;
        return Memory;
    }

    public override Span<byte> GetSpan() => new(_start, _length);

    // Native memory does not move: there is nothing to pin or unpin.
    public override MemoryHandle Pin(int elementIndex = 0) => new(_start + elementIndex);

    public override void Unpin()
    {
    }

    protected override void Dispose(bool disposing)
    {
    }
}
