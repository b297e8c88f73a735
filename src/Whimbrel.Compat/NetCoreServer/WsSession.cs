using System.Net.Sockets;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// The server's side of a WebSocket: override <see cref="OnWsReceived"/>. Until it is upgraded it is a session of HTTP. Frames are read strictly, within limits
/// (<see cref="NetCoreServer.WebSocket"/>).
/// </summary>
public class WsSession : HttpSession, IWebSocket, IWsOwner
{
    /// <summary>Makes the session of a connection.</summary>
    /// <param name="server">Its server.</param>
    public WsSession(WsServer server)
        : base(server) => WebSocket = new WebSocket(this);

    internal WebSocket WebSocket { get; }

    private protected override bool IsUpgraded => WebSocket.IsOpen;

    bool? IWsOwner.Queue(ReadOnlySpan<byte> head, ReadOnlySpan<byte> payload) => HasOwnSending ? null : QueueInPieces(head, payload);

    /// <summary>Sends a close without a status, and disconnects when it has left.</summary>
    /// <returns>True.</returns>
    public virtual bool Close() => Close(0, ReadOnlySpan<byte>.Empty);

    /// <summary>Sends a close, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <returns>True.</returns>
    public virtual bool Close(int status) => Close(status, ReadOnlySpan<byte>.Empty);

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>True.</returns>
    public virtual bool Close(int status, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Close(status, text.AsSpan());
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>True.</returns>
    public virtual bool Close(int status, ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return Close(status, utf8.Span);
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>True.</returns>
    public virtual bool Close(int status, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Close(status, buffer.AsSpan());
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>True.</returns>
    public virtual bool Close(int status, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Close(status, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>True.</returns>
    public virtual bool Close(int status, ReadOnlySpan<byte> buffer)
    {
        SendClose(status, buffer);
        base.Disconnect();
        return true;
    }

    /// <summary>Sends a message of text, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendText(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendText(text.AsSpan());
    }

    /// <summary>Sends a message of text, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendText(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendText(utf8.Span);
    }

    /// <summary>Sends a message of text, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendText(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendText(buffer.AsSpan());
    }

    /// <summary>Sends a message of text, and waits until the system has it.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendText(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendText(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a message of text, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendText(ReadOnlySpan<byte> buffer) => WsSending.Send(WebSocket, this, WebSocketPart.Text, buffer);

    /// <summary>Sends a message of text.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendTextAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendTextAsync(text.AsSpan());
    }

    /// <summary>Sends a message of text.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendTextAsync(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendTextAsync(utf8.Span);
    }

