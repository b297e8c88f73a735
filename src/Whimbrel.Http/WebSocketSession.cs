using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// One end of a WebSocket (RFC 6455). Derive from it and override callbacks, or use this class itself and await its
/// messages. It serves a route of <see cref="HttpServer"/> and a <see cref="WebSocketClient"/>. All members of
/// <see cref="Session"/> are available, including groups and posts; data is sent and received as messages.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Each message is delivered once, whole and in order (<see cref="OnText"/>, <see cref="OnBinary"/>); text is
/// valid UTF-8. With <see cref="WebSocketOptions.InPieces"/> messages are delivered as they arrive. After
/// <see cref="Session.PauseReceiving"/> on the session's thread no message is delivered and no ping answered until
/// <see cref="Session.ResumeReceiving"/>, including data already received. Meanwhile the heart-beat treats the peer as
/// alive.</item>
/// <item>Pings are answered. While a pong waits for room in a full queue, only the last ping received is answered.
/// While the session is held back (contract 9 of <see cref="Session"/>) nothing is read, so a flood of pings stays in
/// the peer's queue.</item>
/// <item>If the peer breaks a rule or a limit, it gets one close frame with the matching status, and the connection
/// ends. Earlier sends are delivered before that frame.</item>
/// <item><see cref="Close(WebSocketStatus, string)"/> sends a close frame after earlier sends, and waits for the peer's
/// within <see cref="WebSocketOptions.CloseTimeout"/>. Messages that arrive after the call are dropped, and sends
/// return <see cref="SendResult.Closed"/>. Messages and the close frame of all threads have one order: each
/// <see cref="SendResult.Queued"/> message, broadcasts included, precedes the frame, and nothing follows it.</item>
/// <item>Any thread may send messages, whole or not at all; those of one thread keep their order. While a message is
/// sent in pieces (<see cref="SendPieceAsync"/>), other messages are <see cref="SendResult.Refused"/> and broadcasts
/// wait. Pings, pongs and the close frame are sent between the pieces.</item>
/// <item>An exception of an override, or of an action posted to the session, is passed to
/// <see cref="Session.OnError"/>. The WebSocket is closed with 1011 after earlier sends.</item>
/// <item>On a server the 101 response is sent when <see cref="OnConnected"/> returns. So a group joined there misses no
/// message that the client causes. It is sent earlier if OnConnected calls <see cref="Session.Flush"/>, or waits for
/// room in the send queue.</item>
/// <item>An object of this class itself is pulled: its messages wait for <see cref="ReceiveAsync"/>,
/// <see cref="ReceiveMessageAsync"/>, a <see cref="WebSocketStream"/> or <see cref="AsWebSocket"/>. At most 64 KiB are
/// kept; then reading stops. The peer's close frame is reported after the last message, and answered when this side
/// ends.</item>
/// </list>
/// Reading is in this file, sending in <c>WebSocketSession.Sending.cs</c> and <c>.Pieces.cs</c>. Closing and the
/// heart-beat are in <c>.Ending.cs</c>, the order of both in <c>.Order.cs</c>, pulled messages in <c>.Receiving.cs</c>.
/// </remarks>
public partial class WebSocketSession : Session
{
    private const string ErrorOutcome = "The peer gets the close status 1011.";

    private WebSocketOptions? _options;
    private WebSocketReader _reader;
    private WebSocketWriter _writer;
    private WebSocketRole _role;
    private DeflateContext? _deflate; // with compression only
    private WebSocketAssembly _message;
    private bool _isInline; // callbacks run on the loop

    /// <summary>
    /// Sub-protocol agreed on in the handshake, or null. Null also on a client that offered some, if the server
    /// selected none: the connection is open, and a client that needs one checks this and closes (RFC 6455, 4.1).
    /// </summary>
    public string? SubProtocol { get; private set; }

    /// <summary>Whether messages may be compressed.</summary>
    public bool IsCompressed => _deflate is not null;

    /// <summary>Whether the session has, or had, a connection.</summary>
    internal bool HasBegun => _options is not null;

