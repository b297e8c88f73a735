using System.Runtime.InteropServices;

namespace Whimbrel.Buffers;

/// <summary>
/// A growing run of native bytes, emptied as a whole: where messages from other threads wait in a mailbox.
/// Doubles when full, shrinks to the start size when it was emptied after having grown. Its mailbox guards it.
/// </summary>
internal sealed unsafe class ByteArena
{
    private const int StartBytes = 16 * 1024;

    private byte* _memory;
    private int _capacity;

    internal int Length { get; private set; }

    // Safe: grows before it copies; offsets are used only until Reset, by the loop that drains this arena.
    internal int Append(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int offset = Length;
        int needed = checked(offset + head.Length + body.Length);
        if (needed > _capacity)
        {
            int capacity = Math.Max(StartBytes, _capacity);
            while (capacity < needed) capacity = checked(capacity * 2);
            _memory = (byte*)NativeMemory.Realloc(_memory, (nuint)capacity);
            _capacity = capacity;
        }

        head.CopyTo(new Span<byte>(_memory + offset, head.Length));
        body.CopyTo(new Span<byte>(_memory + offset + head.Length, body.Length));
        Length = needed;
        return offset;
    }

    internal ReadOnlySpan<byte> Slice(int offset, int length) => new(_memory + offset, length);

    internal void Reset()
    {
        Length = 0;
        if (_capacity > 16 * StartBytes) Free();
    }

    internal void Free()
    {
        NativeMemory.Free(_memory);
        _memory = null;
        _capacity = 0;
        Length = 0;
    }
}
