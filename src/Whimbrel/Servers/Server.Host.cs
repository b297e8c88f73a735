using System.Collections.Concurrent;
using System.Net;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Streams;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>Internals of a server: accepting, placing, counting and ending connections.</summary>
public partial class Server
{
    /// <summary>State of one start of the server, as seen by its connections.</summary>
    internal sealed class Host : ConnectionHost
    {
        // tidy: allowed because it is incremented once for each start of a server
        private static long s_lastId;

        // Read within the same call: name of the code that threw the exception which OnError receives.
        [ThreadStatic]
        private static string? t_threw;

        private readonly ConcurrentDictionary<long, Session> _byId = new();
        private readonly List<StopWait<bool>> _waiting = [];
        private readonly ConcurrentDictionary<Session, bool> _handlers = new();
        private readonly ConcurrentDictionary<Session, bool> _leftOut = new(); // live sessions that no stop waits for
        private readonly Lock _waitGate = new();
        private readonly Server _owner;
        private readonly Placement _placement;
        private readonly Func<AcceptedConnection, bool>? _admit;
        private readonly Func<AcceptedConnection, Loop>? _chooseLoop;
        private int _live;
        private int _holds; // what a stop waits for: live sessions and stream handlers
        private int _aborted;
        private int _openAtStop = -1;
        private long _accepted;
        private long _rejected;
        private long _refused;
        private long _shed;
        private int _acceptsLeft;
        private int _nextLoop = -1;
        private StopDrain? _drain; // of the first stop that drains, on any thread
        private NoticePace _descriptorNotices;
        private NoticePace _acceptNotices;
        // for the meter: start times in milliseconds of connections made while a listener was active
        private ConcurrentDictionary<long, long>? _since;
        // activities of connections that a trace listener asked for
        private ConcurrentDictionary<long, object>? _traces;
        private volatile bool _isStopping;
        private volatile bool _isAborting;

        internal Host(Server owner, Engine engine, TlsProfile? tls)
            : base(engine, owner.Options, isAccepting: true)
        {
            ServerOptions options = owner.Options;
            _owner = owner;
            Tls = tls;
            if (options.Tls?.Certificate?.DateMistake(engine.UtcNow) is { } old)
                NoteCertificate($"{old}. Clients will refuse it. Create one: whimbrel certs");
            _admit = options.Accept.Admit;
            _chooseLoop = options.Accept.ChooseLoop;
            // One listener, until short connections have been measured with both.
            Scheme = options.Accept.Scheme == AcceptScheme.Auto ? AcceptScheme.OneListener : options.Accept.Scheme;
            _placement = options.Accept.Placement != Placement.Auto ? options.Accept.Placement
                : Scheme == AcceptScheme.ListenerPerLoop ? Placement.AcceptingLoop
                : Placement.RoundRobin;
            RenewAcceptLimit();
        }

        /// <summary>Number of this start, unique in the process. For status socket and dashboard.</summary>
        internal long Id { get; } = Interlocked.Increment(ref s_lastId);

        internal AcceptScheme Scheme { get; }

        /// <summary>True if a restart did not wait for the end of this host.</summary>
        internal volatile bool IsLeftBehind;

        /// <summary>The host that the restart of this one has separated: a stop waits for it, too.</summary>
        internal Host? Before { get; init; }

        internal override object Owner => _owner;

        internal int Live => Volatile.Read(ref _live);

        internal long AcceptedCount => Volatile.Read(ref _accepted);

        internal long RejectedCount => Volatile.Read(ref _rejected);

        internal ServerCounters ReadCounters()
        {
            long bytesReceived = 0, bytesSent = 0, messagesReceived = 0, messagesSent = 0, handshakes = 0, resumed = 0,
                failed = 0, dropped = 0;
            long silentClosed = 0;
            int shaking = 0, silent = 0;
            foreach (HostShard shard in Shards)
            {
                bytesReceived += Volatile.Read(ref shard.BytesReceived);
                bytesSent += Volatile.Read(ref shard.BytesSent) + Volatile.Read(ref shard.BytesSentOfStrands);
                messagesReceived += Volatile.Read(ref shard.MessagesReceived);
                messagesSent += Volatile.Read(ref shard.MessagesSent) + Volatile.Read(ref shard.MessagesSentOfStrands);
                handshakes += Volatile.Read(ref shard.Handshakes);
                resumed += Volatile.Read(ref shard.HandshakesResumed);
                failed += Volatile.Read(ref shard.HandshakesFailed);
                shaking += shard.Shaking.Count;
                dropped += Volatile.Read(ref shard.BroadcastsDropped);
                silent += shard.Silent.Count;
                silentClosed += Volatile.Read(ref shard.SilentClosed);
            }

            return new ServerCounters(
                Live, AcceptedCount, RejectedCount, Volatile.Read(ref _refused), SlowConsumers,
                bytesReceived, bytesSent, messagesReceived, Options.CountSends ? messagesSent : null,
                handshakes, resumed, failed, shaking, silent, silentClosed, Volatile.Read(ref _shed),
                UserExceptions, dropped);
        }

