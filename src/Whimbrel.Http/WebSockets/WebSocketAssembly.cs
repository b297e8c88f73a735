using System.Text.Unicode;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.WebSockets;

/// <summary>Puts messages together from the pieces of a <see cref="WebSocketReader"/>: without mask, text judged as it comes. One owner; empty it holds nothing.</summary>
internal struct WebSocketAssembly
{
    private const int TrustedBytes = 256 * 1024;

    private MessageBuffer _bytes;
    private Utf8Check _utf8;

    /// <summary>Adds a piece that is not compressed.</summary>
    /// <param name="reader">That has found it.</param>
    /// <param name="piece">With its mask. A message of one piece is unmasked in it and not copied.</param>
    /// <param name="whole">The message, with its last piece. Valid until <see cref="Release"/>.</param>
    /// <returns>False: it is to be text, and is no UTF-8.</returns>
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

    /// <summary>Judges text that comes in pieces.</summary>
    internal bool IsTextSoFar(ReadOnlySpan<byte> piece, bool isLast) => _utf8.Add(piece) && (!isLast || _utf8.IsComplete);

    /// <summary>Forgets what there is.</summary>
    internal void Release() => _bytes.Release();

    // Without its mask, on the way.
    private void Append(in WebSocketReader reader, ReadOnlySpan<byte> piece)
    {
        if (piece.IsEmpty) return;
        // The rest of a frame of a usual size gets its room at once; what a frame only announces does not.
        int rest = (int)Math.Min(reader.Left, TrustedBytes);
        Span<byte> room = _bytes.Room(piece.Length + rest);
        WebSocketMask.Copy(piece, room, reader.Key);
        _bytes.Advance(piece.Length);
    }
}
