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
/// Accepts connections and makes a session for each. Derive from it for the events of the whole server; those come on
/// the loops of the sessions they concern, several at a time. All methods may be called from any thread.
/// </summary>
public partial class Server : IAsyncDisposable
{
    private readonly Func<SessionContext, Session>? _contextFactory;
    private readonly Func<Session>? _factory;
    private readonly Lock _gate = new(); // guards the state, the listeners and what they listen at
    private readonly List<Listener> _listeners = [];
    private Host? _host;
    private Host? _leftBehind; // by a restart, whose start comes next
    private Phase _phase;
    private int _acceptVersion;
    private int _maxConnections; // read by every loop that accepts
    private bool _isOpening;
    private bool _isHolding; // its listeners are open, and accept nobody yet
    private bool _isOverdue; // the last stop has passed its deadline, and not all has ended
    private bool _isDisposed;

    /// <summary>Makes a server; nothing is opened before <see cref="StartAsync(CancellationToken)"/>.</summary>
    /// <param name="options">Copied and validated at start.</param>
    /// <param name="factory">Makes the session of an accepted connection, on the connection's loop. If it throws, that connection is closed.</param>
    public Server(ServerOptions options, Func<Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ServerOptions)options.Clone();
        State = Options.State;
        _maxConnections = Options.MaxConnections;
        _factory = factory;
    }

    /// <summary>
    /// Makes a server whose factory sees the connection; nothing is opened before <see cref="StartAsync(CancellationToken)"/>. With
    /// <see cref="ServerOptions.Tls"/> the factory is called when the handshake is done (<see cref="SessionContext.Tls"/>), so that it can choose by
    /// application protocol, name or certificate; a connection that ends before has no session, and <see cref="OnConnectFailed"/> tells.
    /// </summary>
    /// <param name="options">Copied and validated at start.</param>
    /// <param name="factory">Makes the session of an accepted connection, on the connection's loop. If it throws, that connection is closed.</param>
    public Server(ServerOptions options, Func<SessionContext, Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ServerOptions)options.Clone();
        State = Options.State;
        _maxConnections = Options.MaxConnections;
        _contextFactory = factory;
    }

    /// <summary>Makes a server with default options; nothing is opened before <see cref="StartAsync(CancellationToken)"/>.</summary>
    /// <param name="address">Where to listen, for example <c>tcp://*:1111</c> (<see cref="ServerOptions.Address"/>).</param>
    /// <param name="factory">Makes the session of an accepted connection, on the connection's loop. If it throws, that connection is closed.</param>
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

    /// <summary>The options it was made with.</summary>
    public ServerOptions Options { get; }

    /// <summary>Anything that all sessions of the server share; at first <see cref="ServerOptions.State"/>. The library never looks at it.</summary>
    public object? State { get; set; }

    /// <summary>
    /// Most connections at a time; at first <see cref="ServerOptions.MaxConnections"/>. Any thread, also while it runs: the next accept goes by it. Those that
    /// are open stay open, however many.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Not 1 up to 10,000,000.</exception>
    public int MaxConnections
    {
        get => Volatile.Read(ref _maxConnections);
        set
        {
            if (value is < 1 or > ServerOptions.MostConnections) Throw.OutOfRange(nameof(value), value, "1 up to 10,000,000");
            Volatile.Write(ref _maxConnections, value);
        }
    }

    /// <summary>When the last start succeeded, in UTC. Null before the first; stays after a stop.</summary>
    public DateTimeOffset? StartedAt { get; private set; }

    /// <summary>The engine that serves it; its text says which and why.</summary>
    public Engine Engine => Options.Engine ?? Engine.Default;

    /// <summary>Which TLS layer serves it and why; null without TLS, and before start.</summary>
    public string? TlsProvider => _host?.Tls is { } tls ? $"{tls.Provider} ({tls.Reason})" : null;

    /// <summary>The first address it listens at, with the real port. Null before start.</summary>
    public EndPoint? EndPoint => EndPoints.Count > 0 ? EndPoints[0] : null;

    /// <summary>All addresses it listens at, with the real ports. Empty before start.</summary>
    public IReadOnlyList<EndPoint> EndPoints { get; private set; } = [];

    /// <summary>
    /// A Socket object over the descriptor that listens at <see cref="EndPoint"/>, for what has no member here. Made by the first call (or by
    /// <see cref="ConnectionOptions.CreateSocket"/>), on a duplicate, and disposed when that listener is closed. Who accepts by it takes connections
    /// from this server. Null while nobody listens, and on the memory engine.
    /// </summary>
    /// <exception cref="NetworkException">With category Limit: there is no descriptor left for a duplicate.</exception>
    public Socket? Socket
    {
        get
        {
            Listener? first;
            lock (_gate) first = _listeners.Count > 0 ? _listeners[0] : null;
            return first?.ShareSocket();
        }
    }

    /// <summary>True from the end of start until accepting stops, or the engine does.</summary>
    public bool IsAccepting
    {
        get => field && Engine.IsStarted;
        private set;
    }

    /// <summary>All connected sessions, as a group that has its members by itself.</summary>
    public SessionGroup Sessions => RequireHost().Everyone;

    /// <summary>Groups of this server by name. They may have members of elsewhere, too, and outlive a stop.</summary>
    public NamedGroups Groups { get; } = new();

    /// <summary>
    /// For protocols on top of servers: gives a notice to <see cref="ConnectionOptions.OnDiagnosticEvent"/>, else to <see cref="EngineOptions.OnDiagnosticEvent"/>, else to the standard error stream. Any
    /// thread. The caller limits how often.
    /// </summary>
    /// <param name="notice">What an operator should know.</param>
    public void Report(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

    /// <summary>Sessions that are connected or ending.</summary>
    public int SessionCount => _host?.Live ?? 0;

    /// <summary>Connections accepted since start.</summary>
    public long AcceptedCount => _host?.AcceptedCount ?? 0;

    /// <summary>Connections closed at once since start because <see cref="ServerOptions.MaxConnections"/> or <see cref="ServerOptions.AcceptLimit"/> was reached.</summary>
    public long RejectedCount => _host?.RejectedCount ?? 0;

    /// <summary>Sessions ended since start because their peer read too slowly.</summary>
    public long SlowConsumerCount => _host?.SlowConsumers ?? 0;

    /// <summary>Bytes received by all sessions since start.</summary>
    public long BytesReceived => ReadCounters().BytesReceived;

    /// <summary>Bytes that all sessions gave to the system since start.</summary>
    public long BytesSent => ReadCounters().BytesSent;

    /// <summary>
    /// Bytes that sends of all its sessions have queued and the system has not taken yet, those that are on their way from other threads included
    /// (<see cref="IConnection.BytesPending"/>). Broadcasts count from when a member's loop has taken them. Goes through the connected sessions: not for every message.
    /// </summary>
    public long BytesPending => _host?.BytesPending ?? 0;

    /// <summary>
    /// The connected sessions with the most bytes pending, those with more first; none that has nothing pending. Any thread; a moment old. Goes through the
    /// connected sessions: not for every message.
    /// </summary>
    /// <param name="most">How many: 1 up to 10,000.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="most"/> is not in that range.</exception>
    public IReadOnlyList<SlowSession> FindSlowest(int most)
    {
        if (most is < 1 or > 10_000) Throw.OutOfRange(nameof(most), most, "1 up to 10,000");
        return _host?.FindSlowest(most, out _) ?? [];
    }

    /// <summary>All counts since the last start. Cheap: the loops count by themselves, and this adds up.</summary>
    public ServerCounters ReadCounters() => _host?.ReadCounters() ?? default;

    // ------------------------------------------------------------------ start

    /// <summary>
    /// Listens at all addresses, or at none: throws <see cref="NetworkException"/> when one cannot be bound,
    /// <see cref="ArgumentException"/> with all mistakes in the options, <see cref="InvalidOperationException"/> while it is
    /// started or stopping, <see cref="ObjectDisposedException"/> after dispose, and whatever <see cref="OnStarting"/> throws.
    /// With <see cref="ServerOptions.Tls"/> the first start in a process takes 0.1 to 1 s longer: a handshake in memory, on the pool, so
    /// that the first real one does not block its loop for that long.
    /// </summary>
    /// <param name="cancellationToken">Checked before anything is opened.</param>
    public ValueTask StartAsync(CancellationToken cancellationToken = default) => SessionOrder.Keep(SessionOrder.Leave(), StartCoreAsync(cancellationToken));

    private async ValueTask StartCoreAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        await StartAtAsync(Options.EndPointsOn(Engine)).ConfigureAwait(false);
    }

    /// <summary>
    /// Like <see cref="StartAsync(CancellationToken)"/>, blocking: for callbacks of sessions on the pool, and threads of your own. What has not started in time is stopped again, and
    /// <see cref="NetworkException"/> thrown with category Timeout. On a loop it throws <see cref="InvalidOperationException"/>.
    /// </summary>
    /// <param name="timeout">Longest time, or <see cref="Timeout.InfiniteTimeSpan"/>.</param>
    public void Start(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        Engine engine = Engine;
        StopWait<bool> done = new(engine);
        SessionOrder.Begin(FinishAsync);
        if (done.SignalWhenCompleted() is { } signal && !engine.Block(signal, timeout))
        {
            BeginStop(TimeSpan.Zero);
            engine.Block(signal, Engine.StopGrace);
            done.TryFail(new NetworkException(new NetworkError(0, ErrorCategory.Timeout, $"The server has not started within {timeout}.")));
        }

        done.GetResult(done.Version);

        async Task FinishAsync()
        {
            try
            {
                await StartCoreAsync(CancellationToken.None).ConfigureAwait(false);
                done.TryEnd(true);
            }
            catch (Exception e)
            {
                done.TryFail(e);
            }
        }
    }

    /// <summary>Makes and starts a server whose connections are served in pull style, each by one call of the handler: see <see cref="ConnectionStream.Serve"/>.</summary>
    /// <param name="address">Where to listen: <c>tcp://127.0.0.1:1111</c> (port 0 takes a free one), <c>tcp://[::]:1111</c>, <c>unix:/path</c>.</param>
    /// <param name="handler">What to do with a connection.</param>
    /// <param name="options">Everything but the address. Copied; null takes the defaults.</param>
    /// <param name="cancellationToken">Checked before anything is opened.</param>
    /// <returns>The server, started. Dispose it to stop.</returns>
    public static ValueTask<Server> StartAsync(
        string address, Func<ConnectionStream, CancellationToken, Task> handler, ServerOptions? options = null, CancellationToken cancellationToken = default)
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

    /// <param name="addresses">Where to listen.</param>
    /// <param name="before">Of a restart: what its stop has reported.</param>
    private async ValueTask StartAtAsync(IReadOnlyList<EndPoint> addresses, StopReport before = default)
    {
        Engine engine = Engine;
        Options.Validate(engine);
        TlsProfile? tls = Options.Tls is { } secure ? TlsSelector.Prepare(secure, isServer: true) : null;
        // Beside the start of the engine; nobody can connect before it has ended.
        Task warm = tls is null ? Task.CompletedTask : engine.WarmUpTls(tls);
        Host host;
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(Server));
            if (_phase == Phase.Stopping) Throw.State(_isOverdue
                ? "The server cannot be started: it was told to stop, and what still ran at the deadline has not returned (StopReport.Unfinished)."
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
            await warm.ConfigureAwait(false);
            List<EndPoint> bound = await ListenAsync(engine, host, addresses, opened, Options.AcceptAtStart, before).ConfigureAwait(false);
            if (Options.StatusPath is { } path && engine.HasWatchdog) host.Status = StatusSocket.Open(engine, path);
            lock (_gate)
            {
                if (_phase != Phase.Starting || !ReferenceEquals(_host, host)) Throw.State("The server was stopped while it started.");
                _listeners.AddRange(opened);
                EndPoints = bound;
                StartedAt = engine.UtcNow;
                _phase = Phase.Started;
                IsAccepting = Options.AcceptAtStart;
                _isHolding = !Options.AcceptAtStart;
                // Inside, so that a stop comes behind it.
                if (engine.HasWatchdog) ServerMetrics.ServerStarted(host, EndPoint);
            }
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

    private async ValueTask<List<EndPoint>> ListenAsync(Engine engine, Host host, IReadOnlyList<EndPoint> addresses, List<Listener> opened, bool accepts, StopReport before = default)
    {
        List<EndPoint> bound = [];
        HashSet<int> blocked = [.. before.Unfinished.Select(static u => u.LoopIndex).OfType<int>()];
        foreach (EndPoint address in addresses)
        {
            bool isShared = host.Scheme == AcceptScheme.ListenerPerLoop && address is IPEndPoint && engine.LoopCount > 1;
            Loop first = engine.NextLoop();
            for (int i = 1; i < engine.LoopCount && blocked.Contains(first.Index); i++) first = engine.NextLoop();
            EndPoint real = await OpenAsync(first, address, isShared ? PortSharing.Opens : PortSharing.None).ConfigureAwait(false);
            bound.Add(real);
            if (!isShared) continue;
            // At the port that the first one got.
            foreach (Loop loop in engine.Loops)
            {
                if (ReferenceEquals(loop, first)) continue;
                ValueTask<EndPoint> joined = OpenAsync(loop, real, PortSharing.Joins);
                // It listens when its loop returns.
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
    /// Begins to accept after a start without (<see cref="ServerOptions.AcceptAtStart"/>), those first who wait. Otherwise listens again, at
    /// the addresses it had, after <see cref="StopAcceptingAsync"/> or when <see cref="ServerOptions.AcceptLimit"/> was reached. Throws <see cref="NetworkException"/> when one was taken meanwhile: then
    /// it listens at none, and its sessions go on. Throws <see cref="InvalidOperationException"/> when it is accepting or not started.
    /// </summary>
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

        Completion<bool> done = new(Engine);
        SessionOrder.Begin(FinishAsync);
        return done.PlainTask;

        async Task FinishAsync()
        {
            List<Listener> opened = [];
            try
            {
                if (held is not null)
                {
                    await TellAsync(held, static (_, l, told, _) => TellAccept((Listener)l!, (Completion<bool>)told!)).ConfigureAwait(false);
                    BeginAccepting(host, version, []);
                    done.SetResult(true);
                    return;
                }

                // What a stop has not closed yet would hold the addresses.
                await CloseListenersAsync(drain: true).ConfigureAwait(false);
                host.RenewAcceptLimit();
                await ListenAsync(Engine, host, EndPoints, opened, accepts: true).ConfigureAwait(false);
                BeginAccepting(host, version, opened);
                done.SetResult(true);
            }
            catch (Exception e)
            {
                await CloseAsync(opened, drain: false).ConfigureAwait(false);
                lock (_gate) _isOpening = false;
                done.SetException(e);
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
            if (_phase != Phase.Started || !ReferenceEquals(_host, host) || _acceptVersion != version) Throw.State("The server was told to stop accepting while it began to.");
            _listeners.AddRange(opened);
            IsAccepting = true;
            _isOpening = false;
        }
    }

    /// <summary>
    /// <see cref="StopAsync(TimeSpan?)"/>, then start at the same addresses: one that was started with port 0 keeps the port it got. Counts begin
    /// anew. What has not returned a second after the deadline does not keep the server down: it is reported, keeps
    /// running beside the new sessions, whose server it does not know, and a later stop waits for it again.
    /// Throws <see cref="InvalidOperationException"/> when the server is not started, and what <see
    /// cref="StartAsync(CancellationToken)"/> throws; then it is stopped.
    /// </summary>
    /// <remarks>A loop that is still blocked gets no listener before it returns; when all loops are blocked, the
    /// start waits for one of them.</remarks>
    /// <param name="deadline">As in <see cref="StopAsync(TimeSpan?)"/>.</param>
    /// <returns>What the stop did. <see cref="StopReport.Unfinished"/> names what still runs.</returns>
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
            IReadOnlyList<EndPoint> addresses = EndPoints;
            StopReport report = await StopWithin(deadline ?? Options.DrainTimeout).ConfigureAwait(false);
            if (!report.IsComplete) LeaveBehind(report);
            await StartAtAsync(addresses, report).ConfigureAwait(false);
            return report;
        });
    }

    /// <summary>
    /// What still runs of the server of before ends by itself, beside the next one. Its addresses are free from here
    /// on, also those whose loop has not come to close its listener: such a
    /// socket stops listening at once, and is closed when the loop returns.
    /// </summary>
    private void LeaveBehind(StopReport report)
    {
        Host host;
        Listener[] listeners;
        lock (_gate)
        {
            if (_phase != Phase.Stopping) return; // it has ended after all
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
    /// Stops accepting; connections that are open stay open. Those that the system had completed are taken first, so that
    /// no peer that was connected is reset. Does nothing when it is not accepting.
    /// </summary>
    public ValueTask StopAcceptingAsync()
    {
        AcceptNoMore();
        Completion<bool> done = new(Engine);
        SessionOrder.Begin(FinishAsync);
        return done.PlainTask;

        async Task FinishAsync()
        {
            try
            {
                await CloseListenersAsync(drain: true).ConfigureAwait(false);
                done.SetResult(true);
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        }
    }

    /// <summary>On the loop that accepted the last one of <see cref="ServerOptions.AcceptLimit"/>. Who waits behind it is turned away.</summary>
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
        // Not before: whoever stops at the same time waits for the same listeners.
        lock (_gate) _listeners.RemoveAll(l => listeners.Contains(l));
    }

    private static ValueTask CloseAsync(IReadOnlyList<Listener> listeners, bool drain) =>
        TellAsync(listeners, static (_, l, c, d) => ((Listener)l!).Stop((Completion<bool>)c!, d != 0), drain ? 1 : 0);

    /// <summary>Has something done with each listener on its loop, and waits until all have answered.</summary>
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
    /// Stops accepting, tells every session (<see cref="Session"/>.OnServerStopping, which closes), lets what is queued drain, resets what
    /// is still open at the deadline, and reports when every callback and every handler of a stream has returned. One that has not a second after
    /// the deadline is reported, too (<see cref="StopReport.Unfinished"/>), and not waited for any longer: blocked loops and a
    /// blocked thread pool hold a stop up no more than that. Several calls at once report the same; the shortest deadline counts.
    /// Does nothing when it is not started. May be awaited in a callback; blocking on it there throws.
    /// </summary>
    /// <remarks>
    /// After a report that is not complete the server stays stopping until what is left has returned; then it ends what is left to end, calls
    /// <see cref="OnStopped"/>, and can be started again. What an <c>async void</c> override awaits is not known to the library, and not waited for.
    /// </remarks>
    /// <param name="deadline">Longest time for draining. Null takes <see cref="ConnectionOptions.DrainTimeout"/>; zero aborts at once, without telling the sessions.</param>
    public ValueTask<StopReport> StopAsync(TimeSpan? deadline = null)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        return StopWithin(deadline ?? Options.DrainTimeout);
    }

    /// <summary>
    /// The same with a token in place of the deadline, as hosts have it: draining takes as long as it takes, and what is open when the token is cancelled
    /// is reset. Not longer than a day.
    /// </summary>
    /// <param name="cancellationToken">Ends the patience. Cancelled before the call it aborts at once. The stop itself cannot be taken back: this throws nothing, it reports.</param>
    public ValueTask<StopReport> StopAsync(CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested) return StopWithin(TimeSpan.Zero);
        if (BeginStop(TimeSpan.FromDays(1)) is not { } stop) return default;
        if (!cancellationToken.CanBeCanceled) return stop.Task;
        return Finish(async () =>
        {
            // Disposed before this answers: a token that is cancelled later must not stop the server again.
            using CancellationTokenRegistration cut = cancellationToken.UnsafeRegister(_ => SessionOrder.Begin(() => CutAsync(stop)), null);
            return await stop.Task.ConfigureAwait(false);
        });
    }

    /// <summary>A second stop with the shortest deadline; both report the same, a second after that at the latest.</summary>
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
    /// Like <see cref="StopAsync(TimeSpan?)"/>, blocking: for callbacks of sessions on the pool, and threads of your own. In a callback of one of this server's
    /// own sessions that session is not waited for: it hears of the stop, and ends, when its callback has returned, perhaps after
    /// <see cref="OnStopped"/>. On a loop it throws <see cref="InvalidOperationException"/>.
    /// </summary>
    /// <param name="deadline">Longest time for draining; zero aborts at once, without telling the sessions. It returns a second later at the latest.</param>
    public StopReport Stop(TimeSpan deadline)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        Engine.CheckWait(deadline);
        if (BeginStop(deadline) is not { } done) return default;
        if (Strand.Current is { } strand && _host is { } host && strand.IsOf(host)) host.LeaveOut(strand.Session);
        // It ends by itself.
        if (done.SignalWhenCompleted() is { } signal) Engine.Block(signal, Timeout.InfiniteTimeSpan);
        return done.GetResult(done.Version);
    }

    /// <summary>The awaiter goes on where it was, also on a loop, and cannot block one.</summary>
    private ValueTask<StopReport> Finish(Func<ValueTask<StopReport>> work)
    {
        StopWait<StopReport> done = new(Engine);
        SessionOrder.Begin(FinishAsync);
        return done.Task;

        async Task FinishAsync()
        {
            try
            {
                done.TryEnd(await work().ConfigureAwait(false));
            }
            catch (Exception e)
            {
                done.TryFail(e);
            }
        }
    }

    /// <summary>Stops, and answers when that is done or when the deadline has passed. What is left then goes on by itself.</summary>
    private ValueTask<StopReport> StopWithin(TimeSpan deadline) => BeginStop(deadline)?.Task ?? default;

    /// <summary>Null when there is nothing to stop.</summary>
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

        // Not on a loop: it may be the one that is blocked.
        Deadline? cut = deadline > TimeSpan.Zero ? Engine.StartDeadline(deadline, static h => ((Host)h!).AbortAll(), host) : null;
        StopWait<StopReport> done = new(Engine, deadline + Engine.StopGrace, wait => StopIsOverdue(host, wait));
        SessionOrder.Begin(FinishAsync);
        return done;

        async Task FinishAsync()
        {
            try
            {
                done.TryEnd(await StopCoreAsync(host, isFirst, deadline, cut).ConfigureAwait(false));
            }
            catch (Exception e)
            {
                done.TryFail(e);
            }
        }
    }

    private async ValueTask<StopReport> StopCoreAsync(Host host, bool isFirst, TimeSpan deadline, Deadline? cut)
    {
        if (isFirst) host.Tell(0, static (owner, _) => owner.OnStopping());
        // Also when a loop that is blocked never comes to close its listener.
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

    /// <summary>It may be started again. Under the gate.</summary>
    private void Conclude(Host host)
    {
        _phase = Phase.Stopped;
        _isOverdue = false;
        ServerMetrics.ServerStopped(host);
        // Before anybody can start it again, at the same path.
        host.Status?.Dispose();
    }

    /// <summary>A thread of its own.</summary>
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
    /// The same as <see cref="StopAsync(TimeSpan?)"/> with the default deadline; a later start throws. After a stop that was not complete it waits for a second only.
    /// </summary>
    /// <exception cref="NetworkException">(To who awaits.) With category Timeout: the deadline has passed, and the message names what still runs.</exception>
    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        TimeSpan deadline;
        lock (_gate)
        {
            _isDisposed = true;
            deadline = _isOverdue ? TimeSpan.Zero : Options.DrainTimeout;
        }

        StopWait<bool> done = new(Engine);
        SessionOrder.Begin(FinishAsync);
        return done.PlainTask;

        async Task FinishAsync()
        {
            try
            {
                StopReport report = await StopWithin(deadline).ConfigureAwait(false);
                if (report.IsComplete) done.TryEnd(true);
                else done.TryFail(Engine.OverdueError("The server has not ended", report.Unfinished));
            }
            catch (Exception e)
            {
                done.TryFail(e);
            }
        }
    }

    // ------------------------------------------------------------------ sessions

    /// <summary>The connected session with this id, or null.</summary>
    /// <param name="id">Its <see cref="Session.Id"/>.</param>
    public Session? FindSession(long id) => _host?.Find(id);

    /// <summary>The connected session with this id when it is a <typeparamref name="T"/>, else null.</summary>
    /// <typeparam name="T">The type that is expected.</typeparam>
    /// <param name="id">Its <see cref="Session.Id"/>.</param>
    public T? FindSession<T>(long id)
        where T : Session => FindSession(id) as T;

    /// <summary>
    /// Sends the bytes to all sessions, or all but one. See <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>. Before a start and after
    /// the end of a stop it returns <see cref="SendResult.Closed"/>.
    /// </summary>
    /// <param name="data">What to send.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    [OverloadResolutionPriority(1)]
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) =>
        Serving is { } host ? host.Everyone.Broadcast(data, except) : SendResult.Closed;

    /// <summary>Sends the bytes to all sessions that match. See <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Func{Session, bool})"/>.</summary>
    /// <param name="data">What to send.</param>
    /// <param name="predicate">Chooses sessions, each on its own loop.</param>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Func<Session, bool> predicate) =>
        Serving is { } host ? host.Everyone.Broadcast(data, predicate) : SendResult.Closed;

    /// <summary>Sends the text as UTF-8 to all sessions, or all but one.</summary>
    /// <param name="text">What to send.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    public SendResult Broadcast(string text, Session? except = null) =>
        Serving is { } host ? host.Everyone.Broadcast(text, except) : SendResult.Closed;

    /// <summary>Closes every session gracefully; the server goes on.</summary>
    public void DisconnectAll() => _host?.CloseAll(new CloseReason(CloseCause.LocalClose));

    // ------------------------------------------------------------------ events: what they throw is told by a notice and ends nothing, but for OnStarting

    /// <summary>A start begins, nothing is open yet; also the second half of a restart. What it throws fails the start. On the thread that called.</summary>
    protected virtual void OnStarting()
    {
    }

    /// <summary>Listening.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>A stop began; it is still listening, and sessions are open.</summary>
    protected virtual void OnStopping()
    {
    }

    /// <summary>All sessions have ended.</summary>
    /// <param name="report">How.</param>
    protected virtual void OnStopped(StopReport report)
    {
    }

    /// <summary>A session begins; its own OnConnecting came before. Closing it here refuses the connection. On its loop.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnecting(Session session)
    {
    }

    /// <summary>A session is connected; its own OnConnected came before. On its loop.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnected(Session session)
    {
    }

    /// <summary>A session begins to end; its own OnDisconnecting came before. On its loop.</summary>
    /// <param name="session">The session.</param>
    /// <param name="reason">Why.</param>
    protected virtual void OnDisconnecting(Session session, CloseReason reason)
    {
    }

    /// <summary>A session has ended; its own OnDisconnected came before. On its loop.</summary>
    /// <param name="session">The session.</param>
    /// <param name="reason">Why.</param>
    protected virtual void OnDisconnected(Session session, CloseReason reason)
    {
    }

    /// <summary>
    /// An accepted connection ended before it had a session: the factory threw; or, with TLS and a factory that sees the connection, the handshake
    /// failed or the server stopped. (Of one that has a session the session is told.) On its loop.
    /// </summary>
    /// <param name="connection">As the factory would have seen it; with <see cref="SessionContext.Tls"/> where the handshake had been done.</param>
    /// <param name="reason">Why.</param>
    protected virtual void OnConnectFailed(SessionContext connection, CloseReason reason)
    {
    }

    /// <summary>
    /// Something failed before there was a session: the factory, <see cref="ServerOptions.Admit"/> or <see cref="ServerOptions.ChooseLoop"/> threw, or an
    /// accepted socket could not be prepared. That connection was closed. The default gives a notice, once a minute for each of them with the
    /// number left out; an override gets no notice. What was thrown is counted either way (<see cref="ServerCounters.UserExceptions"/>).
    /// </summary>
    /// <param name="exception">What was thrown.</param>
    protected virtual void OnError(Exception exception) => _host?.NoteError(exception);

    /// <summary>Null before the first start and after a stop, when there are no sessions.</summary>
    private Host? Serving => _phase == Phase.Stopped ? null : _host;

    private Host RequireHost() => _host ?? throw new InvalidOperationException("The server was not started.");
}
