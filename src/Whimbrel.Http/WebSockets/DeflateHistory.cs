using System.Buffers;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// The end of what was compressed for one peer, which it has as well: all that a connection keeps of a context. The compressor belongs to the thread, and is told this before each message
/// (<see cref="Deflater.Recall"/>). One owner; empty it holds nothing.
/// </summary>
internal struct DeflateHistory
{
    /// <summary>More costs more time with each message than it saves in bytes.</summary>
    internal const int MostBytes = 4096;

    private byte[]? _bytes;
    private int _length;

    internal readonly ReadOnlySpan<byte> Span => _bytes.AsSpan(0, _length);

    /// <summary>The peer gets a message that was compressed with this in front.</summary>
    /// <param name="message">Without its compression.</param>
    /// <param name="windowBits">How far back the compressor may look: what is further is not kept.</param>
    internal void Add(ReadOnlySpan<byte> message, int windowBits)
    {
        int most = Math.Min(MostBytes, 1 << windowBits);
        _bytes ??= ArrayPool<byte>.Shared.Rent(most);
        if (message.Length > most) message = message[^most..];
        int kept = Math.Min(_length, most - message.Length);
        _bytes.AsSpan(_length - kept, kept).CopyTo(_bytes);
        message.CopyTo(_bytes.AsSpan(kept));
        _length = kept + message.Length;
    }

    /// <summary>The next message begins anew.</summary>
    internal void Forget()
    {
        if (_bytes is { } bytes) ArrayPool<byte>.Shared.Return(bytes);
        _bytes = null;
        _length = 0;
    }
}
