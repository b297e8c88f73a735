using System.Net;
using System.Net.Sockets;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// A client of a WebSocket: fill its request in <see cref="OnWsConnecting(HttpRequest)"/>, and override <see cref="OnWsReceived"/>. Frames are read strictly,
/// within limits (<see cref="WebSocket"/>).
/// </summary>
public class WsClient : HttpClient, IWebSocket, IWsOwner
{
    private bool _isBlocking;

    /// <summary>Makes one.</summary>
    /// <param name="address">The address.</param>
    /// <param name="port">The port.</param>
    public WsClient(IPAddress address, int port)
        : base(address, port) => WebSocket = new WebSocket(this);

    /// <summary>Makes one.</summary>
    /// <param name="address">The address, or a name.</param>
    /// <param name="port">The port.</param>
    public WsClient(string address, int port)
        : base(address, port) => WebSocket = new WebSocket(this);

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">A name and a port.</param>
    public WsClient(DnsEndPoint endpoint)
        : base(endpoint) => WebSocket = new WebSocket(this);

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">An address and a port.</param>
    public WsClient(IPEndPoint endpoint)
        : base(endpoint) => WebSocket = new WebSocket(this);

    /// <summary>The key of the handshake: 16 bytes, for Sec-WebSocket-Key in base64. Another one for each connection.</summary>
    public byte[] WsNonce => WebSocket.Nonce;

    internal WebSocket WebSocket { get; }

    private protected override bool IsUpgraded => WebSocket.IsOpen;

    /// <summary>Connects, and asks to upgrade.</summary>
    /// <returns>False: it is connected already, or there is no connection to be had.</returns>
    public override bool Connect()
    {
        _isBlocking = true;
        return base.Connect();
    }

    /// <summary>Begins to connect; asks to upgrade then.</summary>
    /// <returns>False: it is connected already, or about to be.</returns>
    public override bool ConnectAsync()
    {
        _isBlocking = false;
        return base.ConnectAsync();
    }

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

    /// <summary>Sends a close without a status, and disconnects when it has left.</summary>
    /// <returns>True.</returns>
    public virtual bool CloseAsync() => CloseAsync(0, ReadOnlySpan<byte>.Empty);

    /// <summary>Sends a close, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <returns>True.</returns>
    public virtual bool CloseAsync(int status) => CloseAsync(status, ReadOnlySpan<byte>.Empty);

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>True.</returns>
    public virtual bool CloseAsync(int status, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return CloseAsync(status, text.AsSpan());
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>True.</returns>
    public virtual bool CloseAsync(int status, ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return CloseAsync(status, utf8.Span);
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>True.</returns>
    public virtual bool CloseAsync(int status, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return CloseAsync(status, buffer.AsSpan());
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>True.</returns>
    public virtual bool CloseAsync(int status, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return CloseAsync(status, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a close with a reason, and disconnects when it has left.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>True.</returns>
    public virtual bool CloseAsync(int status, ReadOnlySpan<byte> buffer)
    {
        SendCloseAsync(status, buffer);
        base.DisconnectAsync();
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

    /// <summary>Asks to upgrade.</summary>
    protected override void OnConnected()
    {
        WebSocket.ClearWsBuffers();
        Request.Clear();
        OnWsConnecting(Request);
        if (Request.IsEmpty) return;
        Request.SetBody();
        if (_isBlocking) SendRequest(Request);
        else SendRequestAsync(Request);
    }

    /// <summary>The connection is about to end: a WebSocket that was not closed is.</summary>
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
        Request.Clear();
        WebSocket.ClearWsBuffers();
        WebSocket.InitWsNonce();
        if (wasOpen) OnWsDisconnected();
    }

    /// <summary>Reads frames, and the answer to the upgrade before.</summary>
    /// <param name="buffer">Where their bytes lie. Frames are unmasked in place.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    protected override void OnReceived(byte[] buffer, long offset, long size)
    {
        if (WebSocket.IsOpen) ReceiveFrames(buffer, offset, size);
        else base.OnReceived(buffer, offset, size);
    }

    /// <summary>The header of a response was read: one that upgrades is judged.</summary>
    /// <param name="response">The response, without its body.</param>
    protected override void OnReceivedResponseHeader(HttpResponse response) => WebSocket.PerformClientUpgrade(response, Id);

    /// <summary>A response is there that does not upgrade: an error of the WebSocket.</summary>
    /// <param name="response">The response.</param>
    protected override void OnReceivedResponse(HttpResponse response)
    {
        OnWsError($"The server did not upgrade: {response.Status} {response.StatusPhrase}.");
        DisconnectAsync();
    }

    /// <summary>A response broke a rule.</summary>
    /// <param name="response">What there is of it.</param>
    /// <param name="error">Which rule.</param>
    protected override void OnReceivedResponseError(HttpResponse response, string error)
    {
        OnWsError(error);
        base.OnReceivedResponseError(response, error);
    }

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
    public virtual void OnWsClose(byte[] buffer, long offset, long size, int status = 1000) => CloseAsync();

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

    bool IWsOwner.Queue(ReadOnlySpan<byte> bytes) => SendAsync(bytes);

    long IWsOwner.SendNow(ReadOnlySpan<byte> bytes) => Send(bytes);

    long IWsOwner.ReceiveNow(byte[] buffer, long offset, long size) => Receive(buffer, offset, size);

    // Who breaks a rule is told which, and nothing of theirs is read any more.
    private void ReceiveFrames(byte[] buffer, long offset, long size)
    {
        WebSocket.PrepareReceiveFrame(buffer, offset, size);
        if (WebSocket.Verdict is not { } status) return;
        WsSending.QueueClose(WebSocket, this, (int)status, default);
        DisconnectAsync();
    }
}