    internal void Begin(WebSocketRole role, WebSocketOptions options, DeflateTerms? terms, string? subProtocol,
        Loop loop, Scheduling? scheduling)
    {
        if (_options is not null)
            throw new InvalidOperationException(
                "The factory gave a session that has, or had, a connection: make a new one for each.");
        _role = role;
        _options = options;
        if (terms is { } agreed) _deflate = new DeflateContext(agreed);
        SubProtocol = subProtocol;
        _reader = new WebSocketReader(role, options.InPieces
            || (_inbox is not null && terms is null) ? long.MaxValue : options.MessageLimitBytes, terms is not null);
        _writer = new WebSocketWriter(role);
        _isInline = scheduling != Scheduling.ThreadPool;
        _heard = true; // because the handshake was received
        if (HasHeart) JoinHeart(loop);
    }

    // ------------------------------------------------------------------ overrides

    /// <summary>Called with a text message, on the session's thread.</summary>
    /// <param name="utf8">Valid UTF-8. Valid during the call only.</param>
    protected virtual void OnText(ReadOnlySpan<byte> utf8)
    {
    }

    /// <summary>Called with a binary message, on the session's thread.</summary>
    /// <param name="data">Payload. Valid during the call only.</param>
    protected virtual void OnBinary(ReadOnlySpan<byte> data)
    {
    }

    /// <summary>Called with a piece of a message if <see cref="WebSocketOptions.InPieces"/> is set, on the session's
    /// thread.</summary>
    /// <param name="piece">May be empty at the end of a message; may end inside a character of text. Valid during the
    /// call only.</param>
    /// <param name="isText">Whether the message is text. All of it so far is valid UTF-8.</param>
    /// <param name="isLast">Whether this is the last piece of the message.</param>
    protected virtual void OnPiece(ReadOnlySpan<byte> piece, bool isText, bool isLast)
    {
    }

    /// <summary>Called with a ping, after its pong was queued or deferred, on the session's thread.</summary>
    /// <param name="payload">Up to 125 bytes. Valid during the call only.</param>
    protected virtual void OnPing(ReadOnlySpan<byte> payload)
    {
    }

    /// <summary>Called with a pong, on the session's thread: for an own ping, for one of the heart-beat, or
    /// unsolicited.</summary>
    /// <param name="payload">Up to 125 bytes. Valid during the call only.</param>
    protected virtual void OnPong(ReadOnlySpan<byte> payload)
    {
    }

    // ------------------------------------------------------------------ reading

    /// <summary>Reads frames and calls the other overrides.</summary>
    /// <param name="unread">Unconsumed bytes.</param>
    protected sealed override int OnData(ReadOnlySpan<byte> unread)
    {
        if (_options is null)
            throw new InvalidOperationException(
                "A WebSocket session serves a route of HttpServer.WebSocket or a WebSocketClient.");
        _heard = true;
        Span<byte> bytes = Writable(unread);
        int taken = 0;
        bool goesOn;
        do
        {
            taken += ReadFrames(bytes[taken..]);
            goesOn = taken < bytes.Length && IsReceivingPaused;
            _inbox?.EndTurn();
            // A read completed by EndTurn may have ended the pause. Otherwise the rest would wait for the next receive.
        }
        while (goesOn && !IsReceivingPaused);
        return taken;
    }

    private int ReadFrames(Span<byte> bytes)
    {
        int at = 0;
        // While the send queue is full, or after a message that paused, unread bytes stay with the connection and are
        // delivered again.
        while (!IsAboveHighWaterMark && !IsReceivingPaused)
        {
            WebSocketReading reading = _reader.Read(bytes[at..], out int taken);
            Span<byte> found = reading is WebSocketReading.Piece or WebSocketReading.Control
                ? bytes.Slice(at + _reader.Start, _reader.Length)
                : default;
            at += taken;
            switch (reading)
            {
                case WebSocketReading.Piece or WebSocketReading.Control:
                    Tell(found, reading);
                    break;
                case WebSocketReading.Broken:
                    Fail(_reader.Rule);
                    return bytes.Length;
                default:
                    return at;
            }

            if (!IsConnected) return bytes.Length;
        }

        return at;
    }