    /// <summary>Sends a message of text.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendTextAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendTextAsync(buffer.AsSpan());
    }

    /// <summary>Sends a message of text.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendTextAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendTextAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a message of text.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendTextAsync(ReadOnlySpan<byte> buffer) => WsSending.Queue(WebSocket, this, WebSocketPart.Text, buffer);

    /// <summary>Sends a message of bytes, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendBinary(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendBinary(text.AsSpan());
    }

    /// <summary>Sends a message of bytes, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendBinary(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendBinary(utf8.Span);
    }

    /// <summary>Sends a message of bytes, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendBinary(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendBinary(buffer.AsSpan());
    }

    /// <summary>Sends a message of bytes, and waits until the system has it.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendBinary(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendBinary(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a message of bytes, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendBinary(ReadOnlySpan<byte> buffer) => WsSending.Send(WebSocket, this, WebSocketPart.Binary, buffer);

    /// <summary>Sends a message of bytes.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendBinaryAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendBinaryAsync(text.AsSpan());
    }

    /// <summary>Sends a message of bytes.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendBinaryAsync(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendBinaryAsync(utf8.Span);
    }

    /// <summary>Sends a message of bytes.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendBinaryAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendBinaryAsync(buffer.AsSpan());
    }

    /// <summary>Sends a message of bytes.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendBinaryAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendBinaryAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a message of bytes.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendBinaryAsync(ReadOnlySpan<byte> buffer) => WsSending.Queue(WebSocket, this, WebSocketPart.Binary, buffer);

    /// <summary>Sends a close, and waits until the system has it.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendClose(int status, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendClose(status, text.AsSpan());
    }

    /// <summary>Sends a close, and waits until the system has it.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendClose(int status, ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendClose(status, utf8.Span);
    }

    /// <summary>Sends a close, and waits until the system has it.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendClose(int status, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendClose(status, buffer.AsSpan());
    }

    /// <summary>Sends a close, and waits until the system has it.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendClose(int status, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendClose(status, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a close, and waits until the system has it.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendClose(int status, ReadOnlySpan<byte> buffer) => WsSending.SendClose(WebSocket, this, status, buffer);

    /// <summary>Sends a close.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendCloseAsync(int status, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendCloseAsync(status, text.AsSpan());
    }

    /// <summary>Sends a close.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendCloseAsync(int status, ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendCloseAsync(status, utf8.Span);
    }

    /// <summary>Sends a close.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendCloseAsync(int status, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendCloseAsync(status, buffer.AsSpan());
    }

    /// <summary>Sends a close.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendCloseAsync(int status, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendCloseAsync(status, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a close.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendCloseAsync(int status, ReadOnlySpan<byte> buffer) => WsSending.QueueClose(WebSocket, this, status, buffer);

    /// <summary>Sends a ping, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPing(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendPing(text.AsSpan());
    }

    /// <summary>Sends a ping, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPing(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendPing(utf8.Span);
    }

    /// <summary>Sends a ping, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPing(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPing(buffer.AsSpan());
    }

    /// <summary>Sends a ping, and waits until the system has it.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPing(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPing(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a ping, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPing(ReadOnlySpan<byte> buffer) => WsSending.Send(WebSocket, this, WebSocketPart.Ping, buffer);

    /// <summary>Sends a ping.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPingAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendPingAsync(text.AsSpan());
    }

    /// <summary>Sends a ping.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPingAsync(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendPingAsync(utf8.Span);
    }

    /// <summary>Sends a ping.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPingAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPingAsync(buffer.AsSpan());
    }

    /// <summary>Sends a ping.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPingAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPingAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a ping.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPingAsync(ReadOnlySpan<byte> buffer) => WsSending.Queue(WebSocket, this, WebSocketPart.Ping, buffer);

    /// <summary>Sends a pong, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPong(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendPong(text.AsSpan());
    }

    /// <summary>Sends a pong, and waits until the system has it.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPong(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendPong(utf8.Span);
    }

    /// <summary>Sends a pong, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPong(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPong(buffer.AsSpan());
    }

    /// <summary>Sends a pong, and waits until the system has it.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPong(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPong(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a pong, and waits until the system has it.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long SendPong(ReadOnlySpan<byte> buffer) => WsSending.Send(WebSocket, this, WebSocketPart.Pong, buffer);

    /// <summary>Sends a pong.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPongAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendPongAsync(text.AsSpan());
    }

    /// <summary>Sends a pong.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPongAsync(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendPongAsync(utf8.Span);
    }

    /// <summary>Sends a pong.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPongAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPongAsync(buffer.AsSpan());
    }

    /// <summary>Sends a pong.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPongAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendPongAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a pong.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendPongAsync(ReadOnlySpan<byte> buffer) => WsSending.Queue(WebSocket, this, WebSocketPart.Pong, buffer);

    /// <summary>Waits for the next message, and gives it as text. For who has connected by the blocking call.</summary>
    /// <returns>What has come of it, when the connection ends before its end.</returns>
    public string ReceiveText() => ReceiveBinary().ToString();

    /// <summary>Waits for the next message. For who has connected by the blocking call.</summary>
    /// <returns>Empty, when the connection ends before its end.</returns>
    public Buffer ReceiveBinary() => WsSending.Receive(WebSocket, this);

    /// <summary>The connection is about to end: a WebSocket that was not closed is, with 1001.</summary>
    protected override void OnDisconnecting()
    {
        if (!WebSocket.IsOpen) return;
        WsSending.QueueClose(WebSocket, this, (int)WebSocketStatus.GoingAway, default);
        OnWsDisconnecting();
    }

    /// <summary>The connection has ended.</summary>
    protected override void OnDisconnected()
    {
        base.OnDisconnected();
        bool wasOpen = WebSocket.IsOpen;
        WebSocket.ClearWsBuffers();
        if (wasOpen) OnWsDisconnected();
    }

    /// <summary>Reads frames, and requests until it is upgraded.</summary>
    /// <param name="buffer">Where their bytes lie. Frames are unmasked in place.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    protected override void OnReceived(byte[] buffer, long offset, long size)
    {
        if (WebSocket.IsOpen) ReceiveFrames(buffer, offset, size);
        else base.OnReceived(buffer, offset, size);
    }

    /// <summary>The header of a request was read: one that asks to upgrade is answered.</summary>
    /// <param name="request">The request, without its body.</param>
    protected override void OnReceivedRequestHeader(HttpRequest request) => WebSocket.PerformServerUpgrade(request, Response);

    /// <summary>
    /// A request is there: one that has upgraded the session (after <see cref="OnWsConnected(HttpRequest)"/>; no response can be sent to it), one that did not ask for an
    /// upgrade, or one that was refused. The default answers an upgrade that <see cref="OnWsConnecting(HttpRequest, HttpResponse)"/> has refused and that has
    /// no answer yet, with the response that was composed there or with 403, and ends the connection.
    /// </summary>
    /// <param name="request">The request.</param>
    protected override void OnReceivedRequest(HttpRequest request)
    {
        if (WebSocket.IsRefused && !IsAnswered) WebSocket.AnswerRefused(Response);
    }

    /// <summary>A request broke a rule.</summary>
    /// <param name="request">What there is of it.</param>
    /// <param name="error">Which rule.</param>
    protected override void OnReceivedRequestError(HttpRequest request, string error) => base.OnReceivedRequestError(request, error);

    /// <inheritdoc/>
    public virtual void OnWsConnecting(HttpRequest request)
    {
    }

    /// <inheritdoc/>
    public virtual void OnWsConnected(HttpResponse response)
    {
    }

    /// <inheritdoc/>
    public virtual bool OnWsConnecting(HttpRequest request, HttpResponse response) => true;

    /// <inheritdoc/>
    public virtual void OnWsConnected(HttpRequest request)
    {
    }

    /// <inheritdoc/>
    public virtual void OnWsDisconnecting()
    {
    }

    /// <inheritdoc/>
    public virtual void OnWsDisconnected()
    {
    }

    /// <inheritdoc/>
    public virtual void OnWsReceived(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>The peer closes. The default closes as well.</summary>
    /// <param name="buffer">Where its reason lies.</param>
    /// <param name="offset">Where that begins.</param>
    /// <param name="size">How many bytes it has.</param>
    /// <param name="status">Its status; 1000 when it said none.</param>
    public virtual void OnWsClose(byte[] buffer, long offset, long size, int status = 1000) => Close();

    /// <summary>A ping. The default answers it.</summary>
    /// <param name="buffer">Where its payload lies.</param>
    /// <param name="offset">Where that begins.</param>
    /// <param name="size">How many bytes it has.</param>
    public virtual void OnWsPing(byte[] buffer, long offset, long size) => SendPongAsync(buffer, offset, size);

    /// <inheritdoc/>
    public virtual void OnWsPong(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>The peer broke a rule. The default tells of an error of the connection.</summary>
    /// <param name="error">Which.</param>
    public virtual void OnWsError(string error) => OnError(SocketError.SocketError);

    /// <summary>The connection failed. The default tells of an error of the connection.</summary>
    /// <param name="error">How.</param>
    public virtual void OnWsError(SocketError error) => OnError(error);

    /// <summary>Sends the answer to a request to upgrade. One that refuses it is the last answer of its connection.</summary>
    /// <param name="response">The answer.</param>
    public void SendUpgrade(HttpResponse response)
    {
        ArgumentNullException.ThrowIfNull(response);
        bool isRefusal = response.Status != 101;
        if (isRefusal) response.Message.AddFirst("Connection", "close");
        SendResponseAsync(response);
        if (isRefusal) RefuseMore();
    }

    void IWsOwner.Opening() => Link.JoinHeld(((WsServer)Server).OpenSockets);

    void IWsOwner.Opened() => Link.OpenGate(((WsServer)Server).OpenSockets);

    void IWsOwner.Closing() => Link.Leave(((WsServer)Server).OpenSockets);

    bool IWsOwner.Queue(ReadOnlySpan<byte> bytes) => SendAsync(bytes);

    long IWsOwner.SendNow(ReadOnlySpan<byte> bytes) => Send(bytes);

    long IWsOwner.ReceiveNow(byte[] buffer, long offset, long size) => Receive(buffer, offset, size);

    // Who breaks a rule is told which, and nothing of theirs is read any more.
    private void ReceiveFrames(byte[] buffer, long offset, long size)
    {
        WebSocket.PrepareReceiveFrame(buffer, offset, size);
        if (WebSocket.Verdict is not { } status) return;
        WsSending.QueueClose(WebSocket, this, (int)status, default);
        Disconnect();
    }
}
