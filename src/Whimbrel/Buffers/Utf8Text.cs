using System.Buffers;
using System.Text;

namespace Whimbrel.Buffers;

/// <summary>A text as UTF-8 for the length of a call: in room on the caller's stack when it is short, else in rented memory.</summary>
internal readonly ref struct Utf8Text
{
    /// <summary>How much room the caller brings.</summary>
    internal const int SmallBytes = 1024;

    private readonly byte[]? _rented;

    /// <summary>Encodes.</summary>
    /// <param name="text">What to encode.</param>
    /// <param name="small"><see cref="SmallBytes"/> that live as long as this.</param>
    internal Utf8Text(ReadOnlySpan<char> text, Span<byte> small)
    {
        int most = Encoding.UTF8.GetMaxByteCount(text.Length);
        Span<byte> room = most <= small.Length ? small : _rented = ArrayPool<byte>.Shared.Rent(most);
        Bytes = room[..Encoding.UTF8.GetBytes(text, room)];
    }

    internal ReadOnlySpan<byte> Bytes { get; }

    /// <summary>Gives rented memory back.</summary>
    internal void Dispose()
    {
        if (_rented is not null) ArrayPool<byte>.Shared.Return(_rented);
    }
}
