using System.Buffers;
using Whimbrel.Http;

namespace Whimbrel.Compat;

/// <summary>A frame in an array of the shared pool, until it is disposed. For sends outside a lock, or to many
/// sessions. One owner.</summary>
internal readonly ref struct PooledFrame
{
    private readonly byte[] _bytes;
    private readonly int _length;

    internal PooledFrame(WebSocketPart part, ReadOnlySpan<byte> payload, bool ofClient)
    {
        _bytes = ArrayPool<byte>.Shared.Rent(WebSocketFrames.LengthOf(payload.Length, ofClient));
        _length = WebSocketFrames.Write(_bytes, part, payload, ofClient);
    }

    internal ReadOnlySpan<byte> Span => _bytes.AsSpan(0, _length);

    public void Dispose() => ArrayPool<byte>.Shared.Return(_bytes);
}
