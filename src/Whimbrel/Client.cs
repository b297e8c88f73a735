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
/// Dials. Holds at most one connection at a time; each dial makes a new session. Dialling again from inside
/// OnConnectFailed or OnDisconnected is allowed. With <see cref="ClientOptions.Reconnect"/> it dials again by itself. All
/// methods may be called from any thread; those that wait must not be called on a loop.
/// </summary>
public partial class Client : IAsyncDisposable
{
    private readonly Func<SessionContext, Session>? _contextFactory;
    private readonly Func<Session>? _factory;
    private readonly Lock _gate = new();
    private Host? _host;
    private Task _warm = Task.CompletedTask; // the first dial waits for it
    private Attempt? _current;
    private ReconnectLoop? _reconnectLoop;
    private bool _isDisposed;

    /// <summary>Makes a client; nothing is opened before <see cref="ConnectAsync"/>.</summary>
    /// <param name="options">Copied, and validated by the first connect.</param>
    /// <param name="factory">Makes the session of each dial, on its loop.</param>
    public Client(ClientOptions options, Func<Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ClientOptions)options.Clone();
        _factory = factory;
    }

    /// <summary>Makes a client whose factory sees what is dialled; nothing is opened before <see cref="ConnectAsync"/>.</summary>
    /// <param name="options">Copied, and validated by the first connect.</param>
    /// <param name="factory">Makes the session of each dial, on its loop.</param>
    public Client(ClientOptions options, Func<SessionContext, Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ClientOptions)options.Clone();
        _contextFactory = factory;
    }

    /// <summary>Makes a client with default options; nothing is opened before <see cref="ConnectAsync"/>.</summary>
    /// <param name="address">Where to connect, for example <c>tcp://localhost:1111</c> (<see cref="ClientOptions.Address"/>).</param>
    /// <param name="factory">Makes the session of each dial, on its loop.</param>
    public Client(string address, Func<Session> factory)
        : this(new ClientOptions { Address = address ?? throw new ArgumentNullException(nameof(address)) }, factory)
    {
    }

    /// <summary>The options it was made with.</summary>
    public ClientOptions Options { get; }

    /// <summary>The engine that serves it.</summary>
    public Engine Engine => Options.EngineOrDefault;

    /// <summary>
    /// For protocols on top of clients: gives a notice to <see cref="ConnectionOptions.OnDiagnosticEvent"/>, else to
    /// <see cref="EngineOptions.OnDiagnosticEvent"/>, else to the standard error stream. Any thread. The caller limits how often.
    /// </summary>
    /// <param name="notice">What an operator should know.</param>
    public void Report(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

    /// <summary>Which TLS layer serves it and why; null without TLS, and before the first connect.</summary>
    public string? TlsProvider => _host?.Tls is { } tls ? $"{tls.Provider} ({tls.Reason})" : null;

    /// <summary>The session that is connected or dialling, or null.</summary>
    public Session? Session => _current?.Session;

    /// <summary>The Socket object of the connection: <see cref="Session.Socket"/>. Null without one.</summary>
    public Socket? Socket => Session?.Socket;

    /// <summary>True while the policy is at work: from OnReconnecting until OnReconnected, OnGaveUp or a disconnect.</summary>
    public bool IsReconnecting => Volatile.Read(ref _reconnectLoop) is { IsTrying: true };

    // ------------------------------------------------------------------ connecting

    /// <summary>
    /// Dials and completes after the session's OnConnected. Throws <see cref="NetworkException"/> when it fails (after
    /// OnConnectFailed), <see cref="OperationCanceledException"/> when cancelled, <see cref="InvalidOperationException"/>
    /// while there is a connection. With a policy that retries the first dial it throws only when that gives up. While the
    /// policy waits with an ended connection, this dials at once. With TLS the first dial in a process begins 0.1 to 1 s later, and
    /// cannot be given up before: a handshake in memory, on the pool, so that the real one does not block its loop for that long.
    /// </summary>
    /// <param name="cancellationToken">Gives up the dial, in whatever phase it is, and with it the policy.</param>
    public ValueTask<Session> ConnectAsync(CancellationToken cancellationToken = default) =>
        cancellationToken.IsCancellationRequested ? ValueTask.FromCanceled<Session>(cancellationToken) : BeginConnect(cancellationToken).Task;

    private Completion<Session> BeginConnect(CancellationToken cancellationToken)
    {
        ReconnectLoop pursuit;
        ReconnectLoop? before;
        Attempt attempt;
        Engine engine = Engine;
        lock (_gate)
        {
            if (_isDisposed) Throw.Disposed(nameof(Client));
            if (_current is not null || _reconnectLoop is { IsAnswered: false, IsWaiting: true }) Throw.State("The client is connected or dialling already: it holds one connection at a time. To replace that, await ReconnectAsync; for more connections use a Connector, or a Client for each.");
            if (_host is null)
            {
                Options.Validate(engine);
                TlsProfile? tls = Options.TlsToSpeak is { } secure ? TlsSelector.Prepare(secure, isServer: false) : null;
                engine.Start();
                _host = new Host(this, engine, tls);
                _warm = tls is null ? Task.CompletedTask : engine.WarmUpTls(tls);
            }

            before = _reconnectLoop;
            _reconnectLoop = pursuit = new ReconnectLoop(_host, cancellationToken);
            _current = attempt = new Attempt(_host, pursuit);
        }

        before?.StopWaiting();
        if (!_warm.IsCompleted)
        {
            _warm.ContinueWith(static (_, a) => ((Attempt)a!).PostOrGiveUp(), attempt, CancellationToken.None, TaskContinuationOptions.None, TaskScheduler.Default);
        }
        else if (!attempt.Post())
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
    /// Like <see cref="ConnectAsync"/>, blocking. Throws <see cref="NetworkException"/> with <see cref="ErrorCategory.Timeout"/> when the time
    /// is over; the dial has ended then, unless somebody blocks its loop: the message names who does. On a loop it throws <see cref="InvalidOperationException"/>.
    /// </summary>
    /// <param name="timeout">Longest time, or <see cref="Timeout.InfiniteTimeSpan"/> for that of the options and the policy.</param>
    public Session Connect(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        using CancellationTokenSource cancellation = new();
        Engine engine = Engine;
        Completion<Session> dial = BeginConnect(cancellation.Token);
        if (dial.SignalWhenCompleted() is { } signal && !engine.Block(signal, timeout))
        {
            cancellation.Cancel();
            // It ends at once, and may have been connected at the last moment; but not while somebody blocks its loop.
            if (!engine.Block(signal, Engine.StopGrace)) GiveUpBlocked();
            if (dial.GetStatus(dial.Version) == ValueTaskSourceStatus.Canceled) throw new NetworkException(new NetworkError(0, ErrorCategory.Timeout, $"Cannot connect to {_host!.TargetText}: not connected within {timeout}."));
        }

        return dial.GetResult(dial.Version);
    }

    private void GiveUpBlocked()
    {
        Attempt? attempt = _current;
        // Whatever comes of the dial has no taker.
        BeginDisconnect();
        throw Engine.OverdueError($"The dial to {_host!.TargetText} has not ended", attempt?.FindUnfinished() ?? []);
    }

    /// <summary>Ends the connection, if there is one, as <see cref="DisconnectAsync"/> does, and dials anew with a new session. Throws as <see cref="ConnectAsync"/> does.</summary>
    /// <param name="cancellationToken">Gives up the dial; the disconnect goes on.</param>
    public ValueTask<Session> ReconnectAsync(CancellationToken cancellationToken = default)
    {
        Completion<Session> done = new(Engine);
        StopWait<bool>? ended = BeginDisconnect();
        SessionOrder.Begin(FinishAsync);
        return done.Task;

        async Task FinishAsync()
        {
            try
            {
                if (ended is not null) await ended.PlainTask.ConfigureAwait(false);
                done.SetResult(await ConnectAsync(cancellationToken).ConfigureAwait(false));
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        }
    }

    // ------------------------------------------------------------------ disconnecting

    /// <summary>
    /// Closes the connection gracefully, or gives up the dial, and completes when it has ended. Ends the work of the policy. A callback that does not
    /// return is waited for as long as <see cref="ConnectionOptions.DrainTimeout"/> says, and a second more. A callback of its own session that blocks
    /// on it is told before the last callback, as with <see cref="Session.CloseAsync"/>.
    /// </summary>
    /// <exception cref="NetworkException">(To who awaits.) With category Timeout: that time has passed, and the message names what still runs. The connection ends when it returns.</exception>
    public ValueTask DisconnectAsync() => BeginDisconnect()?.PlainTask ?? default;

    /// <summary>Null when there is nothing to wait for.</summary>
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
            if (attempt is not null) attempt.Ended.Add(ended = new StopWait<bool>(Engine, Options.DrainTimeout + Engine.StopGrace, wait => LookAfterEnd(attempt, wait), attempt.Session));
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

    /// <summary>The end takes its time: it is drained slowly, within limits of its own, or somebody's callback holds it up. A thread of its own.</summary>
    private void LookAfterEnd(Attempt attempt, StopWait<bool> wait)
    {
        if (!wait.IsOpen) return;
        List<UnfinishedCall> found = attempt.FindUnfinished();
        if (found.Count > 0) wait.TryFail(Engine.OverdueError("The client has not ended", found));
        else Engine.StartDeadline(Options.DrainTimeout, _ => LookAfterEnd(attempt, wait), null);
    }

    /// <summary>Like <see cref="DisconnectAsync"/>, blocking. A connection that has not ended in time is aborted. On a loop it throws <see cref="InvalidOperationException"/>.</summary>
    /// <exception cref="NetworkException">With category Timeout: also a second after that it has not ended, and the message names what still runs.</exception>
    /// <param name="timeout">Longest time, or <see cref="Timeout.InfiniteTimeSpan"/> for that of the options.</param>
    public void Disconnect(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        Attempt? attempt = _current;
        if (BeginDisconnect() is not { } ended) return;
        if (ended.SignalWhenCompleted() is { } signal && !Engine.Block(signal, timeout))
        {
            attempt?.Session?.Abort();
            if (!Engine.Block(signal, Engine.StopGrace)) throw Engine.OverdueError("The client has not ended", attempt?.FindUnfinished() ?? []);
        }

        ended.GetResult(ended.Version);
    }

    /// <summary>The same as <see cref="DisconnectAsync"/>; later connects throw.</summary>
    /// <exception cref="NetworkException">As there.</exception>
    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        lock (_gate) _isDisposed = true;
        return DisconnectAsync();
    }

    // ------------------------------------------------------------------ events

    /// <summary>The session is connected; its own OnConnected came before. On its loop.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnected(Session session)
    {
    }

    /// <summary>The session has ended; its own OnDisconnected came before. On its loop.</summary>
    /// <param name="session">The session.</param>
    /// <param name="reason">Why.</param>
    protected virtual void OnDisconnected(Session session, CloseReason reason)
    {
    }

    /// <summary>
    /// Whether the policy dials no more after this end; asked when <see cref="ReconnectPolicy.StopWhen"/> is null. A protocol in which this side does the last
    /// step of an end that the peer has asked for says so here. The session's last callback came before. On its loop. Default: <see cref="ReconnectPolicy.IsFinal"/>.
    /// </summary>
    /// <param name="reason">Why the last connection or dial ended.</param>
    protected virtual bool IsFinal(CloseReason reason) => ReconnectPolicy.IsFinal(reason);

    /// <summary>
    /// Whether a connection counts only from <see cref="ReportOpened"/> on, because the protocol has an opening handshake: one that ends before is a failed dial, to who awaits
    /// <see cref="ConnectAsync"/> and to the policy. The same for the whole life of the client. Any thread. Default: false.
    /// </summary>
    protected virtual bool HasOpening => false;

    /// <summary>With <see cref="HasOpening"/>: the handshake is done, and a connect completes with this session. The first call for a connection counts, and none when that has ended. On the session's thread.</summary>
    /// <param name="session">The session that has the connection, or is given it by a hand-over.</param>
    protected void ReportOpened(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        if (session.HostState is not Attempt attempt || !ReferenceEquals(attempt.ReconnectLoop.Client, this)) return;
        // Its OnConnected comes right after this, and may throw.
        if (session.AwaitsConnected) attempt.Opening = session;
        else attempt.Open(session);
    }

    /// <summary>What a connect throws when it has failed: for a protocol that knows more. Any thread. Default: the same.</summary>
    /// <param name="failure">What it would throw.</param>
    protected virtual Exception FailureOf(NetworkException failure) => failure;

    /// <summary>
    /// The policy will dial again, unless there is a disconnect before. The session's last callback came before, and for a connection
    /// OnDisconnected. On the loop of that session. Ends in OnReconnected, in OnGaveUp, in another OnReconnecting, or in a disconnect.
    /// </summary>
    /// <param name="attempt">Counts from 1, and from the last connection that lived long enough.</param>
    /// <param name="delay">Time until the dial.</param>
    /// <param name="reason">Why the last connection or dial ended.</param>
    protected virtual void OnReconnecting(int attempt, TimeSpan delay, CloseReason reason)
    {
    }

    /// <summary>A dial of the policy has connected; OnConnected came before. On the session's loop.</summary>
    /// <param name="session">The new session.</param>
    /// <param name="attempts">How many dials it took.</param>
    protected virtual void OnReconnected(Session session, int attempts)
    {
    }

    /// <summary>The policy dials no more: it reached a limit, or the reason of the last end was a last one. On the loop of the last session. A disconnect is told by nothing.</summary>
    /// <param name="reason">Why the last connection or dial ended.</param>
    protected virtual void OnGaveUp(CloseReason reason)
    {
    }

    /// <summary>There is a connection, or a dial, or the policy will dial. Any thread; may have changed when it returns.</summary>
    private protected bool IsBusy
    {
        get
        {
            lock (_gate) return _current is not null || _reconnectLoop is not null;
        }
    }

    /// <summary>There is no connection, and none comes unless somebody dials. May come more than once, and late: ask <see cref="IsBusy"/>. Any thread, outside of the gate.</summary>
    private protected virtual void BecameIdle()
    {
    }

    private void TellIdle()
    {
        if (!IsBusy) BecameIdle();
    }

    /// <summary>The client as its connection sees it.</summary>
    internal sealed class Host : ConnectionHost
    {
        private int _passedOver; // so many of the targets, from the first on

        internal Host(Client owner, Engine engine, TlsProfile? tls)
            : base(engine, owner.Options, isAccepting: false)
        {
            Client = owner;
            Targets = owner.Options.TargetsOn(engine);
            Tls = tls;
        }

        internal Client Client { get; }

        /// <summary>What it dials, in this order.</summary>
        internal List<EndPoint> Targets { get; }

        /// <summary>
        /// What the next attempt dials, in this order. A target that accepted, and where a handshake then failed, moves to the end: otherwise a server that accepts and
        /// does not serve would hide those after it. A connection that counted restores the given order.
        /// </summary>
        internal List<EndPoint> NextTargets => Volatile.Read(ref _passedOver) % Targets.Count is > 0 and var first ? [.. Targets[first..], .. Targets[..first]] : Targets;

        internal string TargetText => PendingConnect.TextOf(Targets);

        internal override object Owner => Client;

        internal override void NoteSession(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

        /// <summary>A dial failed, and the policy dials again: without this a wrong address looks like a connect that takes long. Once a minute for each target.</summary>
        internal void ReportConnectFailed(CloseReason reason, int attempt, TimeSpan delay)
        {
            string place = Options.OnDiagnosticEvent is null ? "" : $"{RuntimeHelpers.GetHashCode(Client)}: ";
            if (!Engine.ExceptionNotices.TryTake($"{place}dial {TargetText}", Engine.NowMs, out long leftOut)) return;
            NoteSession(new DiagnosticEvent(
                DiagnosticEventKind.System,
                $"Cannot connect to {TargetText}: {reason}. The reconnect policy dials again (attempt {attempt}) in {delay.TotalSeconds:0.###} s; a ConnectAsync that waits is not completed by this failure.{NoticePaces.LeftOutText(leftOut)}",
                "cannot-connect.md"));
        }

        internal override void SessionConnecting(Connection connection) => ((Attempt)connection.Session.HostState!).Connect(connection);

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

        internal override void SessionFailedToBegin(Session session, Exception exception) => ((Attempt)session.HostState!).Thrown ??= exception;

        internal override void SessionReplaced(Session old, Session next) => ((Attempt)next.HostState!).Session = next;

        internal override void SessionEnding(Session session) => ((Attempt)session.HostState!).Finish();

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected)
        {
            Attempt attempt = (Attempt)session.HostState!;
            if (wasConnected) Tell((session, reason), static (owner, s) => owner.OnDisconnected(s.session, s.reason));
            // One whose OnConnected threw is a failed connect, and no fault of the target.
            if (!attempt.IsOpen) reason = attempt.ReasonFor(reason);
            bool counts = wasConnected && (attempt.IsOpen || (!Client.HasOpening && attempt.Thrown is null));
            if (counts) Volatile.Write(ref _passedOver, 0);
            else if ((wasConnected && attempt.Thrown is null) || reason.Cause == CloseCause.TlsHandshake) Interlocked.Increment(ref _passedOver);
            attempt.ReconnectLoop.Ended(attempt, session.Loop, reason, counts);
            attempt.TellEnded();
        }

        internal void Tell<T>(T argument, Action<Client, T> call, [CallerArgumentExpression(nameof(call))] string code = "")
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
