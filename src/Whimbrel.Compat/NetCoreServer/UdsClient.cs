using System.Net.Sockets;
using System.Text;
using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Links;
using EndPoint = System.Net.EndPoint;

namespace NetCoreServer;

/// <summary>A client of a Unix socket, one connection after the other. Callbacks come one at a time.</summary>
public class UdsClient : IDisposable, ILinked
{
    private readonly Link _link;
    private int _sendLimit;

    /// <summary>Makes one.</summary>
    /// <param name="path">The path of the socket.</param>
    public UdsClient(string path)
        : this(new UnixDomainSocketEndPoint(path))
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">The path of the socket.</param>
    public UdsClient(UnixDomainSocketEndPoint endpoint)
    {
        ArgumentNullException.ThrowIfNull(endpoint);
        Endpoint = endpoint;
        _link = new Link(this);
    }

    /// <summary>Different for each client, for good.</summary>
    public Guid Id { get; } = Guid.NewGuid();

    /// <summary>Where it connects to.</summary>
    public EndPoint Endpoint { get; }

    /// <summary>
    /// The Socket of the connection, made by the first call. After the end its end points can be read, and other calls
    /// throw ObjectDisposedException. Closing it ends the connection. Null before the first connection.
    /// </summary>
    public Socket Socket => _link.Socket!;

    /// <summary>Bytes that wait to be sent.</summary>
    public long BytesPending => _link.BytesPending;

    /// <summary>Bytes of a send that is under way: 0, they are counted as pending until the system has them.</summary>
    public long BytesSending => 0;

    /// <summary>Bytes sent in this connection, or the last one.</summary>
    public long BytesSent => _link.BytesSent;

    /// <summary>Bytes received in this connection, or the last one.</summary>
    public long BytesReceived => _link.BytesReceived;

    private protected string Failure => $"{Endpoint}: {_link.Failure}";

    /// <summary>Most bytes that one OnReceived may get: more ends the connection with NoBufferSpaceAvailable. 0 (the default): as many as come.</summary>
    public int OptionReceiveBufferLimit { get; set; }

    /// <summary>How many bytes OnReceived gets at first; it grows when more come. Default 8192.</summary>
    public int OptionReceiveBufferSize { get; set; } = Link.DefaultBuffer;

    /// <summary>
    /// Most bytes that may wait to be sent: SendAsync is false then, and OnError gets NoBufferSpaceAvailable. 0 (the default): no limit of its own; see
    /// <see cref="CompatOptions.StallTimeout"/> and <see cref="CompatOptions.SendBudgetBytes"/>.
    /// </summary>
    public int OptionSendBufferLimit
    {
        get => _sendLimit;
        set
        {
            _sendLimit = value;
        }
    }

    /// <summary>SO_SNDBUF is left to the system, which adapts it; the value is kept. Default 8192.</summary>
    public int OptionSendBufferSize { get; set; } = Link.DefaultBuffer;

    /// <summary>It connects at this moment.</summary>
    public bool IsConnecting => _link.IsConnecting;

    /// <summary>There is a connection.</summary>
    public bool IsConnected => _link.IsConnected;

    /// <summary>Dispose was called.</summary>
    public bool IsDisposed { get; private set; }

    /// <summary>There is no socket.</summary>
    public bool IsSocketDisposed { get; private set; } = true;

    /// <summary>Makes the socket that connects. An override's own is used.</summary>
    /// <returns>A new socket, not connected.</returns>
    protected virtual Socket CreateSocket() => new(Endpoint.AddressFamily == AddressFamily.Unspecified ? AddressFamily.InterNetwork : Endpoint.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);

    /// <summary>Connects, and waits for it. Bytes come by Receive then, or by OnReceived from ReceiveAsync on. Not on a loop.</summary>
    /// <returns>True: there is a connection now. False: there was one, or it failed.</returns>
    public virtual bool Connect() => _link.Connect(MakeClient);

    /// <summary>Connects; OnConnected tells that it has, OnDisconnected alone that it failed.</summary>
    /// <returns>False: it is connected, or connects.</returns>
    public virtual bool ConnectAsync() => _link.ConnectAsync(MakeClient);

    private Client MakeClient(Func<Session> session)
    {
        bool hasOwnSocket = ((Func<Socket>)CreateSocket).Method.DeclaringType != typeof(UdsClient);
        return new Client(
            new ClientOptions
            {
                Engine = CompatOptions.Engine,
                Scheduling = CompatOptions.Callbacks,
                EndPoint = Endpoint,
                SendLimitBytes = Whimbrel.Compat.Links.Link.LargestSendLimit,
                AllowLargeMessages = true,
                SlowConsumer = SlowConsumer.Wait,
                SendTimeout = CompatOptions.StallTimeout,
                BackPressure = false,
                CreateSocket = hasOwnSocket ? _ => CreateSocket() : null,
            },
            session);
    }

    /// <summary>
    /// Ends the connection, and calls OnDisconnecting and OnDisconnected on this thread. Where another thread runs a
    /// callback of this object, they follow that callback instead, and this call does not wait for it; in a callback of
    /// this object OnDisconnected follows it. What is queued is sent: this call waits until the system has it, at most
    /// for CompatOptions.DrainTimeout, and for 200 ms where none of it leaves. It does not wait in callbacks of this
    /// object and on a loop.
    /// </summary>
    /// <returns>False: there is none.</returns>
    public virtual bool Disconnect() => _link.Disconnect();

