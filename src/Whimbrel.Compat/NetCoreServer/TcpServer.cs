using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Links;

namespace NetCoreServer;

/// <summary>A TCP server: override CreateSession, and start it.</summary>
public class TcpServer : IDisposable, ILinkedServer
{
    /// <summary>All sessions, by their ids.</summary>
    protected readonly ConcurrentDictionary<Guid, TcpSession> Sessions = new();

    private readonly ServerLink _link;
    private bool? _noDelay;
    private bool _hasOwnSending;

    /// <summary>Makes one.</summary>
    /// <param name="address">The address.</param>
    /// <param name="port">The port.</param>
    public TcpServer(IPAddress address, int port)
        : this(new IPEndPoint(address, port))
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="address">The address, in digits.</param>
    /// <param name="port">The port.</param>
    public TcpServer(string address, int port)
        : this(new IPEndPoint(IPAddress.Parse(address), port))
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">A name and a port.</param>
    public TcpServer(DnsEndPoint endpoint)
        : this((EndPoint)endpoint, endpoint.Host, endpoint.Port)
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="endpoint">An address and a port.</param>
    public TcpServer(IPEndPoint endpoint)
        : this((EndPoint)endpoint, endpoint.Address.ToString(), endpoint.Port)
    {
    }

    private TcpServer(EndPoint endpoint, string address, int port)
    {
        Endpoint = endpoint;
        Address = address;
        Port = port;
        _link = new ServerLink(this);
    }

    internal ServerLink Link => _link;

    /// <summary>Different for each server, for good.</summary>
    public Guid Id { get; } = Guid.NewGuid();

    /// <summary>The address, as it was given.</summary>
    public string Address { get; }

    /// <summary>The port, as it was given.</summary>
    public int Port { get; }

    /// <summary>Where it listens; before the start, where it is to listen. A port that the system chose stays for later starts.</summary>
    public EndPoint Endpoint { get; private set; }

    /// <summary>How many sessions there are.</summary>
    public long ConnectedSessions => Sessions.Count;

    /// <summary>Bytes that wait to be sent, by all sessions.</summary>
    public long BytesPending => _link.BytesPending;

    /// <summary>Bytes sent since the start.</summary>
    public long BytesSent => _link.BytesSent;

    /// <summary>Bytes received since the start.</summary>
    public long BytesReceived => _link.BytesReceived;

    /// <summary>How many connections wait to be accepted, at most. Default 1024.</summary>
    public int OptionAcceptorBacklog { get; set; } = 1024;

    /// <summary>IPv4 as well at an IPv6 address. Default false.</summary>
    public bool OptionDualMode { get; set; }

    /// <summary>SO_KEEPALIVE. Default false.</summary>
    public bool OptionKeepAlive { get; set; }

    /// <summary>Seconds of silence before the first question of keep-alive. -1 (the default): as the system has it.</summary>
    public int OptionTcpKeepAliveTime { get; set; } = -1;

    /// <summary>Seconds between questions of keep-alive. -1 (the default): as the system has it.</summary>
    public int OptionTcpKeepAliveInterval { get; set; } = -1;

    /// <summary>Questions without an answer that end the connection. -1 (the default): as the system has it.</summary>
    public int OptionTcpKeepAliveRetryCount { get; set; } = -1;

    /// <summary>TCP_NODELAY. Not set: on, because off costs up to 40 ms; a value that is set is taken.</summary>
    public bool OptionNoDelay
    {
        get => _noDelay ?? false;
        set => _noDelay = value;
    }

    /// <summary>Several processes may listen at the port. Default false; that connections which have ended do not keep the port is always so.</summary>
    public bool OptionReuseAddress { get; set; }

    /// <summary>Nobody else can take the port by force (Windows). Default false.</summary>
    public bool OptionExclusiveAddressUse { get; set; }

    /// <summary>Number of bytes that OnReceived of a new session gets at first. Default 8192.</summary>
    public int OptionReceiveBufferSize { get; set; } = Whimbrel.Compat.Links.Link.DefaultBuffer;

