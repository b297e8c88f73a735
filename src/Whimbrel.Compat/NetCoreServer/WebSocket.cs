using System.Security.Cryptography;
using System.Text;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// WebSocket protocol between bytes and an <see cref="IWebSocket"/>: handshake, frames, messages. Without I/O. Frames
/// are received on one thread at a time. They are composed under <see cref="SendGate"/>, because one buffer holds a
/// frame until it is sent.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Messages are reported complete, whatever frames and splits they arrived in. Text is valid UTF-8. A control
/// frame between fragments is reported separately.</item>
/// <item>The first broken rule is reported as an error, with a status for the close frame (<see cref="Verdict"/>), and
/// nothing is read after it.</item>
/// <item>Each frame of a client has its own unpredictable mask.</item>
/// <item>One close frame is sent, and nothing after it.</item>
/// </list>
/// </remarks>
public class WebSocket : IWebSocket
{
    /// <summary>FIN bit: last frame of a message.</summary>
    public const byte WS_FIN = 0x80;

    /// <summary>Opcode of a text message.</summary>
    public const byte WS_TEXT = 0x01;

    /// <summary>Opcode of a binary message.</summary>
    public const byte WS_BINARY = 0x02;

    /// <summary>Opcode of a close frame.</summary>
    public const byte WS_CLOSE = 0x08;

    /// <summary>Opcode of a ping.</summary>
    public const byte WS_PING = 0x09;

    /// <summary>Opcode of a pong.</summary>
    public const byte WS_PONG = 0x0A;

    internal const int DefaultMessageBytes = 16 * 1024 * 1024;
    internal const int MostMessageBytes = 1 << 30; // that of the native reader

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

    /// <summary>Creates a WebSocket.</summary>
    /// <param name="wsHandler">Receiver of the callbacks.</param>
    public WebSocket(IWebSocket wsHandler)
    {
        ArgumentNullException.ThrowIfNull(wsHandler);
        _owner = wsHandler;
        InitWsNonce();
    }

    /// <summary>True if the handshake is complete.</summary>
    internal bool IsOpen => _isOpen;

    /// <summary>True if the owner rejected the last upgrade request.</summary>
    internal bool IsRefused { get; private set; }

    /// <summary>True on the client's side.</summary>
    internal bool IsClient => _isClient;

    /// <summary>True if a close frame was composed: nothing may follow it.</summary>
    internal bool IsClosing => _isClosing;

    /// <summary>Key of a client's handshake.</summary>
    internal byte[] Nonce { get; private set; } = new byte[NonceBytes];

    /// <summary>Held while a frame is composed and queued.</summary>
    internal Lock SendGate { get; } = new();

    /// <summary>Last composed frame.</summary>
    internal ReadOnlySpan<byte> Frame => _sent.AsSpan();

    /// <summary>Status for the close frame, once the peer has broken a rule.</summary>
    internal WebSocketStatus? Verdict { get; private set; }

    // ------------------------------------------------------------------ handshake

    /// <summary>Validates the response to a client's upgrade request.</summary>
    /// <param name="response">Response of the server.</param>
    /// <param name="id">Id of the client. Not used.</param>
    /// <returns>True: the handshake is complete, and OnWsConnected was called.</returns>
    public bool PerformClientUpgrade(HttpResponse response, Guid id)
    {
        ArgumentNullException.ThrowIfNull(response);
        if (response.Status != 101) return false;
        HttpMessage message = response.Message;
        string? what = !message.Lists("Connection"u8, "Upgrade"u8) ? "'Connection' does not name Upgrade"
            : !message.Lists("Upgrade"u8, "websocket"u8) ? "'Upgrade' does not name websocket"
            : message.ValueOf("Sec-WebSocket-Accept"u8) is not { } accept
                || accept != AcceptFor(Convert.ToBase64String(Nonce))
            ? "'Sec-WebSocket-Accept' is not the answer to the key"
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

    /// <summary>Validates an upgrade request, and answers it.</summary>
    /// <param name="request">Request of the client.</param>
    /// <param name="response">Response to compose.</param>
    /// <returns>
    /// True: the handshake is complete, and OnWsConnected was called. False: the request was no upgrade, was invalid
    /// and answered with 400, or was rejected by the owner. In the last case <paramref name="response"/> has what the
    /// owner composed, or nothing.
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

        response.Clear().SetBegin(101).SetHeader("Connection", "Upgrade").SetHeader("Upgrade", "websocket")
            .SetHeader("Sec-WebSocket-Accept", accept!).SetBody();
        if (!_owner.OnWsConnecting(request, response))
        {
            // The owner answers it: here, in OnReceivedRequest, or by AnswerRefused.
            if (response.Status == 101) response.Clear();
            IsRefused = true;
            return false;
        }

        // A peer with the answer must be in the server's group, and the answer must come first.
        (_owner as IWsOwner)?.Opening();
        _owner.SendUpgrade(response);
        Open(isClient: false);
        _owner.OnWsConnected(request);
        return true;
    }

    /// <summary>Answers an upgrade that the owner rejected: with what it composed, or with 403.</summary>
    internal void AnswerRefused(HttpResponse response)
    {
        if (response.IsEmpty) response.MakeErrorResponse(403, "The server has refused this WebSocket.");
        else if (!response.Message.HasBody) response.SetBody();
        _owner.SendUpgrade(response);
    }

