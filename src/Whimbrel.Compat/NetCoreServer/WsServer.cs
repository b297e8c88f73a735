using System.Net;
using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Links;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>A server of WebSockets: make its sessions in <see cref="CreateSession"/>. It answers HTTP as well.</summary>
public class WsServer : HttpServer, IWebSocket
{
    /// <summary>Makes one.</summary>
    /// <param name="address">The address.</param>
    /// <param name="port">The port.</param>
    public WsServer(IPAddress address, int port)
        : base(address, port)
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="address">The address, or a name.</param>
    /// <param name="port">The port.</param>
    public WsServer(string address, int port)
        : base(address, port)
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">A name and a port.</param>
    public WsServer(DnsEndPoint endpoint)
        : base(endpoint)
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">An address and a port.</param>
    public WsServer(IPEndPoint endpoint)
        : base(endpoint)
    {
    }

    /// <summary>The sessions whose WebSocket is open, from their handshake up to their close.</summary>
    internal SessionGroup OpenSockets { get; } = new("WebSockets");

    /// <summary>Closes all WebSockets without a status, and disconnects all sessions.</summary>
    /// <returns>False: the server is not started.</returns>
    public virtual bool CloseAll() => CloseAll(0, ReadOnlySpan<byte>.Empty);

    /// <summary>Closes all WebSockets, and disconnects all sessions.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <returns>False: the server is not started.</returns>
    public virtual bool CloseAll(int status) => CloseAll(status, ReadOnlySpan<byte>.Empty);

    /// <summary>Closes all WebSockets with a reason, and disconnects all sessions.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public virtual bool CloseAll(int status, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return CloseAll(status, text.AsSpan());
    }

    /// <summary>Closes all WebSockets with a reason, and disconnects all sessions.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public virtual bool CloseAll(int status, ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return CloseAll(status, utf8.Span);
    }

    /// <summary>Closes all WebSockets with a reason, and disconnects all sessions.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public virtual bool CloseAll(int status, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return CloseAll(status, buffer.AsSpan());
    }

    /// <summary>Closes all WebSockets with a reason, and disconnects all sessions.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: the server is not started.</returns>
    public virtual bool CloseAll(int status, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return CloseAll(status, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Closes all WebSockets with a reason, and disconnects all sessions.</summary>
    /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public virtual bool CloseAll(int status, ReadOnlySpan<byte> buffer)
    {
        if (!IsStarted) return false;
        foreach ((_, TcpSession session) in Sessions)
        {
            if (session is WsSession { WebSocket.IsOpen: true } open) open.SendCloseAsync(status, buffer);
        }

        return DisconnectAll();
    }

    /// <summary>Sends bytes as they are to all sessions whose WebSocket is open.</summary>
    /// <param name="buffer">Whole frames. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public override bool Multicast(ReadOnlySpan<byte> buffer)
    {
        if (!IsStarted) return false;
        if (buffer.IsEmpty || Broadcast(buffer, OpenSockets)) return true;
        Link.ToEach<Guid, TcpSession, EachOpen>(buffer, Sessions);
        return true;
    }

    /// <summary>Sends a message of text to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastText(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return MulticastText(text.AsSpan());
    }

    /// <summary>Sends a message of text to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastText(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return MulticastText(utf8.Span);
    }

    /// <summary>Sends a message of text to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastText(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastText(buffer.AsSpan());
    }

    /// <summary>Sends a message of text to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastText(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastText(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a message of text to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastText(ReadOnlySpan<byte> buffer)
    {
        using PooledFrame frame = new(WebSocketPart.Text, buffer, ofClient: false);
        return Multicast(frame.Span);
    }

    /// <summary>Sends a message of bytes to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastBinary(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return MulticastBinary(text.AsSpan());
    }

    /// <summary>Sends a message of bytes to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastBinary(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return MulticastBinary(utf8.Span);
    }

    /// <summary>Sends a message of bytes to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastBinary(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastBinary(buffer.AsSpan());
    }

    /// <summary>Sends a message of bytes to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastBinary(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastBinary(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a message of bytes to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastBinary(ReadOnlySpan<byte> buffer)
    {
        using PooledFrame frame = new(WebSocketPart.Binary, buffer, ofClient: false);
        return Multicast(frame.Span);
    }

    /// <summary>Sends a ping to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastPing(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return MulticastPing(text.AsSpan());
    }

    /// <summary>Sends a ping to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastPing(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return MulticastPing(utf8.Span);
    }

    /// <summary>Sends a ping to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastPing(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastPing(buffer.AsSpan());
    }

    /// <summary>Sends a ping to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastPing(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastPing(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a ping to all sessions whose WebSocket is open. It is composed once.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: the server is not started.</returns>
    public bool MulticastPing(ReadOnlySpan<byte> buffer)
    {
        using PooledFrame frame = new(WebSocketPart.Ping, buffer, ofClient: false);
        return Multicast(frame.Span);
    }

    /// <summary>Makes the session of a connection.</summary>
    protected override TcpSession CreateSession() => new WsSession(this);

    private readonly struct EachOpen : IEachSend<TcpSession>
    {
        public static void Send(TcpSession session, Multicasting multicasting, ReadOnlySpan<byte> data)
        {
            if (session is WsSession { WebSocket: { IsOpen: true, IsClosing: false } }) session.SendAsync(data);
        }
    }
}
