using System.Runtime.InteropServices;

namespace Whimbrel.Buffers;

/// <summary>
/// A growing heap of native bytes that is emptied as a whole, for messages of other threads in a mailbox. Each message
/// is contiguous. It grows by chunks, each as large as all previous ones, so that nothing is copied twice. It keeps
/// <see cref="KeptBytes"/> when it is emptied. Synchronized by its mailbox.
/// </summary>
internal sealed unsafe class ByteArena
{
    internal const int KeptBytes = 512 * 1024;

    private const int FirstBytes = 64 * 1024;
    private const int MostBytes = 1024 * 1024;

    private Chunk[] _chunks = new Chunk[4];
    private int _count;
    private int _current;

    /// <summary>Size of its memory.</summary>
    internal long Capacity { get; private set; }

    /// <summary>Copies both parts, one after the other.</summary>
    /// <returns>Position of the copy: directly after the previous one, if it is in the same chunk.</returns>
    // Safe: the size of a chunk is checked before the copy; positions are used only until Reset, by the loop that
    // drains this arena.
    internal (int Chunk, int Offset) Append(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = checked(head.Length + body.Length);
        while (_current < _count && _chunks[_current].Capacity - _chunks[_current].Length < length) _current++;
        if (_current == _count) AddChunk(length);
        ref Chunk chunk = ref _chunks[_current];
        int offset = chunk.Length;
        head.CopyTo(new Span<byte>(chunk.Memory + offset, head.Length));
        body.CopyTo(new Span<byte>(chunk.Memory + offset + head.Length, body.Length));
        chunk.Length += length;
        return (_current, offset);
    }

    private void AddChunk(int length)
    {
        if (_count == _chunks.Length) Array.Resize(ref _chunks, _count * 2);
        int capacity = Math.Max(length, (int)Math.Clamp(Capacity, FirstBytes, MostBytes));
        _chunks[_count++] = new Chunk { Memory = (byte*)NativeMemory.Alloc((nuint)capacity), Capacity = capacity };
        Capacity += capacity;
    }

    internal ReadOnlySpan<byte> Slice(int chunk, int offset, int length) => new(_chunks[chunk].Memory + offset, length);

    internal void Reset() => Empty(KeptBytes);

    internal void Free() => Empty(0);

    private void Empty(int most)
    {
        int kept = 0;
        Capacity = 0;
        for (int i = 0; i < _count; i++)
        {
            Chunk chunk = _chunks[i];
            if (Capacity + chunk.Capacity > most)
            {
                NativeMemory.Free(chunk.Memory);
                continue;
            }

            Capacity += chunk.Capacity;
            chunk.Length = 0;
            _chunks[kept++] = chunk;
        }

        _chunks.AsSpan(kept, _count - kept).Clear();
        _count = kept;
        _current = 0;
    }

    private struct Chunk
    {
        internal byte* Memory;
        internal int Capacity;
        internal int Length;
    }
}
