using System.Buffers;
using System.Text;

namespace Whimbrel.Buffers;

/// <summary>
/// A text encoded as UTF-8 for the duration of a call: in a buffer on the caller's stack if it is short, otherwise in
/// rented memory.
/// </summary>
internal readonly ref struct Utf8Text
{
    /// <summary>Size of the buffer that the caller provides.</summary>
    internal const int SmallBytes = 1024;

    private readonly byte[]? _rented;

    /// <summary>Encodes a text.</summary>
    /// <param name="text">Text to encode.</param>
    /// <param name="small">Buffer of <see cref="SmallBytes"/>, valid as long as this value.</param>
    internal Utf8Text(ReadOnlySpan<char> text, Span<byte> small)
    {
        int most = Encoding.UTF8.GetMaxByteCount(text.Length);
        Span<byte> room = most <= small.Length ? small : _rented = ArrayPool<byte>.Shared.Rent(most);
        Bytes = room[..Encoding.UTF8.GetBytes(text, room)];
    }

    internal ReadOnlySpan<byte> Bytes { get; }

    /// <summary>Returns rented memory.</summary>
    internal void Dispose()
    {
        if (_rented is not null) ArrayPool<byte>.Shared.Return(_rented);
    }
}