    /// <summary>Copied to new sessions. SO_SNDBUF is left to the system. Default 8192.</summary>
    public int OptionSendBufferSize { get; set; } = Whimbrel.Compat.Links.Link.DefaultBuffer;

    /// <summary>Between a start and the stop.</summary>
    public bool IsStarted => _link.IsStarted;

    /// <summary>Connections are accepted.</summary>
    public bool IsAccepting => _link.IsAccepting;

    /// <summary>Dispose was called.</summary>
    public bool IsDisposed { get; private set; }

    /// <summary>There is no socket.</summary>
    public bool IsSocketDisposed { get; private set; } = true;

    /// <summary>Makes the socket that listens. An override's own is used.</summary>
    /// <returns>A new socket, not bound.</returns>
    protected virtual Socket CreateSocket() => new(Endpoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);

    /// <summary>Listens and accepts.</summary>
    /// <returns>False: it is started already.</returns>
    /// <exception cref="SocketException">It cannot listen at its address.</exception>
    public virtual bool Start()
    {
        if (!_link.Start(MakeOptions)) return false;
        IsSocketDisposed = !IsStarted;
        return true;
    }

    private ServerOptions MakeOptions()
    {
        bool hasOwnSocket = ((Func<Socket>)CreateSocket).Method.DeclaringType != typeof(TcpServer);
        Endpoint = Resolving.LookUp(Endpoint);
        return new ServerOptions
        {
            Engine = CompatOptions.Engine,
            Scheduling = CompatOptions.Callbacks,
            EndPoint = Endpoint,
            AcceptAtStart = false,
            SendLimitBytes = Whimbrel.Compat.Links.Link.LargestSendLimit,
            AllowLargeMessages = true,
            SlowConsumer = SlowConsumer.Wait,
            SendTimeout = CompatOptions.StallTimeout,
            BackPressure = false,
            Backlog = OptionAcceptorBacklog,
            CreateSocket = hasOwnSocket ? _ => CreateSocket() : null,
            DualMode = OptionDualMode,
            NoDelay = _noDelay ?? true,
            KeepAlive = OptionKeepAlive,
            KeepAliveTime = OptionMap.Seconds(OptionTcpKeepAliveTime),
            KeepAliveInterval = OptionMap.Seconds(OptionTcpKeepAliveInterval),
            KeepAliveCount = Math.Max(OptionTcpKeepAliveRetryCount, 0),
            ReusePort = OptionReuseAddress,
            ExclusiveAddressUse = OptionExclusiveAddressUse,
        };
    }

    /// <summary>
    /// Ends all sessions, as DisconnectAll does, and stops. Waits until all sessions have ended and what is queued was
    /// sent, at most for CompatOptions.DrainTimeout, and for 200 ms where no session ends and no byte leaves: then a
    /// callback may be waiting for a lock that the caller holds. On a loop it does not wait.
    /// </summary>
    /// <returns>False: it is not started.</returns>
    public virtual bool Stop() => _link.Stop(() => DisconnectAll());

    /// <summary>Stops and starts.</summary>
    /// <returns>False: it was not started, or does not start.</returns>
    public virtual bool Restart() => Stop() && Start();

    /// <summary>Makes the object for a connection. May block.</summary>
    /// <returns>A new session of this server.</returns>
    protected virtual TcpSession CreateSession() => new(this);

    /// <summary>
    /// Ends all sessions, one after the other, each as its own Disconnect does, and waits for what all have queued.
    /// What a callback throws is thrown when all have ended.
    /// </summary>
    /// <returns>False: it is not started.</returns>
    public virtual bool DisconnectAll()
    {
        if (!IsStarted && Sessions.IsEmpty) return false;
        TcpSession[] all = [.. Sessions.Values];
        Whimbrel.Compat.Links.Link.DisconnectAll([.. all.Select(static s => s.Link)], i => all[i].Disconnect());
        return true;
    }

    /// <summary>The session with this id.</summary>
    /// <param name="id">Its id.</param>
    /// <returns>Null: there is none.</returns>
    public TcpSession FindSession(Guid id) => Sessions.TryGetValue(id, out TcpSession? session) ? session : null!;

