using System.Security.Cryptography;
using System.Text;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// The protocol between bytes and what an <see cref="IWebSocket"/> is told: handshake, frames, messages. Without I/O. Frames are received on one thread at a
/// time; composed under <see cref="SendGate"/>, as the bytes of one frame lie in one place until they are sent.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Messages are told whole, whatever frames and cuts they came in. Text is valid UTF-8. A control frame between fragments is told by itself.</item>
/// <item>The first broken rule is told as an error, with a close to send (<see cref="Verdict"/>), and nothing is read after it.</item>
/// <item>A frame of a client has a mask of its own that nobody can guess.</item>
/// <item>One close is sent; nothing behind it.</item>
/// </list>
/// </remarks>
public class WebSocket : IWebSocket
{
    /// <summary>The last frame of its message.</summary>
    public const byte WS_FIN = 0x80;

    /// <summary>A message of text.</summary>
    public const byte WS_TEXT = 0x01;

    /// <summary>A message of bytes.</summary>
    public const byte WS_BINARY = 0x02;

    /// <summary>A close.</summary>
    public const byte WS_CLOSE = 0x08;

    /// <summary>A ping.</summary>
    public const byte WS_PING = 0x09;

    /// <summary>A pong.</summary>
    public const byte WS_PONG = 0x0A;

    /// <summary>Largest message that is received.</summary>
    internal const int MostMessageBytes = 16 * 1024 * 1024;

    private const int MostKeptBytes = 256 * 1024;
    private const int NonceBytes = 16;
    private const byte OpcodeBits = 0x0F;

    private readonly IWebSocket _owner;
    private WebSocketMessageReader? _reader;
    private readonly Buffer _unread = new();
    private Buffer _sent = new();
    private byte[] _told = [];
    private Buffer? _wanted;
    private bool _isClient;
    private volatile bool _isOpen;
    private volatile bool _isClosing;

    /// <summary>Makes one.</summary>
    /// <param name="wsHandler">Is told what happens.</param>
    public WebSocket(IWebSocket wsHandler)
    {
        ArgumentNullException.ThrowIfNull(wsHandler);
        _owner = wsHandler;
        InitWsNonce();
    }

    /// <summary>The handshake is done.</summary>
    internal bool IsOpen => _isOpen;

    /// <summary>The owner has refused the upgrade that was asked for last.</summary>
    internal bool IsRefused { get; private set; }

    /// <summary>This end is the client's.</summary>
    internal bool IsClient => _isClient;

    /// <summary>A close was composed: nothing may follow it.</summary>
    internal bool IsClosing => _isClosing;

    /// <summary>The key of a client's handshake.</summary>
    internal byte[] Nonce { get; private set; } = new byte[NonceBytes];

    /// <summary>Held while a frame is composed and given on.</summary>
    internal Lock SendGate { get; } = new();

    /// <summary>The frame that was composed last.</summary>
    internal ReadOnlySpan<byte> Frame => _sent.AsSpan();

    /// <summary>The status to close with, once the peer has broken a rule.</summary>
    internal WebSocketStatus? Verdict { get; private set; }

    // ------------------------------------------------------------------ handshake

    /// <summary>Judges the answer to a client's upgrade.</summary>
    /// <param name="response">The answer.</param>
    /// <param name="id">Of the client.</param>
    /// <returns>True: the handshake is done, and the owner was told.</returns>
    public bool PerformClientUpgrade(HttpResponse response, Guid id)
    {
        ArgumentNullException.ThrowIfNull(response);
        if (response.Status != 101) return false;
        HttpMessage message = response.Message;
        string? what = !message.Lists("Connection"u8, "Upgrade"u8) ? "'Connection' does not name Upgrade"
            : !message.Lists("Upgrade"u8, "websocket"u8) ? "'Upgrade' does not name websocket"
            : message.ValueOf("Sec-WebSocket-Accept"u8) is not { } accept || accept != AcceptFor(Convert.ToBase64String(Nonce)) ? "'Sec-WebSocket-Accept' is not the answer to the key"
            : null;
        if (what is not null)
        {
            _owner.OnWsError($"Invalid WebSocket response: {what}.");
            return false;
        }

        Open(isClient: true);
        _owner.OnWsConnected(response);
        return true;
    }

