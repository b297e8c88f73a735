using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Threading.Tasks.Sources;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// Connects to a server. Holds at most one connection at a time; each connect creates a new session. Connecting again
/// inside OnConnectFailed or OnDisconnected is allowed. With <see cref="ClientOptions.Reconnect"/> it reconnects
/// automatically. All methods may be called from any thread; those that block must not be called on a loop.
/// </summary>
public partial class Client : IAsyncDisposable
{
    private readonly Func<SessionContext, Session>? _contextFactory;
    private readonly Func<Session>? _factory;
    private readonly Lock _gate = new();
    private Host? _host;
    private Attempt? _current;
    private ReconnectLoop? _reconnectLoop;
    private bool _isDisposed;

    /// <summary>Creates a client. Opens nothing before <see cref="ConnectAsync"/>.</summary>
    /// <param name="options">Options, copied now and validated by the first connect.</param>
    /// <param name="factory">Function that creates the session of each connect, on its loop.</param>
    public Client(ClientOptions options, Func<Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ClientOptions)options.Clone();
        _factory = factory;
    }

    /// <summary>
    /// Creates a client with a factory that receives the target. Opens nothing before <see cref="ConnectAsync"/>.
    /// </summary>
    /// <param name="options">Options, copied now and validated by the first connect.</param>
    /// <param name="factory">Function that creates the session of each connect, on its loop.</param>
    public Client(ClientOptions options, Func<SessionContext, Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ClientOptions)options.Clone();
        _contextFactory = factory;
    }

    /// <summary>Creates a client with default options. Opens nothing before <see cref="ConnectAsync"/>.</summary>
    /// <param name="address">Address to connect to, for example <c>tcp://localhost:1111</c>
    /// (<see cref="ClientOptions.Address"/>).</param>
    /// <param name="factory">Function that creates the session of each connect, on its loop.</param>
    public Client(string address, Func<Session> factory)
        : this(new ClientOptions { Address = address ?? throw new ArgumentNullException(nameof(address)) }, factory)
    {
    }

    /// <summary>The options of the client.</summary>
    public ClientOptions Options { get; }

    /// <summary>The engine that the client uses.</summary>
    public Engine Engine => Options.EngineOrDefault;

    /// <summary>
    /// For protocols on top of clients: passes a diagnostic event to <see cref="ConnectionOptions.OnDiagnosticEvent"/>,
    /// else to <see cref="EngineOptions.OnDiagnosticEvent"/>, else to the standard error stream. Any thread. The caller
    /// limits the rate.
    /// </summary>
    /// <param name="notice">Event for the operator.</param>
    public void Report(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

    /// <summary>
    /// TLS provider of the client and the reason for it; null without TLS, and before the first connect.
    /// </summary>
    public string? TlsProvider => _host?.Tls is { } tls ? $"{tls.Provider} ({tls.Reason})" : null;

    /// <summary>The session that is connected or connecting, or null.</summary>
    public Session? Session => _current?.Session;

    /// <summary>Socket of the connection: <see cref="Session.Socket"/>. Null without a connection.</summary>
    public Socket? Socket => Session?.Socket;

    /// <summary>
    /// True while the policy reconnects: from OnReconnecting until OnReconnected, OnGaveUp or a disconnect.
    /// </summary>
    public bool IsReconnecting => Volatile.Read(ref _reconnectLoop) is { IsTrying: true };

    // ------------------------------------------------------------------ connecting

    /// <summary>
    /// Connects, and completes after the session's OnConnected. With a policy that retries the first connect, it fails
    /// only when the policy gives up. If an ended connection waits for a reconnect of the policy, this connects at
    /// once.
    /// </summary>
    /// <exception cref="NetworkException">The connect failed (after OnConnectFailed).</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    /// <exception cref="InvalidOperationException">The client has a connection or a connect in progress.</exception>
    /// <param name="cancellationToken">Cancels the connect, in any phase, and the policy.</param>
    public ValueTask<Session> ConnectAsync(CancellationToken cancellationToken = default) =>
        cancellationToken.IsCancellationRequested
            ? ValueTask.FromCanceled<Session>(cancellationToken)
            : BeginConnect(cancellationToken).Task;

    private Completion<Session> BeginConnect(CancellationToken cancellationToken)
    {
        ReconnectLoop pursuit;
        ReconnectLoop? before;
        Attempt attempt;
        Engine engine = Engine;
        lock (_gate)
        {
            if (_isDisposed) Throw.Disposed(nameof(Client));
            if (_current is not null || _reconnectLoop is { IsAnswered: false, IsWaiting: true })
                Throw.State(
                    "The client is connected or connecting already: it holds one connection at a time. To replace "
                    + "that, await ReconnectAsync; for more connections use a Connector, or a Client for each.");
            if (_host is null)
            {
                Options.Validate(engine);
                TlsProfile? tls =
                    Options.TlsToSpeak is { } secure ? TlsSelector.Prepare(secure, isServer: false) : null;
                engine.Start();
                _host = new Host(this, engine, tls);
            }

            before = _reconnectLoop;
            _reconnectLoop = pursuit = new ReconnectLoop(_host, cancellationToken);
            _current = attempt = new Attempt(_host, pursuit);
        }

        before?.StopWaiting();
        if (!attempt.Post())
        {
            lock (_gate)
            {
                if (ReferenceEquals(_current, attempt)) _current = null;
                if (ReferenceEquals(_reconnectLoop, pursuit)) _reconnectLoop = null;
            }

            TellIdle();
            throw engine.EndedError();
        }

        pursuit.WatchCancellation();
        return pursuit.Result;
    }

    /// <summary>
    /// Connects like <see cref="ConnectAsync"/> and blocks. Throws <see cref="NetworkException"/> with
    /// <see cref="ErrorCategory.Timeout"/> if the time has passed. The connect has ended then, unless a callback blocks
    /// its loop; the message names that callback. Throws <see cref="InvalidOperationException"/> on a loop.
    /// </summary>
    /// <param name="timeout">Maximum time. With <see cref="Timeout.InfiniteTimeSpan"/> the limits of the options and
    /// the policy apply.</param>
    public Session Connect(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        using CancellationTokenSource cancellation = new();
        Engine engine = Engine;
        Completion<Session> connecting = BeginConnect(cancellation.Token);
        if (connecting.SignalWhenCompleted() is { } signal && !engine.Block(signal, timeout))
        {
            cancellation.Cancel();
            // The connect ends at once, unless a callback blocks its loop. It may also have succeeded at the last
            // moment.
            if (!engine.Block(signal, Engine.StopGrace)) GiveUpBlocked();
            if (connecting.GetStatus(connecting.Version) == ValueTaskSourceStatus.Canceled)
                throw new NetworkException(new NetworkError(0, ErrorCategory.Timeout,
                    $"Cannot connect to {_host!.TargetText}: not connected within {timeout}."));
        }

        return connecting.GetResult(connecting.Version);
    }

    private void GiveUpBlocked()
    {
        Attempt? attempt = _current;
        // No caller waits for the result of the connect any more.
        BeginDisconnect();
        throw Engine.OverdueError($"The connect attempt to {_host!.TargetText} has not ended",
            attempt?.FindUnfinished() ?? []);
    }

    /// <summary>
    /// Ends the connection, if there is one, as <see cref="DisconnectAsync"/> does, and connects again with a new
    /// session. Throws as <see cref="ConnectAsync"/> does.
    /// </summary>
    /// <param name="cancellationToken">Cancels the connect; the disconnect continues.</param>
    public ValueTask<Session> ReconnectAsync(CancellationToken cancellationToken = default)
    {
        StopWait<bool>? ended = BeginDisconnect();
        return SessionOrder.Begin(new StopWait<Session>(Engine), async () =>
        {
            if (ended is not null) await ended.PlainTask.ConfigureAwait(false);
            return await ConnectAsync(cancellationToken).ConfigureAwait(false);
        }).Task;
    }

    // ------------------------------------------------------------------ disconnecting

    /// <summary>
    /// Closes the connection gracefully, or cancels the connect, and completes when it has ended. Also ends the
    /// policy's reconnects. A callback that does not return is waited for until
    /// <see cref="ConnectionTimeouts.Drain"/> plus one second. If a callback of its own session blocks on it, it
    /// completes before the last callback, as <see cref="Session.CloseAsync"/> does.
    /// </summary>
    /// <exception cref="NetworkException">Thrown to the awaiting code, with category Timeout: that time has passed. The
    /// message names the code that still runs; the connection ends when it returns.</exception>
    public ValueTask DisconnectAsync() => BeginDisconnect()?.PlainTask ?? default;

    /// <summary>Begins the disconnect. Returns null if there is nothing to wait for.</summary>
    private StopWait<bool>? BeginDisconnect()
    {
        StopWait<bool>? ended = null;
        Attempt? attempt;
        ReconnectLoop? pursuit;
        lock (_gate)
        {
            pursuit = _reconnectLoop;
            _reconnectLoop = null;
            attempt = _current;
            if (attempt is not null)
                attempt.Ended.Add(ended = new StopWait<bool>(Engine, Options.Timeouts.Drain + Engine.StopGrace,
                    wait => LookAfterEnd(attempt, wait), attempt.Session));
        }

        pursuit?.StopWaiting();
        if (attempt is null || ended is null)
        {
            pursuit?.Fail(new CloseReason(CloseCause.LocalClose));
            TellIdle();
            return null;
        }

        attempt.Close();
        return ended;
    }

    /// <summary>
    /// Checks why the end takes long: the connection drains slowly, within its own limits, or a callback blocks it. On
    /// a thread of its own.
    /// </summary>
    private void LookAfterEnd(Attempt attempt, StopWait<bool> wait)
    {
        if (!wait.IsOpen) return;
        List<UnfinishedCall> found = attempt.FindUnfinished();
        if (found.Count > 0) wait.TryFail(Engine.OverdueError("The client has not ended", found));
        else Engine.StartDeadline(Options.Timeouts.Drain, _ => LookAfterEnd(attempt, wait), null);
    }

    /// <summary>
    /// Disconnects like <see cref="DisconnectAsync"/> and blocks. A connection that has not ended in time is aborted.
    /// Throws <see cref="InvalidOperationException"/> on a loop.
    /// </summary>
    /// <exception cref="NetworkException">Category Timeout: it has not ended one second after the abort. The message
    /// names the code that still runs.</exception>
    /// <param name="timeout">Maximum time. With <see cref="Timeout.InfiniteTimeSpan"/> only the limits of the options
    /// apply.</param>
    public void Disconnect(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        Attempt? attempt = _current;
        if (BeginDisconnect() is not { } ended) return;
        if (ended.SignalWhenCompleted() is { } signal && !Engine.Block(signal, timeout))
        {
            attempt?.Session?.Abort();
            if (!Engine.Block(signal, Engine.StopGrace))
                throw Engine.OverdueError("The client has not ended", attempt?.FindUnfinished() ?? []);
        }

        ended.GetResult(ended.Version);
    }

    /// <summary>Disconnects like <see cref="DisconnectAsync"/>; later connects throw.</summary>
    /// <exception cref="NetworkException">Same as in <see cref="DisconnectAsync"/>.</exception>
    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        lock (_gate) _isDisposed = true;
        return DisconnectAsync();
    }

    // ------------------------------------------------------------------ events

    /// <summary>
    /// Raised when the policy will connect again, with the number of the attempt, the time until the connect and the
    /// reason why the last connection or connect ended. Handlers run in <see cref="OnReconnecting"/>, with its thread
    /// and order. An override that does not call the base method raises no event.
    /// </summary>
    public event Action<int, TimeSpan, CloseReason>? Reconnecting;

    /// <summary>
    /// Raised when a reconnect of the policy has succeeded, with the new session and the number of attempts. Handlers
    /// run in <see cref="OnReconnected"/>.
    /// </summary>
    public event Action<Session, int>? Reconnected;

    /// <summary>
    /// Raised when the policy stops, with the reason why the last connection or connect ended. Handlers run in
    /// <see cref="OnGaveUp"/>. Not raised for a disconnect.
    /// </summary>
    public event Action<CloseReason>? GaveUp;

    /// <summary>Called when the session is connected, after its own OnConnected. On its loop.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnected(Session session)
    {
    }

    /// <summary>Called when the session has ended, after its own OnDisconnected. On its loop.</summary>
    /// <param name="session">The session.</param>
    /// <param name="reason">Reason of the end.</param>
    protected virtual void OnDisconnected(Session session, CloseReason reason)
    {
    }

    /// <summary>
    /// Returns whether the policy stops reconnecting after this end; called if <see cref="ReconnectPolicy.StopWhen"/>
    /// is null, after the session's last callback. Override it for a protocol in which this side completes a close that
    /// the peer has requested. On its loop. Default: <see cref="ReconnectPolicy.IsFinal"/>.
    /// </summary>
    /// <param name="reason">Reason why the last connection or connect ended.</param>
    protected virtual bool IsFinal(CloseReason reason) => ReconnectPolicy.IsFinal(reason);

    /// <summary>
    /// Whether a connection counts only from <see cref="ReportOpened"/> on, because the protocol has an opening
    /// handshake. A connection that ends before is a failed connect, for the awaiting <see cref="ConnectAsync"/> and
    /// for the policy. Must not change during the life of the client. Any thread. Default: false.
    /// </summary>
    protected virtual bool HasOpening => false;

    /// <summary>
    /// Reports, with <see cref="HasOpening"/>, that the opening handshake is done: a connect completes with this
    /// session. Only the first call for a connection has an effect, and none after its end. On the session's thread.
    /// </summary>
    /// <param name="session">Session that has the connection, or gets it by a hand-over.</param>
    protected void ReportOpened(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        if (session.HostState is not Attempt attempt || !ReferenceEquals(attempt.ReconnectLoop.Client, this)) return;
        // Its OnConnected runs right after this, and may throw.
        if (session.AwaitsConnected) attempt.Opening = session;
        else attempt.Open(session);
    }

    /// <summary>
    /// Returns the exception that a failed connect throws, for a protocol that can report more. Any thread. Default:
    /// the same exception.
    /// </summary>
    /// <param name="failure">Exception that the connect would throw.</param>
    protected virtual Exception FailureOf(NetworkException failure) => failure;

    /// <summary>
    /// Called when the policy will connect again, unless the client is disconnected before. Runs after the session's
    /// last callback and, for a connection, after OnDisconnected. On the loop of that session. OnReconnected, OnGaveUp,
    /// another OnReconnecting or a disconnect follows. The default raises <see cref="Reconnecting"/>.
    /// </summary>
    /// <param name="attempt">Number of the attempt, from 1, since the last connection that lived long enough.</param>
    /// <param name="delay">Time until the connect.</param>
    /// <param name="reason">Reason why the last connection or connect ended.</param>
    protected virtual void OnReconnecting(int attempt, TimeSpan delay, CloseReason reason) =>
        Reconnecting?.Invoke(attempt, delay, reason);

    /// <summary>
    /// Called when a reconnect of the policy has succeeded, after OnConnected. On the session's loop. The default
    /// raises <see cref="Reconnected"/>.
    /// </summary>
    /// <param name="session">The new session.</param>
    /// <param name="attempts">Number of attempts that were needed.</param>
    protected virtual void OnReconnected(Session session, int attempts) => Reconnected?.Invoke(session, attempts);

    /// <summary>
    /// Called when the policy stops: it reached a limit, or the last reason was final. On the loop of the last session.
    /// Not called for a disconnect. The default raises <see cref="GaveUp"/>.
    /// </summary>
    /// <param name="reason">Reason why the last connection or connect ended.</param>
    protected virtual void OnGaveUp(CloseReason reason) => GaveUp?.Invoke(reason);

    /// <summary>
    /// True if there is a connection, a connect in progress, or a pending reconnect. Any thread; may have changed when
    /// it returns.
    /// </summary>
    private protected bool IsBusy
    {
        get
        {
            lock (_gate) return _current is not null || _reconnectLoop is not null;
        }
    }

    /// <summary>
    /// Called when there is no connection and no pending reconnect. May be called more than once, and late: check
    /// <see cref="IsBusy"/>. Any thread, outside of the lock.
    /// </summary>
    private protected virtual void BecameIdle()
    {
    }

    private void TellIdle()
    {
        if (!IsBusy) BecameIdle();
    }

    /// <summary>State of the client, as seen by its connections.</summary>
    internal sealed class Host : ConnectionHost
    {
        private int _passedOver; // number of targets to skip, from the first on

        internal Host(Client owner, Engine engine, TlsProfile? tls)
            : base(engine, owner.Options, isAccepting: false)
        {
            Client = owner;
            Targets = owner.Options.TargetsOn(engine);
            Tls = tls;
        }

        internal Client Client { get; }

        /// <summary>The addresses to connect to, in this order.</summary>
        internal List<EndPoint> Targets { get; }

        /// <summary>
        /// The addresses for the next attempt, in this order. A target that accepted, but where a handshake then
        /// failed, moves to the end. Otherwise a server that accepts and does not serve would hide the targets after
        /// it. A connection that was opened restores the given order.
        /// </summary>
        internal List<EndPoint> NextTargets => Volatile.Read(ref _passedOver) % Targets.Count is > 0 and var first
            ? [.. Targets[first..], .. Targets[..first]]
            : Targets;

        internal string TargetText => PendingConnect.TextOf(Targets);

        internal override object Owner => Client;

        internal override void NoteSession(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

        /// <summary>
        /// Logs a failed connect that the policy retries, at most once a minute for each target. Without it a wrong
        /// address looks like a slow connect.
        /// </summary>
        internal void ReportConnectFailed(CloseReason reason, int attempt, TimeSpan delay)
        {
            string place = Options.OnDiagnosticEvent is null ? "" : $"{RuntimeHelpers.GetHashCode(Client)}: ";
            string key = $"{place}connect {TargetText}";
            if (!Engine.ExceptionNotices.TryTake(key, Engine.NowMs, out long leftOut)) return;
            NoteSession(new DiagnosticEvent(
                DiagnosticEventKind.System,
                $"Cannot connect to {TargetText}: {reason}. The reconnect policy tries again (attempt {attempt}) "
                + $"in {delay.TotalSeconds:0.###} s; a ConnectAsync that waits is not completed by this "
                + $"failure.{NoticePaces.LeftOutText(leftOut)}",
                "cannot-connect.md"));
        }

        internal override void SessionConnecting(Connection connection) =>
            ((Attempt)connection.Session.HostState!).Connect(connection);

        internal override void SessionConnected(Session session)
        {
            Attempt attempt = (Attempt)session.HostState!;
            Tell(session, static (owner, s) => owner.OnConnected(s));
            if (!Client.HasOpening) attempt.Open(session);
            else SessionTookOver(session);
        }

        internal override void SessionTookOver(Session session)
        {
            Attempt attempt = (Attempt)session.HostState!;
            if (ReferenceEquals(attempt.Opening, session)) attempt.Open(session);
        }

        internal override void SessionFailedToBegin(Session session, Exception exception) =>
            ((Attempt)session.HostState!).Thrown ??= exception;

        internal override void SessionReplaced(Session old, Session next) => ((Attempt)next.HostState!).Session = next;

        internal override void SessionEnding(Session session) => ((Attempt)session.HostState!).Finish();

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected)
        {
            Attempt attempt = (Attempt)session.HostState!;
            if (wasConnected) Tell((session, reason), static (owner, s) => owner.OnDisconnected(s.session, s.reason));
            // If OnConnected threw, the connect has failed, but the target is not the cause.
            if (!attempt.IsOpen) reason = attempt.ReasonFor(reason);
            bool counts = wasConnected && (attempt.IsOpen || (!Client.HasOpening && attempt.Thrown is null));
            if (counts) Volatile.Write(ref _passedOver, 0);
            else if ((wasConnected && attempt.Thrown is null) || reason.Cause == CloseCause.TlsHandshake)
                Interlocked.Increment(ref _passedOver);
            attempt.ReconnectLoop.Ended(attempt, session.Loop, reason, counts);
            attempt.TellEnded();
        }

        internal void Tell<T>(T argument, Action<Client, T> call,
            [CallerArgumentExpression(nameof(call))] string code = "")
        {
            try
            {
                call(Client, argument);
            }
            catch (Exception e)
            {
                Engine.ReportException(UserCode.EventOf("client", code), e);
            }
        }
    }
}
