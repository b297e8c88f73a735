using System.Net.Sockets;
using System.Text;
using Whimbrel;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>One connection of a <see cref="SslServer"/>. Callbacks come one at a time, on the thread pool.</summary>
public class SslSession : IDisposable, ILinked
{
    private readonly Link _link;
    private bool _isDisposed;

    /// <summary>Makes one, for a connection of this server.</summary>
    /// <param name="server">Whose it is.</param>
    public SslSession(SslServer server)
    {
        ArgumentNullException.ThrowIfNull(server);
        Server = server;
        _link = new Link(this, server.Link);
    }

    internal Link Link => _link;

    internal bool AsksBeforeSending => ((Func<long, bool>)OnSending).Method.DeclaringType != typeof(SslSession);

    /// <summary>Whose session this is.</summary>
    public SslServer Server { get; }

    /// <summary>
    /// Ends the connection, and calls OnDisconnecting and OnDisconnected on this thread. Where another thread runs a
    /// callback of this object, they follow that callback instead, and this call does not wait for it; in a callback of
    /// this object OnDisconnected follows it. What is queued is sent: this call waits until the system has it, at most
    /// for CompatOptions.DrainTimeout, and for 200 ms where none of it leaves. It does not wait in callbacks of this
    /// object and on a loop.
    /// </summary>
    /// <returns>False: there is none.</returns>
    public bool Disconnect() => _link.Disconnect();

    /// <summary>The same as Disconnect, but does not wait until what is queued was sent.</summary>
    /// <returns>False: there is none.</returns>
    public bool DisconnectAsync() => _link.Disconnect(waits: false);

    /// <summary>Bytes are about to be queued by SendAsync or Multicast: on the thread that sends.</summary>
    /// <param name="size">How many.</param>
    /// <returns>False: they are not to be sent.</returns>
    protected virtual bool OnSending(long size) => true;

    internal bool Agrees(int size) => OnSending(size);

    private bool SendAsync(ReadOnlySpan<byte> data) => OnSending(data.Length) && _link.SendAsync(data);

    /// <summary>Different for each object, for good.</summary>
    public string Id { get; } = Guid.NewGuid().ToString();

    /// <summary>Bytes that wait to be sent.</summary>
    public long BytesPending => _link.BytesPending;

    /// <summary>Bytes sent in this connection, or the last one.</summary>
    public long BytesSent => _link.BytesSent;

    /// <summary>Bytes received in this connection, or the last one.</summary>
    public long BytesReceived => _link.BytesReceived;

    /// <summary>Most bytes that one OnReceived may get: more ends the connection with ENOBUFS. 0 (the default): as many as come.</summary>
    public int OptionReceiveBufferLimit { get; private set; }

    /// <summary>How many bytes OnReceived gets at first; it grows when more come. Default 8192.</summary>
    public int OptionReceiveBufferSize { get; private set; } = Link.DefaultBuffer;

    /// <summary>
    /// Most bytes that may wait to be sent: SendAsync is false then, and OnError gets ENOBUFS. 0 (the default): no limit of its own;
    /// see <see cref="Whimbrel.Compat.CompatOptions.StallTimeout"/> and <see cref="Whimbrel.Compat.CompatOptions.SendBudgetBytes"/>.
    /// </summary>
    public int OptionSendBufferLimit { get; private set; }

    /// <summary>SO_SNDBUF is left to the system, which adapts it; the value is kept. Default 8192.</summary>
    public int OptionSendBufferSize { get; private set; } = Link.DefaultBuffer;

    /// <summary>There is a connection.</summary>
    public bool IsConnected => _link.IsConnected;

    /// <summary>The handshake is done.</summary>
    public bool IsHandshaked => _link.IsHandshaked;

    /// <summary>Sets <see cref="OptionReceiveBufferLimit"/>.</summary>
    /// <param name="limit">Bytes; 0: none.</param>
    public void SetupReceiveBufferLimit(int limit) => OptionReceiveBufferLimit = limit;

    /// <summary>Sets <see cref="OptionReceiveBufferSize"/>, for a connection that has not received yet.</summary>
    /// <param name="size">Bytes.</param>
    public void SetupReceiveBufferSize(int size) => OptionReceiveBufferSize = size;

    /// <summary>Sets <see cref="OptionSendBufferLimit"/>, at any time.</summary>
    /// <param name="limit">Bytes; 0: as the default.</param>
    public void SetupSendBufferLimit(int limit)
    {
        OptionSendBufferLimit = limit;
        if (limit > 0) Server.Link.Limited();
    }

    /// <summary>Sets <see cref="OptionSendBufferSize"/>.</summary>
    /// <param name="size">Bytes.</param>
    public void SetupSendBufferSize(int size) => OptionSendBufferSize = size;

    /// <summary>Sends, and waits until the bytes are with the system, or queued within the limit.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were sent; 0: there is no connection.</returns>
    public long Send(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return _link.Send(buffer);
    }

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public long Send(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return _link.Send(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public long Send(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return _link.Send(Encoding.UTF8.GetBytes(text));
    }

    /// <summary>Sends, and waits as long as it may.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <param name="timeout">How long at most.</param>
    /// <returns>Bytes that were sent; 0: there is no connection, or it took too long, and then the connection stays.</returns>
    public long Send(byte[] buffer, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return _link.Send(buffer, timeout);
    }

    /// <inheritdoc cref="Send(byte[], TimeSpan)"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <param name="timeout">How long at most.</param>
    public long Send(byte[] buffer, long offset, long size, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return _link.Send(buffer.AsSpan(checked((int)offset), checked((int)size)), timeout);
    }

    /// <inheritdoc cref="Send(byte[], TimeSpan)"/>
    /// <param name="text">Sent as UTF-8.</param>
    /// <param name="timeout">How long at most.</param>
    public long Send(string text, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(text);
        return _link.Send(Encoding.UTF8.GetBytes(text), timeout);
    }

    /// <summary>Queues bytes; they leave when the callback returns, or at once outside of one.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: there is no connection, or no room.</returns>
    public bool SendAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendAsync(buffer.AsSpan());
    }

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public bool SendAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public bool SendAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendAsync(Encoding.UTF8.GetBytes(text).AsSpan());
    }

