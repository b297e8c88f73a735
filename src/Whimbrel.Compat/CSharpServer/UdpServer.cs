using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Datagrams;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>A UDP socket that answers. Each ReceiveAsync fetches one datagram for OnReceived. Callbacks come one at a time, on the thread pool.</summary>
public class UdpServer : IDisposable, IUdpOwner
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

    private readonly UdpLink _link;
    private readonly UdpLife _life;
    private UdpEndpoint? _last; // of the last peer that was told
    private IPEndPoint _endPoint;
    private EndPoint? _group;
    private bool _isDisposed;

    /// <summary>At all addresses of this machine.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="port">The port; 0: the system chooses at the start, and <see cref="Port"/> says which.</param>
    /// <param name="protocol">Which family.</param>
    public UdpServer(Service service, int port, InternetProtocol protocol)
        : this(service, new UdpEndpoint(port, protocol))
    {
    }

    /// <summary>At one address.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="address">The address, in digits.</param>
    /// <param name="port">The port.</param>
    public UdpServer(Service service, string address, int port)
        : this(service, new UdpEndpoint(address, port))
    {
    }

    /// <summary>At an end point.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="endpoint">An address and a port.</param>
    public UdpServer(Service service, UdpEndpoint endpoint)
    {
        ArgumentNullException.ThrowIfNull(service);
        ArgumentNullException.ThrowIfNull(endpoint);
        Service = service;
        _endPoint = endpoint.Value;
        _link = new UdpLink(this);
        _life = new UdpLife(_link, this);
    }

    /// <summary>Different for each object, for good.</summary>
    public string Id { get; } = Guid.NewGuid().ToString();

    /// <summary>Whose threads.</summary>
    public Service Service { get; }

    /// <summary>Where it receives.</summary>
    public string Address => _endPoint.Address.ToString();

    /// <summary>Where it receives. A port that the system chose stays for later starts.</summary>
    public int Port => _endPoint.Port;

    /// <summary>Bytes that wait to be sent.</summary>
    public long BytesPending => _link.BytesPending;

    /// <summary>Bytes sent since it opened.</summary>
    public long BytesSent => _link.BytesSent;

    /// <summary>Bytes received since it opened.</summary>
    public long BytesReceived => _link.BytesReceived;

    /// <summary>Datagrams sent since it opened.</summary>
    public long DatagramsSent => _link.DatagramsSent;

    /// <summary>Datagrams received since it opened.</summary>
    public long DatagramsReceived => _link.DatagramsReceived;

    /// <summary>Others may bind the same port, and each gets what is sent to a group. Default false.</summary>
    public bool OptionReuseAddress { get; private set; }

    /// <summary>Others may bind the same port, and the system shares out what comes. Default false.</summary>
    public bool OptionReusePort { get; private set; }

    /// <summary>Longest datagram that is told: a longer one is ENOBUFS with a size of 0. 0, the default, is no limit.</summary>
    public int OptionReceiveBufferLimit => _link.ReceiveLimit;

    /// <summary>Kept, and without effect: a datagram of any length fits. Default 8192.</summary>
    public int OptionReceiveBufferSize { get; private set; } = Link.DefaultBuffer;

    /// <summary>Most bytes that wait to be sent: what is more is ENOBUFS, and is not sent. 0, the default, is 4 MiB.</summary>
    public int OptionSendBufferLimit => _link.SendLimit;

    /// <summary>Kept, and without effect: the queue grows as it is needed. Default 8192.</summary>
    public int OptionSendBufferSize { get; private set; } = Link.DefaultBuffer;

    /// <summary>Between a start and the stop.</summary>
    public bool IsStarted => _life.IsOpen;

    /// <summary>Binds; where the service is not started, with its start. Nothing is received before <see cref="ReceiveAsync"/>.</summary>
    /// <returns>False: it is started already, or its address cannot be bound, which OnError has told.</returns>
    public bool Start()
    {
        if (IsStarted) return false;
        bool isStarted = true;
        Service.WhenStarted(() => isStarted = _life.Open(() => Options(_endPoint)));
        return isStarted;
    }

    /// <summary>Binds, and multicasts to a group from now on.</summary>
    /// <param name="multicastAddress">The group, in digits.</param>
    /// <param name="multicastPort">Its port.</param>
    /// <returns>False: it is started already, or its address cannot be bound, which OnError has told.</returns>
    /// <exception cref="FormatException">The group is no address.</exception>
    public bool Start(string multicastAddress, int multicastPort) => Start(new UdpEndpoint(multicastAddress, multicastPort));

    /// <summary>Binds, and multicasts to a group from now on.</summary>
    /// <param name="endpoint">The group and its port.</param>
    /// <returns>False: it is started already, or its address cannot be bound, which OnError has told.</returns>
    public bool Start(UdpEndpoint endpoint)
    {
        _group = Of(endpoint);
        return Start();
    }

    /// <summary>Sends what is queued, closes, and waits until the running callback has returned; not in its own callbacks, and not on a loop.</summary>
    /// <returns>False: it is not started.</returns>
    public bool Stop() => _life.Close();

    /// <summary>Stops and starts, at the same port.</summary>
    /// <returns>False: it was not started, or does not start.</returns>
    public bool Restart() => Stop() && Start();

    /// <summary>Others may bind the same port, and each gets what is sent to a group: from the next opening on.</summary>
    /// <param name="enable">True or false.</param>
    public void SetupReuseAddress(bool enable) => OptionReuseAddress = enable;

    /// <summary>Others may bind the same port, and the system shares out what comes: from the next opening on.</summary>
    /// <param name="enable">True or false.</param>
    public void SetupReusePort(bool enable) => OptionReusePort = enable;

    /// <summary>Sets <see cref="OptionReceiveBufferLimit"/>, at any time.</summary>
    /// <param name="limit">Bytes; 0: none.</param>
    public void SetupReceiveBufferLimit(int limit) => _link.ReceiveLimit = limit;

    /// <summary>Sets <see cref="OptionReceiveBufferSize"/>.</summary>
    /// <param name="size">Bytes.</param>
    public void SetupReceiveBufferSize(int size) => OptionReceiveBufferSize = size;

    /// <summary>Sets <see cref="OptionSendBufferLimit"/>; what is above 4 MiB, from the next opening on.</summary>
    /// <param name="limit">Bytes; 0: as the default.</param>
    public void SetupSendBufferLimit(int limit) => _link.SendLimit = limit;

    /// <summary>Sets <see cref="OptionSendBufferSize"/>.</summary>
    /// <param name="size">Bytes.</param>
    public void SetupSendBufferSize(int size) => OptionSendBufferSize = size;

    /// <summary>Sends a datagram to the group, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute, or no group was given.</returns>
    public long Multicast(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_group, buffer, s_patience);
    }

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public long Multicast(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_group, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
    }

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public long Multicast(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(_group, Encoding.UTF8.GetBytes(text), s_patience);
    }

    /// <summary>Sends a datagram to the group, and waits for room as long as it may.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <param name="timeout">How long at most.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room in time, or no group was given.</returns>
    public long Multicast(byte[] buffer, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_group, buffer, timeout);
    }

    /// <inheritdoc cref="Multicast(byte[], TimeSpan)"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <param name="timeout">How long at most.</param>
    public long Multicast(byte[] buffer, long offset, long size, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_group, buffer.AsSpan(checked((int)offset), checked((int)size)), timeout);
    }

    /// <inheritdoc cref="Multicast(byte[], TimeSpan)"/>
    /// <param name="text">Sent as UTF-8.</param>
    /// <param name="timeout">How long at most.</param>
    public long Multicast(string text, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(_group, Encoding.UTF8.GetBytes(text), timeout);
    }

    /// <summary>Queues a datagram for the group.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, there is no room, or no group was given.</returns>
    public bool MulticastAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Queue(_group, buffer);
    }

    /// <inheritdoc cref="MulticastAsync(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public bool MulticastAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Queue(_group, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="MulticastAsync(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public bool MulticastAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Queue(_group, Encoding.UTF8.GetBytes(text));
    }

    /// <summary>Sends a datagram to the group, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, there was no room for a minute, or no group was given.</returns>
    public bool MulticastSync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_group, buffer, s_patience) > 0;
    }

    /// <inheritdoc cref="MulticastSync(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public bool MulticastSync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_group, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience) > 0;
    }

    /// <inheritdoc cref="MulticastSync(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public bool MulticastSync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(_group, Encoding.UTF8.GetBytes(text), s_patience) > 0;
    }

    /// <summary>Sends a datagram, and waits for room.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public long Send(UdpEndpoint endpoint, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(Of(endpoint), buffer, s_patience);
    }

    /// <inheritdoc cref="Send(UdpEndpoint, byte[])"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public long Send(UdpEndpoint endpoint, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(Of(endpoint), buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
    }

    /// <inheritdoc cref="Send(UdpEndpoint, byte[])"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    public long Send(UdpEndpoint endpoint, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(Of(endpoint), Encoding.UTF8.GetBytes(text), s_patience);
    }

    /// <summary>Sends a datagram, and waits for room as long as it may.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <param name="timeout">How long at most.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room in time.</returns>
    public long Send(UdpEndpoint endpoint, byte[] buffer, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(Of(endpoint), buffer, timeout);
    }

    /// <inheritdoc cref="Send(UdpEndpoint, byte[], TimeSpan)"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <param name="timeout">How long at most.</param>
    public long Send(UdpEndpoint endpoint, byte[] buffer, long offset, long size, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(Of(endpoint), buffer.AsSpan(checked((int)offset), checked((int)size)), timeout);
    }

    /// <inheritdoc cref="Send(UdpEndpoint, byte[], TimeSpan)"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    /// <param name="timeout">How long at most.</param>
    public long Send(UdpEndpoint endpoint, string text, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(Of(endpoint), Encoding.UTF8.GetBytes(text), timeout);
    }

    /// <summary>Queues a datagram.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public bool SendAsync(UdpEndpoint endpoint, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Queue(Of(endpoint), buffer);
    }

    /// <inheritdoc cref="SendAsync(UdpEndpoint, byte[])"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public bool SendAsync(UdpEndpoint endpoint, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Queue(Of(endpoint), buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="SendAsync(UdpEndpoint, byte[])"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    public bool SendAsync(UdpEndpoint endpoint, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Queue(Of(endpoint), Encoding.UTF8.GetBytes(text));
    }

    /// <summary>Sends a datagram, and waits for room.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, or there was no room for a minute.</returns>
    public bool SendSync(UdpEndpoint endpoint, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(Of(endpoint), buffer, s_patience) > 0;
    }

    /// <inheritdoc cref="SendSync(UdpEndpoint, byte[])"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public bool SendSync(UdpEndpoint endpoint, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(Of(endpoint), buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience) > 0;
    }

    /// <inheritdoc cref="SendSync(UdpEndpoint, byte[])"/>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="text">Sent as UTF-8.</param>
    public bool SendSync(UdpEndpoint endpoint, string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(Of(endpoint), Encoding.UTF8.GetBytes(text), s_patience) > 0;
    }

    /// <summary>Waits for a datagram, for a minute, and tells it to OnReceived as well.</summary>
    /// <param name="endpoint">Becomes the one of who sent it.</param>
    /// <param name="buffer">Where it goes.</param>
    /// <returns>Its bytes; 0: none came, or it is closed.</returns>
    public long Receive(UdpEndpoint endpoint, byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Receive(endpoint, buffer, 0, buffer.Length);
    }

    /// <inheritdoc cref="Receive(UdpEndpoint, byte[])"/>
    /// <param name="endpoint">Becomes the one of who sent it.</param>
    /// <param name="buffer">Where it goes.</param>
    /// <param name="offset">Where its place begins.</param>
    /// <param name="size">How many bytes that takes.</param>
    public long Receive(UdpEndpoint endpoint, byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return ReceiveNow(endpoint, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
    }

    /// <summary>Waits for a datagram, as text, for a minute.</summary>
    /// <param name="endpoint">Becomes the one of who sent it.</param>
    /// <param name="size">How many bytes at most.</param>
    /// <returns>Its text; empty: none came, or it is closed.</returns>
    public string Receive(UdpEndpoint endpoint, long size)
    {
        byte[] buffer = new byte[checked((int)size)];
        return Encoding.UTF8.GetString(buffer, 0, (int)Receive(endpoint, buffer));
    }

    /// <summary>Waits for a datagram, and tells it to OnReceived as well.</summary>
    /// <param name="endpoint">Becomes the one of who sent it.</param>
    /// <param name="buffer">Where it goes.</param>
    /// <param name="timeout">How long at most.</param>
    /// <returns>Its bytes; 0: none came, or it is closed.</returns>
    public long Receive(UdpEndpoint endpoint, byte[] buffer, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Receive(endpoint, buffer, 0, buffer.Length, timeout);
    }

    /// <inheritdoc cref="Receive(UdpEndpoint, byte[], TimeSpan)"/>
    /// <param name="endpoint">Becomes the one of who sent it.</param>
    /// <param name="buffer">Where it goes.</param>
    /// <param name="offset">Where its place begins.</param>
    /// <param name="size">How many bytes that takes.</param>
    /// <param name="timeout">How long at most.</param>
    public long Receive(UdpEndpoint endpoint, byte[] buffer, long offset, long size, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return ReceiveNow(endpoint, buffer.AsSpan(checked((int)offset), checked((int)size)), timeout);
    }

    /// <summary>Waits for a datagram, as text.</summary>
    /// <param name="endpoint">Becomes the one of who sent it.</param>
    /// <param name="size">How many bytes at most.</param>
    /// <param name="timeout">How long at most.</param>
    /// <returns>Its text; empty: none came, or it is closed.</returns>
    public string Receive(UdpEndpoint endpoint, long size, TimeSpan timeout)
    {
        byte[] buffer = new byte[checked((int)size)];
        return Encoding.UTF8.GetString(buffer, 0, (int)Receive(endpoint, buffer, timeout));
    }

    /// <summary>Fetches one datagram for OnReceived. Does nothing while one is on its way.</summary>
    public void ReceiveAsync() => _link.Arm();

    /// <summary>It is bound: the place to call <see cref="ReceiveAsync"/>.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>It has stopped.</summary>
    protected virtual void OnStopped()
    {
    }

    /// <summary>A datagram has arrived. Call <see cref="ReceiveAsync"/> for the next one.</summary>
    /// <param name="endpoint">Who sent it. It may be kept.</param>
    /// <param name="buffer">Its bytes, in an array that may be kept.</param>
    /// <param name="size">How many they are. 0 also behind an error, so that the next one can be fetched.</param>
    protected virtual void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
    {
    }

    /// <summary>A datagram was queued.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="sent">Its bytes. 0 behind an error.</param>
    protected virtual void OnSent(UdpEndpoint endpoint, long sent)
    {
    }

    /// <summary>Something went wrong.</summary>
    /// <param name="error">The number, of its category. Ends of every day (refused, reset, aborted) are not told.</param>
    /// <param name="category">Whose numbers.</param>
    /// <param name="message">In words.</param>
    protected virtual void OnError(int error, string category, string message)
    {
    }

    /// <summary>Closes it, and is done with it.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Closes it.</summary>
    /// <param name="disposing">True: by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
        if (_isDisposed) return;
        _isDisposed = true;
        if (disposing) _life.End();
    }

    private static IPEndPoint Of(UdpEndpoint endpoint)
    {
        ArgumentNullException.ThrowIfNull(endpoint);
        return endpoint.Value;
    }

    private UdpEndpoint EndpointOf(EndPoint peer) => _last is { } last && ReferenceEquals(last.Value, peer) ? last : _last = new UdpEndpoint((IPEndPoint)peer);

    private long SendNow(EndPoint? peer, ReadOnlySpan<byte> data, TimeSpan timeout) => peer is null ? 0 : _link.SendNow(peer, data, timeout);

    private bool Queue(EndPoint? peer, ReadOnlySpan<byte> data) => peer is not null && _link.Queue(peer, data);

    private long ReceiveNow(UdpEndpoint endpoint, Span<byte> target, TimeSpan timeout)
    {
        EndPoint peer = Of(endpoint);
        long count = _link.ReceiveNow(ref peer, target, timeout);
        if (count == 0) return 0;
        endpoint.Value = (IPEndPoint)peer;
        OnReceived(endpoint, target[..(int)count].ToArray(), count);
        return count;
    }

    private DatagramOptions Options(EndPoint local) => new()
    {
        Engine = Service.Engine,
        EndPoint = local,
        ReuseAddress = OptionReuseAddress,
        ReusePort = OptionReusePort,
        MulticastLoopback = true,
        ReportPeerErrors = false,
        DrainTimeout = CompatOptions.DrainTimeout,
        SendLimitBytes = _link.QueueLimit,
    };

    bool IDatagramOwner.WantsSent => ((Action<UdpEndpoint, long>)OnSent).Method.DeclaringType != typeof(UdpServer);

    void IDatagramOwner.TellReceived(EndPoint peer, byte[] buffer, int size) => OnReceived(EndpointOf(peer), buffer[..size], size);

    void IDatagramOwner.TellSent(EndPoint peer, long bytes) => OnSent(EndpointOf(peer), bytes);

    void IDatagramOwner.TellTooLong(EndPoint peer, byte[] buffer) => OnReceived(EndpointOf(peer), [], 0);

    void IDatagramOwner.TellError(SocketError error)
    {
        if (!ErrorMap.IsTold(error)) return;
        AsioError asio = AsioError.Of(error);
        OnError(asio.Code, asio.Category, asio.Message);
    }

    void IUdpOwner.TellOpened()
    {
        _endPoint = _link.EndPoint as IPEndPoint ?? _endPoint;
        OnStarted();
    }

    void IUdpOwner.TellClosed() => OnStopped();
}