    /// <summary>Judges a request to upgrade, and has it answered.</summary>
    /// <param name="request">The request.</param>
    /// <param name="response">For the answer.</param>
    /// <returns>
    /// True: the handshake is done, and OnWsConnected was called. False: it asked for no upgrade, or wrongly and was answered so, or the owner has refused it; then
    /// <paramref name="response"/> has what the owner composed in place of the answer, or nothing.
    /// </returns>
    public bool PerformServerUpgrade(HttpRequest request, HttpResponse response)
    {
        ArgumentNullException.ThrowIfNull(request);
        ArgumentNullException.ThrowIfNull(response);
        IsRefused = false;
        if (request.Method != "GET") return false;
        HttpMessage message = request.Message;
        bool isAsked = message.Lists("Upgrade"u8, "websocket"u8);
        string? key = message.ValueOf("Sec-WebSocket-Key"u8);
        if (!isAsked && key is null) return false;
        string? accept = key is null ? null : AcceptFor(key);
        string? what = !isAsked ? "'Upgrade' does not name websocket"
            : !message.Lists("Connection"u8, "Upgrade"u8) ? "'Connection' does not name Upgrade"
            : message.ValueOf("Sec-WebSocket-Version"u8) != "13" ? "'Sec-WebSocket-Version' is not 13"
            : accept is null ? "'Sec-WebSocket-Key' is not 16 bytes in base64"
            : null;
        if (what is not null)
        {
            response.MakeErrorResponse(400, $"Invalid WebSocket request: {what}.");
            _owner.SendUpgrade(response);
            return false;
        }

        response.Clear().SetBegin(101).SetHeader("Connection", "Upgrade").SetHeader("Upgrade", "websocket").SetHeader("Sec-WebSocket-Accept", accept!).SetBody();
        if (!_owner.OnWsConnecting(request, response))
        {
            // What is answered to it is the owner's to say: here, in OnReceivedRequest, or by AnswerRefused.
            if (response.Status == 101) response.Clear();
            IsRefused = true;
            return false;
        }

        // A peer that has the answer is in the group of the server, and the answer is the first that it gets.
        (_owner as IWsOwner)?.Opening();
        _owner.SendUpgrade(response);
        Open(isClient: false);
        _owner.OnWsConnected(request);
        return true;
    }

    /// <summary>Answers an upgrade that the owner has refused: with what it has composed, or with 403.</summary>
    internal void AnswerRefused(HttpResponse response)
    {
        if (response.IsEmpty) response.MakeErrorResponse(403, "The server has refused this WebSocket.");
        else if (!response.Message.HasBody) response.SetBody();
        _owner.SendUpgrade(response);
    }

    private void Open(bool isClient)
    {
        _isClient = isClient;
        _reader = new WebSocketMessageReader(ofClient: !isClient, MostMessageBytes);
        _isClosing = false;
        _isOpen = true;
        (_owner as IWsOwner)?.Opened();
    }

    private static string? AcceptFor(string key)
    {
        Span<byte> accept = stackalloc byte[WebSocketFrames.AcceptLength];
        return WebSocketFrames.TryAccept(Encoding.UTF8.GetBytes(key), accept) ? Encoding.ASCII.GetString(accept) : null;
    }

    // ------------------------------------------------------------------ sending

    /// <summary>Composes a frame, to be sent by the owner. Hold the owner's lock of sending until it was.</summary>
    /// <param name="opcode">What it is.</param>
    /// <param name="mask">A client composes it.</param>
    /// <param name="buffer">The payload. Of a close its reason.</param>
    /// <param name="status">Of a close; 0 for none.</param>
    /// <exception cref="ArgumentException">The payload may not stand in such a frame.</exception>
    public void PrepareSendFrame(byte opcode, bool mask, ReadOnlySpan<byte> buffer, int status = 0)
    {
        WebSocketPart part = PartOf(opcode);
        lock (SendGate)
        {
            Span<byte> close = stackalloc byte[125];
            Compose(part, mask, part == WebSocketPart.Close ? WsSending.WriteClose(close, status, buffer) : buffer);
        }
    }

    /// <summary>The same for who knows this end. Hold the lock of sending.</summary>
    internal void Compose(WebSocketPart part, ReadOnlySpan<byte> payload) => Compose(part, _isClient, payload);

    /// <summary>A close is sent by the caller, and nothing behind it. False: it was, or there is nothing to close.</summary>
    internal bool TryBeginClose()
    {
        lock (SendGate)
        {
            if (!_isOpen || _isClosing) return false;
            BeginClose();
            return true;
        }
    }

    private void BeginClose()
    {
        _isClosing = true;
        (_owner as IWsOwner)?.Closing();
    }

    private void Compose(WebSocketPart part, bool mask, ReadOnlySpan<byte> payload)
    {
        if (_sent.Capacity > MostKeptBytes) _sent = new Buffer();
        _sent.Clear();
        _sent.Resize(WebSocketFrames.LengthOf(payload.Length, mask));
        WebSocketFrames.Write(_sent.AsSpan(), part, payload, mask);
        if (part == WebSocketPart.Close) BeginClose();
    }