    /// <summary>Waits for bytes, and tells them to OnReceived as well. Not in a callback of this connection.</summary>
    /// <param name="buffer">Where they go.</param>
    /// <returns>How many came; 0: none.</returns>
    public long Receive(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return _link.Receive(buffer, 0, buffer.Length);
    }

    /// <inheritdoc cref="Receive(byte[])"/>
    /// <param name="buffer">Where they go.</param>
    /// <param name="offset">Where their place begins.</param>
    /// <param name="size">How many it takes.</param>
    public long Receive(byte[] buffer, long offset, long size) => _link.Receive(buffer, offset, size);

    /// <summary>Waits for bytes, as text.</summary>
    /// <param name="size">How many at most.</param>
    /// <returns>The text; a character whose bytes are not all there is not whole.</returns>
    public string Receive(long size)
    {
        byte[] buffer = new byte[size];
        return Encoding.UTF8.GetString(buffer, 0, (int)Receive(buffer));
    }

    /// <summary>Waits for bytes, and tells them to OnReceived as well. Not in a callback of this connection.</summary>
    /// <param name="buffer">Where they go.</param>
    /// <param name="timeout">How long at most; then nothing has come, and the connection stays.</param>
    /// <returns>How many came; 0: none.</returns>
    public long Receive(byte[] buffer, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return _link.Receive(buffer, 0, buffer.Length, timeout);
    }

    /// <inheritdoc cref="Receive(byte[], TimeSpan)"/>
    /// <param name="buffer">Where they go.</param>
    /// <param name="offset">Where their place begins.</param>
    /// <param name="size">How many it takes.</param>
    /// <param name="timeout">How long at most; then nothing has come, and the connection stays.</param>
    public long Receive(byte[] buffer, long offset, long size, TimeSpan timeout) => _link.Receive(buffer, offset, size, timeout);

    /// <summary>Waits for bytes, as text.</summary>
    /// <param name="size">How many at most.</param>
    /// <param name="timeout">How long at most; then nothing has come, and the connection stays.</param>
    /// <returns>The text; a character whose bytes are not all there is not whole.</returns>
    public string Receive(long size, TimeSpan timeout)
    {
        byte[] buffer = new byte[size];
        return Encoding.UTF8.GetString(buffer, 0, (int)Receive(buffer, timeout));
    }

    /// <summary>Bytes come by OnReceived from now on. They do anyway, but after a Connect that waited.</summary>
    public void ReceiveAsync() => _link.ReceiveAsync();

    /// <summary>The connection is there.</summary>
    protected virtual void OnConnected()
    {
    }

    /// <summary>The handshake is done: from now on bytes may be sent.</summary>
    protected virtual void OnHandshaked()
    {
    }

    /// <summary>The connection has ended, or could not be made.</summary>
    protected virtual void OnDisconnected()
    {
    }

    /// <summary>Bytes came.</summary>
    /// <param name="buffer">The bytes, in an array that may be kept.</param>
    /// <param name="size">How many they are: its length.</param>
    protected virtual void OnReceived(byte[] buffer, long size)
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
    /// <param name="error">The number, of its category. Ends of every day (refused, reset, aborted) are not told.</param>
    /// <param name="category">Whose numbers.</param>
    /// <param name="message">In words.</param>
    protected virtual void OnError(int error, string category, string message)
    {
    }

    /// <summary>Ends it, and is done with it.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Ends it.</summary>
    /// <param name="disposing">True: by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
        if (_isDisposed) return;
        _isDisposed = true;
        if (disposing) Disconnect();
    }

    bool ILinked.WantsSent => ((Action<long, long>)OnSent).Method.DeclaringType != typeof(SslSession);

    bool ILinked.WantsEmpty => ((Action)OnEmpty).Method.DeclaringType != typeof(SslSession);

    bool ILinked.KeepsArrays => true;

    int ILinked.SendLimit => OptionSendBufferLimit;

    int ILinked.ReceiveLimit => OptionReceiveBufferLimit;

    int ILinked.ReceiveSize => OptionReceiveBufferSize;

    void ILinked.Tell(LinkEvent what)
    {
        switch (what)
        {
            case LinkEvent.Connected:
                OnConnected();
                break;
            case LinkEvent.Handshaked:
                OnHandshaked();
                break;
            case LinkEvent.Empty:
                OnEmpty();
                break;
            case LinkEvent.Disconnected:
                OnDisconnected();
                break;
        }
    }

    void ILinked.TellReceived(byte[] buffer, int size) => OnReceived(buffer, size);

    void ILinked.TellSent(long sent, long pending) => OnSent(sent, pending);

    void ILinked.TellError(SocketError error) => Tell(AsioError.Of(error));

    void ILinked.TellCause(CloseReason reason)
    {
        if (AsioError.Of(reason) is { } error) Tell(error);
    }

    private void Tell(AsioError error) => OnError(error.Code, error.Category, error.Message);
}
