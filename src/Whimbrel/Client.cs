using System.Net;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Dials. Holds at most one connection at a time; each <see cref="ConnectAsync"/> makes a new session. Dialling again
/// from inside OnConnectFailed or OnDisconnected is allowed. All methods may be called from any thread.
/// </summary>
public class Client : IAsyncDisposable
{
    private readonly Func<SessionContext, Session>? _contextFactory;
    private readonly Func<Session>? _factory;
    private readonly Lock _gate = new();
    private Host? _host;
    private Attempt? _current;
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

    /// <summary>The options it was made with.</summary>
    public ClientOptions Options { get; }

    /// <summary>The engine that serves it.</summary>
    public Engine Engine => Options.Engine ?? Engine.Default;

    /// <summary>The session that is connected or dialling, or null.</summary>
    public Session? Session => _current?.Session;

    /// <summary>
    /// Dials and completes after the session's OnConnected. Throws <see cref="NetworkException"/> when it fails (after
    /// OnConnectFailed), <see cref="OperationCanceledException"/> when cancelled, <see cref="InvalidOperationException"/>
    /// while there is a connection.
    /// </summary>
    /// <param name="cancellationToken">Gives up the dial.</param>
    public ValueTask<Session> ConnectAsync(CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<Session>(cancellationToken);
        Attempt attempt;
        Engine engine = Engine;
        lock (_gate)
        {
            if (_isDisposed) Throw.Disposed(nameof(Client));
            if (_current is not null) Throw.State("The client is connected or dialling already: it holds one connection at a time.");
            if (_host is null)
            {
                Options.Validate(engine);
                engine.Start();
                _host = new Host(this, engine);
            }

            attempt = _current = new Attempt(_host, engine, cancellationToken);
        }

        if (!engine.NextLoop().PostControl(static (loop, a, _, _) => ((Attempt)a!).Start(loop), attempt))
        {
            Leave(attempt);
            throw engine.EndedError();
        }

        ValueTask<Session> task = attempt.Result.Task;
        attempt.WatchCancellation();
        return task;
    }

    /// <summary>Closes the connection gracefully, if there is one, and completes when it has ended.</summary>
    public ValueTask DisconnectAsync()
    {
        Completion<bool> ended = new(Engine);
        Attempt? attempt;
        lock (_gate)
        {
            attempt = _current;
            attempt?.Ended.Add(ended);
        }

        if (attempt is null) return default;
        attempt.Close();
        return ended.PlainTask;
    }

    /// <summary>The same as <see cref="DisconnectAsync"/>; later connects throw.</summary>
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

    private void Leave(Attempt attempt)
    {
        lock (_gate)
        {
            if (ReferenceEquals(_current, attempt)) _current = null;
        }
    }

    /// <summary>One dial and the connection that came of it.</summary>
    private sealed class Attempt(Host host, Engine engine, CancellationToken cancellation)
    {
        private CancellationTokenRegistration _registration;
        private Loop? _loop;
        private bool _closeAsked;

        internal Completion<Session> Result { get; } = new(engine);

        /// <summary>Completed when the connection has ended. Guarded by the client's gate.</summary>
        internal List<Completion<bool>> Ended { get; } = [];

        internal Session? Session { get; set; }

        internal void Start(Loop loop)
        {
            Session session;
            Client owner = host.Client;
            ClientOptions options = owner.Options;
            _loop = loop;
            try
            {
                session = owner._factory is { } factory
                    ? factory()
                    : owner._contextFactory!(new SessionContext(null, owner, loop, options.LocalEndPoint, options.EndPoint));
                if (session is null || session.IsUsed) Throw.State("The factory must give a new session for each dial.");
            }
            catch (Exception e)
            {
                Finish();
                Result.SetException(e);
                TellEnded();
                return;
            }

            Session = session;
            session.HostState = this;
            Connection connection = loop.TakeConnection();
            connection.Begin(host.ShardOf(loop), session, Engine.NextConnectionId(), options.LocalEndPoint, PeerAddress.Of(options.EndPoint));
            session.SetRemoteEndPoint(options.EndPoint);
            // Also an attempt that was given up before it began has both callbacks (contract 1).
            connection.Connecting(null);
        }

