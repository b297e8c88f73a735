using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Datagrams;
using Whimbrel.Compat.Links;

namespace NetCoreServer;

/// <summary>A UDP socket that answers: override <see cref="OnReceived"/>, and call <see cref="ReceiveAsync"/> for each datagram.</summary>
public class UdpServer : IDisposable, IDatagramOwner
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

    private readonly UdpLink _link;

    /// <summary>Makes one.</summary>
    /// <param name="address">The address.</param>
    /// <param name="port">The port.</param>
    public UdpServer(IPAddress address, int port)
        : this(new IPEndPoint(address, port))
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="address">The address.</param>
    /// <param name="port">The port.</param>
    public UdpServer(string address, int port)
        : this(new IPEndPoint(IPAddress.Parse(address), port))
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">A name, which is looked up when it opens, and a port.</param>
    public UdpServer(DnsEndPoint endpoint)
        : this(endpoint, endpoint.Host, endpoint.Port)
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">An address and a port.</param>
    public UdpServer(IPEndPoint endpoint)
        : this(endpoint, endpoint.Address.ToString(), endpoint.Port)
    {
    }

    private UdpServer(EndPoint endpoint, string address, int port)
    {
        Endpoint = endpoint;
        Address = address;
        Port = port;
        _link = new UdpLink(this);
    }

    /// <summary>A number of its own.</summary>
    public Guid Id { get; } = Guid.NewGuid();

    /// <summary>The address, as it was given.</summary>
    public string Address { get; }

    /// <summary>The port, as it was given.</summary>
    public int Port { get; }

    /// <summary>The address it receives at, with the real port from the start on.</summary>
    public EndPoint Endpoint { get; private set; }

    /// <summary>The Socket object; null while it is not open.</summary>
    public Socket Socket => _link.Socket!;

    /// <summary>Bytes that wait to be sent.</summary>
    public long BytesPending => _link.BytesPending;

    /// <summary>Always 0: what was given to the system is counted as sent.</summary>
    public long BytesSending { get; }

    /// <summary>Bytes sent since it opened.</summary>
    public long BytesSent => _link.BytesSent;

    /// <summary>Bytes received since it opened.</summary>
    public long BytesReceived => _link.BytesReceived;

    /// <summary>Datagrams sent since it opened.</summary>
    public long DatagramsSent => _link.DatagramsSent;

    /// <summary>Datagrams received since it opened.</summary>
    public long DatagramsReceived => _link.DatagramsReceived;

    /// <summary>An IPv6 socket takes IPv4, too.</summary>
    public bool OptionDualMode { get; set; }

    /// <summary>Others may bind the same port.</summary>
    public bool OptionReuseAddress { get; set; }

    /// <summary>Nobody else can take the port by force: without <see cref="OptionReuseAddress"/> so it is.</summary>
    public bool OptionExclusiveAddressUse { get; set; }

    /// <summary>Longest datagram that is told; 0, the default, is no limit.</summary>
    public int OptionReceiveBufferLimit
    {
        get => _link.ReceiveLimit;
        set => _link.ReceiveLimit = value;
    }

    /// <summary>Kept, and without effect: a datagram of any length fits.</summary>
    public int OptionReceiveBufferSize { get; set; } = 8192;

    /// <summary>Most bytes that wait to be sent; 0, the default, is 4 MiB.</summary>
    public int OptionSendBufferLimit
    {
        get => _link.SendLimit;
        set => _link.SendLimit = value;
    }

    /// <summary>Kept, and without effect: the queue grows as it is needed.</summary>
    public int OptionSendBufferSize { get; set; } = 8192;

    /// <summary>True after Dispose.</summary>
    public bool IsDisposed { get; private set; }

    /// <summary>True while the socket is not open.</summary>
    public bool IsSocketDisposed { get; private set; } = true;

    /// <summary>Where <see cref="Multicast(ReadOnlySpan{byte})"/> sends to: given at the start.</summary>
    public EndPoint MulticastEndpoint { get; private set; } = null!;

    /// <summary>Between a start and the stop.</summary>
    public bool IsStarted { get; private set; }

    /// <summary>Binds. Nothing is received before <see cref="ReceiveAsync"/>.</summary>
    /// <returns>False: it is started already.</returns>
    /// <exception cref="SocketException">The address cannot be bound.</exception>
    public virtual bool Start()
    {
        if (IsStarted) return false;
        Open(Endpoint);
        OnStarting();
        IsStarted = true;
        OnStarted();
        return true;
    }

    /// <summary>Binds, and multicasts to a group from now on.</summary>
    /// <param name="multicastAddress">The group.</param>
    /// <param name="multicastPort">Its port.</param>
    /// <returns>False: it is started already.</returns>
    public virtual bool Start(IPAddress multicastAddress, int multicastPort) => Start(new IPEndPoint(multicastAddress, multicastPort));

    /// <summary>Binds, and multicasts to a group from now on.</summary>
    /// <param name="multicastAddress">The group.</param>
    /// <param name="multicastPort">Its port.</param>
    /// <returns>False: it is started already.</returns>
    public virtual bool Start(string multicastAddress, int multicastPort) => Start(new IPEndPoint(IPAddress.Parse(multicastAddress), multicastPort));

    /// <summary>Binds, and multicasts to a group from now on.</summary>
    /// <param name="multicastEndpoint">The group and its port.</param>
    /// <returns>False: it is started already.</returns>
    public virtual bool Start(EndPoint multicastEndpoint)
    {
        MulticastEndpoint = multicastEndpoint;
        return Start();
    }

    /// <summary>Sends what is queued, and closes.</summary>
    /// <returns>False: it is not started.</returns>
    public virtual bool Stop()
    {
        if (!IsStarted) return false;
        OnStopping();
        IsStarted = false;
        Close();
        OnStopped();
        return true;
    }

    /// <summary>Stops and starts again, at the same port.</summary>
    /// <returns>False: it was not started.</returns>
    public virtual bool Restart() => Stop() && Start();

    /// <summary>Sends a datagram to the group, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Multicast(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Multicast(buffer.AsSpan());
    }

    /// <summary>Sends a datagram to the group, and waits for room.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Multicast(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Multicast(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a datagram to the group, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Multicast(ReadOnlySpan<byte> buffer) => MulticastEndpoint is { } group ? Send(group, buffer) : 0;

    /// <summary>Sends a datagram to the group, and waits for room.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Multicast(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Multicast(text.AsSpan());
    }

    /// <summary>Sends a datagram to the group, and waits for room.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Multicast(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return Multicast(utf8.Span);
    }

    /// <summary>Queues a datagram for the group.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool MulticastAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastAsync(buffer.AsSpan());
    }

    /// <summary>Queues a datagram for the group.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool MulticastAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return MulticastAsync(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Queues a datagram for the group.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool MulticastAsync(ReadOnlySpan<byte> buffer) => MulticastEndpoint is { } group && SendAsync(group, buffer);

    /// <summary>Queues a datagram for the group.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool MulticastAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return MulticastAsync(text.AsSpan());
    }

    /// <summary>Queues a datagram for the group.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool MulticastAsync(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return MulticastAsync(utf8.Span);
    }

    /// <summary>Sends a datagram to the group, or to its own address where there is none, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Send(buffer.AsSpan());
    }

    /// <summary>Sends a datagram to the group, or to its own address where there is none, and waits for room.</summary>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Send(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a datagram to the group, or to its own address where there is none, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(ReadOnlySpan<byte> buffer) => Send(MulticastEndpoint ?? Endpoint, buffer);

    /// <summary>Sends a datagram to the group, or to its own address where there is none, and waits for room.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Send(text.AsSpan());
    }

    /// <summary>Sends a datagram to the group, or to its own address where there is none, and waits for room.</summary>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return Send(utf8.Span);
    }

    /// <summary>Sends a datagram, and waits for room.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(EndPoint endpoint, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Send(endpoint, buffer.AsSpan());
    }

    /// <summary>Sends a datagram, and waits for room.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(EndPoint endpoint, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Send(endpoint, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Sends a datagram, and waits for room.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(EndPoint endpoint, ReadOnlySpan<byte> buffer) => _link.SendNow(endpoint, buffer, s_patience);

    /// <summary>Sends a datagram, and waits for room.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(EndPoint endpoint, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Send(endpoint, text.AsSpan());
    }

    /// <summary>Sends a datagram, and waits for room.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public virtual long Send(EndPoint endpoint, ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return Send(endpoint, utf8.Span);
    }

    /// <summary>Queues a datagram.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool SendAsync(EndPoint endpoint, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendAsync(endpoint, buffer.AsSpan());
    }

    /// <summary>Queues a datagram.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool SendAsync(EndPoint endpoint, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendAsync(endpoint, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <summary>Queues a datagram.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool SendAsync(EndPoint endpoint, ReadOnlySpan<byte> buffer) => _link.Queue(endpoint, buffer);

    /// <summary>Queues a datagram.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool SendAsync(EndPoint endpoint, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendAsync(endpoint, text.AsSpan());
    }

    /// <summary>Queues a datagram.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public virtual bool SendAsync(EndPoint endpoint, ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return SendAsync(endpoint, utf8.Span);
    }

    /// <summary>Waits for a datagram, for a minute.</summary>
    /// <param name="endpoint">Who sent it.</param>
    /// <param name="buffer">Where it goes.</param>
    /// <returns>Its bytes; 0 when none came.</returns>
    public virtual long Receive(ref EndPoint endpoint, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Receive(ref endpoint, buffer, 0, buffer.Length);
    }

    /// <summary>Waits for a datagram, for a minute.</summary>
    /// <param name="endpoint">Who sent it.</param>
    /// <param name="buffer">Where it goes.</param>
    /// <param name="offset">Where in it.</param>
    /// <param name="size">Most bytes.</param>
    /// <returns>Its bytes; 0 when none came.</returns>
    public virtual long Receive(ref EndPoint endpoint, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        long count = _link.ReceiveNow(ref endpoint, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
        if (count > 0) OnReceived(endpoint, buffer, offset, count);
        return count;
    }

    /// <summary>Waits for a datagram, for a minute.</summary>
    /// <param name="endpoint">Who sent it.</param>
    /// <param name="size">Most bytes.</param>
    /// <returns>Its text; empty when none came.</returns>
    public virtual string Receive(ref EndPoint endpoint, long size)
    {
        byte[] buffer = new byte[checked((int)size)];
        return Encoding.UTF8.GetString(buffer, 0, (int)Receive(ref endpoint, buffer));
    }

    /// <summary>Fetches one datagram for <see cref="OnReceived"/>. Does nothing while one is on its way.</summary>
    public virtual void ReceiveAsync() => _link.Arm();

    /// <summary>Makes the socket: override it for options of your own.</summary>
    protected virtual Socket CreateSocket() => new(Endpoint.AddressFamily, SocketType.Dgram, ProtocolType.Udp);

    /// <summary>It is bound, and about to start.</summary>
    protected virtual void OnStarting()
    {
    }

    /// <summary>It has started: the place to call <see cref="ReceiveAsync"/>.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>It is about to stop.</summary>
    protected virtual void OnStopping()
    {
    }

    /// <summary>It has stopped.</summary>
    protected virtual void OnStopped()
    {
    }

    /// <summary>A datagram has arrived. Call <see cref="ReceiveAsync"/> for the next one.</summary>
    /// <param name="endpoint">Who sent it.</param>
    /// <param name="buffer">Where it lies. Used again for the next one.</param>
    /// <param name="offset">Where it begins.</param>
    /// <param name="size">Its bytes. 0 also behind an error, so that the next one can be fetched.</param>
    protected virtual void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
    {
    }

    /// <summary>A datagram was queued.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="sent">Its bytes. 0 behind an error.</param>
    protected virtual void OnSent(EndPoint endpoint, long sent)
    {
    }

    /// <summary>Something failed.</summary>
    /// <param name="error">What.</param>
    protected virtual void OnError(SocketError error)
    {
    }

    /// <summary>Closes it for good.</summary>
    public void Dispose()
    {
        Dispose(disposingManagedResources: true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Closes it.</summary>
    /// <param name="disposingManagedResources">True when called by Dispose.</param>
    protected virtual void Dispose(bool disposingManagedResources)
    {
        if (IsDisposed) return;
        if (disposingManagedResources) Stop();
        IsDisposed = true;
    }

    void IDatagramOwner.TellReceived(EndPoint peer, byte[] buffer, int size) => OnReceived(peer, buffer, 0, size);

    void IDatagramOwner.TellSent(EndPoint peer, long bytes)
    {
        OnSent(peer, bytes);
    }

    void IDatagramOwner.TellTooLong(EndPoint peer, byte[] buffer) => OnReceived(peer, buffer, 0, 0);

    void IDatagramOwner.TellError(SocketError error)
    {
        if (ErrorMap.IsTold(error)) OnError(error);
    }

    private void Open(EndPoint local)
    {
        local = Resolving.LookUp(local);
        _link.Open(Options(local));
        if (_link.EndPoint is { } bound) Endpoint = bound;
        IsSocketDisposed = false;
    }

    private void Close()
    {
        _link.Close();
        IsSocketDisposed = true;
    }

    private DatagramOptions Options(EndPoint local) => new()
    {
        Engine = CompatOptions.Engine,
        EndPoint = local,
        DualMode = OptionDualMode,
        ReuseAddress = OptionReuseAddress,
        MulticastLoopback = true,
        ReportPeerErrors = false,
        DrainTimeout = CompatOptions.DrainTimeout,
        SendLimitBytes = Math.Clamp(OptionSendBufferLimit, 4 * 1024 * 1024, 1 << 30),
        CreateSocket = ((Func<Socket>)CreateSocket).Method.DeclaringType == typeof(UdpServer) ? null : _ => CreateSocket(),
    };
}
