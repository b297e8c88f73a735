using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>A server over TLS: override CreateSession, and start it. Callbacks come one at a time, on the thread pool.</summary>
public class SslServer : IDisposable, ILinkedServer
{
    private readonly ConcurrentDictionary<string, SslSession> _sessions = new();
    private readonly ServerLink _link;
    private IPEndPoint _endPoint;
    private bool? _noDelay;
    private bool _asksSessions, _isDisposed;

    /// <summary>At all addresses of this machine.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="context">Certificates and rules of TLS.</param>
    /// <param name="port">The port; 0: the system chooses at the start, and <see cref="Port"/> says which.</param>
    /// <param name="protocol">Which family.</param>
    public SslServer(Service service, SslContext context, int port, InternetProtocol protocol)
        : this(service, context, new TcpEndpoint(port, protocol))
    {
    }

    /// <summary>At one address.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="context">Certificates and rules of TLS.</param>
    /// <param name="address">The address, in digits.</param>
    /// <param name="port">The port.</param>
    public SslServer(Service service, SslContext context, string address, int port)
        : this(service, context, new TcpEndpoint(address, port))
    {
    }

    /// <summary>At an end point.</summary>
    /// <param name="service">Whose threads.</param>
    /// <param name="context">Certificates and rules of TLS.</param>
    /// <param name="endpoint">An address and a port.</param>
    public SslServer(Service service, SslContext context, TcpEndpoint endpoint)
    {
        ArgumentNullException.ThrowIfNull(service);
        ArgumentNullException.ThrowIfNull(endpoint);
        ArgumentNullException.ThrowIfNull(context);
        Context = context;
        Service = service;
        _endPoint = endpoint.Value;
        _link = new ServerLink(this);
    }

    internal ServerLink Link => _link;

    /// <summary>Different for each server, for good.</summary>
    public string Id { get; } = Guid.NewGuid().ToString();

    /// <summary>Whose threads.</summary>
    public Service Service { get; }

    /// <summary>Certificates and rules of TLS.</summary>
    public SslContext Context { get; }

    /// <summary>Where it listens.</summary>
    public string Address => _endPoint.Address.ToString();

    /// <summary>Where it listens. A port that the system chose stays for later starts.</summary>
    public int Port => _endPoint.Port;

    /// <summary>How many sessions there are.</summary>
    public long ConnectedSessions => _sessions.Count;

    /// <summary>Bytes that wait to be sent, by all sessions.</summary>
    public long BytesPending => _link.BytesPending;

    /// <summary>Bytes sent since the start.</summary>
    public long BytesSent => _link.BytesSent;

    /// <summary>Bytes received since the start.</summary>
    public long BytesReceived => _link.BytesReceived;

    /// <summary>SO_KEEPALIVE. Default false.</summary>
    public bool OptionKeepAlive { get; private set; }

    /// <summary>TCP_NODELAY. Not set: on, because off costs up to 40 ms; a value that is set is taken.</summary>
    public bool OptionNoDelay => _noDelay ?? false;

    /// <summary>Kept: connections that have ended never keep the port. Default false.</summary>
    public bool OptionReuseAddress { get; private set; }

    /// <summary>Several processes may listen at the port. Default false.</summary>
    public bool OptionReusePort { get; private set; }

    /// <summary>Between a start and the stop.</summary>
    public bool IsStarted => _link.IsStarted;

    /// <summary>Listens and accepts; where the service is not started, with its start.</summary>
    /// <returns>False: it is started already, or cannot listen at its address, which OnError has told.</returns>
    public bool Start()
    {
        if (IsStarted) return false;
        bool isStarted = true;
        Service.WhenStarted(() => isStarted = StartNow());
        return isStarted;
    }

    private bool StartNow()
    {
        try
        {
            return _link.Start(MakeOptions);
        }
        catch (SocketException e)
        {
            ((ILinkedServer)this).TellError(e.SocketErrorCode);
            return false;
        }
    }

    private ServerOptions MakeOptions() => new()
    {
        Engine = Service.Engine,
        Scheduling = CompatOptions.Callbacks,
        EndPoint = _endPoint,
        AcceptAtStart = false,
        SendLimitBytes = Whimbrel.Compat.Links.Link.LargestSendLimit,
        AllowLargeMessages = true,
        SlowConsumer = SlowConsumer.Wait,
        SendTimeout = CompatOptions.StallTimeout,
        BackPressure = false,
        NoDelay = _noDelay ?? true,
        KeepAlive = OptionKeepAlive,
        ReusePort = OptionReusePort,
        Tls = Context.ForServer(),
    };

    /// <summary>
    /// Ends all sessions, as DisconnectAll does, and stops. Waits until all sessions have ended and what is queued was
    /// sent, at most for CompatOptions.DrainTimeout, and for 200 ms where no session ends and no byte leaves: then a
    /// callback may be waiting for a lock that the caller holds. On a loop it does not wait.
    /// </summary>
    /// <returns>False: it is not started.</returns>
    public bool Stop() => _link.Stop(() => DisconnectAll());

