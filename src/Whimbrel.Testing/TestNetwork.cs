using System.Net;
using System.Runtime.ExceptionServices;

namespace Whimbrel.Testing;

/// <summary>
/// A network for tests of sessions: a <see cref="MemoryEngine"/> without faults, and the peers of the sessions.
/// Everything runs in calls of the test, on its thread, and each call runs until nothing is left to do.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Only <see cref="Advance"/> advances virtual time. It fires timers one by one when they are due.</item>
/// <item>An exception of an override, a factory, a timer or a posted action is rethrown by the call in which it
/// happened, unless <see cref="RethrowsExceptions"/> is false.</item>
/// <item>Work on real threads (Task.Run, Task.Delay) is not waited for: such a test calls <see cref="Run"/> after that
/// work.</item>
/// </list>
/// Not thread-safe: one test, one thread.
/// </remarks>
public sealed class TestNetwork : IDisposable
{
    private const int MaxSteps = 200_000;

    private readonly List<TestPeer> _peers = [];
    private readonly List<Server> _servers = [];
    private readonly List<Client> _clients = [];
    private readonly Dictionary<long, TestPeer> _bySession = [];
    private readonly List<Exception> _exceptions = [];
    private TestPeer? _arriving;
    private object? _arrivingAt;
    private readonly long _startMs;
    private int _rethrown;
    private int _lastPort = 9_999;
    private bool _isDisposed;

    /// <summary>Creates a network.</summary>
    /// <param name="seed">Seed of undefined orders and of faults.</param>
    /// <param name="loops">Number of loops, 1 to 64.</param>
    /// <param name="faults">Faults; null (the default) is <see cref="MemoryFaults.None"/>.</param>
    public TestNetwork(int seed = 1, int loops = 1, MemoryFaults? faults = null)
    {
        Engine = new MemoryEngine(seed, loops, faults: faults ?? MemoryFaults.None) { Watcher = this };
        _startMs = Engine.VirtualTimeMs;
    }

    /// <summary>The engine, for the options of the test's own servers and clients.</summary>
    public MemoryEngine Engine { get; }

    /// <summary>Virtual time since the creation.</summary>
    public TimeSpan Elapsed => TimeSpan.FromMilliseconds(Engine.VirtualTimeMs - _startMs);

    /// <summary>
    /// Whether exceptions of user code are rethrown by the test's call. Default true; else see
    /// <see cref="Exceptions"/>.
    /// </summary>
    public bool RethrowsExceptions { get; set; } = true;

    /// <summary>Exceptions of user code so far, in order.</summary>
    public IReadOnlyList<Exception> Exceptions => _exceptions;

    /// <summary>Returns an unused address: 127.0.0.1 with a port of this network.</summary>
    public EndPoint NewEndPoint() => new IPEndPoint(IPAddress.Loopback, ++_lastPort);

    // ------------------------------------------------------------------ peers

    /// <summary>Connects a peer to a new server, which creates the session with the factory.</summary>
    /// <param name="factory">Factory of the session under test.</param>
    public TestPeer Connect(Func<Session> factory) =>
        Connect(new Server(new ServerOptions { Engine = Engine, EndPoint = NewEndPoint() }, factory));

    /// <summary>Connects a peer to a new server. The factory receives the connection.</summary>
    /// <param name="factory">Factory of the session under test.</param>
    public TestPeer Connect(Func<SessionContext, Session> factory) =>
        Connect(new Server(new ServerOptions { Engine = Engine, EndPoint = NewEndPoint() }, factory));

    /// <summary>Connects a peer to a server, at its first address.</summary>
    /// <param name="server">
    /// Server with <see cref="Engine"/> in its options. Started if necessary, and stopped by <see cref="Dispose"/>.
    /// </param>
    public TestPeer Connect(Server server)
    {
        ArgumentNullException.ThrowIfNull(server);
        if (!ReferenceEquals(server.Engine, Engine))
            throw new ArgumentException(
                "The server is on another engine: set ServerOptions.Engine to TestNetwork.Engine.", nameof(server));
        if (!_servers.Contains(server)) _servers.Add(server);
        if (server.EndPoint is null) Engine.Run(server.StartAsync());
        TestPeer peer = new(this, Engine.Connect(server.EndPoint!));
        Arrive(peer, server);
        return peer;
    }

    /// <summary>Accepts a connection of a new client, which creates the session with the factory.</summary>
    /// <param name="factory">Factory of the session under test.</param>
    public TestPeer Accept(Func<Session> factory) =>
        Accept(new Client(new ClientOptions { Engine = Engine, EndPoint = NewEndPoint() }, factory));