    /// <summary>The same as <see cref="Disconnect"/>.</summary>
    /// <returns>False: there is no connection.</returns>
    public virtual bool DisconnectAsync() => Disconnect();

    /// <summary>Disconnects and connects.</summary>
    /// <returns>False: there was no connection, or there is none now.</returns>
    public virtual bool Reconnect() => Disconnect() && Connect();

    /// <summary>Disconnects, and connects when that is done.</summary>
    /// <returns>False: there was no connection.</returns>
    public virtual bool ReconnectAsync() => DisconnectAsync() && ConnectAsync();

    /// <summary>Sends, and waits until the bytes are with the system, or queued within the limit.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public virtual long Send(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Send(buffer.AsSpan());
    }

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="buffer">Where the bytes lie.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public virtual long Send(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Send(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="buffer">The bytes. Copied.</param>
    public virtual long Send(ReadOnlySpan<byte> buffer) => _link.Send(buffer);

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public virtual long Send(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Send(Encoding.UTF8.GetBytes(text).AsSpan());
    }

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public virtual long Send(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return Send(utf8.Span);
    }

    /// <summary>Queues bytes; they leave when the callback returns, or at once outside of one.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public virtual bool SendAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendAsync(buffer.AsSpan());
    }

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="buffer">Where the bytes lie.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public virtual bool SendAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="buffer">The bytes. Copied.</param>
    public virtual bool SendAsync(ReadOnlySpan<byte> buffer) => _link.SendAsync(buffer);

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public virtual bool SendAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendAsync(Encoding.UTF8.GetBytes(text).AsSpan());
    }

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public virtual bool SendAsync(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendAsync(utf8.Span);
    }

    /// <summary>Waits for bytes, and tells them to OnReceived as well. Not in a callback of this connection.</summary>
    /// <param name="buffer">Where they go.</param>
    /// <returns>How many came; 0: there is no connection, or it has ended.</returns>
    public virtual long Receive(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Receive(buffer, 0, buffer.Length);
    }

    /// <inheritdoc cref="Receive(byte[])"/>
    /// <param name="buffer">Where they go.</param>
    /// <param name="offset">Where their place begins.</param>
    /// <param name="size">How many it takes.</param>
    public virtual long Receive(byte[] buffer, long offset, long size) => _link.Receive(buffer, offset, size);

    /// <summary>Waits for bytes, as text.</summary>
    /// <param name="size">How many at most.</param>
    /// <returns>The text; a character whose bytes are not all there is not whole.</returns>
    public virtual string Receive(long size)
    {
        byte[] buffer = new byte[size];
        return Encoding.UTF8.GetString(buffer, 0, (int)Receive(buffer));
    }

    /// <summary>Bytes come by OnReceived from now on. They do anyway, but after a Connect that waited.</summary>
    public virtual void ReceiveAsync() => _link.ReceiveAsync();

    /// <summary>The connection begins.</summary>
    protected virtual void OnConnecting()
    {
    }

    /// <summary>The connection is there.</summary>
    protected virtual void OnConnected()
    {
    }

    /// <summary>The connection is about to end. On the thread that ends it.</summary>
    protected virtual void OnDisconnecting()
    {
    }

    /// <summary>The connection has ended, or could not be made.</summary>
    protected virtual void OnDisconnected()
    {
    }

    /// <summary>Bytes came.</summary>
    /// <param name="buffer">Where they lie; it is used again for the next.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    protected virtual void OnReceived(byte[] buffer, long offset, long size)
    {
    }

    /// <summary>The system took bytes.</summary>
    /// <param name="sent">How many.</param>
    /// <param name="pending">How many still wait.</param>
    protected virtual void OnSent(long sent, long pending)
    {
    }

    /// <summary>Nothing waits to be sent.</summary>
    protected virtual void OnEmpty()
    {
    }

    /// <summary>Something went wrong; the connection ends, if it does, behind this.</summary>
    /// <param name="error">What. Ends of every day (refused, reset, aborted) are not told.</param>
    protected virtual void OnError(SocketError error)
    {
    }

    /// <summary>Ends it, and is done with it.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Ends it.</summary>
    /// <param name="disposingManagedResources">True: by Dispose.</param>
    protected virtual void Dispose(bool disposingManagedResources)
    {
        if (IsDisposed) return;
        if (disposingManagedResources) DisconnectAsync();
        IsDisposed = true;
    }

    bool ILinked.WantsSent => ((Action<long, long>)OnSent).Method.DeclaringType != typeof(UdsClient);

    bool ILinked.WantsEmpty => ((Action)OnEmpty).Method.DeclaringType != typeof(UdsClient);

    int ILinked.SendLimit => _sendLimit;

    int ILinked.ReceiveLimit => OptionReceiveBufferLimit;

    int ILinked.ReceiveSize => OptionReceiveBufferSize;

    void ILinked.Tell(LinkEvent what)
    {
        switch (what)
        {
            case LinkEvent.Connecting:
                OnConnecting();
                break;
            case LinkEvent.Connected:
                IsSocketDisposed = false;
                OnConnected();
                break;
            case LinkEvent.Empty:
                OnEmpty();
                break;
            case LinkEvent.Disconnecting:
                OnDisconnecting();
                break;
            case LinkEvent.Disconnected:
                IsSocketDisposed = true;
                OnDisconnected();
                break;
        }
    }

    void ILinked.TellReceived(byte[] buffer, int size) => OnReceived(buffer, 0, size);

    void ILinked.TellSent(long sent, long pending) => OnSent(sent, pending);

    void ILinked.TellError(SocketError error) => OnError(error);
}