        internal void Dial(Connection connection)
        {
            ClientOptions options = host.Client.Options;
            if (Volatile.Read(ref _closeAsked)) connection.AbortWith(new CloseReason(CloseCause.LocalClose));
            else if (cancellation.IsCancellationRequested) connection.AbortWith(new CloseReason(CloseCause.Cancelled));
            if (connection.State == ConnectionState.Connecting) new Connector(connection, options.EndPoint!, options.LocalEndPoint).Start(options.ConnectTimeout);
        }

        internal void WatchCancellation()
        {
            if (!cancellation.CanBeCanceled) return;
            _registration = cancellation.UnsafeRegister(
                static state =>
                {
                    Attempt attempt = (Attempt)state!;
                    // Before Start ran there is no loop yet; Start looks at the token itself.
                    Volatile.Read(ref attempt._loop)?.PostControl(static (_, a, _, _) => ((Attempt)a!).CancelDial(), attempt);
                },
                this);
        }

        private void CancelDial()
        {
            if (Session?.Connection is { State: ConnectionState.Connecting } connection) connection.AbortWith(new CloseReason(CloseCause.Cancelled));
        }

        internal void Close()
        {
            Volatile.Write(ref _closeAsked, true);
            Session?.CloseWith(new CloseReason(CloseCause.LocalClose));
        }

        internal void Failed(CloseReason reason)
        {
            if (Result.IsCompleted) return;
            if (reason.Cause == CloseCause.Cancelled) Result.SetException(new OperationCanceledException(cancellation));
            else if (reason.Exception is { } exception) Result.SetException(new NetworkException(reason.Error, exception));
            else Result.SetException(new NetworkException(Describe(reason)));
        }

        private NetworkError Describe(CloseReason reason) =>
            reason.Error with { Message = $"Cannot connect to {host.Client.Options.EndPoint}: {reason}." };

        /// <summary>The client may dial again (contract 1: also from inside the last callback).</summary>
        internal void Finish()
        {
            _registration.Dispose();
            host.Client.Leave(this);
        }

        internal void TellEnded()
        {
            Completion<bool>[] waiting;
            lock (host.Client._gate)
            {
                waiting = [.. Ended];
                Ended.Clear();
            }

            foreach (Completion<bool> wait in waiting) wait.SetResult(true);
        }
    }

    /// <summary>The client as its connection sees it.</summary>
    internal sealed class Host : ConnectionHost
    {
        internal Host(Client owner, Engine engine)
            : base(engine, owner.Options, isAccepting: false) => Client = owner;

        internal Client Client { get; }

        internal override object Owner => Client;

        internal override void NoteSession(Notice notice) => Engine.Note(notice, Options.OnNotice);

        internal override void SessionConnecting(Connection connection) => ((Attempt)connection.Session.HostState!).Dial(connection);

        internal override void SessionConnected(Session session)
        {
            Attempt attempt = (Attempt)session.HostState!;
            Tell(session, static (owner, s) => owner.OnConnected(s));
            attempt.Result.SetResult(session);
        }

        internal override void SessionReplaced(Session old, Session next) => ((Attempt)next.HostState!).Session = next;

        internal override void SessionEnding(Session session) => ((Attempt)session.HostState!).Finish();

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected)
        {
            Attempt attempt = (Attempt)session.HostState!;
            if (wasConnected) Tell((session, reason), static (owner, s) => owner.OnDisconnected(s.session, s.reason));
            attempt.Failed(reason);
            attempt.TellEnded();
        }

        private void Tell<T>(T argument, Action<Client, T> call)
        {
            try
            {
                call(Client, argument);
            }
            catch (Exception e)
            {
                Engine.NoteException("an event of the client", e);
            }
        }
    }
}