    /// <summary>Sends to all sessions.</summary>
    /// <param name="buffer">The bytes. Copied, once.</param>
    /// <returns>False: it is not started. What became of it at each session is not told.</returns>
    public virtual bool Multicast(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Multicast(buffer.AsSpan());
    }

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="buffer">Where the bytes lie.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public virtual bool Multicast(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Multicast(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="buffer">The bytes. Copied, once.</param>
    public virtual bool Multicast(ReadOnlySpan<byte> buffer)
    {
        if (!IsStarted) return false;
        if (buffer.IsEmpty || _link.Broadcast(buffer, _hasOwnSending)) return true;
        _link.ToEach<Guid, TcpSession, EachSend>(buffer, Sessions);
        return true;
    }

    /// <summary>The same to the members of a group alone. False: it must be sent to one after the other.</summary>
    private protected bool Broadcast(ReadOnlySpan<byte> buffer, SessionGroup group) => _link.Broadcast(buffer, _hasOwnSending, group);

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public virtual bool Multicast(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Multicast(Encoding.UTF8.GetBytes(text).AsSpan());
    }

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public virtual bool Multicast(ReadOnlySpan<char> text)
    {
        using PooledText utf8 = new(text);
        return Multicast(utf8.Span);
    }

    /// <summary>It begins to start.</summary>
    protected virtual void OnStarting()
    {
    }

    /// <summary>It listens; no connection has been accepted yet.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>It begins to stop.</summary>
    protected virtual void OnStopping()
    {
    }

    /// <summary>It has stopped: no session is left.</summary>
    protected virtual void OnStopped()
    {
    }

    /// <summary>A session begins; its own callback came before.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnecting(TcpSession session)
    {
    }

    /// <summary>A session is connected; its own callback came before.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnected(TcpSession session)
    {
    }

    /// <summary>A session is about to end; its own callback came before.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnDisconnecting(TcpSession session)
    {
    }

    /// <summary>A session has ended; its own callback came before.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnDisconnected(TcpSession session)
    {
    }

    /// <summary>Something went wrong that no session is told.</summary>
    /// <param name="error">What.</param>
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
        if (disposingManagedResources) Stop();
        IsDisposed = true;
    }

    Link ILinkedServer.Create()
    {
        TcpSession session = ServerLink.Require(CreateSession(), this);
        Sessions[session.Id] = session;
        session.HasOwnSending = ((SpanSend)session.SendAsync).Method.DeclaringType != typeof(TcpSession);
        _hasOwnSending |= session.HasOwnSending;
        return session.Link;
    }

    void ILinkedServer.Forget(ILinked session) => Sessions.TryRemove(((TcpSession)session).Id, out _);

    void ILinkedServer.TellError(SocketError error) => OnError(error);

    void ILinkedServer.Tell(ServerEvent what)
    {
        switch (what)
        {
            case ServerEvent.Starting:
                Endpoint = _link.EndPoint ?? Endpoint;
                OnStarting();
                break;
            case ServerEvent.Started:
                OnStarted();
                break;
            case ServerEvent.Stopping:
                OnStopping();
                break;
            case ServerEvent.Stopped:
                IsSocketDisposed = true;
                OnStopped();
                break;
        }
    }

    void ILinkedServer.Tell(LinkEvent what, ILinked session)
    {
        switch (what)
        {
            case LinkEvent.Connecting:
                OnConnecting((TcpSession)session);
                break;
            case LinkEvent.Connected:
                OnConnected((TcpSession)session);
                break;
            case LinkEvent.Disconnecting:
                OnDisconnecting((TcpSession)session);
                break;
            case LinkEvent.Disconnected:
                OnDisconnected((TcpSession)session);
                break;
        }
    }

    private readonly struct EachSend : IEachSend<TcpSession>
    {
        public static void Send(TcpSession session, Multicasting multicasting, ReadOnlySpan<byte> data) => session.SendAsync(data);
    }
}
