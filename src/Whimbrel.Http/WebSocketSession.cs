using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// One end of a WebSocket (RFC 6455): derive from it, and override what you need; or use it as it is, and await its messages. The same class serves a route of <see cref="HttpServer"/>
/// and a <see cref="WebSocketClient"/>. Everything that a <see cref="Session"/> has is there, groups and posts among it; what is sent and received
/// are messages.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A message is told whole (<see cref="OnText"/>, <see cref="OnBinary"/>), in order, once. Text is valid UTF-8. With
/// <see cref="WebSocketOptions.InPieces"/> it is told as it comes. After <see cref="Session.PauseReceiving"/> on the session's thread none is told, and no ping answered, until
/// <see cref="Session.ResumeReceiving"/>, whatever has come already; meanwhile the heart-beat takes the peer for alive.</item>
/// <item>Pings are answered; of those that come while a pong waits for room in a full queue only the last. While the session is held back (contract 9 of <see cref="Session"/>) nothing is read, so a flood of pings ends at the peer.</item>
/// <item>A peer that breaks a rule or a limit gets one close frame, with the status that says so, and the connection ends. What was sent
/// before that frame is delivered first.</item>
/// <item><see cref="Close(WebSocketStatus, string)"/> sends a close frame behind what was sent, and waits for the peer's within
/// <see cref="WebSocketOptions.CloseTimeout"/>. Messages that come after the call are dropped, and sends give <see cref="SendResult.Closed"/>. Messages and the close frame have one order,
/// whichever threads they come from: what was <see cref="SendResult.Queued"/> stands in front of it, and nothing behind it, broadcasts included.</item>
/// <item>Messages may be sent by any thread, whole or not at all; those of one thread keep their order. While one is sent in pieces
/// (<see cref="SendPieceAsync"/>) others are <see cref="SendResult.Refused"/>, broadcasts wait, and pings, pongs and the close frame go between.</item>
/// <item>An exception of an override, or of an action that was posted to the session, is told to <see cref="Session.OnError"/>, and closes with 1011. What was sent before it leaves first.</item>
/// <item>At a server the client has its 101 when <see cref="OnConnected"/> has returned: whoever was told of it there, or has joined a group, misses nothing that the client sets off. It leaves
/// earlier when OnConnected calls <see cref="Session.Flush"/>, or waits for room in the send queue.</item>
/// <item>An object of this class itself is pulled: its messages wait for <see cref="ReceiveAsync"/>, <see cref="ReceiveMessageAsync"/>, a <see cref="WebSocketStream"/> or
/// <see cref="AsWebSocket"/>. At most 64 KiB wait, then its peer does. The peer's close frame is told behind the last message, and answered when this side ends.</item>
/// </list>
/// Reading is in this file, sending in <c>WebSocketSession.Sending.cs</c> and <c>.Pieces.cs</c>, closing and the heart-beat in <c>.Ending.cs</c>, the order of both in <c>.Order.cs</c>, what is pulled in <c>.Receiving.cs</c>.
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

    /// <summary>What both ends have agreed to speak, or null.</summary>
    public string? SubProtocol { get; private set; }

    /// <summary>Whether messages may be compressed.</summary>
    public bool IsCompressed => _deflate is not null;

    /// <summary>It has, or had, a connection.</summary>
    internal bool HasBegun => _options is not null;

    internal void Begin(WebSocketRole role, WebSocketOptions options, DeflateTerms? terms, string? subProtocol, Loop loop, Scheduling? scheduling)
    {
        if (_options is not null) throw new InvalidOperationException("The factory gave a session that has, or had, a connection: make a new one for each.");
        _role = role;
        _options = options;
        if (terms is { } agreed) _deflate = new DeflateContext(agreed);
        SubProtocol = subProtocol;
        _reader = new WebSocketReader(role, options.InPieces || (_inbox is not null && terms is null) ? long.MaxValue : options.MessageLimitBytes, terms is not null);
        _writer = new WebSocketWriter(role);
        _isInline = scheduling != Scheduling.ThreadPool;
        _heard = true; // the handshake was
        if (HasHeart) JoinHeart(loop);
    }

    // ------------------------------------------------------------------ overrides

    /// <summary>A message of text. The session's thread.</summary>
    /// <param name="utf8">Valid UTF-8. Valid during the call only.</param>
    protected virtual void OnText(ReadOnlySpan<byte> utf8)
    {
    }

    /// <summary>A message of bytes. The session's thread.</summary>
    /// <param name="data">Valid during the call only.</param>
    protected virtual void OnBinary(ReadOnlySpan<byte> data)
    {
    }

    /// <summary>A piece of a message, with <see cref="WebSocketOptions.InPieces"/>. The session's thread.</summary>
    /// <param name="piece">May be empty at the end of a message. Of text it may end inside a character. Valid during the call only.</param>
    /// <param name="isText">Of text; it was judged so far.</param>
    /// <param name="isLast">The message ends with it.</param>
    protected virtual void OnPiece(ReadOnlySpan<byte> piece, bool isText, bool isLast)
    {
    }

    /// <summary>A ping. It was answered already. The session's thread.</summary>
    /// <param name="payload">Up to 125 bytes. Valid during the call only.</param>
    protected virtual void OnPing(ReadOnlySpan<byte> payload)
    {
    }

    /// <summary>A pong: to a ping of ours, to one of the heart-beat, or unasked. The session's thread.</summary>
    /// <param name="payload">Up to 125 bytes. Valid during the call only.</param>
    protected virtual void OnPong(ReadOnlySpan<byte> payload)
    {
    }

    // ------------------------------------------------------------------ reading

    /// <summary>Reads frames. What a message needs is told by the other overrides.</summary>
    /// <param name="unread">What came.</param>
    protected sealed override int OnUnread(ReadOnlySpan<byte> unread)
    {
        if (_options is null) throw new InvalidOperationException("A WebSocket session serves a route of HttpServer.WebSocket or a WebSocketClient.");
        _heard = true;
        Span<byte> bytes = Writable(unread);
        int taken = 0;
        bool goesOn;
        do
        {
            taken += ReadFrames(bytes[taken..]);
            goesOn = taken < bytes.Length && IsReceivingPaused;
            _inbox?.EndTurn();
            // A read that was served by that may have ended the pause: nobody else offers the rest before more has come.
        }
        while (goesOn && !IsReceivingPaused);
        return taken;
    }

    private int ReadFrames(Span<byte> bytes)
    {
        int at = 0;
        // What an echo cannot send stays with the connection, and comes again; so do messages behind one that paused.
        while (!IsHeldBack && !IsReceivingPaused)
        {
            WebSocketReading reading = _reader.Read(bytes[at..], out int taken);
            Span<byte> found = reading is WebSocketReading.Piece or WebSocketReading.Control ? bytes.Slice(at + _reader.Start, _reader.Length) : default;
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

    // The core resets what an exception ends, and the peer would never see why: so it goes no further than here.
    private void Tell(Span<byte> found, WebSocketReading reading)
    {
        try
        {
            if (reading == WebSocketReading.Control) Heed(found);
            else if (!IsEnding) Take(found);
        }
        catch (Exception e)
        {
            NoteException(e, NameOf(reading), outcome: ErrorOutcome);
            EndWith(WebSocketStatus.InternalError, "");
        }
    }

    /// <summary>The override that gets what was read.</summary>
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
        deflate.Inflater ??= Inflater.Rent(Math.Max(_role == WebSocketRole.Server ? terms.ClientBits : terms.ServerBits, DeflateTerms.LeastWrittenBits), forgets);
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