        internal long BytesPending
        {
            get
            {
                long sum = 0;
                foreach ((_, Session session) in _byId) sum += session.PendingBytes;
                return sum;
            }
        }

        /// <summary>Socket of <see cref="ServerOptions.StatusPath"/>, while the server is started.</summary>
        internal StatusSocket? Status { get; set; }

        /// <param name="most">Maximum number of sessions.</param>
        /// <param name="sum">Bytes pending of all sessions, as in <see cref="BytesPending"/>.</param>
        internal SlowSession[] FindSlowest(int most, out long sum)
        {
            sum = 0;
            // The session with the fewest pending bytes is the next to be removed.
            PriorityQueue<Session, long> found = new();
            foreach ((_, Session session) in _byId)
            {
                long pending = session.PendingBytes;
                if (pending <= 0) continue;
                sum += pending;
                if (found.Count < most) found.Enqueue(session, pending);
                else found.EnqueueDequeue(session, pending);
            }

            SlowSession[] slowest = new SlowSession[found.Count];
            for (int i = slowest.Length - 1; found.TryDequeue(out Session? session, out long pending); i--)
                slowest[i] = new SlowSession(session, pending);
            return slowest;
        }

        internal Session? Find(long id) => _byId.GetValueOrDefault(id);

        /// <summary>
        /// Enumerates the connected sessions without a lock. Any thread; sessions that begin or end in the meantime may
        /// or may not be included.
        /// </summary>
        internal IEnumerable<Session> Connected
        {
            get
            {
                foreach ((_, Session session) in _byId) yield return session;
            }
        }

        // -------------------------------------------------------------- accepting, on the listener's loop

        internal override void Accepted(Listener listener, RawSocket socket, PeerAddress peer, EndPoint local)
        {
            if (_isStopping)
            {
                listener.Loop.Discard(socket);
                return;
            }

            // Counted before the decision: several loops may accept at the same time, and together they must not exceed
            // the limit.
            Interlocked.Increment(ref _holds);
            if (Interlocked.Increment(ref _live) > Volatile.Read(ref _owner._maxConnections))
            {
                Drop(listener, socket);
                Interlocked.Increment(ref _rejected);
                return;
            }

            Loop? loop = null;
            if ((_admit is not null || _chooseLoop is not null)
                && !Ask(new AcceptedConnection(_owner, listener.Loop, local, peer), out loop))
            {
                Drop(listener, socket);
                Interlocked.Increment(ref _refused);
                return;
            }

            if (_owner.Options.Accept.Limit > 0 && !TakeOneOfLimit())
            {
                Drop(listener, socket);
                Interlocked.Increment(ref _rejected);
                return;
            }

            Interlocked.Increment(ref _accepted);
            Place(listener, loop ?? LoopFor(listener.Loop), socket, peer, local);
        }

        private void Drop(Listener listener, RawSocket socket)
        {
            listener.Loop.Discard(socket);
            LeaveOne();
        }

        /// <summary>
        /// Calls the application's filter and loop choice and catches their exceptions. False rejects the connection.
        /// </summary>
        private bool Ask(AcceptedConnection arrival, out Loop? chosen)
        {
            chosen = null;
            arrival.Loop.EnterWork("Admit or ChooseLoop of the server");
            try
            {
                if (_admit is not null && !_admit(arrival)) return false;
                if (_chooseLoop is null) return true;
                chosen = _chooseLoop(arrival);
                if (chosen is null || !ReferenceEquals(chosen.Engine, Engine))
                    Throw.State(
                        $"ChooseLoop gave {chosen?.ToString() ?? "null"}, which is no loop of the server's engine.");
                return true;
            }
            catch (Exception e)
            {
                TellThrown("Admit or ChooseLoop of the server", e);
                return false;
            }
            finally
            {
                arrival.Loop.LeaveWork();
            }
        }

