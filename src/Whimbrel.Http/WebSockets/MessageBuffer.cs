using System.Buffers;
using System.Diagnostics;

namespace Whimbrel.Http.WebSockets;

/// <summary>Bytes of a message that is put together, in an array of the shared pool. One owner; empty it holds nothing.</summary>
/// <remarks>It grows with what has come, and not with what was announced: twice what is there, so that a byte is copied twice at most on average.</remarks>
internal struct MessageBuffer
{
    private const int LeastBytes = 1024;

    private byte[]? _bytes;

    /// <summary>Bytes that are there.</summary>
    internal int Length { get; private set; }

    internal readonly Span<byte> Span => _bytes.AsSpan(0, Length);

    internal readonly Memory<byte> Memory => _bytes.AsMemory(0, Length);

    /// <summary>The same room as memory, for who fills it later: all that there is behind the bytes.</summary>
    internal readonly Memory<byte> FreeMemory => _bytes.AsMemory(Length);

    /// <summary>Room behind what is there.</summary>
    /// <param name="least">Bytes that are needed now, 1 or more.</param>
    internal Span<byte> Room(int least)
    {
        Debug.Assert(least > 0 && Length <= Array.MaxLength - least, "limits are checked before room is asked for");
        if (_bytes is null || _bytes.Length - Length < least) Grow(least);
        return _bytes.AsSpan(Length);
    }

    /// <summary>So many bytes of the room were written.</summary>
    internal void Advance(int count)
    {
        Debug.Assert(_bytes is not null && count <= _bytes.Length - Length, "no more than there was room");
        Length += count;
    }

    /// <summary>Leaves out the last bytes.</summary>
    internal void Cut(int count) => Length -= count;

    internal void Append(ReadOnlySpan<byte> data)
    {
        if (data.IsEmpty) return;
        data.CopyTo(Room(data.Length));
        Advance(data.Length);
    }

    /// <summary>Forgets the bytes and gives the array back.</summary>
    internal void Release()
    {
        if (_bytes is { } bytes) ArrayPool<byte>.Shared.Return(bytes);
        _bytes = null;
        Length = 0;
    }

    private void Grow(int least)
    {
        int wanted = (int)Math.Min(Math.Max(Math.Max(2L * Length, (long)Length + least), LeastBytes), Array.MaxLength);
        byte[] larger = ArrayPool<byte>.Shared.Rent(wanted);
        Span.CopyTo(larger);
        if (_bytes is { } old) ArrayPool<byte>.Shared.Return(old);
        _bytes = larger;
    }
}
