using System.Buffers;
using System.Buffers.Text;
using System.Diagnostics.CodeAnalysis;
using System.Security.Cryptography;

namespace Whimbrel.Http.Parsing;

/// <summary>Computed values of the opening handshake (RFC 6455, 4.2).</summary>
internal static class WebSocketHandshake
{
    /// <summary>Length of Sec-WebSocket-Key: 16 bytes in base64.</summary>
    internal const int KeyLength = 24;

    /// <summary>Length of Sec-WebSocket-Accept: 20 bytes in base64.</summary>
    internal const int AcceptLength = 28;

    private const int KeyBytes = 16;

    private static ReadOnlySpan<byte> Magic => "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"u8;

    /// <summary>Returns whether the text is base64 of 16 bytes, without a space.</summary>
    internal static bool IsKey(ReadOnlySpan<byte> text)
    {
        Span<byte> bytes = stackalloc byte[KeyBytes + 2];
        return text.Length == KeyLength
            && Base64.DecodeFromUtf8(text, bytes, out _, out int length) == OperationStatus.Done && length == KeyBytes;
    }

    /// <summary>Writes a new unpredictable key.</summary>
    /// <param name="target">Buffer of <see cref="KeyLength"/> bytes.</param>
    internal static void NewKey(Span<byte> target)
    {
        Span<byte> bytes = stackalloc byte[KeyBytes];
        RandomNumberGenerator.Fill(bytes);
        Base64.EncodeToUtf8(bytes, target, out _, out _);
    }

    /// <summary>Writes the server's response to a key.</summary>
    /// <param name="key">Key, as received.</param>
    /// <param name="target">Buffer of <see cref="AcceptLength"/> bytes.</param>
    [SuppressMessage("Security", "CA5350",
        Justification = "The RFC wants SHA-1. It shows that the peer speaks WebSocket, and keeps no secret.")]
    internal static void WriteAccept(ReadOnlySpan<byte> key, Span<byte> target)
    {
        Span<byte> text = stackalloc byte[KeyLength + Magic.Length];
        key[..KeyLength].CopyTo(text);
        Magic.CopyTo(text[KeyLength..]);
        Span<byte> hash = stackalloc byte[SHA1.HashSizeInBytes];
        SHA1.HashData(text, hash);
        Base64.EncodeToUtf8(hash, target, out _, out _);
    }
}
