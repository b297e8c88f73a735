using System.Net;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// Opens any number of connections from one set of options, which is validated and prepared once: for connection pools
/// and load generators. <see cref="Client"/> holds one connection and may reconnect it; this class holds none, and each
/// call of <see cref="ConnectAsync"/> is independent. All methods may be called from any thread.
/// </summary>
public sealed class Connector : IAsyncDisposable
{
    private readonly Lock _gate = new(); // guards the state and the attempts
    private readonly HashSet<Attempt> _attempts = [];
    private Host? _host;
    private StopWait<bool>? _ended;
    private bool _isDisposed;

    /// <summary>Creates a connector. Opens nothing before <see cref="ConnectAsync"/>.</summary>
    /// <param name="options">Options, copied now and validated by the first connect.
    /// <see cref="ClientOptions.Reconnect"/> must be null, because no caller would expect the new connection.</param>
    public Connector(ClientOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        Options = (ClientOptions)options.Clone();
    }

    /// <summary>Creates a connector with default options. Opens nothing before <see cref="ConnectAsync"/>.</summary>
    /// <param name="address">Address to connect to, for example <c>tcp://localhost:1111</c>
    /// (<see cref="ClientOptions.Address"/>).</param>
    public Connector(string address)
        : this(new ClientOptions { Address = address ?? throw new ArgumentNullException(nameof(address)) })
    {
    }

    /// <summary>The options of the connector.</summary>
    public ClientOptions Options { get; }

    /// <summary>The engine that the connector uses.</summary>
    public Engine Engine => Options.EngineOrDefault;

    /// <summary>Number of its sessions that are connecting, connected or ending.</summary>
    public int SessionCount
    {
        get
        {
            lock (_gate) return _attempts.Count;
        }
    }

    /// <summary>
    /// All connected sessions, as a group with automatic membership. Throws before the first connect.
    /// </summary>
    public SessionGroup Sessions =>
        _host?.Everyone ?? throw new InvalidOperationException("The connector has not connected yet.");

    /// <summary>
    /// Connects, and completes after the session's OnConnected, with the session that has the connection then. An
    /// exception of the factory is thrown to the caller.
    /// </summary>
    /// <exception cref="NetworkException">The connect failed (after OnConnectFailed).</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    /// <exception cref="ArgumentException">The options have mistakes; the message lists all of them.</exception>
    /// <exception cref="ObjectDisposedException">The connector was disposed.</exception>
    /// <param name="factory">Function that creates the session of this connect, on its loop.</param>
    /// <param name="loop">Loop of the connection; null for <see cref="ClientOptions.Loop"/>, or the loops of the engine
    /// in turn.</param>
    /// <param name="cancellationToken">Cancels the connect, in any phase.</param>
    public ValueTask<Session> ConnectAsync(Func<Session> factory, Loop? loop = null,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(factory);
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<Session>(cancellationToken);
        Engine engine = Engine;
        if (loop is not null && !ReferenceEquals(loop.Engine, engine))
            throw new ArgumentException($"{loop} is no loop of the connector's engine ({engine}).", nameof(loop));
        Attempt attempt;
        lock (_gate)
        {
            if (_isDisposed) Throw.Disposed(nameof(Connector));
            attempt = new Attempt(this, _host ??= Prepare(engine), factory, cancellationToken);
            _attempts.Add(attempt);
        }

        attempt.PostOrGiveUp(loop);
        attempt.WatchCancellation();
        return attempt.Result.Task;
    }

    private Host Prepare(Engine engine)
    {
        Options.Validate(engine);
        if (Options.Reconnect is not null)
            throw new ArgumentException(
                "ClientOptions.Reconnect is set: a connector does not reconnect. Give the policy to a Client.");
        TlsProfile? tls = Options.TlsToSpeak is { } secure ? TlsSelector.Prepare(secure, isServer: false) : null;
        engine.Start();
        return new Host(this, engine, tls);
    }

    /// <summary>Closes every connection gracefully and cancels pending connects; the connector stays usable.</summary>
    public void DisconnectAll()
    {
        Attempt[] attempts;
        lock (_gate) attempts = [.. _attempts];
        foreach (Attempt attempt in attempts) attempt.Close();
    }

