using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Datagrams;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>A UDP socket that sends to one end point. Each ReceiveAsync fetches one datagram for OnReceived. Callbacks come one at a time, on the thread pool.</summary>
public class UdpClient : IDisposable, IUdpOwner
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

    private readonly UdpLink _link;
    private readonly UdpLife _life;
    private UdpEndpoint? _last; // of the last peer that was told
    private EndPoint? _target;
    private bool _isDisposed;

    /// <summary>To an address.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="address">The address in digits, or a name, which needs a resolver.</param>
    /// <param name="port">The port.</param>
    public UdpClient(Service service, string address, int port)
        : this(service, address, port, "")
    {
    }

    /// <summary>To an address, at the port of a scheme.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="address">The address in digits, or a name; it needs a resolver.</param>
    /// <param name="scheme">A number, or a name as <c>ntp</c>.</param>
    public UdpClient(Service service, string address, string scheme)
        : this(service, address, 0, scheme)
    {
    }

    /// <summary>To an end point.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="endpoint">An address and a port.</param>
    public UdpClient(Service service, UdpEndpoint endpoint)
        : this(service, Of(endpoint).Address.ToString(), endpoint.Value.Port, "")
    {
    }

    private UdpClient(Service service, string address, int port, string scheme)
    {
        ArgumentNullException.ThrowIfNull(service);
        ArgumentNullException.ThrowIfNull(address);
        ArgumentNullException.ThrowIfNull(scheme);
        Service = service;
        Address = address;
        Port = port;
        Scheme = scheme;
        _link = new UdpLink(this);
        _life = new UdpLife(_link, this);
    }

    /// <summary>Different for each object, for good.</summary>
    public string Id { get; } = Guid.NewGuid().ToString();

    /// <summary>Whose threads.</summary>
    public Service Service { get; }

    /// <summary>Where it sends to, as it was given.</summary>
    public string Address { get; }

    /// <summary>The port, as it was given.</summary>
    public int Port { get; }

    /// <summary>The scheme, as it was given; empty: there is a port.</summary>
    public string Scheme { get; }

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

    /// <summary>Longest datagram that is told: a longer one is ENOBUFS, and closes it. 0, the default, is no limit.</summary>
    public int OptionReceiveBufferLimit => _link.ReceiveLimit;

    /// <summary>Kept, and without effect: a datagram of any length fits. Default 8192.</summary>
    public int OptionReceiveBufferSize { get; private set; } = Link.DefaultBuffer;

    /// <summary>Most bytes that wait to be sent: what is more is ENOBUFS, and is not sent. 0, the default, is 4 MiB.</summary>
    public int OptionSendBufferLimit => _link.SendLimit;

    /// <summary>Kept, and without effect: the queue grows as it is needed. Default 8192.</summary>
    public int OptionSendBufferSize { get; private set; } = Link.DefaultBuffer;

    /// <summary>Binds to the given address and port, instead of a free one: for members of a group. Set by <see cref="SetupMulticast"/>.</summary>
    public bool OptionMulticast { get; private set; }

    /// <summary>Between a connect and the disconnect.</summary>
    public bool IsConnected => _life.IsOpen;

    /// <summary>Opens the socket. Nothing is received before <see cref="ReceiveAsync"/>. Not on a loop.</summary>
    /// <returns>True: it is open now. False: it was, it cannot be, which OnError has told, or the service is not started.</returns>
    public bool Connect() => Service.IsStarted && _life.Open(() => Options(hasResolver: false, default));

    /// <summary>Looks the name up, and opens the socket.</summary>
    /// <param name="resolver">May give it up.</param>
    /// <returns>True: it is open now. False: it was, it cannot be, which OnError has told, or the service is not started.</returns>
    public bool Connect(UdpResolver resolver)
    {
        ArgumentNullException.ThrowIfNull(resolver);
        return Service.IsStarted && _life.Open(() => Options(hasResolver: true, resolver.Resolving.LookUps));
    }

    /// <summary>Opens the socket; OnConnected tells that it is, OnDisconnected alone that it cannot be. Where the service is not started, with its start.</summary>
    /// <returns>False: it is open, or opens.</returns>
    public bool ConnectAsync() => Begin(() => Options(hasResolver: false, default));

    /// <summary>Looks the name up, and opens the socket; OnConnected tells that it is, OnDisconnected alone that it cannot be.</summary>
    /// <param name="resolver">May give it up.</param>
    /// <returns>False: it is open, or opens.</returns>
    public bool ConnectAsync(UdpResolver resolver)
    {
        ArgumentNullException.ThrowIfNull(resolver);
        return Begin(() => Options(hasResolver: true, resolver.Resolving.LookUps));
    }

    private bool Begin(Func<DatagramOptions> options)
    {
        bool begins = true;
        Service.WhenStarted(() => begins = _life.OpenLater(options));
        return begins;
    }

    /// <summary>Sends what is queued, closes, and waits until the running callback has returned; not in its own callbacks, and not on a loop.</summary>
    /// <returns>False: it is not open.</returns>
    public bool Disconnect() => _life.Close();

    /// <summary>Sends what is queued and closes; OnDisconnected tells when.</summary>
    /// <returns>False: it is not open.</returns>
    public bool DisconnectAsync() => _life.CloseLater();

    /// <summary>Disconnects and connects.</summary>
    /// <returns>False: it was not open, or is not now.</returns>
    public bool Reconnect() => Disconnect() && Connect();

    /// <summary>Disconnects, and connects when that is done.</summary>
    /// <returns>False: it was not open.</returns>
    public bool ReconnectAsync() => DisconnectAsync() && ConnectAsync();

    /// <summary>Makes the next connect one of a member of a group: at the given address and port, which others may share.</summary>
    /// <param name="enable">True or false.</param>
    public void SetupMulticast(bool enable) => OptionMulticast = OptionReuseAddress = enable;

    /// <summary>Joins a group, and waits for it, but not in its own callbacks; what fails is told by OnError. Does nothing while it is not open.</summary>
    /// <param name="address">The group, in digits.</param>
    /// <exception cref="FormatException">It is no address.</exception>
    public void JoinMulticastGroup(string address) => _life.Join(address);

    /// <summary>Leaves a group, and waits for it, but not in its own callbacks; what fails is told by OnError. Does nothing while it is not open.</summary>
    /// <param name="address">The group, in digits.</param>
    /// <exception cref="FormatException">It is no address.</exception>
    public void LeaveMulticastGroup(string address) => _life.Leave(address);

    /// <summary>Joins a group; OnJoinedMulticastGroup or OnError tells when.</summary>
    /// <param name="address">The group, in digits.</param>
    /// <exception cref="FormatException">It is no address.</exception>
    public void JoinMulticastGroupAsync(string address) => _life.Join(address, waits: false);

    /// <summary>Leaves a group; OnLeftMulticastGroup or OnError tells when.</summary>
    /// <param name="address">The group, in digits.</param>
    /// <exception cref="FormatException">It is no address.</exception>
    public void LeaveMulticastGroupAsync(string address) => _life.Leave(address, waits: false);

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

    /// <summary>Sends a datagram to the end point of the client, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public long Send(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_target, buffer, s_patience);
    }

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public long Send(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_target, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
    }

    /// <inheritdoc cref="Send(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public long Send(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(_target, Encoding.UTF8.GetBytes(text), s_patience);
    }

    /// <summary>Sends a datagram to the end point of the client, and waits for room as long as it may.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <param name="timeout">How long at most.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room in time.</returns>
    public long Send(byte[] buffer, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_target, buffer, timeout);
    }

    /// <inheritdoc cref="Send(byte[], TimeSpan)"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    /// <param name="timeout">How long at most.</param>
    public long Send(byte[] buffer, long offset, long size, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_target, buffer.AsSpan(checked((int)offset), checked((int)size)), timeout);
    }

    /// <inheritdoc cref="Send(byte[], TimeSpan)"/>
    /// <param name="text">Sent as UTF-8.</param>
    /// <param name="timeout">How long at most.</param>
    public long Send(string text, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(_target, Encoding.UTF8.GetBytes(text), timeout);
    }

    /// <summary>Queues a datagram for the end point of the client.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>False: it is closed, or there is no room.</returns>
    public bool SendAsync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Queue(_target, buffer);
    }

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public bool SendAsync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Queue(_target, buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="SendAsync(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public bool SendAsync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Queue(_target, Encoding.UTF8.GetBytes(text));
    }

    /// <summary>Sends a datagram to the end point of the client, and waits for room.</summary>
    /// <param name="buffer">The bytes. Copied.</param>
    /// <returns>Bytes that were taken; 0: it is closed, or there was no room for a minute.</returns>
    public long SendSync(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_target, buffer, s_patience);
    }

    /// <inheritdoc cref="SendSync(byte[])"/>
    /// <param name="buffer">Where the bytes lie. Copied.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public long SendSync(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return SendNow(_target, buffer.AsSpan(checked((int)offset), checked((int)size)), s_patience);
    }

    /// <inheritdoc cref="SendSync(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public long SendSync(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendNow(_target, Encoding.UTF8.GetBytes(text), s_patience);
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

    /// <summary>It is open: the place to join groups, and to call <see cref="ReceiveAsync"/>.</summary>
    protected virtual void OnConnected()
    {
    }

    /// <summary>It has closed, or could not be opened. It may be opened again here.</summary>
    protected virtual void OnDisconnected()
    {
    }

    /// <summary>A group was joined.</summary>
    /// <param name="address">The group, as it was given.</param>
    protected virtual void OnJoinedMulticastGroup(string address)
    {
    }

    /// <summary>A group was left.</summary>
    /// <param name="address">The group, as it was given.</param>
    protected virtual void OnLeftMulticastGroup(string address)
    {
    }

    /// <summary>A datagram has arrived. Call <see cref="ReceiveAsync"/> for the next one.</summary>
    /// <param name="endpoint">Who sent it. It may be kept.</param>
    /// <param name="buffer">Its bytes, in an array that may be kept.</param>
    /// <param name="size">How many they are.</param>
    protected virtual void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
    {
    }

    /// <summary>A datagram was queued.</summary>
    /// <param name="endpoint">Who it is for.</param>
    /// <param name="sent">Its bytes.</param>
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

    private DatagramOptions Options(bool hasResolver, CancellationToken cancelled)
    {
        EndPoint target = Resolving.LookUp(Resolving.EndPointOf(Address, Scheme.Length == 0 ? Port : Resolving.PortOf(Scheme), hasResolver), cancelled);
        _target = target;
        return Options(OptionMulticast ? target : UdpAddress.AnyOf(target));
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

    bool IDatagramOwner.WantsSent => ((Action<UdpEndpoint, long>)OnSent).Method.DeclaringType != typeof(UdpClient);

    void IDatagramOwner.TellReceived(EndPoint peer, byte[] buffer, int size) => OnReceived(EndpointOf(peer), buffer[..size], size);

    void IDatagramOwner.TellSent(EndPoint peer, long bytes)
    {
        if (bytes > 0) OnSent(EndpointOf(peer), bytes);
    }

    void IDatagramOwner.TellTooLong(EndPoint peer, byte[] buffer) => Disconnect();

    void IDatagramOwner.TellError(SocketError error)
    {
        if (!ErrorMap.IsTold(error)) return;
        AsioError asio = AsioError.Of(error);
        OnError(asio.Code, asio.Category, asio.Message);
    }

    void IUdpOwner.TellOpened() => OnConnected();

    void IUdpOwner.TellClosed() => OnDisconnected();

    void IUdpOwner.TellFailed() => OnDisconnected();

    void IUdpOwner.TellGroup(string group, bool joined)
    {
        if (joined) OnJoinedMulticastGroup(group);
        else OnLeftMulticastGroup(group);
    }
}
