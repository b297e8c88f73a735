using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// Reads the messages of one direction of a WebSocket from bytes that somebody else has received, as strict as <see cref="WebSocketSession"/> and
/// without compression. Knows no connection and no clock. One thread at a time.
/// </summary>
/// <remarks>
/// What a call does not take is given again, joined with what follows. What comes out does not depend on where the bytes were cut. Of a message in
/// several frames or pieces the bytes are kept until it is whole; that memory grows with what has come, up to the limit.
/// </remarks>
public sealed class WebSocketMessageReader
{
    private const int MostMessageBytes = 1 << 30;

    private WebSocketReader _reader;
    private WebSocketAssembly _message;
    private bool _isBadText;
    private bool _isTold;

    /// <summary>Begins behind the handshake.</summary>
    /// <param name="ofClient">What a client has sent, which is masked; false: of a server.</param>
    /// <param name="messageLimitBytes">1 up to 1 GiB.</param>
    public WebSocketMessageReader(bool ofClient, int messageLimitBytes)
    {
        ArgumentOutOfRangeException.ThrowIfNegativeOrZero(messageLimitBytes);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(messageLimitBytes, MostMessageBytes);
        _reader = new WebSocketReader(ofClient ? WebSocketRole.Server : WebSocketRole.Client, messageLimitBytes);
    }

    /// <summary>The status of a close (<see cref="WebSocketStatus.None"/>: it had none), or the one to close with when a rule was broken.</summary>
    public WebSocketStatus Status { get; private set; } = WebSocketStatus.None;

    /// <summary>The reason of a close, or what is wrong as a sentence without its full stop. Empty before.</summary>
    public string Reason { get; private set; } = "";

    /// <summary>Bytes of the frame under way that have not come yet; 0 between frames.</summary>
    public long MissingBytes => _reader.Left;

    /// <summary>Reads on: the next message or control frame.</summary>
    /// <param name="unread">What the last call did not take, and what has come since. It is unmasked in place.</param>
    /// <param name="taken">How many of them are not to be given again, also with <see cref="WebSocketPart.NeedMore"/>.</param>
    /// <param name="payload">Of the message, or of the control frame; of a close with its status. Valid until the next call, and while <paramref name="unread"/> is.</param>
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
            Span<byte> found = reading is WebSocketReading.Piece or WebSocketReading.Control ? unread.Slice(taken + _reader.Start, _reader.Length) : default;
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
        if (_reader.Opcode != WebSocketOpcode.Close) return _reader.Opcode == WebSocketOpcode.Ping ? WebSocketPart.Ping : WebSocketPart.Pong;
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
