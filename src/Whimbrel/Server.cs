using System.Collections.Concurrent;
using System.Net;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Streams;

namespace Whimbrel;

/// <summary>
/// Accepts connections and makes a session for each. Derive from it for the events of the whole server; those come on
/// the loops of the sessions they concern, several at a time. All methods may be called from any thread.
/// </summary>
public class Server : IAsyncDisposable
{
    private readonly Func<SessionContext, Session>? _contextFactory;
    private readonly Func<Session>? _factory;
    private readonly Lock _gate = new();
    private readonly List<Listener> _listeners = [];
    private Host? _host;
    private State _state;

    /// <summary>Makes a server; nothing is opened before <see cref="StartAsync(CancellationToken)"/>.</summary>
    /// <param name="options">Copied and validated at start.</param>
    /// <param name="factory">Makes the session of an accepted connection, on the connection's loop. If it throws, that connection is closed.</param>
    public Server(ServerOptions options, Func<Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ServerOptions)options.Clone();
        _factory = factory;
    }

    /// <summary>Makes a server whose factory sees the connection; nothing is opened before <see cref="StartAsync(CancellationToken)"/>.</summary>
    /// <param name="options">Copied and validated at start.</param>
    /// <param name="factory">Makes the session of an accepted connection, on the connection's loop. If it throws, that connection is closed.</param>
    public Server(ServerOptions options, Func<SessionContext, Session> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = (ServerOptions)options.Clone();
        _contextFactory = factory;
    }

    private enum State
    {
        Stopped,
        Starting,
        Started,
        Stopping,
    }

    /// <summary>The options it was made with.</summary>
    public ServerOptions Options { get; }

    /// <summary>The engine that serves it; its text says which and why.</summary>
    public Engine Engine => Options.Engine ?? Engine.Default;

    /// <summary>The first address it listens at, with the real port. Null before start.</summary>
    public EndPoint? EndPoint => EndPoints.Count > 0 ? EndPoints[0] : null;

    /// <summary>All addresses it listens at, with the real ports. Empty before start.</summary>
    public IReadOnlyList<EndPoint> EndPoints { get; private set; } = [];

    /// <summary>True from the end of start until accepting stops.</summary>
    public bool IsAccepting { get; private set; }

    /// <summary>All connected sessions, as a group that has its members by itself.</summary>
    public SessionGroup Sessions => RequireHost().Everyone;

    /// <summary>Groups of this server by name. They may have members of elsewhere, too, and outlive a stop.</summary>
    public NamedGroups Groups { get; } = new();

    /// <summary>Sessions that are connected or ending.</summary>
    public int SessionCount => _host?.Live ?? 0;

    /// <summary>Connections accepted since start.</summary>
    public long AcceptedCount => _host?.AcceptedCount ?? 0;

    /// <summary>Connections closed at once since start because <see cref="ServerOptions.MaxConnections"/> was reached.</summary>
    public long RejectedCount => _host?.RejectedCount ?? 0;

    /// <summary>Sessions ended since start because their peer read too slowly.</summary>
    public long SlowConsumerCount => _host?.SlowConsumers ?? 0;

    /// <summary>Bytes received by all sessions since start.</summary>
    public long BytesReceived => _host?.Shards.Sum(static s => Volatile.Read(ref s.BytesReceived)) ?? 0;

    /// <summary>Bytes that all sessions gave to the system since start.</summary>
    public long BytesSent => _host?.Shards.Sum(static s => Volatile.Read(ref s.BytesSent)) ?? 0;

    // ------------------------------------------------------------------ start

    /// <summary>Listens at all addresses, or at none: throws <see cref="NetworkException"/> when one cannot be bound, <see cref="ArgumentException"/> with all mistakes in the options.</summary>
    /// <param name="cancellationToken">Checked before anything is opened.</param>
    public async ValueTask StartAsync(CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Engine engine = Engine;
        Options.Validate(engine);
        Host host;
        lock (_gate)
        {
            if (_state != State.Stopped) Throw.State("The server is started already.");
            _state = State.Starting;
            host = _host = new Host(this, engine);
        }

        List<Listener> opened = [];
        try
        {
            engine.Start();
            List<EndPoint> bound = await ListenAsync(engine, host, opened).ConfigureAwait(false);
            lock (_gate)
            {
                if (_state != State.Starting || !ReferenceEquals(_host, host)) Throw.State("The server was stopped while it started.");
                _listeners.AddRange(opened);
                EndPoints = bound;
                _state = State.Started;
                IsAccepting = true;
            }
        }
        catch
        {
            await CloseAsync(opened).ConfigureAwait(false);
            lock (_gate)
            {
                if (_state == State.Starting && ReferenceEquals(_host, host)) _state = State.Stopped;
            }

            throw;
        }

        OnStarted();
    }

    /// <summary>Makes and starts a server whose connections are served in pull style, each by one call of the handler: see <see cref="ConnectionStream.Serve"/>.</summary>
    /// <param name="address">Where to listen: <c>tcp://127.0.0.1:1111</c> (port 0 takes a free one), <c>tcp://[::]:1111</c>, <c>unix:/path</c>.</param>
    /// <param name="handler">What to do with a connection.</param>
    /// <param name="options">Everything but the address. Copied; null takes the defaults.</param>
    /// <param name="cancellationToken">Checked before anything is opened.</param>
    /// <returns>The server, started. Dispose it to stop.</returns>
    public static async ValueTask<Server> StartAsync(
        string address, Func<ConnectionStream, CancellationToken, Task> handler, ServerOptions? options = null, CancellationToken cancellationToken = default)
    {
        Server server = new((options ?? new ServerOptions()).At(StreamAddress.ToEndPoint(address)), ConnectionStream.Serve(handler));
        await server.StartAsync(cancellationToken).ConfigureAwait(false);
        return server;
    }

    private async ValueTask<List<EndPoint>> ListenAsync(Engine engine, Host host, List<Listener> opened)
    {
        List<EndPoint> bound = [];
        foreach (EndPoint endPoint in Options.AllEndPoints)
        {
            Listener listener = new(engine.NextLoop(), host, Options, endPoint);
            if (!listener.Loop.PostControl(static (_, l, _, _) => ((Listener)l!).Start(), listener)) throw engine.EndedError();
            bound.Add(await listener.Started.ConfigureAwait(false));
            opened.Add(listener);
        }

        return bound;
    }

    // ------------------------------------------------------------------ stop

    /// <summary>Stops accepting; connections that are open stay open.</summary>
    public ValueTask StopAcceptingAsync()
    {
        Completion<bool> done = new(Engine);
        _ = FinishAsync(done);
        return done.PlainTask;

        async Task FinishAsync(Completion<bool> completion)
        {
            IsAccepting = false;
            await CloseListenersAsync().ConfigureAwait(false);
            completion.SetResult(true);
        }
    }

    private async ValueTask CloseListenersAsync()
    {
        Listener[] listeners;
        lock (_gate)
        {
            listeners = [.. _listeners];
            _listeners.Clear();
        }

        await CloseAsync(listeners).ConfigureAwait(false);
    }

    private static async ValueTask CloseAsync(IEnumerable<Listener> listeners)
    {
        foreach (Listener listener in listeners)
        {
            Completion<bool> stopped = new(listener.Loop.Engine);
            if (listener.Loop.PostControl(static (_, l, c, _) => ((Listener)l!).Stop((Completion<bool>)c!), listener, stopped)) await stopped.Task.ConfigureAwait(false);
        }
    }

    /// <summary>Stops accepting, closes every session gracefully, resets what is still open at the deadline, and reports. May be awaited in a callback; blocking on it there throws.</summary>
    /// <param name="deadline">Longest time for draining. Null takes <see cref="ConnectionOptions.DrainTimeout"/>; zero aborts at once.</param>
    public ValueTask<StopReport> StopAsync(TimeSpan? deadline = null)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        Completion<StopReport> done = new(Engine);
        _ = FinishAsync();
        return done.Task;

        async Task FinishAsync()
        {
            try
            {
                done.SetResult(await StopCoreAsync(deadline ?? Options.DrainTimeout).ConfigureAwait(false));
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        }
    }

    private async ValueTask<StopReport> StopCoreAsync(TimeSpan deadline)
    {
        Host host;
        bool isFirst;
        lock (_gate)
        {
            if (_host is null || _state == State.Stopped) return default;
            isFirst = _state != State.Stopping;
            _state = State.Stopping;
            host = _host;
        }

        IsAccepting = false;
        if (isFirst) OnStopping();
        await CloseListenersAsync().ConfigureAwait(false);
        StopReport report = await host.EndAllAsync(deadline).ConfigureAwait(false);
        lock (_gate)
        {
            if (_state != State.Stopping) return report;
            _state = State.Stopped;
        }

        OnStopped(report);
        return report;
    }

    /// <summary>The same as <see cref="StopAsync"/> with the default deadline.</summary>
    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        Completion<bool> done = new(Engine);
        _ = FinishAsync();
        return done.PlainTask;

        async Task FinishAsync()
        {
            try
            {
                await StopCoreAsync(Options.DrainTimeout).ConfigureAwait(false);
                done.SetResult(true);
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        }
    }

    // ------------------------------------------------------------------ sessions

    /// <summary>The connected session with this id, or null.</summary>
    /// <param name="id">Its <see cref="Session.Id"/>.</param>
    public Session? FindSession(long id) => _host?.Find(id);

    /// <summary>Sends the bytes to all sessions, or all but one. See <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>.</summary>
    /// <param name="data">What to send.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    [OverloadResolutionPriority(1)]
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) =>
        _host is { } host ? host.Everyone.Broadcast(data, except) : SendResult.Closed;

    /// <summary>Sends the bytes to all sessions that match. See <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Func{Session, bool})"/>.</summary>
    /// <param name="data">What to send.</param>
    /// <param name="predicate">Chooses sessions, each on its own loop.</param>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Func<Session, bool> predicate) =>
        _host is { } host ? host.Everyone.Broadcast(data, predicate) : SendResult.Closed;

    /// <summary>Sends the text as UTF-8 to all sessions, or all but one.</summary>
    /// <param name="text">What to send.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    public SendResult Broadcast(string text, Session? except = null) =>
        _host is { } host ? host.Everyone.Broadcast(text, except) : SendResult.Closed;

    /// <summary>Closes every session gracefully; the server goes on.</summary>
    public void DisconnectAll() => _host?.CloseAll(new CloseReason(CloseCause.LocalClose));

    // ------------------------------------------------------------------ events

    /// <summary>Listening.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>A stop began; sessions are still open.</summary>
    protected virtual void OnStopping()
    {
    }

    /// <summary>All sessions have ended.</summary>
    /// <param name="report">How.</param>
    protected virtual void OnStopped(StopReport report)
    {
    }

    /// <summary>A session is connected; its own OnConnected came before. On its loop.</summary>
    /// <param name="session">The session.</param>
    protected virtual void OnConnected(Session session)
    {
    }

    /// <summary>A session has ended; its own OnDisconnected came before. On its loop.</summary>
    /// <param name="session">The session.</param>
    /// <param name="reason">Why.</param>
    protected virtual void OnDisconnected(Session session, CloseReason reason)
    {
    }

    /// <summary>Something that belongs to no session failed: the factory threw, an event of the server threw.</summary>
    /// <param name="exception">What was thrown.</param>
    protected virtual void OnError(Exception exception)
    {
    }

    private Host RequireHost() => _host ?? throw new InvalidOperationException("The server was not started.");

    /// <summary>The server as its connections see it. One for each start.</summary>
    internal sealed class Host : ConnectionHost
    {
        private readonly ConcurrentDictionary<long, Session> _byId = new();
        private readonly List<Completion<bool>> _waiting = [];
        private readonly Lock _waitGate = new();
        private readonly Server _owner;
        private int _live;
        private int _aborted;
        private int _openAtStop = -1;
        private long _accepted;
        private long _rejected;
        private long _lastDescriptorNoticeMs = long.MinValue / 2;
        private volatile bool _isStopping;

        internal Host(Server owner, Engine engine)
            : base(engine, owner.Options, isAccepting: true) => _owner = owner;

        internal override object Owner => _owner;

        internal int Live => Volatile.Read(ref _live);

        internal long AcceptedCount => Volatile.Read(ref _accepted);

        internal long RejectedCount => Volatile.Read(ref _rejected);

        internal Session? Find(long id) => _byId.GetValueOrDefault(id);

        // -------------------------------------------------------------- birth, on the listener's loop

        internal override void Accepted(Listener listener, RawSocket socket, PeerAddress peer, EndPoint local)
        {
            if (_isStopping || Interlocked.Increment(ref _live) > _owner.Options.MaxConnections)
            {
                if (!_isStopping)
                {
                    Interlocked.Increment(ref _rejected);
                    LeaveOne();
                }

                listener.Loop.Discard(socket);
                return;
            }

            Interlocked.Increment(ref _accepted);
            Loop loop = Engine.NextLoop();
            if (loop.IsCurrent)
            {
                Begin(loop, socket, peer, local);
                return;
            }

            Arrival arrival = new(this, socket, peer, local);
            if (loop.PostControl(static (l, a, _, _) => ((Arrival)a!).Begin(l), arrival)) return;
            listener.Loop.Discard(socket);
            LeaveOne();
        }

        internal override void AcceptFailed(NetworkException fault) => Tell(fault, static (owner, exception) => owner.OnError(exception));

        internal void Begin(Loop loop, RawSocket socket, PeerAddress peer, EndPoint local)
        {
            Session session;
            try
            {
                session = _owner._factory is { } factory ? factory() : _owner._contextFactory!(new SessionContext(_owner, null, loop, local, peer.ToEndPoint()));
                if (session is null || session.IsUsed) Throw.State("The factory must give a new session for each connection.");
            }
            catch (Exception e)
            {
                Engine.UserCodeThrew(e);
                Tell(e, static (owner, exception) => owner.OnError(exception));
                loop.Discard(socket);
                LeaveOne();
                return;
            }

            Connection connection = loop.TakeConnection();
            connection.Begin(ShardOf(loop), session, Engine.NextConnectionId(), local, peer);
            if (_isStopping) session.CloseWith(new CloseReason(CloseCause.ServerStopped));
            connection.Connecting(socket);
        }

        internal override void SessionConnecting(Connection connection)
        {
            // OnConnecting may have taken its time (contract 14): a stop that began meanwhile has not met this one.
            if (_isStopping) connection.AbortWith(new CloseReason(CloseCause.ServerStopped));
            else connection.AdoptHeld();
        }

        internal override void NoteSession(Notice notice) => Engine.Note(notice, Options.OnNotice);

        internal override void NoteDescriptorLimit(int error)
        {
            long now = Engine.NowMs;
            if (now - _lastDescriptorNoticeMs < 60_000) return;
            _lastDescriptorNoticeMs = now;
            NoteSession(new Notice(
                NoticeKind.DescriptorLimit,
                $"Cannot accept: {ErrorText.Of(error)} (error {error}), with {Live} sessions open. New connections are closed until descriptors are free; open sessions go on. Raise the limit (ulimit -n), or set MaxConnections below it.",
                "descriptor-limit.md"));
        }

        // -------------------------------------------------------------- life, on the session's loop

        internal override void SessionConnected(Session session)
        {
            _byId[session.Id] = session;
            Tell(session, static (owner, s) => owner.OnConnected(s));
        }

        internal override void SessionReplaced(Session old, Session next) => _byId[next.Id] = next;

        internal override void SessionEnding(Session session) => _byId.TryRemove(session.Id, out _);

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected)
        {
            if (wasConnected) Tell((session, reason), static (owner, s) => owner.OnDisconnected(s.session, s.reason));
            LeaveOne();
        }

        private void Tell<T>(T argument, Action<Server, T> call)
        {
            try
            {
                call(_owner, argument);
            }
            catch (Exception e)
            {
                Engine.NoteException("an event of the server", e);
            }
        }

        private void LeaveOne()
        {
            if (Interlocked.Decrement(ref _live) > 0) return;
            List<Completion<bool>> done;
            lock (_waitGate)
            {
                if (_waiting.Count == 0) return;
                done = [.. _waiting];
                _waiting.Clear();
            }

            foreach (Completion<bool> wait in done) wait.SetResult(true);
        }

        // -------------------------------------------------------------- the end of all

        internal void CloseAll(CloseReason reason)
        {
            foreach (HostShard shard in Shards)
            {
                shard.Loop.PostControl(
                    static (_, s, r, _) =>
                    {
                        foreach (Connection member in ((HostShard)s!).Members.Members.ToArray()) member.CloseWith((CloseReason)r!);
                    },
                    shard,
                    reason);
            }
        }

        private void StopAll()
        {
            foreach (HostShard shard in Shards)
            {
                shard.Loop.PostControl(
                    static (_, s, _, _) =>
                    {
                        foreach (Connection member in ((HostShard)s!).Members.Members.ToArray()) member.Stop();
                    },
                    shard);
            }
        }

        private void AbortAll()
        {
            foreach (HostShard shard in Shards)
            {
                shard.Loop.PostControl(
                    static (_, s, host, _) =>
                    {
                        foreach (Connection member in ((HostShard)s!).Members.Members.ToArray())
                        {
                            if (member.State is ConnectionState.Open or ConnectionState.Draining or ConnectionState.Lingering) Interlocked.Increment(ref ((Host)host!)._aborted);
                            member.AbortWith(new CloseReason(CloseCause.ServerStopped));
                        }
                    },
                    shard,
                    this);
            }
        }

        internal async ValueTask<StopReport> EndAllAsync(TimeSpan deadline)
        {
            _isStopping = true;
            // Of several stops at once all report the same.
            Interlocked.CompareExchange(ref _openAtStop, Live, -1);
            if (deadline > TimeSpan.Zero)
            {
                StopAll();
                LoopTimer timer = Engine.Loops[0].StartTimer(deadline, static host => ((Host)host!).AbortAll(), this);
                await WaitForAll().ConfigureAwait(false);
                timer.Cancel();
            }
            else
            {
                AbortAll();
                await WaitForAll().ConfigureAwait(false);
            }

            int aborted = Volatile.Read(ref _aborted);
            return new StopReport(Math.Max(0, Volatile.Read(ref _openAtStop) - aborted), aborted);
        }

        private ValueTask<bool> WaitForAll()
        {
            Completion<bool> wait = new(Engine);
            lock (_waitGate) _waiting.Add(wait);
            // Counted as one more, so that a last session that ends right now is not missed.
            Interlocked.Increment(ref _live);
            LeaveOne();
            return wait.Task;
        }

        /// <summary>An accepted socket on its way to another loop.</summary>
        private sealed class Arrival(Host host, RawSocket socket, PeerAddress peer, EndPoint local)
        {
            internal void Begin(Loop loop) => host.Begin(loop, socket, peer, local);
        }
    }
}
