using System.Buffers;

namespace Whimbrel.Engines.Portable;

/// <summary>Shows a stretch of native memory to an API that wants <see cref="Memory{T}"/>. Reused: it points at one stretch at a time.</summary>
// Safe: the stretch is a queued block, and whoever points this at it keeps the block until the operation has completed.
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

    // Native memory does not move: there is nothing to pin and nothing to let go.
    public override MemoryHandle Pin(int elementIndex = 0) => new(_start + elementIndex);

    public override void Unpin()
    {
    }

    protected override void Dispose(bool disposing)
    {
    }
}