        /// <summary>Reports an exception of user code that ran before there was a session.</summary>
        private void TellThrown(string where, Exception exception)
        {
            Engine.UserCodeThrew(exception);
            CountUserException();
            t_threw = where;
            Tell(exception, static (owner, e) => owner.OnError(e));
        }

        /// <summary>Default implementation of OnError.</summary>
        internal void NoteError(Exception exception)
        {
            // Without a name there is a diagnostic event already.
            if (t_threw is { } what)
                NoteUserException(what, "", exception, "That connection was closed; accepting continues.");
        }

        internal void RenewAcceptLimit() => Volatile.Write(ref _acceptsLeft, _owner.Options.Accept.Limit);

        /// <summary>
        /// Takes one connection of the accept limit. The last one ends accepting; connections accepted in the meantime
        /// are rejected.
        /// </summary>
        private bool TakeOneOfLimit()
        {
            int left = Interlocked.Decrement(ref _acceptsLeft);
            if (left == 0) _owner.AcceptLimitReached();
            return left >= 0;
        }

        private Loop LoopFor(Loop here) => _placement switch
        {
            Placement.AcceptingLoop => here,
            Placement.LeastLoaded => LeastLoadedLoop(),
            _ => Engine.NextLoop(),
        };

        private Loop LeastLoadedLoop()
        {
            Loop[] loops = Engine.Loops;
            // Each search starts at the next loop: with short connections all loads are equal most of the time.
            uint start = (uint)Interlocked.Increment(ref _nextLoop);
            Loop best = loops[start % (uint)loops.Length];
            long least = best.Load;
            for (uint i = 1; i < (uint)loops.Length && least > 0; i++)
            {
                Loop loop = loops[(start + i) % (uint)loops.Length];
                long load = loop.Load;
                if (load >= least) continue;
                best = loop;
                least = load;
            }

            return best;
        }

        private void Place(Listener listener, Loop loop, RawSocket socket, PeerAddress peer, EndPoint local)
        {
            if (loop.IsCurrent)
            {
                Begin(loop, socket, peer, local);
                return;
            }

            bool isCounted = _placement == Placement.LeastLoaded;
            HandedSocket handed = new(this, socket, peer, local, isCounted);
            if (isCounted) Interlocked.Increment(ref loop.OnTheWay);
            if (loop.PostControl(static (l, a, _, _) => ((HandedSocket)a!).Begin(l), handed)) return;
            if (isCounted) Interlocked.Decrement(ref loop.OnTheWay);
            Drop(listener, socket);
        }

        internal override void AcceptFailed(NetworkException fault)
        {
            if (fault.Error.Category == ErrorCategory.User)
            {
                TellThrown("Socket.OnCreated of the server", fault);
                return;
            }

            t_threw = "Preparing an accepted socket";
            Tell(fault, static (owner, e) => owner.OnError(e));
        }

        internal void Begin(Loop loop, RawSocket socket, PeerAddress peer, EndPoint local)
        {
            Exception? thrown = null;
            // A factory that receives the connection is called after the handshake.
            Session? session = Tls is not null && _owner._factory is null
                ? new Newcomer()
                : CallFactory(loop, local, peer, null, out thrown);
            if (session is null)
            {
                loop.Discard(socket);
                TellConnectFailed(new SessionContext(_owner, null, loop, local, peer.ToEndPoint()),
                    new CloseReason(CloseCause.UserException, 0, thrown));
                LeaveOne();
                return;
            }

            Connection connection = loop.TakeConnection();
            connection.Begin(ShardOf(loop), session, Engine.NextConnectionId(), local, peer);
            if (_isAborting) session.CloseWith(new CloseReason(CloseCause.ServerStopped));
            connection.Connecting(socket);
        }

        internal override Session? MakeSession(Newcomer newcomer, TlsInfo tls, out Exception? thrown) =>
            CallFactory(newcomer.Loop, newcomer.LocalEndPoint, newcomer.Peer, tls, out thrown);