    /// <summary>Stops and starts, at the same port.</summary>
    /// <returns>False: it was not started, or does not start.</returns>
    public bool Restart() => Stop() && Start();

    /// <summary>
    /// Ends all sessions, one after the other, each as its own Disconnect does, and waits for what all have queued.
    /// What a callback throws is thrown when all have ended.
    /// </summary>
    /// <returns>False: it is not started.</returns>
    public bool DisconnectAll()
    {
        if (!IsStarted && _sessions.IsEmpty) return false;
        SslSession[] all = [.. _sessions.Values];
        Whimbrel.Compat.Links.Link.DisconnectAll([.. all.Select(static s => s.Link)], i => all[i].Disconnect());
        return true;
    }

    /// <summary>The session with this id.</summary>
    /// <param name="id">Its id.</param>
    /// <returns>Null: there is none.</returns>
    public SslSession FindSession(string id) => _sessions.TryGetValue(id, out SslSession? session) ? session : null!;

    /// <summary>Sends to all sessions.</summary>
    /// <param name="buffer">The bytes. Copied, once.</param>
    /// <returns>False: it is not started. What became of it at each session is not told.</returns>
    public bool Multicast(byte[] buffer)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Multicast(buffer.AsSpan());
    }

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="buffer">Where the bytes lie.</param>
    /// <param name="offset">Where they begin.</param>
    /// <param name="size">How many they are.</param>
    public bool Multicast(byte[] buffer, long offset, long size)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        return Multicast(buffer.AsSpan(checked((int)offset), checked((int)size)));
    }

    /// <inheritdoc cref="Multicast(byte[])"/>
    /// <param name="text">Sent as UTF-8.</param>
    public bool Multicast(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Multicast(Encoding.UTF8.GetBytes(text).AsSpan());
    }

    private bool Multicast(ReadOnlySpan<byte> data)
    {
        if (!IsStarted) return false;
        if (data.IsEmpty || _link.Broadcast(data, _asksSessions)) return true;
        _link.ToEach<string, SslSession, EachSend>(data, _sessions);
        return true;
    }

    /// <summary>Several processes may listen at the port: from the next start on.</summary>
    /// <param name="enable">True or false.</param>
    public void SetupReusePort(bool enable) => OptionReusePort = enable;

    /// <summary>Kept: connections that have ended never keep the port.</summary>
    /// <param name="enable">True or false.</param>
    public void SetupReuseAddress(bool enable) => OptionReuseAddress = enable;

    /// <summary>SO_KEEPALIVE: from the next start on.</summary>
    /// <param name="enable">True or false.</param>
    public void SetupKeepAlive(bool enable) => OptionKeepAlive = enable;

    /// <summary>TCP_NODELAY: from the next start on.</summary>
    /// <param name="enable">True or false.</param>
    public void SetupNoDelay(bool enable) => _noDelay = enable;

    /// <summary>Makes the object for a connection. May block.</summary>
    /// <returns>A new session of this server.</returns>
    protected virtual SslSession CreateSession() => new(this);

    /// <summary>It listens; no connection has been accepted yet.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>It has stopped: no session is left.</summary>
    protected virtual void OnStopped()
    {
    }

    /// <summary>A session is connected; its own callback came before.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnected(SslSession session)
    {
    }

    /// <summary>The handshake of a session is done; its own callback came before.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnHandshaked(SslSession session)
    {
    }

    /// <summary>A session has ended; its own callback came before.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnDisconnected(SslSession session)
    {
    }

    /// <summary>Something went wrong that no session is told.</summary>
    /// <param name="error">The number, of its category.</param>
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
        if (disposing) Stop();
    }

    Link ILinkedServer.Create()
    {
        SslSession session = ServerLink.Require(CreateSession(), this);
        _sessions[session.Id] = session;
        _asksSessions |= session.AsksBeforeSending;
        return session.Link;
    }

    void ILinkedServer.Forget(ILinked session) => _sessions.TryRemove(((SslSession)session).Id, out _);

    void ILinkedServer.Tell(ServerEvent what)
    {
        if (what == ServerEvent.Started)
        {
            _endPoint = _link.EndPoint as IPEndPoint ?? _endPoint;
            OnStarted();
        }
        else if (what == ServerEvent.Stopped) OnStopped();
    }

    void ILinkedServer.Tell(LinkEvent what, ILinked session)
    {
        switch (what)
        {
            case LinkEvent.Connected:
                OnConnected((SslSession)session);
                break;
            case LinkEvent.Handshaked:
                OnHandshaked((SslSession)session);
                break;
            case LinkEvent.Disconnected:
                OnDisconnected((SslSession)session);
                break;
        }
    }

    void ILinkedServer.TellError(SocketError error)
    {
        AsioError asio = AsioError.Of(error);
        OnError(asio.Code, asio.Category, asio.Message);
    }

    private readonly struct EachSend : IEachSend<SslSession>
    {
        public static bool IsListPrivate => true;

        public static void Send(SslSession session, Multicasting multicasting, ReadOnlySpan<byte> data)
        {
            if (session.Agrees(data.Length)) multicasting.Take(session.Link, data);
        }
    }
}