    /// <summary>Accepts a connection of a client. There must be no listener at the client's address.</summary>
    /// <param name="client">Client with <see cref="Engine"/> in its options. Disposed by <see cref="Dispose"/>.</param>
    /// <exception cref="NetworkException">
    /// The session ended the attempt in OnConnecting, or the connect failed.
    /// </exception>
    public TestPeer Accept(Client client)
    {
        ArgumentNullException.ThrowIfNull(client);
        if (!ReferenceEquals(client.Engine, Engine))
            throw new ArgumentException(
                "The client is on another engine: set ClientOptions.Engine to TestNetwork.Engine.", nameof(client));
        if (!_clients.Contains(client)) _clients.Add(client);
        MemoryPeerListener listener = Engine.Listen(client.Options.EndPoint
            ?? throw new ArgumentException("The client has no address.", nameof(client)));
        TestPeer peer = new(this, null);
        Task<Session> connecting;
        try
        {
            _arriving = peer;
            _arrivingAt = client;
            connecting = client.ConnectAsync().AsTask();
            RunQuietly();
            peer.Take(listener.TryAccept());
        }
        finally
        {
            _arriving = null;
            listener.Close();
        }

        _peers.Add(peer);
        Run();
        if (connecting.IsCompleted) connecting.GetAwaiter().GetResult();
        return peer;
    }

    private void Arrive(TestPeer peer, object at)
    {
        _peers.Add(peer);
        _arriving = peer;
        _arrivingAt = at;
        try
        {
            Run();
        }
        finally
        {
            _arriving = null;
        }
    }

    // ------------------------------------------------------------------ running

    /// <summary>
    /// Runs until nothing is left to do at the current virtual time. Every call of a peer includes this.
    /// </summary>
    /// <exception cref="SimulationStalledException">The sessions were still busy after 200,000 steps.</exception>
    public void Run()
    {
        RunQuietly();
        Rethrow();
    }

    private void RunQuietly()
    {
        long last = Engine.StepCount + MaxSteps;
        do
        {
            while (Engine.RunReady())
            {
                if (Engine.StepCount > last)
                    throw new SimulationStalledException($"The sessions do not come to rest: {MaxSteps} steps at one "
                        + $"moment of virtual time. The last ones:\n{Engine.Trace}");
            }
        }
        while (PumpPeers());
    }

    private bool PumpPeers()
    {
        bool moved = false;
        // By index, because a callback may add a peer meanwhile.
        for (int i = 0; i < _peers.Count; i++) moved |= _peers[i].Pump();
        return moved;
    }

    /// <summary>
    /// Advances virtual time: each timer fires when it is due, and its effects are complete before the next timer.
    /// </summary>
    /// <param name="time">Zero or more, rounded down to milliseconds.</param>
    public void Advance(TimeSpan time)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero);
        long end = Engine.VirtualTimeMs + (long)time.TotalMilliseconds;
        Run();
        while (Engine.AdvanceToNextTimer(end)) Run();
        Engine.AdvanceTo(end);
        Run();
    }

    private void Rethrow()
    {
        int first = _rethrown;
        _rethrown = _exceptions.Count;
        if (!RethrowsExceptions || first == _rethrown) return;
        if (first == _rethrown - 1) ExceptionDispatchInfo.Throw(_exceptions[first]);
        throw new AggregateException(_exceptions[first.._rethrown]);
    }

    /// <summary>
    /// Closes the peers, stops servers and clients, and ends the engine. Rethrows exceptions of user code.
    /// </summary>
    public void Dispose()
    {
        if (_isDisposed) return;
        _isDisposed = true;
        foreach (TestPeer peer in _peers) peer.CloseQuietly();
        RunQuietly();
        foreach (Client client in _clients) Engine.Run(client.DisposeAsync());
        foreach (Server server in _servers) Engine.Run(server.StopAsync(TimeSpan.Zero));
        Engine.Run(Engine.DisposeAsync());
        Rethrow();
    }

    // ------------------------------------------------------------------ calls of the engine

    internal void Began(Session session)
    {
        if (_arriving is not { } peer
            || !(ReferenceEquals(session.Server, _arrivingAt) || ReferenceEquals(session.Client, _arrivingAt)))
            return;
        // A concurrent connect of a client under test. A peer without a matching name takes the first session.
        if (session.Server is not null && session.RemoteEndPoint is { } remote && !remote.Equals(peer.EndPoint)) return;
        _arriving = null;
        _bySession[session.Id] = peer;
        peer.Serve(session);
    }

    internal void Ended(Session session, CloseReason reason)
    {
        if (_bySession.Remove(session.Id, out TestPeer? peer)) peer.End(session, reason);
    }

    internal void Threw(Exception exception) => _exceptions.Add(exception);
}
