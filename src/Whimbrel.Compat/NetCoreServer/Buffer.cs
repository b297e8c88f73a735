using System.Text;

namespace NetCoreServer;

/// <summary>Bytes that grow at their end, with an offset that their user moves. One owner, one thread at a time.</summary>
public class Buffer
{
    private byte[] _data;
    private int _size;
    private int _offset;

    /// <summary>Makes an empty one.</summary>
    public Buffer() => _data = [];

    /// <summary>Makes an empty one with room.</summary>
    /// <param name="capacity">Bytes, 0 and more.</param>
    public Buffer(long capacity) => _data = new byte[Count(capacity, nameof(capacity))];

    /// <summary>Takes an array over, full.</summary>
    /// <param name="data">Becomes the buffer's own.</param>
    public Buffer(byte[] data)
    {
        ArgumentNullException.ThrowIfNull(data);
        _data = data;
        _size = data.Length;
    }

    /// <summary>Whether nothing is in it.</summary>
    public bool IsEmpty => _size == 0;

    /// <summary>The array itself. Only its first <see cref="Size"/> bytes mean something; another one is there after it has grown.</summary>
    public byte[] Data => _data;

    /// <summary>Bytes that it can hold without growing.</summary>
    public long Capacity => _data.Length;

    /// <summary>Bytes that are in it.</summary>
    public long Size => _size;

    /// <summary>What was shifted.</summary>
    public long Offset => _offset;

    /// <summary>One byte.</summary>
    /// <param name="index">0 up to <see cref="Capacity"/>.</param>
    public byte this[long index] => _data[index];

    /// <summary>What is in it, from the offset on. Valid until it is changed.</summary>
    public Span<byte> AsSpan() => _data.AsSpan(_offset, _size - _offset);

    /// <summary>Everything as UTF-8.</summary>
    public override string ToString() => ExtractString(0, _size);

    /// <summary>Forgets everything; the room stays.</summary>
    public void Clear() => _size = _offset = 0;

    /// <summary>A part as UTF-8.</summary>
    /// <param name="offset">Where it begins.</param>
    /// <param name="size">How many bytes it has.</param>
    /// <exception cref="ArgumentException">It is not all there.</exception>
    public string ExtractString(long offset, long size)
    {
        CheckPart(offset, size);
        return Encoding.UTF8.GetString(_data, (int)offset, (int)size);
    }

    /// <summary>Takes a part out; what follows moves forward, and the offset with it.</summary>
    /// <param name="offset">Where it begins.</param>
    /// <param name="size">How many bytes it has.</param>
    /// <exception cref="ArgumentException">It is not all there.</exception>
    public void Remove(long offset, long size)
    {
        CheckPart(offset, size);
        int from = (int)offset, end = (int)(offset + size);
        _data.AsSpan(end, _size - end).CopyTo(_data.AsSpan(from));
        _size -= end - from;
        if (_offset >= end) _offset -= end - from;
        else if (_offset > from) _offset = from;
    }

    /// <summary>Makes room: at least twice what there was, when it must grow.</summary>
    /// <param name="capacity">Bytes in all.</param>
    /// <exception cref="ArgumentException">Less than nothing, or more than an array can have.</exception>
    public void Reserve(long capacity)
    {
        int wanted = Count(capacity, nameof(capacity));
        if (wanted > _data.Length) Array.Resize(ref _data, (int)Math.Min(Math.Max(wanted, 2L * _data.Length), Array.MaxLength));
    }

    /// <summary>Sets how many bytes are in it. New ones have any value.</summary>
    /// <param name="size">0 and more.</param>
    public void Resize(long size)
    {
        Reserve(size);
        _size = (int)size;
        _offset = Math.Min(_offset, _size);
    }

    /// <summary>Moves the offset on.</summary>
    /// <param name="offset">Bytes; not beyond the end.</param>
    /// <exception cref="ArgumentException">It would leave what is there.</exception>
    public void Shift(long offset) => MoveTo(_offset + offset);

    /// <summary>Moves the offset back.</summary>
    /// <param name="offset">Bytes; not before the beginning.</param>
    /// <exception cref="ArgumentException">It would leave what is there.</exception>
    public void Unshift(long offset) => MoveTo(_offset - offset);

    /// <summary>Adds one byte.</summary>
    /// <param name="value">The byte.</param>
    /// <returns>1.</returns>
    public long Append(byte value)
    {
        Reserve(_size + 1L);
        _data[_size++] = value;
        return 1;
    }

    /// <summary>Adds a copy.</summary>
    /// <param name="buffer">The bytes.</param>
    /// <returns>How many were added.</returns>
    public long Append(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Append(buffer.AsSpan());
    }

    /// <summary>Adds a copy of a part.</summary>
    /// <param name="buffer">The bytes.</param>
    /// <param name="offset">Where the part begins.</param>
    /// <param name="size">How many bytes it has.</param>
    /// <returns>How many were added.</returns>
    public long Append(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        if ((ulong)offset > (ulong)buffer.Length || (ulong)size > (ulong)(buffer.Length - offset)) throw new ArgumentException("The part is not all in the array.", nameof(size));
        return Append(buffer.AsSpan((int)offset, (int)size));
    }

    /// <summary>Adds a copy.</summary>
    /// <param name="buffer">The bytes.</param>
    /// <returns>How many were added.</returns>
    public long Append(ReadOnlySpan<byte> buffer)
    {
        Reserve((long)_size + buffer.Length);
        buffer.CopyTo(_data.AsSpan(_size));
        _size += buffer.Length;
        return buffer.Length;
    }

    /// <summary>Adds what another has, from its offset on.</summary>
    /// <param name="buffer">The other.</param>
    /// <returns>How many were added.</returns>
    public long Append(Buffer buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Append(buffer.AsSpan());
    }

    /// <summary>Adds text as UTF-8.</summary>
    /// <param name="text">The text.</param>
    /// <returns>How many bytes were added.</returns>
    public long Append(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Append(text.AsSpan());
    }

    /// <summary>Adds text as UTF-8.</summary>
    /// <param name="text">The text.</param>
    /// <returns>How many bytes were added.</returns>
    public long Append(ReadOnlySpan<char> text)
    {
        Reserve((long)_size + Encoding.UTF8.GetMaxByteCount(text.Length));
        int length = Encoding.UTF8.GetBytes(text, _data.AsSpan(_size));
        _size += length;
        return length;
    }

    private static int Count(long bytes, string name)
    {
        if (bytes < 0 || bytes > Array.MaxLength) throw new ArgumentException($"A buffer has 0 up to {Array.MaxLength} bytes.", name);
        return (int)bytes;
    }

    private void CheckPart(long offset, long size)
    {
        if ((ulong)offset > (ulong)_size || (ulong)size > (ulong)(_size - offset)) throw new ArgumentException("The part is not all in the buffer.", nameof(size));
    }

    private void MoveTo(long offset)
    {
        if ((ulong)offset > (ulong)_size) throw new ArgumentException("The offset lies between the beginning and the end of what is there.", nameof(offset));
        _offset = (int)offset;
    }
}
