using System.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// Received data that the session has not consumed, joined. Rented memory while there is any, otherwise none. Owned by
/// one connection. The data is moved to the front only if there is no space after it.
/// </summary>
internal struct UnreadStore
{
    private byte[]? _buffer;
    private int _start;
    private int _end;

    internal readonly int Length => _end - _start;

    internal readonly ReadOnlySpan<byte> Span => new(_buffer, _start, _end - _start);

    internal void Append(ReadOnlySpan<byte> data)
    {
        if (data.IsEmpty) return;
        int length = Length;
        if (_buffer is null || _buffer.Length - _end < data.Length)
        {
            int needed = checked(length + data.Length);
            if (_buffer is not null && needed <= _buffer.Length && _start >= length)
            {
                Buffer.BlockCopy(_buffer, _start, _buffer, 0, length);
            }
            else
            {
                // Doubling keeps the total number of copied bytes linear in the number of received ones.
                byte[] larger = ArrayPool<byte>.Shared.Rent(Math.Max(needed, Math.Min(length * 2, 1 << 30)));
                Span.CopyTo(larger);
                if (_buffer is not null) ArrayPool<byte>.Shared.Return(_buffer);
                _buffer = larger;
            }

            _start = 0;
            _end = length;
        }

        data.CopyTo(_buffer.AsSpan(_end));
        _end += data.Length;
    }

    internal void Consume(int count)
    {
        _start += count;
        if (_start == _end) Clear();
    }

    internal void Clear()
    {
        if (_buffer is not null) ArrayPool<byte>.Shared.Return(_buffer);
        _buffer = null;
        _start = 0;
        _end = 0;
    }
}