    private void Open(bool isClient)
    {
        _isClient = isClient;
        _reader = MakeReader(!isClient);
        _isClosing = false;
        _isOpen = true;
        (_owner as IWsOwner)?.Opened();
    }

    private static WebSocketMessageReader MakeReader(bool ofClient) =>
        new(ofClient, CompatOptions.WebSocketMessageLimitBytes);

    private static string? AcceptFor(string key)
    {
        Span<byte> accept = stackalloc byte[WebSocketFrames.AcceptLength];
        return WebSocketFrames.TryAccept(Encoding.UTF8.GetBytes(key), accept) ? Encoding.ASCII.GetString(accept) : null;
    }

    // ------------------------------------------------------------------ sending

    /// <summary>Composes a frame to be sent by the owner. Hold the owner's send lock until it is sent.</summary>
    /// <param name="opcode">Opcode of the frame.</param>
    /// <param name="mask">True on a client.</param>
    /// <param name="buffer">Payload, or the reason of a close frame.</param>
    /// <param name="status">Status of a close frame; 0 for none.</param>
    /// <exception cref="ArgumentException">The payload is not allowed in such a frame.</exception>
    public void PrepareSendFrame(byte opcode, bool mask, ReadOnlySpan<byte> buffer, int status = 0)
    {
        WebSocketPart part = PartOf(opcode);
        lock (SendGate)
        {
            Span<byte> close = stackalloc byte[125];
            Compose(part, mask, part == WebSocketPart.Close ? WsSending.WriteClose(close, status, buffer) : buffer);
        }
    }

    /// <summary>Composes a frame of this side. Hold the send lock.</summary>
    internal void Compose(WebSocketPart part, ReadOnlySpan<byte> payload) => Compose(part, _isClient, payload);

    /// <summary>Starts a close whose frame the caller sends; nothing follows it. False if one was already sent, or the
    /// WebSocket is not open.</summary>
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
        _ => throw new ArgumentOutOfRangeException(nameof(opcode), opcode,
            "A frame is a message, a close, a ping or a pong."),
    };

    // ------------------------------------------------------------------ receiving

    /// <summary>Parses received bytes and calls the owner. Incomplete frames wait for more bytes.</summary>
    /// <param name="buffer">Array with the bytes, which are unmasked in place.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="size">Number of bytes.</param>
    public void PrepareReceiveFrame(byte[] buffer, long offset, long size)
    {
        if (buffer is null || size == 0 || Verdict is not null) return;
        if (offset < 0 || size < 0 || offset > buffer.Length || size > buffer.Length - offset)
            throw new ArgumentException("The part is not all in the array.", nameof(size));
        _reader ??= MakeReader(!_isClient);
        Span<byte> bytes = buffer.AsSpan((int)offset, (int)size);
        if (_unread.IsEmpty)
        {
            // Only headers and control frames are ever left, because pieces of messages are consumed at once.
            _unread.Append(bytes[Read(_reader, bytes)..]);
            return;
        }

        _unread.Append(bytes);
        int taken = Read(_reader, _unread.AsSpan());
        _unread.Remove(0, Math.Min(taken, _unread.Size));
    }

    /// <summary>Returns the number of bytes to the end of the current header or frame.</summary>
    public long RequiredReceiveFrameSize()
    {
        if (_reader?.MissingBytes is > 0 and long missing) return missing;
        ReadOnlySpan<byte> head = _unread.AsSpan();
        if (head.Length < 2) return 2 - head.Length;
        int length = head[1] & 0x7F;
        int whole = 2 + (length == 127 ? 8 : length == 126 ? 2 : 0) + ((head[1] & 0x80) != 0 ? 4 : 0);
        return head.Length < whole ? whole - head.Length : Math.Max(1, whole + length - head.Length);
    }

    /// <summary>Resets all state, including the handshake.</summary>
    public void ClearWsBuffers()
    {
        _isOpen = _isClosing = false;
        _reader = null;
        Verdict = null;
        _unread.Clear();
        if (_told.Length > MostKeptBytes) _told = [];
        lock (SendGate) _sent.Clear();
    }

    /// <summary>Creates a new random key for a client's handshake.</summary>
    public void InitWsNonce() => Nonce = RandomNumberGenerator.GetBytes(NonceBytes);

    /// <summary>Copies the next message to a buffer as well, for a blocking receive.</summary>
    internal void Want(Buffer? message) => _wanted = message;

    /// <summary>True if the requested message has arrived.</summary>
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
                    // The owner has ended the connection during the callback.
                    if (!ReferenceEquals(reader, _reader)) return bytes.Length;
                    break;
            }
        }
    }

    private void Tell(WebSocketPart part, ReadOnlySpan<byte> payload, WebSocketMessageReader reader)
    {
        if (part == WebSocketPart.Close) payload = payload.Length > 2 ? payload[2..] : default;
        if (_told.Length < payload.Length || (_told.Length > MostKeptBytes && payload.Length <= MostKeptBytes))
            _told = new byte[Math.Max(payload.Length, 256)];
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
                _owner.OnWsClose(_told, 0, payload.Length,
                    reader.Status == WebSocketStatus.None ? (int)WebSocketStatus.Normal : (int)reader.Status);
                break;
            default:
                if (_isClosing) break;
                Interlocked.Exchange(ref _wanted, null)?.Append(payload);
                _owner.OnWsReceived(_told, 0, payload.Length);
                break;
        }
    }
}
