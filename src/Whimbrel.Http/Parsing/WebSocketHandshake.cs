using System.Buffers;
using System.Buffers.Text;
using System.Diagnostics.CodeAnalysis;
using System.Security.Cryptography;

namespace Whimbrel.Http.Parsing;

/// <summary>What both ends compute of the opening handshake (RFC 6455, 4.2).</summary>
internal static class WebSocketHandshake
{
    /// <summary>Characters of Sec-WebSocket-Key: 16 bytes in base64.</summary>
    internal const int KeyLength = 24;

    /// <summary>Characters of Sec-WebSocket-Accept: 20 bytes in base64.</summary>
    internal const int AcceptLength = 28;

    private const int KeyBytes = 16;

    private static ReadOnlySpan<byte> Magic => "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"u8;

    /// <summary>Whether it is base64 of 16 bytes, without a space.</summary>
    internal static bool IsKey(ReadOnlySpan<byte> text)
    {
        Span<byte> bytes = stackalloc byte[KeyBytes + 2];
        return text.Length == KeyLength && Base64.DecodeFromUtf8(text, bytes, out _, out int length) == OperationStatus.Done && length == KeyBytes;
    }

    /// <summary>A key that nobody can guess.</summary>
    /// <param name="target"><see cref="KeyLength"/> bytes.</param>
    internal static void NewKey(Span<byte> target)
    {
        Span<byte> bytes = stackalloc byte[KeyBytes];
        RandomNumberGenerator.Fill(bytes);
        Base64.EncodeToUtf8(bytes, target, out _, out _);
    }

    /// <summary>What a server answers to a key.</summary>
    /// <param name="key">As it came.</param>
    /// <param name="target"><see cref="AcceptLength"/> bytes.</param>
    [SuppressMessage("Security", "CA5350", Justification = "The RFC wants SHA-1. It shows that the peer speaks WebSocket, and keeps no secret.")]
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
