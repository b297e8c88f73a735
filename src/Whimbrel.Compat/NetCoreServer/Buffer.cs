using System.Text;

namespace NetCoreServer;

/// <summary>Growing byte buffer with an offset. One owner, one thread at a time.</summary>
public class Buffer
{
    private byte[] _data;
    private int _size;
    private int _offset;

    /// <summary>Creates an empty buffer.</summary>
    public Buffer() => _data = [];

    /// <summary>Creates an empty buffer with a capacity.</summary>
    /// <param name="capacity">Number of bytes, at least 0.</param>
    public Buffer(long capacity) => _data = new byte[Count(capacity, nameof(capacity))];

    /// <summary>Creates a buffer over an array, which it uses as its own.</summary>
    /// <param name="data">Contents. The buffer takes ownership.</param>
    public Buffer(byte[] data)
    {
        ArgumentNullException.ThrowIfNull(data);
        _data = data;
        _size = data.Length;
    }

    /// <summary>True if the buffer is empty.</summary>
    public bool IsEmpty => _size == 0;

    /// <summary>Underlying array. Only its first <see cref="Size"/> bytes are valid. It is replaced when the buffer
    /// grows.</summary>
    public byte[] Data => _data;

    /// <summary>Number of bytes that fit without growing.</summary>
    public long Capacity => _data.Length;

    /// <summary>Number of bytes in the buffer.</summary>
    public long Size => _size;

    /// <summary>Current offset.</summary>
    public long Offset => _offset;

    /// <summary>Byte at an index.</summary>
    /// <param name="index">From 0 up to <see cref="Capacity"/>, exclusive.</param>
    public byte this[long index] => _data[index];

    /// <summary>Returns the contents from the offset on. Valid until the buffer changes.</summary>
    public Span<byte> AsSpan() => _data.AsSpan(_offset, _size - _offset);

    /// <summary>Returns all contents as UTF-8 text.</summary>
    public override string ToString() => ExtractString(0, _size);

    /// <summary>Removes the contents and keeps the capacity.</summary>
    public void Clear() => _size = _offset = 0;

    /// <summary>Returns a part as UTF-8 text.</summary>
    /// <param name="offset">Offset of the first byte.</param>
    /// <param name="size">Number of bytes.</param>
    /// <exception cref="ArgumentException">The part is not inside the buffer.</exception>
    public string ExtractString(long offset, long size)
    {
        CheckPart(offset, size);
        return Encoding.UTF8.GetString(_data, (int)offset, (int)size);
    }

    /// <summary>Removes a part. Later bytes and the offset move forward.</summary>
    /// <param name="offset">Offset of the first byte.</param>
    /// <param name="size">Number of bytes.</param>
    /// <exception cref="ArgumentException">The part is not inside the buffer.</exception>
    public void Remove(long offset, long size)
    {
        CheckPart(offset, size);
        int from = (int)offset, end = (int)(offset + size);
        _data.AsSpan(end, _size - end).CopyTo(_data.AsSpan(from));
        _size -= end - from;
        if (_offset >= end) _offset -= end - from;
        else if (_offset > from) _offset = from;
    }

    /// <summary>Ensures a capacity; a growing buffer at least doubles.</summary>
    /// <param name="capacity">Number of bytes in total.</param>
    /// <exception cref="ArgumentException">The number is negative or larger than an array can be.</exception>
    public void Reserve(long capacity)
    {
        int wanted = Count(capacity, nameof(capacity));
        if (wanted > _data.Length)
            Array.Resize(ref _data, (int)Math.Min(Math.Max(wanted, 2L * _data.Length), Array.MaxLength));
    }

    /// <summary>Sets the size. New bytes are undefined.</summary>
    /// <param name="size">Number of bytes, at least 0.</param>
    public void Resize(long size)
    {
        Reserve(size);
        _size = (int)size;
        _offset = Math.Min(_offset, _size);
    }

    /// <summary>Moves the offset forward.</summary>
    /// <param name="offset">Number of bytes, not past the end.</param>
    /// <exception cref="ArgumentException">The new offset would be outside the contents.</exception>
    public void Shift(long offset) => MoveTo(_offset + offset);

    /// <summary>Moves the offset back.</summary>
    /// <param name="offset">Number of bytes, not before the beginning.</param>
    /// <exception cref="ArgumentException">The new offset would be outside the contents.</exception>
    public void Unshift(long offset) => MoveTo(_offset - offset);

    /// <summary>Appends one byte.</summary>
    /// <param name="value">Byte to append.</param>
    /// <returns>1.</returns>
    public long Append(byte value)
    {
        Reserve(_size + 1L);
        _data[_size++] = value;
        return 1;
    }

    /// <summary>Appends a copy of an array.</summary>
    /// <param name="buffer">Bytes to append.</param>
    /// <returns>Number of bytes appended.</returns>
    public long Append(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Append(buffer.AsSpan());
    }

    /// <summary>Appends a copy of a part of an array.</summary>
    /// <param name="buffer">Array with the bytes.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="size">Number of bytes.</param>
    /// <returns>Number of bytes appended.</returns>
    public long Append(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        if ((ulong)offset > (ulong)buffer.Length || (ulong)size > (ulong)(buffer.Length - offset))
            throw new ArgumentException("The part is not all in the array.", nameof(size));
        return Append(buffer.AsSpan((int)offset, (int)size));
    }

    /// <summary>Appends a copy of a span.</summary>
    /// <param name="buffer">Bytes to append.</param>
    /// <returns>Number of bytes appended.</returns>
    public long Append(ReadOnlySpan<byte> buffer)
    {
        Reserve((long)_size + buffer.Length);
        buffer.CopyTo(_data.AsSpan(_size));
        _size += buffer.Length;
        return buffer.Length;
    }

    /// <summary>Appends the contents of another buffer, from its offset on.</summary>
    /// <param name="buffer">Other buffer.</param>
    /// <returns>Number of bytes appended.</returns>
    public long Append(Buffer buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Append(buffer.AsSpan());
    }

    /// <summary>Appends text as UTF-8.</summary>
    /// <param name="text">Text to append.</param>
    /// <returns>Number of bytes appended.</returns>
    public long Append(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Append(text.AsSpan());
    }

    /// <summary>Appends text as UTF-8.</summary>
    /// <param name="text">Text to append.</param>
    /// <returns>Number of bytes appended.</returns>
    public long Append(ReadOnlySpan<char> text)
    {
        Reserve((long)_size + Encoding.UTF8.GetMaxByteCount(text.Length));
        int length = Encoding.UTF8.GetBytes(text, _data.AsSpan(_size));
        _size += length;
        return length;
    }

    private static int Count(long bytes, string name)
    {
        if (bytes < 0 || bytes > Array.MaxLength)
            throw new ArgumentException($"A buffer has 0 up to {Array.MaxLength} bytes.", name);
        return (int)bytes;
    }

    private void CheckPart(long offset, long size)
    {
        if ((ulong)offset > (ulong)_size || (ulong)size > (ulong)(_size - offset))
            throw new ArgumentException("The part is not all in the buffer.", nameof(size));
    }

    private void MoveTo(long offset)
    {
        if ((ulong)offset > (ulong)_size)
            throw new ArgumentException("The offset lies between the beginning and the end of what is there.",
                nameof(offset));
        _offset = (int)offset;
    }
}
