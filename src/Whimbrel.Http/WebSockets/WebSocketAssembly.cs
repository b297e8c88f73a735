using System.Text.Unicode;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.WebSockets;

/// <summary>Assembles messages from the pieces of a <see cref="WebSocketReader"/>: unmasked, with text validated as it
/// arrives. One owner; when empty it holds no memory.</summary>
internal struct WebSocketAssembly
{
    private const int TrustedBytes = 256 * 1024;

    private MessageBuffer _bytes;
    private Utf8Check _utf8;

    /// <summary>Adds an uncompressed piece.</summary>
    /// <param name="reader">Reader of the piece.</param>
    /// <param name="piece">Masked bytes. A message of one piece is unmasked in place and not copied.</param>
    /// <param name="whole">Message, at its last piece. Valid until <see cref="Release"/>.</param>
    /// <returns>False if the message is text and not valid UTF-8.</returns>
    internal bool TryAdd(in WebSocketReader reader, Span<byte> piece, out ReadOnlySpan<byte> whole)
    {
        whole = default;
        bool isText = reader.Opcode == WebSocketOpcode.Text;
        if (reader.IsFirst && reader.IsLast)
        {
            WebSocketMask.Apply(piece, reader.Key);
            whole = piece;
            return !isText || Utf8.IsValid(piece);
        }

        Append(reader, piece);
        if (isText && !IsTextSoFar(_bytes.Span[^piece.Length..], reader.IsLast)) return false;
        if (reader.IsLast) whole = _bytes.Span;
        return true;
    }

    /// <summary>Validates text that arrives in pieces.</summary>
    internal bool IsTextSoFar(ReadOnlySpan<byte> piece, bool isLast) =>
        _utf8.Add(piece) && (!isLast || _utf8.IsComplete);

    /// <summary>Drops the current message.</summary>
    internal void Release() => _bytes.Release();

    // Unmasks while copying.
    private void Append(in WebSocketReader reader, ReadOnlySpan<byte> piece)
    {
        if (piece.IsEmpty) return;
        // The rest of a frame of usual size is reserved at once; a larger announced length is not.
        int rest = (int)Math.Min(reader.Left, TrustedBytes);
        Span<byte> room = _bytes.Room(piece.Length + rest);
        WebSocketMask.Copy(piece, room, reader.Key);
        _bytes.Advance(piece.Length);
    }
}
