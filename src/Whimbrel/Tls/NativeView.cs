using System.Buffers;

namespace Whimbrel.Tls;

/// <summary>
/// Presents native or pinned memory as Memory, for APIs that accept nothing else, without an object per use. Owner: a
/// loop's <see cref="TlsScratch"/>.
/// </summary>
// Safe: shown only while the owner of the memory is on the stack; then hidden again.
internal sealed unsafe class NativeView : MemoryManager<byte>
{
    private byte* _pointer;
    private int _length;

    internal void Show(byte* pointer, int length)
    {
        _pointer = pointer;
        _length = length;
    }

    internal void Hide() => Show(null, 0);

    public override Memory<byte> Memory => CreateMemory(_length);

    public override Span<byte> GetSpan() => new(_pointer, _length);

    public override MemoryHandle Pin(int elementIndex = 0) => new(_pointer + elementIndex);

    public override void Unpin()
    {
    }

    protected override void Dispose(bool disposing)
    {
    }
}
