using System.Buffers;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// End of the bytes compressed for one peer, which the peer has as well: the whole context that a connection keeps. The
/// compressor belongs to the thread, and gets it before each message (<see cref="Deflater.Recall"/>). One owner; when
/// empty it holds no memory.
/// </summary>
internal struct DeflateHistory
{
    /// <summary>Largest context: more costs more time per message than it saves in bytes.</summary>
    internal const int MostBytes = 4096;

    private byte[]? _bytes;
    private int _length;

    internal readonly ReadOnlySpan<byte> Span => _bytes.AsSpan(0, _length);

    /// <summary>Adds a message that was compressed with this context.</summary>
    /// <param name="message">Uncompressed message.</param>
    /// <param name="windowBits">Window of the compressor; older bytes are dropped.</param>
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

    /// <summary>Clears the context: the next message has none.</summary>
    internal void Forget()
    {
        if (_bytes is { } bytes) ArrayPool<byte>.Shared.Return(bytes);
        _bytes = null;
        _length = 0;
    }
}
