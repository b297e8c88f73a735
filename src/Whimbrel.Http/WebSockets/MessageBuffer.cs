using System.Buffers;
using System.Diagnostics;

namespace Whimbrel.Http.WebSockets;

/// <summary>Bytes of a message, in an array of the shared pool. One owner; when empty it holds no array.</summary>
/// <remarks>It grows with the received bytes, not with the announced length: by doubling, so that a byte is copied at
/// most twice on average.</remarks>
internal struct MessageBuffer
{
    private const int LeastBytes = 1024;

    private byte[]? _bytes;

    /// <summary>Number of bytes.</summary>
    internal int Length { get; private set; }

    internal readonly Span<byte> Span => _bytes.AsSpan(0, Length);

    internal readonly Memory<byte> Memory => _bytes.AsMemory(0, Length);

    /// <summary>Free memory after the bytes, to be filled later.</summary>
    internal readonly Memory<byte> FreeMemory => _bytes.AsMemory(Length);

    /// <summary>Returns free room after the bytes.</summary>
    /// <param name="least">Number of bytes needed now, 1 or more.</param>
    internal Span<byte> Room(int least)
    {
        Debug.Assert(least > 0 && Length <= Array.MaxLength - least, "limits are checked before room is asked for");
        if (_bytes is null || _bytes.Length - Length < least) Grow(least);
        return _bytes.AsSpan(Length);
    }

    /// <summary>Adds bytes that were written into the room.</summary>
    internal void Advance(int count)
    {
        Debug.Assert(_bytes is not null && count <= _bytes.Length - Length, "no more than there was room");
        Length += count;
    }

    /// <summary>Removes the last bytes.</summary>
    internal void Cut(int count) => Length -= count;

    internal void Append(ReadOnlySpan<byte> data)
    {
        if (data.IsEmpty) return;
        data.CopyTo(Room(data.Length));
        Advance(data.Length);
    }

    /// <summary>Drops the bytes, and returns the array to the pool.</summary>
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