    /// <summary>
    /// Disconnects as <see cref="DisconnectAll"/> does, and completes when all connections have ended. Later connects
    /// throw.
    /// </summary>
    /// <exception cref="NetworkException">Thrown to the awaiting code, with category Timeout:
    /// <see cref="ConnectionTimeouts.Drain"/> plus one second has passed while a callback did not return. The
    /// message names it.</exception>
    public ValueTask DisposeAsync()
    {
        StopWait<bool> ended;
        bool isIdle;
        lock (_gate)
        {
            _isDisposed = true;
            _ended ??= new StopWait<bool>(Engine, Options.Timeouts.Drain + Engine.StopGrace, LookAfterEnd);
            ended = _ended;
            isIdle = _attempts.Count == 0;
        }

        ValueTask task = ended.IsOpen ? ended.PlainTask : default;
        if (isIdle) ended.TryEnd(true);
        else DisconnectAll();
        return task;
    }

    /// <summary>
    /// Checks why the end takes long: connections drain slowly, within their own limits, or a callback blocks them. On
    /// a thread of its own.
    /// </summary>
    private void LookAfterEnd(StopWait<bool> wait)
    {
        if (!wait.IsOpen) return;
        List<UnfinishedCall> found = [];
        lock (_gate)
        {
            foreach (Attempt attempt in _attempts) found.AddRange(attempt.FindUnfinished());
        }

        if (found.Count > 0) wait.TryFail(Engine.OverdueError("The connector has not ended", Engine.Most(found)));
        else Engine.StartDeadline(Options.Timeouts.Drain, _ => LookAfterEnd(wait), null);
    }

    private void Remove(Attempt attempt)
    {
        StopWait<bool>? ended;
        lock (_gate)
        {
            _attempts.Remove(attempt);
            ended = _attempts.Count == 0 ? _ended : null;
        }

        ended?.TryEnd(true);
    }

    /// <summary>State of the connector, as seen by its connections.</summary>
    private sealed class Host : ConnectionHost
    {
        internal Host(Connector owner, Engine engine, TlsProfile? tls)
            : base(engine, owner.Options, isAccepting: false)
        {
            Owner = owner;
            Targets = owner.Options.TargetsOn(engine);
            Tls = tls;
        }

        /// <summary>The addresses to connect to, in this order.</summary>
        internal List<EndPoint> Targets { get; }

        internal override object Owner { get; }

        internal override void NoteSession(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

        internal override void SessionConnecting(Connection connection) =>
            ((Attempt)connection.Session.HostState!).Connect(connection);

        internal override void SessionConnected(Session session) => ((Attempt)session.HostState!).Connected(session);

        internal override void SessionFailedToBegin(Session session, Exception exception) =>
            ((Attempt)session.HostState!).Thrown ??= exception;

        internal override void SessionReplaced(Session old, Session next) => ((Attempt)next.HostState!).Session = next;

        internal override void SessionEnding(Session session)
        {
        }

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected) =>
            ((Attempt)session.HostState!).Ended(reason);
    }

    private sealed class Attempt(Connector connector, Host host, Func<Session> factory, CancellationToken cancellation)
        : PendingConnect(host, host.Targets)
    {
        private CancellationTokenRegistration _registration;
        private int _isAnswered;

        internal Completion<Session> Result { get; } = new(host.Engine);

        protected override (string What, object? Code) Factory => ("The factory given to a connector", factory);

        protected override bool IsCancelled =>
            Volatile.Read(ref _isAnswered) == 0 && cancellation.IsCancellationRequested;

        protected override Session? MakeSession(Loop loop) => factory();

        protected override void FactoryThrew(Exception exception)
        {
            host.Engine.UserCodeThrew(exception);
            connector.Remove(this);
            if (TryAnswer()) Result.SetException(exception);
        }

        internal void WatchCancellation()
        {
            if (!cancellation.CanBeCanceled) return;
            TokenWatch.Store(ref _registration,
                cancellation.UnsafeRegister(static state => ((Attempt)state!).Cancel(), this));
            if (Volatile.Read(ref _isAnswered) == 1) _registration.Dispose();
        }

        internal void PostOrGiveUp(Loop? loop)
        {
            if (!Post(loop)) Ended(new CloseReason(CloseCause.EngineStopped));
        }

        internal void Connected(Session session)
        {
            if (Thrown is null && TryAnswer()) Result.SetResult(session);
        }

        /// <summary>Called after the session's last callback, or if there never was a session.</summary>
        internal void Ended(CloseReason reason)
        {
            bool wasCancelled = IsCancelled;
            connector.Remove(this);
            if (!TryAnswer()) return;
            if (wasCancelled) Result.SetException(new OperationCanceledException(cancellation));
            else Result.SetException(Failure(host.Targets, ReasonFor(reason)));
        }

        private bool TryAnswer()
        {
            if (Interlocked.Exchange(ref _isAnswered, 1) == 1) return false;
            _registration.Dispose();
            return true;
        }
    }
}
