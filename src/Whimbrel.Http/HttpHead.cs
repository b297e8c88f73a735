using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// A reader, and the bytes of a head that it has read. Taken for a request and given back when nobody can look at it any more, so a
/// thread that answers at once has one for all its connections.
/// </summary>
internal sealed class HttpHead
{
    private const int MostKept = 64;

    [ThreadStatic]
    private static Stack<HttpHead>? t_free;

    private byte[] _bytes = new byte[1024];

    internal HttpReader Reader { get; } = new();

    internal ReadOnlySpan<byte> Bytes => _bytes.AsSpan(0, Reader.HeadLength);

    internal static HttpHead Take() => t_free is { Count: > 0 } free ? free.Pop() : new HttpHead();

    internal static void Return(HttpHead head)
    {
        Stack<HttpHead> free = t_free ??= new Stack<HttpHead>();
        if (free.Count < MostKept) free.Push(head);
    }

    /// <summary>Keeps the head, which is whole: what it lay in belongs to the connection.</summary>
    internal void Keep(ReadOnlySpan<byte> head)
    {
        if (_bytes.Length < head.Length) _bytes = new byte[Math.Max(head.Length, _bytes.Length * 2)];
        head.CopyTo(_bytes);
    }
}
