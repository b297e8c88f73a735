using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// Accepts connections and creates a session for each. Derive from it for events of the whole server; they run on the
/// loops of the sessions they concern, several at the same time. All methods may be called from any thread.
/// </summary>
public partial class Server : IAsyncDisposable
{
    private readonly Func<SessionContext, Session>? _contextFactory;
    private readonly Func<Session>? _factory;
    private readonly Lock _gate = new(); // guards the state, the listeners and their addresses
    private readonly List<Listener> _listeners = [];
    private List<EndPoint> _bound = []; // what a restart listens on
    private Host? _host;
    private Host? _leftBehind; // the host of before a restart, until the next start takes it
    private Phase _phase;
    private int _acceptVersion;
    private int _maxConnections; // read by every loop that accepts
    private bool _isOpening;
    private bool _isHolding; // listeners are open but do not accept yet
    private bool _isOverdue; // the last stop has passed its deadline, and something still runs
    private bool _isDisposed;

    /// <summary>Creates a server. Opens nothing before <see cref="StartAsync(CancellationToken)"/>.</summary>
    /// <param name="options">Options, copied now and validated at start.</param>
    /// <param name="factory">Function that creates the session of an accepted connection, on the connection's loop. If
    /// it throws, that connection is closed.</param>
    public Server(ServerOptions options, Func<Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ServerOptions)options.Clone();
        State = Options.State;
        _maxConnections = Options.Limits.Connections;
        _factory = factory;
    }

    /// <summary>
    /// Creates a server with a factory that receives the connection. Opens nothing before
    /// <see cref="StartAsync(CancellationToken)"/>. With <see cref="ServerOptions.Tls"/> the factory is called after
    /// the handshake (<see cref="SessionContext.Tls"/>), so it can choose by application protocol, server name or
    /// certificate. A connection that ends before has no session; <see cref="OnConnectFailed"/> is called instead.
    /// </summary>
    /// <param name="options">Options, copied now and validated at start.</param>
    /// <param name="factory">Function that creates the session of an accepted connection, on the connection's loop. If
    /// it throws, that connection is closed.</param>
    public Server(ServerOptions options, Func<SessionContext, Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ServerOptions)options.Clone();
        State = Options.State;
        _maxConnections = Options.Limits.Connections;
        _contextFactory = factory;
    }

    /// <summary>
    /// Creates a server with default options. Opens nothing before <see cref="StartAsync(CancellationToken)"/>.
    /// </summary>
    /// <param name="address">Address to listen on, for example <c>tcp://*:1111</c>
    /// (<see cref="ServerOptions.Address"/>).</param>
    /// <param name="factory">Function that creates the session of an accepted connection, on the connection's loop. If
    /// it throws, that connection is closed.</param>
    public Server(string address, Func<Session> factory)
        : this(new ServerOptions { Address = address ?? throw new ArgumentNullException(nameof(address)) }, factory)
    {
    }

    private enum Phase
    {
        Stopped,
        Starting,
        Started,
        Stopping,
    }

    /// <summary>The options of the server.</summary>
    public ServerOptions Options { get; }

    /// <summary>
    /// Object shared by all sessions of the server; initially <see cref="ServerOptions.State"/>. The library does not
    /// use it.
    /// </summary>
    public object? State { get; set; }

    /// <summary>
    /// Maximum number of open connections; initially <see cref="ServerLimits.Connections"/>. May be set on any
    /// thread, also while the server runs; it applies from the next accept on. Open connections stay open.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is not 1 to 10,000,000.</exception>
    public int MaxConnections
    {
        get => Volatile.Read(ref _maxConnections);
        set
        {
            if (value is < 1 or > ServerLimits.MostConnections)
                Throw.OutOfRange(nameof(value), value, "1 up to 10,000,000");
            Volatile.Write(ref _maxConnections, value);
        }
    }

    /// <summary>Time of the last successful start, in UTC. Null before the first; kept after a stop.</summary>
    public DateTimeOffset? StartedAt { get; private set; }

    /// <summary>The engine that the server uses; its text names the kind and the reason.</summary>
    public Engine Engine => Options.Engine ?? Engine.Default;

    /// <summary>TLS provider of the server and the reason for it; null without TLS, and before start.</summary>
    public string? TlsProvider => _host?.Tls is { } tls ? $"{tls.Provider} ({tls.Reason})" : null;

    /// <summary>First address that the server listens on, with the actual port. Null before start.</summary>
    public EndPoint? EndPoint => EndPoints.Count > 0 ? EndPoints[0] : null;

    /// <summary>All addresses that the server listens on, with the actual ports. Empty before start.</summary>
    public IReadOnlyList<EndPoint> EndPoints { get; private set; } = [];

    /// <summary>
    /// A <see cref="System.Net.Sockets.Socket"/> for the listener at <see cref="EndPoint"/>, for options without a
    /// member here. Created by the first call (or by <see cref="ConnectionSocketOptions.Create"/>) on a duplicate of
    /// the descriptor, and disposed when that listener is closed. Accepting with it takes connections away from this
    /// server. Null while no listener is open, and on the memory engine.
    /// </summary>
    /// <exception cref="NetworkException">Category Limit: no file descriptor is left for the duplicate.</exception>
    public Socket? Socket
    {
        get
        {
            Listener? first;
            lock (_gate) first = _listeners.Count > 0 ? _listeners[0] : null;
            return first?.ShareSocket();
        }
    }

    /// <summary>True from the end of the start until accepting or the engine stops.</summary>
    public bool IsAccepting
    {
        get => field && Engine.IsStarted;
        private set;
    }

    /// <summary>
    /// True from the begin of a stop to its end. With <see cref="ConnectionTimeouts.DrainWindow"/> most sessions have
    /// not been asked to end then.
    /// </summary>
    public bool IsStopping => _phase == Phase.Stopping;

    /// <summary>All connected sessions, as a group with automatic membership.</summary>
    public SessionGroup Sessions => RequireHost().Everyone;

    /// <summary>Named groups of this server. They may have members of other servers, and outlive a stop.</summary>
    public NamedGroups Groups { get; } = new();

    /// <summary>
    /// For protocols on top of servers: passes a diagnostic event to <see cref="ConnectionOptions.OnDiagnosticEvent"/>,
    /// else to <see cref="EngineOptions.OnDiagnosticEvent"/>, else to the standard error stream. Any thread. The caller
    /// limits the rate.
    /// </summary>
    /// <param name="notice">Event for the operator.</param>
    public void Report(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

    /// <summary>Number of sessions that are connected or ending.</summary>
    public int SessionCount => _host?.Live ?? 0;

    /// <summary>Number of connections accepted since start.</summary>
    public long AcceptedCount => _host?.AcceptedCount ?? 0;

    /// <summary>
    /// Number of connections closed at once since start because <see cref="ServerLimits.Connections"/> or
    /// <see cref="AcceptOptions.Limit"/> was reached.
    /// </summary>
    public long RejectedCount => _host?.RejectedCount ?? 0;

    /// <summary>Number of sessions ended since start because their peer read too slowly.</summary>
    public long SlowConsumerCount => _host?.SlowConsumers ?? 0;

    /// <summary>Number of bytes received by all sessions since start.</summary>
    public long BytesReceived => ReadCounters().BytesReceived;

    /// <summary>Number of bytes that all sessions passed to the kernel since start.</summary>
    public long BytesSent => ReadCounters().BytesSent;

    /// <summary>
    /// Number of bytes queued by all sessions and not yet accepted by the kernel, including sends in progress on other
    /// threads (<see cref="IConnection.BytesPending"/>). A broadcast is included once a member's loop has processed it.
    /// Enumerates the connected sessions, so do not call it for every message.
    /// </summary>
    public long BytesPending => _host?.BytesPending ?? 0;

    /// <summary>
    /// Returns the connected sessions with the most bytes pending, in descending order, without those that have none.
    /// Any thread; the result may be slightly outdated. Enumerates the connected sessions, so do not call it for every
    /// message.
    /// </summary>
    /// <param name="most">Maximum number of sessions, 1 to 10,000.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="most"/> is not 1 to 10,000.</exception>
    public IReadOnlyList<SlowSession> FindSlowest(int most)
    {
        if (most is < 1 or > 10_000) Throw.OutOfRange(nameof(most), most, "1 up to 10,000");
        return _host?.FindSlowest(most, out _) ?? [];
    }

    /// <summary>
    /// Returns all counters since the last start. Cheap: each loop counts on its own, and this call adds the counts up.
    /// </summary>
    public ServerCounters ReadCounters() => _host?.ReadCounters() ?? default;

    // ------------------------------------------------------------------ start

    /// <summary>
    /// Listens on all addresses, or on none. With <see cref="ServerOptions.Tls"/> the first start in a process takes
    /// 0.1 to 1 s longer. It performs a handshake in memory, on the pool, so that the first real one does not block its
    /// loop for that long.
    /// </summary>
    /// <exception cref="NetworkException">An address cannot be bound.</exception>
    /// <exception cref="ArgumentException">The options have mistakes; the message lists all of them.</exception>
    /// <exception cref="InvalidOperationException">The server is started or stopping.</exception>
    /// <exception cref="ObjectDisposedException">The server was disposed.</exception>
    /// <param name="cancellationToken">Checked before anything is opened.</param>
    public ValueTask StartAsync(CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), StartCoreAsync(cancellationToken));

    private async ValueTask StartCoreAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        await StartAtAsync(Options.EndPointsOn(Engine)).ConfigureAwait(false);
    }

    /// <summary>
    /// Starts like <see cref="StartAsync(CancellationToken)"/> and blocks: for callbacks of sessions on the pool and
    /// for threads of the application. If the start takes longer, the server is stopped again, and
    /// <see cref="NetworkException"/> is thrown with category Timeout. Throws <see cref="InvalidOperationException"/>
    /// on a loop.
    /// </summary>
    /// <param name="timeout">Maximum time, or <see cref="Timeout.InfiniteTimeSpan"/>.</param>
    public void Start(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        Engine engine = Engine;
        StopWait<bool> done = SessionOrder.Begin(new StopWait<bool>(engine), async () =>
        {
            await StartCoreAsync(CancellationToken.None).ConfigureAwait(false);
            return true;
        });
        if (done.SignalWhenCompleted() is { } signal && !engine.Block(signal, timeout))
        {
            BeginStop(TimeSpan.Zero);
            engine.Block(signal, Engine.StopGrace);
            done.TryFail(new NetworkException(new NetworkError(0, ErrorCategory.Timeout,
                $"The server has not started within {timeout}.")));
        }

        done.GetResult(done.Version);
    }

    /// <summary>
    /// Creates and starts a server that serves each connection by one call of the handler, which reads from a stream:
    /// see <see cref="ConnectionStream.Serve"/>.
    /// </summary>
    /// <param name="address">Address to listen on: <c>tcp://127.0.0.1:1111</c> (port 0 takes a free one),
    /// <c>tcp://[::]:1111</c>, <c>unix:/path</c>.</param>
    /// <param name="handler">Function that serves one connection.</param>
    /// <param name="options">All options except the address. Copied; null takes the defaults.</param>
    /// <param name="cancellationToken">Checked before anything is opened.</param>
    /// <returns>The started server. Dispose it to stop.</returns>
    public static ValueTask<Server> StartAsync(
        string address, Func<ConnectionStream, CancellationToken, Task> handler, ServerOptions? options = null,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(address);
        return SessionOrder.Keep(SessionOrder.Leave(), StartNewAsync());

        async ValueTask<Server> StartNewAsync()
        {
            Server server = new((options ?? new ServerOptions()).At(address), ConnectionStream.Serve(handler));
            await server.StartCoreAsync(cancellationToken).ConfigureAwait(false);
            return server;
        }
    }

    /// <param name="addresses">Addresses to listen on.</param>
    /// <param name="before">For a restart: the report of its stop.</param>
    private async ValueTask StartAtAsync(IReadOnlyList<EndPoint> addresses, StopReport before = default)
    {
        Engine engine = Engine;
        Options.Validate(engine);
        TlsProfile? tls = Options.Tls is { } secure ? TlsSelector.Prepare(secure, isServer: true) : null;
        Host host;
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(Server));
            if (_phase == Phase.Stopping) Throw.State(_isOverdue
                ? "The server cannot be started: it is stopping, and what still ran at the deadline has not returned "
                    + "(StopReport.Unfinished)."
                : "The server is stopping: await StopAsync before it is started again.");
            if (_phase != Phase.Stopped) Throw.State("The server is started already.");
            _phase = Phase.Starting;
            host = _host = new Host(this, engine, tls) { Before = _leftBehind };
            _leftBehind = null;
        }

        List<Listener> opened = [];
        try
        {
            OnStarting();
            engine.Start();
            ProcessUpgrade? upgrade = Options.Upgrade;
            if (upgrade is not null)
                addresses = await upgrade.ClaimAsync(addresses, SocketType.Stream).ConfigureAwait(false);
            Task<List<EndPoint>> listening =
                ListenAsync(engine, host, addresses, opened, Options.Accept.AtStart, before).AsTask();
            await (upgrade?.ExplainAsync(listening) ?? listening).ConfigureAwait(false);
            List<EndPoint> bound = await listening.ConfigureAwait(false);
            // During an upgrade the path stays the old process's, until this one is ready.
            if (Options.Upgrade is not { IsPending: true }) OpenStatus(host);
            lock (_gate)
            {
                if (_phase != Phase.Starting || !ReferenceEquals(_host, host))
                    Throw.State("The server was stopped while it started.");
                _listeners.AddRange(opened);
                EndPoints = [.. bound.Distinct()];
                _bound = Again(addresses, bound);
                StartedAt = engine.UtcNow;
                _phase = Phase.Started;
                IsAccepting = Options.Accept.AtStart;
                _isHolding = !Options.Accept.AtStart;
                // Inside the lock, so that a stop is reported after it.
                if (engine.HasWatchdog) ServerMetrics.ServerStarted(host, EndPoint);
            }

            Options.Upgrade?.Add(this);
        }
        catch
        {
            await CloseAsync(opened, drain: false).ConfigureAwait(false);
            lock (_gate)
            {
                host.Status?.Dispose();
                if (_phase == Phase.Starting && ReferenceEquals(_host, host)) _phase = Phase.Stopped;
            }

            throw;
        }

        host.Tell(0, static (owner, _) => owner.OnStarted());
    }

    private void OpenStatus(Host host)
    {
        if (host.Status is null && Options.StatusPath is { } path && host.Engine.HasWatchdog)
            host.Status = StatusSocket.Open(host.Engine, path, Options.Upgrade);
    }

    /// <summary>Returns what a restart listens on: bound addresses, and sockets of other processes.</summary>
    private static List<EndPoint> Again(IReadOnlyList<EndPoint> addresses, List<EndPoint> bound) =>
        [.. addresses.Zip(bound, static (given, real) => given is InheritedSocket { IsClaimed: false } ? given : real)
            .Distinct()];

    private async ValueTask<List<EndPoint>> ListenAsync(Engine engine, Host host, IReadOnlyList<EndPoint> addresses,
        List<Listener> opened, bool accepts, StopReport before = default)
    {
        List<EndPoint> bound = [];
        List<Loop> listening = []; // at the current address
        HashSet<int> blocked = [.. before.Unfinished.Select(static u => u.LoopIndex).OfType<int>()];
        for (int a = 0; a < addresses.Count; a++)
        {
            EndPoint address = addresses[a];
            EndPoint plain = (address as InheritedSocket)?.LocalEndPoint ?? address;
            bool isShared = host.Scheme == AcceptScheme.ListenerPerLoop && plain is IPEndPoint
                && address is not InheritedSocket { IsClaimed: false } && engine.LoopCount > 1;
            Loop first = engine.NextLoop();
            for (int i = 1; i < engine.LoopCount && blocked.Contains(first.Index); i++) first = engine.NextLoop();
            EndPoint real = await OpenAsync(first, address, isShared ? PortSharing.Opens : PortSharing.None)
                .ConfigureAwait(false);
            bound.Add(real);
            listening.Add(first);
            // An old process may have had several sockets at one address. All of them are needed: each has a queue.
            bool hasMore = a + 1 < addresses.Count && address is InheritedSocket { IsClaimed: true }
                && addresses[a + 1] is InheritedSocket { IsClaimed: true } next && next.LocalEndPoint.Equals(plain);
            if (hasMore) continue;
            Loop[] others = isShared ? [.. engine.Loops.Except(listening)] : [];
            listening.Clear();
            // The other loops listen on the port that the first one got.
            foreach (Loop loop in others)
            {
                ValueTask<EndPoint> joined = OpenAsync(loop, real, PortSharing.Joins);
                // A blocked loop begins to listen when it returns.
                if (!blocked.Contains(loop.Index)) await joined.ConfigureAwait(false);
            }
        }

        return bound;

        async ValueTask<EndPoint> OpenAsync(Loop loop, EndPoint address, PortSharing sharing)
        {
            Listener listener = new(loop, host, Options, address, sharing, accepts);
            if (!loop.PostControl(static (_, l, _, _) => ((Listener)l!).Start(), listener)) throw engine.EndedError();
            bool isLate = sharing == PortSharing.Joins && blocked.Contains(loop.Index);
            if (isLate) opened.Add(listener);
            EndPoint real = await listener.Started.ConfigureAwait(false);
            if (!isLate) opened.Add(listener);
            return real;
        }
    }

    /// <summary>
    /// Begins to accept. After a start without <see cref="AcceptOptions.AtStart"/>, waiting connections are
    /// accepted first. After <see cref="StopAcceptingAsync"/> or <see cref="AcceptOptions.Limit"/>, the server
    /// listens again on its addresses.
    /// </summary>
    /// <exception cref="NetworkException">An address was taken by another socket. The server then listens on none; its
    /// sessions continue.</exception>
    /// <exception cref="InvalidOperationException">The server is accepting already, or not started.</exception>
    public ValueTask StartAcceptingAsync()
    {
        Host host;
        int version;
        Listener[]? held;
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(Server));
            if (_phase != Phase.Started) Throw.State("The server is not started.");
            if (IsAccepting || _isOpening) Throw.State("The server is accepting already.");
            _isOpening = true;
            host = _host!;
            version = _acceptVersion;
            held = _isHolding ? [.. _listeners] : null;
            _isHolding = false;
        }

        return SessionOrder.Begin(new StopWait<bool>(Engine), AcceptAsync).PlainTask;

        async ValueTask<bool> AcceptAsync()
        {
            List<Listener> opened = [];
            try
            {
                if (held is not null)
                {
                    await TellAsync(held, static (_, l, told, _) => TellAccept((Listener)l!, (Completion<bool>)told!))
                        .ConfigureAwait(false);
                    BeginAccepting(host, version, []);
                    return true;
                }

                // Listeners that a stop has not closed yet would block the addresses.
                await CloseListenersAsync(drain: true).ConfigureAwait(false);
                host.RenewAcceptLimit();
                await ListenAsync(Engine, host, _bound, opened, accepts: true).ConfigureAwait(false);
                BeginAccepting(host, version, opened);
                return true;
            }
            catch
            {
                await CloseAsync(opened, drain: false).ConfigureAwait(false);
                lock (_gate) _isOpening = false;
                throw;
            }
        }
    }

    private static void TellAccept(Listener listener, Completion<bool> told)
    {
        listener.Accept();
        told.SetResult(true);
    }

    private void BeginAccepting(Host host, int version, List<Listener> opened)
    {
        lock (_gate)
        {
            if (_phase != Phase.Started || !ReferenceEquals(_host, host) || _acceptVersion != version)
                Throw.State("The server was stopped from accepting while it began to.");
            _listeners.AddRange(opened);
            IsAccepting = true;
            _isOpening = false;
        }
    }

    /// <summary>
    /// Stops as <see cref="StopAsync(TimeSpan?)"/> does, then starts on the same addresses; a server started with port
    /// 0 keeps its port. Counters start again. Code that has not returned one second after the deadline does not
    /// prevent the restart. It is reported, continues beside the new sessions without being known to their server, and
    /// a later stop waits for it again. If <see cref="StartAsync(CancellationToken)"/> throws, the server is stopped.
    /// </summary>
    /// <exception cref="InvalidOperationException">The server is not started.</exception>
    /// <remarks>
    /// A blocked loop gets its listener when it returns. If all loops are blocked, the start waits for one of them.
    /// </remarks>
    /// <param name="deadline">Same as in <see cref="StopAsync(TimeSpan?)"/>.</param>
    /// <returns>Report of the stop. <see cref="StopReport.Unfinished"/> names the code that still runs.</returns>
    public ValueTask<StopReport> RestartAsync(TimeSpan? deadline = null)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(Server));
            if (_phase != Phase.Started) Throw.State("The server is not started: there is nothing to restart.");
        }

        return Finish(async () =>
        {
            IReadOnlyList<EndPoint> addresses = _bound;
            StopReport report = await StopWithin(deadline ?? StopLimit).ConfigureAwait(false);
            if (!report.IsComplete) LeaveBehind(report);
            await StartAtAsync(addresses, report).ConfigureAwait(false);
            return report;
        });
    }

    /// <summary>
    /// Separates the old host; its unfinished code ends on its own. Its addresses are free from here on: a listener on
    /// a blocked loop stops listening at once, and is closed when the loop returns.
    /// </summary>
    private void LeaveBehind(StopReport report)
    {
        Host host;
        Listener[] listeners;
        lock (_gate)
        {
            if (_phase != Phase.Stopping) return; // it has ended in the meantime
            host = _leftBehind = _host!;
            host.IsLeftBehind = true;
            Conclude(host);
            listeners = [.. _listeners];
            _listeners.Clear();
        }

        foreach (Listener listener in listeners) listener.StopListening();
        host.Tell(report, static (owner, r) => owner.OnStopped(r));
    }

    // ------------------------------------------------------------------ stop

    /// <summary>
    /// Stops accepting; open connections stay open. Connections that the kernel has already established are accepted
    /// first, so that no connected peer is reset. Has no effect if the server is not accepting.
    /// </summary>
    public ValueTask StopAcceptingAsync()
    {
        AcceptNoMore();
        return SessionOrder.Begin(new StopWait<bool>(Engine), async () =>
        {
            await CloseListenersAsync(drain: true).ConfigureAwait(false);
            return true;
        }).PlainTask;
    }

    /// <summary>
    /// Called on the loop that accepted the last connection of <see cref="AcceptOptions.Limit"/>. Connections
    /// waiting after it are rejected.
    /// </summary>
    private void AcceptLimitReached()
    {
        AcceptNoMore();
        _ = CloseListenersAsync(drain: false).AsTask();
    }

    private void AcceptNoMore()
    {
        lock (_gate)
        {
            IsAccepting = false;
            _isHolding = false;
            _acceptVersion++;
        }
    }

    private async ValueTask CloseListenersAsync(bool drain)
    {
        Listener[] listeners;
        lock (_gate) listeners = [.. _listeners];
        await CloseAsync(listeners, drain).ConfigureAwait(false);
        // Removed only now, because concurrent stops wait for the same listeners.
        lock (_gate) _listeners.RemoveAll(l => listeners.Contains(l));
    }

    private static ValueTask CloseAsync(IReadOnlyList<Listener> listeners, bool drain) =>
        TellAsync(listeners, static (_, l, c, d) => ((Listener)l!).Stop((Completion<bool>)c!, d != 0), drain ? 1 : 0);

    /// <summary>Runs an action for each listener on its loop, and waits until all have completed.</summary>
    private static async ValueTask TellAsync(IReadOnlyList<Listener> listeners, ControlAction action, long value = 0)
    {
        List<StopWait<bool>> waiting = [];
        foreach (Listener listener in listeners)
        {
            StopWait<bool> answered = new(listener.Loop.Engine);
            if (listener.Loop.PostControl(action, listener, answered, value)) waiting.Add(answered);
        }

        foreach (StopWait<bool> answered in waiting) await answered.Task.ConfigureAwait(false);
    }

    /// <summary>
    /// Stops accepting and calls <see cref="Session"/>.OnServerStopping of every session, which closes: of all at once,
    /// or one after the other over <see cref="ConnectionTimeouts.DrainWindow"/>. Then waits for queued data to be sent,
    /// and resets connections still open at the deadline. Completes when every callback and every stream handler has
    /// returned. Code that has not returned one second after the deadline is reported
    /// (<see cref="StopReport.Unfinished"/>) and not waited for any longer, also if loops or the thread pool are
    /// blocked. Concurrent calls report the same; the shortest deadline counts. Has no effect if the server is not
    /// started. May be awaited in a callback; blocking on it there throws.
    /// </summary>
    /// <remarks>
    /// After an incomplete report the server stays stopping until the unfinished code has returned. It then ends the
    /// rest, calls <see cref="OnStopped"/>, and can be started again. The awaits of an <c>async void</c> override are
    /// unknown to the library, so a stop does not wait for them.
    /// </remarks>
    /// <param name="deadline">Maximum time for draining. Null takes <see cref="ConnectionTimeouts.DrainWindow"/> and
    /// <see cref="ConnectionTimeouts.Drain"/>; zero aborts at once, without calling OnServerStopping. A shorter one
    /// shortens the window.</param>
    public ValueTask<StopReport> StopAsync(TimeSpan? deadline = null)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        return StopWithin(deadline ?? StopLimit);
    }

    /// <summary>Deadline of a stop without one: the last session is asked at the end of the window.</summary>
    private TimeSpan StopLimit => Options.Timeouts.DrainWindow + Options.Timeouts.Drain;

    /// <summary>
    /// Stops with a token instead of a deadline, as hosts have it: draining takes as long as needed, at most one day.
    /// When the token is cancelled, connections still open are reset.
    /// </summary>
    /// <param name="cancellationToken">Ends the draining. If cancelled before the call, the server aborts at once. The
    /// stop itself cannot be undone: a cancelled token leads to a report, not to an exception.</param>
    public ValueTask<StopReport> StopAsync(CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested) return StopWithin(TimeSpan.Zero);
        if (BeginStop(TimeSpan.FromDays(1)) is not { } stop) return default;
        if (!cancellationToken.CanBeCanceled) return stop.Task;
        return Finish(async () =>
        {
            // Disposed before the task completes: a token that is cancelled later must not stop the server again.
            using CancellationTokenRegistration cut =
                cancellationToken.UnsafeRegister(_ => SessionOrder.Begin(() => CutAsync(stop)), null);
            return await stop.Task.ConfigureAwait(false);
        });
    }

    /// <summary>
    /// Starts a second stop with deadline zero. Both calls report the same, at most one second later.
    /// </summary>
    private async Task CutAsync(StopWait<StopReport> stop)
    {
        try
        {
            stop.TryEnd(await StopWithin(TimeSpan.Zero).ConfigureAwait(false));
        }
        catch (Exception e)
        {
            stop.TryFail(e);
        }
    }

    /// <summary>
    /// Stops like <see cref="StopAsync(TimeSpan?)"/> and blocks: for callbacks of sessions on the pool and for threads
    /// of the application. In a callback of this server's own session, the stop does not wait for that session. It is
    /// stopped when its callback has returned, possibly after <see cref="OnStopped"/>. Throws
    /// <see cref="InvalidOperationException"/> on a loop.
    /// </summary>
    /// <param name="deadline">Maximum time for draining; zero aborts at once, without calling OnServerStopping. The
    /// call returns at most one second later.</param>
    public StopReport Stop(TimeSpan deadline)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        Engine.CheckWait(deadline);
        if (BeginStop(deadline) is not { } done) return default;
        if (PoolSession.Current is { } pool && _host is { } host && pool.IsOf(host)) host.LeaveOut(pool.Session);
        // The wait is infinite here because the stop ends it.
        if (done.SignalWhenCompleted() is { } signal) Engine.Block(signal, Timeout.InfiniteTimeSpan);
        return done.GetResult(done.Version);
    }

    /// <summary>
    /// Runs the work so that the awaiting code resumes where it was, also on a loop, and cannot block one.
    /// </summary>
    private ValueTask<StopReport> Finish(Func<ValueTask<StopReport>> work) =>
        SessionOrder.Begin(new StopWait<StopReport>(Engine), work).Task;

    /// <summary>
    /// Stops, and completes when that is done or the deadline has passed. The rest then continues in the background.
    /// </summary>
    private ValueTask<StopReport> StopWithin(TimeSpan deadline) => BeginStop(deadline)?.Task ?? default;

    /// <summary>Begins a stop. Returns null if there is nothing to stop.</summary>
    private StopWait<StopReport>? BeginStop(TimeSpan deadline)
    {
        Host host;
        bool isFirst;
        lock (_gate)
        {
            if (_host is null || _phase == Phase.Stopped) return null;
            isFirst = _phase != Phase.Stopping;
            _phase = Phase.Stopping;
            host = _host;
            IsAccepting = false;
            _isHolding = false;
            _acceptVersion++;
        }

        // Not on a loop's timer: that loop may be the blocked one.
        Deadline? cut =
            deadline > TimeSpan.Zero ? Engine.StartDeadline(deadline, static h => ((Host)h!).AbortAll(), host) : null;
        return SessionOrder.Begin(
            new StopWait<StopReport>(Engine, deadline + Engine.StopGrace, wait => StopIsOverdue(host, wait)),
            () => StopCoreAsync(host, isFirst, deadline, cut));
    }

    private async ValueTask<StopReport> StopCoreAsync(Host host, bool isFirst, TimeSpan deadline, Deadline? cut)
    {
        if (isFirst) host.Tell(0, static (owner, _) => owner.OnStopping());
        // Also if a blocked loop never closes its listener.
        if (deadline == TimeSpan.Zero) host.AbortAll();
        await CloseListenersAsync(drain: deadline > TimeSpan.Zero).ConfigureAwait(false);
        StopReport report = await host.EndAllAsync(deadline).ConfigureAwait(false);
        if (cut is not null) Engine.CancelDeadline(cut);
        lock (_gate)
        {
            if (_phase != Phase.Stopping || !ReferenceEquals(_host, host)) return report;
            Conclude(host);
        }

        host.Tell(report, static (owner, r) => owner.OnStopped(r));
        return report;
    }

    /// <summary>Makes the server startable again. The caller holds the lock.</summary>
    private void Conclude(Host host)
    {
        _phase = Phase.Stopped;
        _isOverdue = false;
        ServerMetrics.ServerStopped(host);
        // Before the server can be started again with the same path.
        host.Status?.Dispose();
        Options.Upgrade?.Remove(this);
    }

    /// <summary>Called on a thread of its own when the stop has passed its deadline.</summary>
    private void StopIsOverdue(Host host, StopWait<StopReport> wait)
    {
        StopReport report = host.ReportLeft();
        bool isFirst = false;
        lock (_gate)
        {
            if (!host.IsLeftBehind)
            {
                if (_phase != Phase.Stopping || !ReferenceEquals(_host, host)) return;
                isFirst = !_isOverdue;
                _isOverdue = true;
            }
        }

        if (wait.TryEnd(report) && isFirst) host.NoteOverdue(report);
    }

    /// <summary>
    /// Stops like <see cref="StopAsync(TimeSpan?)"/> with the default deadline; a later start throws. After an
    /// incomplete stop it waits for one second only.
    /// </summary>
    /// <exception cref="NetworkException">Thrown to the awaiting code, with category Timeout: the deadline has passed.
    /// The message names the code that still runs.</exception>
    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        TimeSpan deadline;
        lock (_gate)
        {
            _isDisposed = true;
            deadline = _isOverdue ? TimeSpan.Zero : StopLimit;
        }

        return SessionOrder.Begin(new StopWait<bool>(Engine), async () =>
        {
            StopReport report = await StopWithin(deadline).ConfigureAwait(false);
            return report.IsComplete
                ? true
                : throw Engine.OverdueError("The server has not ended", report.Unfinished);
        }).PlainTask;
    }

    // ------------------------------------------------------------------ sessions

    /// <summary>Returns the connected session with this id, or null.</summary>
    /// <param name="id"><see cref="Session.Id"/> of the session.</param>
    public Session? FindSession(long id) => _host?.Find(id);

    /// <summary>
    /// Returns the connected session with this id if it is a <typeparamref name="T"/>, otherwise null.
    /// </summary>
    /// <typeparam name="T">Expected type.</typeparam>
    /// <param name="id"><see cref="Session.Id"/> of the session.</param>
    public T? FindSession<T>(long id)
        where T : Session => FindSession(id) as T;

    /// <summary>
    /// Sends the data to all sessions, or all but one. See
    /// <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>. Returns <see cref="SendResult.Closed"/>
    /// before a start and after the end of a stop.
    /// </summary>
    /// <param name="data">Bytes to send.</param>
    /// <param name="except">Session to skip, or null.</param>
    [OverloadResolutionPriority(1)]
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) =>
        Serving is { } host ? host.Everyone.Broadcast(data, except) : SendResult.Closed;

    /// <summary>
    /// Sends the data to all sessions that match. See
    /// <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Func{Session, bool})"/>.
    /// </summary>
    /// <param name="data">Bytes to send.</param>
    /// <param name="predicate">Filter, called for each session on its own loop.</param>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Func<Session, bool> predicate) =>
        Serving is { } host ? host.Everyone.Broadcast(data, predicate) : SendResult.Closed;

    /// <summary>Sends the text as UTF-8 to all sessions, or all but one.</summary>
    /// <param name="text">Text to send.</param>
    /// <param name="except">Session to skip, or null.</param>
    public SendResult Broadcast(string text, Session? except = null) =>
        Serving is { } host ? host.Everyone.Broadcast(text, except) : SendResult.Closed;

    /// <summary>Closes every session gracefully; the server continues to run.</summary>
    public void DisconnectAll() => _host?.CloseAll(new CloseReason(CloseCause.LocalClose));

    // ------------------------------------------------------------------ events
    // Exceptions are logged as diagnostic events; only OnStarting fails its start.

    /// <summary>
    /// Called at the begin of a start, before anything is open; also in a restart. An exception fails the start. On the
    /// calling thread.
    /// </summary>
    protected virtual void OnStarting()
    {
    }

    /// <summary>Called when the server is listening.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>Called when a stop begins; the server still listens and sessions are open.</summary>
    protected virtual void OnStopping()
    {
    }

    /// <summary>Called when all sessions have ended.</summary>
    /// <param name="report">Result of the stop.</param>
    protected virtual void OnStopped(StopReport report)
    {
    }

    /// <summary>
    /// Called when a session begins, after its own OnConnecting. Closing it here rejects the connection. On its loop.
    /// </summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnecting(Session session)
    {
    }

    /// <summary>Called when a session is connected, after its own OnConnected. On its loop.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnected(Session session)
    {
    }

    /// <summary>Called when a session begins to end, after its own OnDisconnecting. On its loop.</summary>
    /// <param name="session">The session.</param>
    /// <param name="reason">Reason of the end.</param>
    protected virtual void OnDisconnecting(Session session, CloseReason reason)
    {
    }

    /// <summary>Called when a session has ended, after its own OnDisconnected. On its loop.</summary>
    /// <param name="session">The session.</param>
    /// <param name="reason">Reason of the end.</param>
    protected virtual void OnDisconnected(Session session, CloseReason reason)
    {
    }

    /// <summary>
    /// Called when an accepted connection ended before it had a session: the factory threw; or, with TLS and a factory
    /// that receives the connection, the handshake failed or the server stopped. Otherwise the session's own
    /// OnConnectFailed is called. On its loop.
    /// </summary>
    /// <param name="connection">The connection as passed to the factory; with <see cref="SessionContext.Tls"/> if the
    /// handshake was done.</param>
    /// <param name="reason">Reason of the failure.</param>
    protected virtual void OnConnectFailed(SessionContext connection, CloseReason reason)
    {
    }

    /// <summary>
    /// Called when something failed before there was a session: the factory, <see cref="AcceptOptions.Admit"/> or
    /// <see cref="AcceptOptions.ChooseLoop"/> threw, or an accepted socket could not be prepared. That connection was
    /// closed. The default reports a diagnostic event, at most once a minute per cause, with the number of suppressed
    /// diagnostic events. Exceptions are counted in any case (<see cref="ServerCounters.UserExceptions"/>).
    /// </summary>
    /// <param name="exception">Exception that was thrown.</param>
    protected virtual void OnError(Exception exception) => _host?.NoteError(exception);

    /// <summary>The host of the current start; null before the first start and after a stop.</summary>
    private Host? Serving => _phase == Phase.Stopped ? null : _host;

    private Host RequireHost() => _host ?? throw new InvalidOperationException("The server was not started.");
}
