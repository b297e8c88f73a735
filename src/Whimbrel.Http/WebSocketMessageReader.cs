using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// Reads the messages of one direction of a WebSocket from bytes received elsewhere, by the rules of
/// <see cref="WebSocketSession"/>, without compression. It has no connection and no clock. One thread at a time.
/// </summary>
/// <remarks>
/// Bytes that a call does not consume are passed again, followed by new bytes. The result does not depend on how the
/// bytes are split. A message in several frames or pieces is buffered until it is complete; the buffer grows with the
/// received bytes, up to the limit.
/// </remarks>
public sealed class WebSocketMessageReader
{
    private const int MostMessageBytes = 1 << 30;

    private WebSocketReader _reader;
    private WebSocketAssembly _message;
    private bool _isBadText;
    private bool _isTold;

    /// <summary>Creates a reader that begins after the handshake.</summary>
    /// <param name="ofClient">Whether a client sends the bytes, which are then masked.</param>
    /// <param name="messageLimitBytes">Largest message in bytes: 1 to 1 GiB.</param>
    public WebSocketMessageReader(bool ofClient, int messageLimitBytes)
    {
        ArgumentOutOfRangeException.ThrowIfNegativeOrZero(messageLimitBytes);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(messageLimitBytes, MostMessageBytes);
        _reader = new WebSocketReader(ofClient ? WebSocketRole.Server : WebSocketRole.Client, messageLimitBytes);
    }

    /// <summary>Status of a close frame (<see cref="WebSocketStatus.None"/> if it has none), or the status to close
    /// with after a broken rule.</summary>
    public WebSocketStatus Status { get; private set; } = WebSocketStatus.None;

    /// <summary>Reason of a close frame, or the broken rule as a sentence without its full stop. Empty
    /// before.</summary>
    public string Reason { get; private set; } = "";

    /// <summary>Number of missing bytes of the current frame; 0 between frames.</summary>
    public long MissingBytes => _reader.Left;

    /// <summary>Reads the next message or control frame.</summary>
    /// <param name="unread">Bytes that the last call did not consume, followed by new bytes. Unmasked in place.</param>
    /// <param name="taken">Number of bytes consumed, which are not passed again, also with
    /// <see cref="WebSocketPart.NeedMore"/>.</param>
    /// <param name="payload">Payload of the message or control frame; of a close frame including its status. Valid
    /// until the next call, and as long as <paramref name="unread"/> is.</param>
    public WebSocketPart Read(Span<byte> unread, out int taken, out ReadOnlySpan<byte> payload)
    {
        taken = 0;
        payload = default;
        if (_isTold) _message.Release();
        _isTold = false;
        while (true)
        {
            if (_isBadText) return Break(WebSocketRule.BadUtf8);
            WebSocketReading reading = _reader.Read(unread[taken..], out int count);
            Span<byte> found = reading is WebSocketReading.Piece or WebSocketReading.Control
                ? unread.Slice(taken + _reader.Start, _reader.Length)
                : default;
            taken += count;
            switch (reading)
            {
                case WebSocketReading.Piece:
                    _isBadText = !_message.TryAdd(_reader, found, out payload);
                    if (_isBadText || !_reader.IsLast) break;
                    _isTold = true;
                    return _reader.Opcode == WebSocketOpcode.Text ? WebSocketPart.Text : WebSocketPart.Binary;
                case WebSocketReading.Control:
                    payload = found;
                    return Heed(found);
                case WebSocketReading.Broken:
                    return Break(_reader.Rule);
                default:
                    return WebSocketPart.NeedMore;
            }
        }
    }

    private WebSocketPart Heed(ReadOnlySpan<byte> payload)
    {
        if (_reader.Opcode != WebSocketOpcode.Close)
            return _reader.Opcode == WebSocketOpcode.Ping ? WebSocketPart.Ping : WebSocketPart.Pong;
        Status = WebSocketClose.StatusOf(payload);
        Reason = WebSocketClose.ReasonOf(payload);
        return WebSocketPart.Close;
    }

    private WebSocketPart Break(WebSocketRule rule)
    {
        Status = WebSocketRules.StatusOf(rule);
        Reason = WebSocketRules.TextOf(rule);
        return WebSocketPart.Broken;
    }
}