        /// <summary>
        /// Calls the application's factory and catches its exceptions. Returns null if it threw or returned a used
        /// session.
        /// </summary>
        private Session? CallFactory(Loop loop, EndPoint? local, PeerAddress peer, TlsInfo? tls, out Exception? thrown)
        {
            thrown = null;
            loop.EnterWork("The factory of the server", (object?)_owner._factory ?? _owner._contextFactory);
            try
            {
                Session session = _owner._factory is { } factory
                    ? factory()
                    : _owner._contextFactory!(new SessionContext(_owner, null, loop, local, peer.ToEndPoint(), tls));
                if (session is null || session.IsUsed)
                    Throw.State($"The factory must give a new session for each connection, and gave "
                        + $"{(session is null ? "null" : "one that had a connection before")}.");
                return session;
            }
            catch (Exception e)
            {
                thrown = e;
                TellThrown("The factory of the server", e);
                return null;
            }
            finally
            {
                loop.LeaveWork();
            }
        }

        internal override void SessionBegan(Session session) =>
            Tell(session, static (owner, s) => owner.OnConnecting(s));

        internal override void SessionConnecting(Connection connection)
        {
            // OnConnecting may have blocked (contract 14), so that an abort of all connections has missed this one.
            if (_isAborting) connection.AbortWith(new CloseReason(CloseCause.ServerStopped));
            else connection.AdoptHeld();
        }

        internal override void NoteSession(DiagnosticEvent notice) => Engine.Report(notice, Options.OnDiagnosticEvent);

        internal override void CountShed() => Interlocked.Increment(ref _shed);

        internal override void NoteDescriptorLimit(int error)
        {
            if (!_descriptorNotices.TryTake(Engine.NowMs)) return;
            string kept = error == Linux.Errno.EMFILE && Engine.Descriptors.IsOn
                ? $" and {Engine.Descriptors.Count} descriptors kept free for the rest of the process"
                : "";
            NoteSession(new DiagnosticEvent(
                DiagnosticEventKind.DescriptorLimit,
                $"Cannot accept: {ErrorText.Of(error)} (error {error}), with {Live} sessions open{kept}. New "
                + $"connections are closed until descriptors are free; open sessions continue. Raise the limit (ulimit "
                + $"-n), or set Limits.Connections below it.",
                "descriptor-limit.md"));
        }

        internal override void ListenerEnded(Listener listener, int error)
        {
            if (IsLeftBehind) return;
            NetworkException fault = new(new NetworkError(
                error,
                ErrorCategory.System,
                $"{listener.EndPoint} accepts no more: {ErrorText.Of(error)} (error {error}). Something in this "
                + $"process has shut its socket down or closed it. Open sessions continue; stop accepting and start "
                + $"again to listen there."));
            NoteSession(new DiagnosticEvent(DiagnosticEventKind.System, fault.Message, "accept-failed.md"));
            t_threw = null;
            Tell(fault, static (owner, e) => owner.OnError(e));
        }

        internal override void NoteAcceptFailing(Listener listener, int error)
        {
            if (!_acceptNotices.TryTake(Engine.NowMs)) return;
            NoteSession(new DiagnosticEvent(
                DiagnosticEventKind.System,
                $"Accepting at {listener.EndPoint} fails again and again: {ErrorText.Of(error)} (error {error}). It is "
                + $"tried again ten times a second; open sessions continue.",
                "accept-failed.md"));
        }

        // -------------------------------------------------------------- connected, on the session's loop

        internal override void SessionConnected(Session session)
        {
            _byId[session.Id] = session;
            Everyone.Admit(session);
            if (ServerMetrics.ConnectionDuration is { Enabled: true }) BeginDuration(session.Id);
            if (ServerTraces.IsHeard && ServerTraces.ConnectionBegins(this, session) is { } trace)
                Traces[session.Id] = trace;
            Tell(session, static (owner, s) => owner.OnConnected(s));
            // The session may have connected after the stop has notified all others.
            if (_isStopping && session.Connection is { } connection) Volatile.Read(ref _drain)?.Add(connection);
        }

        internal override void SessionDisconnecting(Session session, CloseReason reason) =>
            Tell((session, reason), static (owner, s) => owner.OnDisconnecting(s.session, s.reason));

        // A session that is not connected yet is not in the table.
        internal override void SessionReplaced(Session old, Session next)
        {
            _byId.TryUpdate(next.Id, next, old);
            Everyone.Admit(next);
            if (!_leftOut.IsEmpty && _leftOut.TryRemove(old, out _)) _leftOut[next] = true;
        }

        /// <summary>
        /// Excludes a session from the stop: the stop runs inside its callback and cannot wait for it.
        /// </summary>
        internal void LeaveOut(Session session)
        {
            if (_leftOut.TryAdd(session, true)) LetGo();
        }

        internal override void SessionEnding(Session session) => _byId.TryRemove(session.Id, out _);

