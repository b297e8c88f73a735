using System.Buffers.Binary;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Writes WebSocket frames into memory, for bytes sent by other code, and computes handshake values.</summary>
public static class WebSocketFrames
{
    /// <summary>Number of bytes written by <see cref="TryAccept"/>.</summary>
    public const int AcceptLength = WebSocketHandshake.AcceptLength;

    /// <summary>Largest number of bytes of a server frame's head.</summary>
    public const int MostHeadBytes = 10;

    /// <summary>Returns the number of bytes of a whole frame.</summary>
    /// <param name="payloadLength">Bytes of the payload: 0 and more.</param>
    /// <param name="ofClient">Whether a client writes the frame, which is then masked.</param>
    public static int LengthOf(int payloadLength, bool ofClient)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(payloadLength);
        return WriterOf(ofClient).FrameLength(payloadLength);
    }

    /// <summary>Writes a whole frame. Each frame of a client gets its own unpredictable mask.</summary>
    /// <param name="target">Buffer of at least <see cref="LengthOf"/> bytes.</param>
    /// <param name="part">Kind: a message, or a control frame.</param>
    /// <param name="payload">Payload; copied. Up to 125 bytes in a control frame; in a close frame empty, or a status
    /// and a reason in UTF-8.</param>
    /// <param name="ofClient">Whether a client writes the frame.</param>
    /// <returns>Number of bytes written.</returns>
    /// <exception cref="ArgumentException">The payload is not allowed in such a frame, or <paramref name="target"/> is
    /// too small.</exception>
    public static int Write(Span<byte> target, WebSocketPart part, ReadOnlySpan<byte> payload, bool ofClient)
    {
        WebSocketWriter writer = WriterOf(ofClient);
        WebSocketOpcode opcode = OpcodeOf(part);
        if (opcode >= WebSocketOpcode.Close && payload.Length > WebSocketReader.MostControlBytes)
            throw new ArgumentException("A control frame has up to 125 bytes.", nameof(payload));
        if (opcode == WebSocketOpcode.Close) CheckClose(payload);
        if (target.Length < writer.FrameLength(payload.Length))
            throw new ArgumentException("The target is too small for the frame.", nameof(target));
        return writer.WriteFrame(target, opcode, payload);
    }

    /// <summary>Writes the head of a server's final message frame. The payload follows unchanged, so it need not be
    /// copied.</summary>
    /// <param name="target">Buffer of at least <see cref="MostHeadBytes"/> bytes.</param>
    /// <param name="part"><see cref="WebSocketPart.Text"/> or <see cref="WebSocketPart.Binary"/>.</param>
    /// <param name="payloadLength">Bytes of the payload: 0 and more.</param>
    /// <returns>Number of bytes written.</returns>
    /// <exception cref="ArgumentException"><paramref name="target"/> is too small, or <paramref name="part"/> is no
    /// message.</exception>
    public static int WriteHead(Span<byte> target, WebSocketPart part, long payloadLength)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(payloadLength);
        if (part is not (WebSocketPart.Text or WebSocketPart.Binary))
            throw new ArgumentOutOfRangeException(nameof(part), part,
                "A message is text or bytes; a control frame is short, and written whole.");
        if (target.Length < MostHeadBytes)
            throw new ArgumentException("The target is too small for any head.", nameof(target));
        return WriterOf(ofClient: false)
            .WriteHead(target, OpcodeOf(part), isFinal: true, isCompressed: false, payloadLength, out _);
    }

    /// <summary>Writes the server's response to a client's key (Sec-WebSocket-Accept).</summary>
    /// <param name="key">Sec-WebSocket-Key.</param>
    /// <param name="accept">Buffer of at least <see cref="AcceptLength"/> bytes.</param>
    /// <returns>False if the key is not base64 of 16 bytes.</returns>
    public static bool TryAccept(ReadOnlySpan<byte> key, Span<byte> accept)
    {
        if (!WebSocketHandshake.IsKey(key)) return false;
        WebSocketHandshake.WriteAccept(key, accept);
        return true;
    }

    private static WebSocketWriter WriterOf(bool ofClient) =>
        new(ofClient ? WebSocketRole.Client : WebSocketRole.Server);

    private static WebSocketOpcode OpcodeOf(WebSocketPart part) => part switch
    {
        WebSocketPart.Text => WebSocketOpcode.Text,
        WebSocketPart.Binary => WebSocketOpcode.Binary,
        WebSocketPart.Ping => WebSocketOpcode.Ping,
        WebSocketPart.Pong => WebSocketOpcode.Pong,
        WebSocketPart.Close => WebSocketOpcode.Close,
        _ => throw new ArgumentOutOfRangeException(nameof(part), part, "A frame is a message or a control frame."),
    };

    private static void CheckClose(ReadOnlySpan<byte> payload)
    {
        if (WebSocketClose.Check(payload) == WebSocketRule.None) return;
        string what = payload.Length < 2
            ? "half a status"
            : $"the status {BinaryPrimitives.ReadUInt16BigEndian(payload)}, or a reason that is no UTF-8";
        throw new ArgumentException($"A close cannot have {what}: nothing, or a status of 1000 to 1003, 1007 to 1014 "
            + $"or 3000 to 4999 and a reason.", nameof(payload));
    }
}