    private static WebSocketPart PartOf(byte opcode) => (opcode & OpcodeBits) switch
    {
        WS_TEXT => WebSocketPart.Text,
        WS_BINARY => WebSocketPart.Binary,
        WS_CLOSE => WebSocketPart.Close,
        WS_PING => WebSocketPart.Ping,
        WS_PONG => WebSocketPart.Pong,
        _ => throw new ArgumentOutOfRangeException(nameof(opcode), opcode, "A frame is a message, a close, a ping or a pong."),
    };

    // ------------------------------------------------------------------ receiving

    /// <summary>Takes received bytes, and tells the owner what they are. What is not whole waits for more.</summary>
    /// <param name="buffer">Where they lie. They are unmasked in place.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public void PrepareReceiveFrame(byte[] buffer, long offset, long size)
    {
        if (buffer is null || size == 0 || Verdict is not null) return;
        if (offset < 0 || size < 0 || offset > buffer.Length || size > buffer.Length - offset) throw new ArgumentException("The part is not all in the array.", nameof(size));
        _reader ??= new WebSocketMessageReader(ofClient: !_isClient, MostMessageBytes);
        Span<byte> bytes = buffer.AsSpan((int)offset, (int)size);
        if (_unread.IsEmpty)
        {
            // Only heads and control frames are ever left: pieces of messages are taken as they come.
            _unread.Append(bytes[Read(_reader, bytes)..]);
            return;
        }

        _unread.Append(bytes);
        int taken = Read(_reader, _unread.AsSpan());
        _unread.Remove(0, Math.Min(taken, _unread.Size));
    }

    /// <summary>How many bytes bring it on: to the end of a head, or of a frame.</summary>
    public long RequiredReceiveFrameSize()
    {
        if (_reader?.MissingBytes is > 0 and long missing) return missing;
        ReadOnlySpan<byte> head = _unread.AsSpan();
        if (head.Length < 2) return 2 - head.Length;
        int length = head[1] & 0x7F;
        int whole = 2 + (length == 127 ? 8 : length == 126 ? 2 : 0) + ((head[1] & 0x80) != 0 ? 4 : 0);
        return head.Length < whole ? whole - head.Length : Math.Max(1, whole + length - head.Length);
    }

    /// <summary>Forgets what was begun, the handshake too.</summary>
    public void ClearWsBuffers()
    {
        _isOpen = _isClosing = false;
        _reader = null;
        Verdict = null;
        _unread.Clear();
        if (_told.Length > MostKeptBytes) _told = [];
        lock (SendGate) _sent.Clear();
    }

    /// <summary>Makes a new key for a client's handshake, which nobody can guess.</summary>
    public void InitWsNonce() => Nonce = RandomNumberGenerator.GetBytes(NonceBytes);

    /// <summary>The next message is copied there as well, for who waits for it.</summary>
    internal void Want(Buffer? message) => _wanted = message;

    /// <summary>Whether the message that was wanted has come.</summary>
    internal bool HasWanted => _wanted is null;

    private int Read(WebSocketMessageReader reader, Span<byte> bytes)
    {
        int at = 0;
        while (true)
        {
            WebSocketPart part = reader.Read(bytes[at..], out int taken, out ReadOnlySpan<byte> payload);
            at += taken;
            switch (part)
            {
                case WebSocketPart.NeedMore:
                    return at;
                case WebSocketPart.Broken:
                    Verdict = reader.Status;
                    _owner.OnWsError($"Invalid WebSocket frame: {reader.Reason}.");
                    return bytes.Length;
                default:
                    Tell(part, payload, reader);
                    // The owner has ended it, and what it was told is over.
                    if (!ReferenceEquals(reader, _reader)) return bytes.Length;
                    break;
            }
        }
    }

    private void Tell(WebSocketPart part, ReadOnlySpan<byte> payload, WebSocketMessageReader reader)
    {
        if (part == WebSocketPart.Close) payload = payload.Length > 2 ? payload[2..] : default;
        if (_told.Length < payload.Length || (_told.Length > MostKeptBytes && payload.Length <= MostKeptBytes)) _told = new byte[Math.Max(payload.Length, 256)];
        payload.CopyTo(_told);
        switch (part)
        {
            case WebSocketPart.Ping:
                _owner.OnWsPing(_told, 0, payload.Length);
                break;
            case WebSocketPart.Pong:
                _owner.OnWsPong(_told, 0, payload.Length);
                break;
            case WebSocketPart.Close:
                _owner.OnWsClose(_told, 0, payload.Length, reader.Status == WebSocketStatus.None ? (int)WebSocketStatus.Normal : (int)reader.Status);
                break;
            default:
                if (_isClosing) break;
                Interlocked.Exchange(ref _wanted, null)?.Append(payload);
                _owner.OnWsReceived(_told, 0, payload.Length);
                break;
        }
    }
}