    // The core resets the connection after an exception, and the peer would get no status. So exceptions are caught
    // here.
    private void Tell(Span<byte> found, WebSocketReading reading)
    {
        try
        {
            if (reading == WebSocketReading.Control) Heed(found);
            else if (!IsEnding) Take(found);
        }
        catch (Exception e)
        {
            ReportException(e, NameOf(reading), outcome: ErrorOutcome);
            EndWith(WebSocketStatus.InternalError, "");
        }
    }

    /// <summary>Name of the override that handles the frame.</summary>
    private string NameOf(WebSocketReading reading) => (reading, _reader.Opcode) switch
    {
        (WebSocketReading.Control, WebSocketOpcode.Ping) => nameof(OnPing),
        (WebSocketReading.Control, WebSocketOpcode.Pong) => nameof(OnPong),
        (WebSocketReading.Control, _) => nameof(OnClosing),
        _ when _options!.InPieces => nameof(OnPiece),
        (_, WebSocketOpcode.Text) => nameof(OnText),
        _ => nameof(OnBinary),
    };

    private void Take(Span<byte> piece)
    {
        bool isText = _reader.Opcode == WebSocketOpcode.Text;
        bool isLast = _reader.IsLast;
        if (_options!.InPieces)
        {
            WebSocketMask.Apply(piece, _reader.Key);
            if (isText && !_message.IsTextSoFar(piece, isLast)) Fail(WebSocketRule.BadUtf8);
            else OnPiece(piece, isText, isLast);
            return;
        }

        if (_inbox is { } inbox && !_reader.IsCompressed)
        {
            TakeForReader(inbox, piece, isText, isLast);
            return;
        }

        if (_reader.IsCompressed)
        {
            WebSocketMask.Apply(piece, _reader.Key);
            TakeCompressed(piece, isText, isLast);
            return;
        }

        if (!_message.TryAdd(_reader, piece, out ReadOnlySpan<byte> whole))
        {
            Fail(WebSocketRule.BadUtf8);
            return;
        }

        if (!isLast) return;
        try
        {
            TellWhole(whole, isText);
        }
        finally
        {
            _message.Release();
        }
    }

    private void TakeCompressed(ReadOnlySpan<byte> piece, bool isText, bool isLast)
    {
        DeflateContext deflate = _deflate!;
        DeflateTerms terms = deflate.Terms;
        bool forgets = _role == WebSocketRole.Server ? terms.ClientForgets : terms.ServerForgets;
        deflate.Inflater ??= Inflater.Rent(Math.Max(_role == WebSocketRole.Server ? terms.ClientBits : terms.ServerBits,
            DeflateTerms.LeastWrittenBits), forgets);
        int before = deflate.Inflated.Length;
        switch (deflate.Inflater.Add(piece, isLast, ref deflate.Inflated, _options!.MessageLimitBytes))
        {
            case Inflater.Outcome.TooLarge:
                Fail(WebSocketRule.MessageTooLarge);
                return;
            case Inflater.Outcome.Malformed:
                Fail(WebSocketRule.BadDeflate);
                return;
        }

        if (isText && !_message.IsTextSoFar(deflate.Inflated.Span[before..], isLast))
        {
            Fail(WebSocketRule.BadUtf8);
            return;
        }

        if (!isLast) return;
        try
        {
            TellWhole(deflate.Inflated.Span, isText);
        }
        finally
        {
            deflate.Inflated.Release();
            if (forgets) deflate.DropInflater();
        }
    }

    private void TellWhole(ReadOnlySpan<byte> message, bool isText)
    {
        if (_inbox is { } inbox) inbox.Take(message, 0, isText, isLast: true);
        else if (isText) OnText(message);
        else OnBinary(message);
    }

    private void Heed(ReadOnlySpan<byte> payload)
    {
        switch (_reader.Opcode)
        {
            case WebSocketOpcode.Ping:
                if (IsClosing) break;
                Answer(payload);
                OnPing(payload);
                break;
            case WebSocketOpcode.Pong:
                if (!IsClosing) OnPong(payload);
                break;
            default:
                PeerCloses(WebSocketClose.StatusOf(payload), WebSocketClose.ReasonOf(payload));
                break;
        }
    }
}