        internal override void SessionEnded(Session session, CloseReason reason, bool wasConnected)
        {
            if (wasConnected) Tell((session, reason), static (owner, s) => owner.OnDisconnected(s.session, s.reason));
            else if (session is Newcomer)
                TellConnectFailed(new SessionContext(_owner, null, session.Loop, session.LocalEndPoint,
                    session.RemoteEndPoint, session.Tls), reason);
            if (_since is { } since && since.TryRemove(session.Id, out long ms))
                ServerMetrics.ConnectionEnded(this, (Engine.NowMs - ms) / 1000.0, reason);
            if (_traces is { } traces && traces.TryRemove(session.Id, out object? trace))
                ServerTraces.ConnectionEnded(this, trace, reason);
            Interlocked.Decrement(ref _live);
            if (_leftOut.IsEmpty || !_leftOut.TryRemove(session, out _)) LetGo();
        }

        internal override long HandshakeBegins() => ServerMetrics.HandshakeBegins(Engine);

        internal override void HandshakeEnded(long since, TlsInfo? info, string? failure) =>
            ServerMetrics.HandshakeEnded(this, since, info, failure);

        private ConcurrentDictionary<long, object> Traces => Volatile.Read(ref _traces)
            ?? Interlocked.CompareExchange(ref _traces, new ConcurrentDictionary<long, object>(), null) ?? _traces!;

        private void BeginDuration(long id)
        {
            ConcurrentDictionary<long, long>? since = Volatile.Read(ref _since);
            if (since is null)
                since = Interlocked.CompareExchange(ref _since, new ConcurrentDictionary<long, long>(), null) ?? _since;
            since![id] = Engine.NowMs;
        }

        private void TellConnectFailed(SessionContext connection, CloseReason reason) =>
            Tell((connection, reason), static (owner, c) => owner.OnConnectFailed(c.connection, c.reason));

        /// <summary>Runs one event of the server and catches its exceptions.</summary>
        internal void Tell<T>(T argument, Action<Server, T> call,
            [CallerArgumentExpression(nameof(call))] string code = "")
        {
            try
            {
                call(_owner, argument);
            }
            catch (Exception e)
            {
                CountUserException();
                Engine.ReportException(UserCode.EventOf("server", code), e);
            }
        }

        internal override void HandlerBegan(Session session)
        {
            Interlocked.Increment(ref _holds);
            _handlers[session] = true;
        }

        internal override void HandlerEnded(Session session)
        {
            _handlers.TryRemove(session, out _);
            LetGo();
        }

        private void LeaveOne()
        {
            Interlocked.Decrement(ref _live);
            LetGo();
        }

        private void LetGo()
        {
            if (Interlocked.Decrement(ref _holds) > 0) return;
            List<StopWait<bool>> done;
            lock (_waitGate)
            {
                if (_waiting.Count == 0) return;
                done = [.. _waiting];
                _waiting.Clear();
            }

            foreach (StopWait<bool> wait in done) wait.TryEnd(true);
        }

        // -------------------------------------------------------------- ending all connections

        internal void CloseAll(CloseReason reason)
        {
            foreach (HostShard shard in Shards)
            {
                shard.Loop.PostControl(
                    static (_, s, r, _) =>
                    {
                        foreach (Connection member in ((HostShard)s!).Members.Members)
                            member.CloseWith((CloseReason)r!);
                    },
                    shard,
                    reason);
            }
        }

        /// <summary>Calls OnServerStopping of every session once, over the window.</summary>
        private void TellAllOfStop(TimeSpan deadline)
        {
            ConnectionTimeouts timeouts = _owner.Options.Timeouts;
            TimeSpan left = deadline - timeouts.Drain, half = deadline / 2;
            TimeSpan most = left > half ? left : half;
            StopDrain drain = new(Engine, timeouts.DrainWindow < most ? timeouts.DrainWindow : most);
            if (Interlocked.CompareExchange(ref _drain, drain, null) is { } first) first.Shorten(drain);
            else drain.Begin(Shards);
        }

