using System.Buffers;
using System.Text;

namespace Whimbrel.Compat;

/// <summary>UTF-8 text in an array of the shared pool, until it is disposed. One owner.</summary>
internal readonly ref struct PooledText
{
    private readonly byte[] _bytes;
    private readonly int _length;

    internal PooledText(ReadOnlySpan<char> text)
    {
        _bytes = ArrayPool<byte>.Shared.Rent(Encoding.UTF8.GetMaxByteCount(text.Length));
        _length = Encoding.UTF8.GetBytes(text, _bytes);
    }

    internal ReadOnlySpan<byte> Span => _bytes.AsSpan(0, _length);

    public void Dispose() => ArrayPool<byte>.Shared.Return(_bytes);
}