        internal void AbortAll()
        {
            // First: a session that becomes a member later checks this before.
            _isAborting = true;
            foreach (HostShard shard in Shards)
            {
                shard.Loop.PostControl(
                    static (_, s, host, _) =>
                    {
                        foreach (Connection member in ((HostShard)s!).Members.Members)
                        {
                            if (member.State is ConnectionState.Open or ConnectionState.Concluding
                                or ConnectionState.Draining or ConnectionState.Lingering)
                                Interlocked.Increment(ref ((Host)host!)._aborted);
                            member.AbortWith(new CloseReason(CloseCause.ServerStopped));
                        }

                        ((HostShard)s!).WasAborted = true;
                        foreach (Connection shaking in ((HostShard)s!).Shaking.ToArray())
                            shaking.AbortWith(new CloseReason(CloseCause.ServerStopped));
                    },
                    shard,
                    this);
            }
        }

        internal async ValueTask<StopReport> EndAllAsync(TimeSpan deadline)
        {
            _isStopping = true;
            // Concurrent stops all report the same number.
            Interlocked.CompareExchange(ref _openAtStop, Live, -1);
            if (deadline > TimeSpan.Zero) TellAllOfStop(deadline);
            else AbortAll();
            await WaitForAll().ConfigureAwait(false);
            for (Host? before = Before; before is not null; before = before.Before)
                await before.WaitForAll().ConfigureAwait(false);
            int aborted = Volatile.Read(ref _aborted);
            return new StopReport(Math.Max(0, Volatile.Read(ref _openAtStop) - aborted), aborted);
        }

        private ValueTask<bool> WaitForAll()
        {
            StopWait<bool> wait = new(Engine);
            lock (_waitGate) _waiting.Add(wait);
            // Counted as one more, so that a last session that ends at this moment is not missed.
            Interlocked.Increment(ref _holds);
            LetGo();
            return wait.Task;
        }

        /// <summary>
        /// Returns the report of a stop that has passed its deadline by one second. Any thread; the numbers may be
        /// slightly outdated.
        /// </summary>
        internal StopReport ReportLeft()
        {
            int live = Live;
            Interlocked.CompareExchange(ref _openAtStop, live, -1);
            int aborted = Volatile.Read(ref _aborted);
            HashSet<Loop> holding = [];
            foreach (HostShard shard in Shards)
            {
                long here = Volatile.Read(ref shard.Opened) - Volatile.Read(ref shard.Closed);
                if (here <= 0) continue;
                holding.Add(shard.Loop);
                // The loop has not processed the abort yet.
                if (!shard.WasAborted) aborted += (int)here;
            }

            lock (_owner._gate) holding.UnionWith(_owner._listeners.Select(static l => l.Loop));
            List<UnfinishedCall> found = [];
            foreach (Loop loop in Engine.Loops)
            {
                if (holding.Contains(loop)) loop.AddUnfinishedTurn(found);
                // On the pool a session's callbacks may outlive its connection.
                loop.AddUnfinishedOnPool(found, this);
            }

            int orphans = 0;
            foreach (Session session in _handlers.Keys)
            {
                if (session.IsOrphan) orphans++;
                found.Add(new UnfinishedCall($"{session.UnfinishedText} of {session}", null));
            }

            int left = live + orphans;
            for (Host? before = Before; before is not null; before = before.Before)
            {
                if (Volatile.Read(ref before._holds) == 0) continue;
                StopReport rest = before.ReportLeft();
                left += rest.Left;
                found.AddRange(rest.Unfinished.Where(u => !found.Contains(u)));
            }

            int open = Volatile.Read(ref _openAtStop);
            return new StopReport(Math.Max(0, open - aborted), Math.Min(aborted, open))
            {
                // A loop that did not close its listener counts as well.
                Left = Math.Max(1, left),
                Unfinished = Engine.Most(found),
            };
        }

        /// <summary>Reports a diagnostic event, for callers that do not check the result of the stop.</summary>
        internal void NoteOverdue(StopReport report) => NoteSession(new DiagnosticEvent(
            DiagnosticEventKind.StopOverdue,
            $"The server has not ended at the deadline of its stop: {report}. "
            + (report.Unfinished.Count == 0
                ? "It ends by itself then."
                : "What is left ends by itself when that returns. A handler that awaits the stop of its own server "
                    + "waits for itself: begin the stop there without awaiting it."),
            "stop-overdue.md"));

        /// <summary>An accepted socket that is being passed to another loop.</summary>
        private sealed class HandedSocket(Host host, RawSocket socket, PeerAddress peer, EndPoint local, bool isCounted)
        {
            internal void Begin(Loop loop)
            {
                host.Begin(loop, socket, peer, local);
                // Decremented afterwards: counted twice for a moment is better than not counted at all.
                if (isCounted) Interlocked.Decrement(ref loop.OnTheWay);
            }
        }
    }
}
