using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Runtime.ExceptionServices;

namespace Whimbrel.Compat.Links;

/// <summary>Connects a server object of an original API with its native servers. Each start has a new one, because
/// options may have changed.</summary>
internal sealed class ServerLink(ILinkedServer owner)
{
    private const int LookMs = 10, StallMs = 200, LoopMs = 500;
    private const long LeastLook = 1024 * 1024;

    private readonly OrderedCalls _calls = new();
    private readonly Lock _gate = new();
    private volatile Server? _server;
    private volatile bool _isStarted, _isAccepting, _isStarting;
    private volatile bool _isLimited;
    private volatile bool _isOverBudget;
    private int _asking; // running multicasts that call each session's SendAsync
    private volatile MulticastBatch _multicasts = new(); // a new one for each start, which may have other loops
    private Task _closing = Task.CompletedTask; // the last Stop's closing of the port
    private int _listVersion; // of the owner's list of sessions
    private long _unlooked; // bytes broadcast since the last check of the budget

    /// <summary>False after its engine was stopped, too.</summary>
    internal bool IsStarted => _isStarted && _server is { Engine.IsStarted: true };

    internal bool IsAccepting => _isAccepting;

    internal EndPoint? EndPoint => _server?.EndPoint;

    internal long BytesPending => _server is { } server && _isStarted ? server.BytesPending + _multicasts.Pending : 0;

    internal long BytesSent => _server?.BytesSent ?? 0;

    internal long BytesReceived => _server?.BytesReceived ?? 0;

    /// <summary>True if too much is queued, so that each send must check the budget.</summary>
    internal bool IsOverBudget
    {
        get => _isOverBudget;
        private set => _isOverBudget = value;
    }

    /// <summary>True if a multicast of this kind runs on any thread.</summary>
    internal bool IsMulticasting => Volatile.Read(ref _asking) > 0;

    /// <summary>Collected multicasts.</summary>
    internal MulticastBatch Multicasts => _multicasts;

    /// <summary>True if each send must check its session's limit.</summary>
    internal bool IsLimited => _isLimited;

    /// <summary>Called when a session gets a limit of its own, which a broadcast would ignore.</summary>
    internal void Limited() => _isLimited = true;

    // ------------------------------------------------------------------ start and stop

    /// <param name="makeOptions">Creates the options of this moment, including the address.</param>
    internal bool Start(Func<ServerOptions> makeOptions)
    {
        lock (_gate)
        {
            if (IsStarted || _isStarting) return false;
            _isStarting = true;
            _isStarted = false; // also if only its engine was stopped
        }

        Server? server = null;
        try
        {
            server = new ServerBridge(makeOptions(), this);
            // Before OnStarting, because the original binds first and does not call OnStarting if that fails.
            Task? late = Listen(server);
            _server = server;
            _multicasts = new MulticastBatch();
            TellStarting(server);
            _isStarted = _isAccepting = true;
            owner.Tell(ServerEvent.Started);
            if (!_isStarted) return true;
            if (late is null) Wait.For(server.StartAcceptingAsync());
            else _ = AcceptAsync(server, late);
            return true;
        }
        catch (NetworkException e) when (!_isStarted)
        {
            throw ErrorMap.ToException(e);
        }
        catch (InvalidOperationException) when (!_isStarted && server is { IsAccepting: false })
        {
            return true; // OnStarted, or another thread, stopped it
        }
        finally
        {
            _isStarting = false;
        }
    }

    /// <returns>
    /// Null if it listens. Otherwise it listens as soon as a loop is free: the caller is on a loop, or the last Stop
    /// found one that is not free. A callback on that loop may be waiting for a lock that the caller of Start holds, so
    /// Start does not wait for it.
    /// </returns>
    private Task? Listen(Server server)
    {
        if (Loop.Current is not null || (server.Options.Scheduling == Scheduling.Inline && !_closing.IsCompleted))
            return ListenAsync(server);
        server.Start(Timeout.InfiniteTimeSpan);
        return null;
    }

    private async Task ListenAsync(Server server)
    {
        await Task.WhenAny(_closing).ConfigureAwait(false); // a close that fails is not the start's
        await server.StartAsync().ConfigureAwait(false);
    }

    private async Task AcceptAsync(Server server, Task late)
    {
        SocketError error;
        try
        {
            await late.ConfigureAwait(false);
            await server.StartAcceptingAsync().ConfigureAwait(false);
            return;
        }
        catch (NetworkException e)
        {
            error = e.Error.SocketError;
        }
        catch (InvalidOperationException)
        {
            error = SocketError.OperationAborted; // stopped meanwhile
        }

        lock (_gate)
        {
            if (!_isStarted || !ReferenceEquals(_server, server)) return;
            _isStarted = _isAccepting = false;
        }

        if (ErrorMap.IsTold(error)) _calls.Run(() => owner.TellError(error), static _ => { });
    }

    private void TellStarting(Server server)
    {
        try
        {
            owner.Tell(ServerEvent.Starting);
        }
        catch
        {
            // Otherwise the port stays in use after an OnStarting that throws.
            server.Stop(CompatOptions.DrainTimeout);
            throw;
        }
    }

    internal bool Stop(Action disconnectAll)
    {
        if (!IsStarted || _server is not { } server) return false;
        owner.Tell(ServerEvent.Stopping);
        lock (_gate)
        {
            if (!_isStarted) return false;
            _isStarted = _isAccepting = false;
        }

        try
        {
            Link.BeginAll(disconnectAll);
        }
        finally
        {
            // A later Start needs the port. Only callbacks on the loops may be waiting for the caller.
            bool isOnLoops = server.Options.Scheduling == Scheduling.Inline;
            int mostMs = isOnLoops ? LoopMs : (int)CompatOptions.DrainTimeout.TotalMilliseconds;
            // The task itself: the continuation of an await would need this thread, which may run a session's callback.
            _closing = server.StopAcceptingAsync().AsTask();
            if (Loop.Current is null) Wait.For(_closing, mostMs);
            Task stopped = server.StopAsync(CompatOptions.DrainTimeout).AsTask();
            if (Loop.Current is null) AwaitStop(server, stopped);
        }

        owner.Tell(ServerEvent.Stopped);
        return true;
    }

    // At most for the drain timeout, and only while connections end or bytes are sent, because a running callback may
    // be waiting for a lock that the caller holds.
    private void AwaitStop(Server server, Task stopped)
    {
        long began = Environment.TickCount64, lastProgress = began;
        int own = Link.IsTellingOf(this) ? 1 : 0;
        (int Sessions, long Pending) before = (server.SessionCount, server.BytesPending);
        while (!Wait.For(stopped, LookMs) && before.Sessions > own)
        {
            long now = Environment.TickCount64;
            (int, long) left = (server.SessionCount, server.BytesPending);
            if (left != before) (before, lastProgress) = (left, now);
            else if (now - lastProgress >= StallMs) break;
            if (now - began >= (long)CompatOptions.DrainTimeout.TotalMilliseconds) break;
        }

        _calls.AwaitIdle(TimeSpan.FromMilliseconds(StallMs));
    }

    // ------------------------------------------------------------------ sessions

    /// <summary>Name of the user's class, for messages.</summary>
    internal string OwnerName => owner.GetType().Name;

    /// <summary>Checks that user code has created a session.</summary>
    internal static T Require<T>(T? session, ILinkedServer server)
        where T : class =>
        session ?? throw new InvalidOperationException(
            $"{server.GetType().Name}.CreateSession returned null. Return a new session of this server.");

    internal Link Create()
    {
        Link link = owner.Create();
        if (!link.TryUse())
            throw new InvalidOperationException($"{OwnerName}.CreateSession returned a session that has a connection. "
                + "Return a new session for each connection.");
        Interlocked.Increment(ref _listVersion);
        if (link.Owner.SendLimit > 0) _isLimited = true;
        return link;
    }

    /// <summary>Removes the session from the server, whatever its callbacks did.</summary>
    internal void Forget(Link link)
    {
        owner.Forget(link.Owner);
        Interlocked.Increment(ref _listVersion);
    }

    internal void Tell(LinkEvent what, Link link)
    {
        // Empty may come with each message and servers have no such callback; the call below would allocate its
        // closure.
        if (what != LinkEvent.Empty) TellInOrder(what, link);
    }

    private void TellInOrder(LinkEvent what, Link link)
    {
        _calls.Run(() => owner.Tell(what, link.Owner), e => link.Rethrow(ExceptionDispatchInfo.Capture(e)));
    }

    /// <summary>Called for errors that belong to no session, on the thread of callbacks. Exceptions of user code reach
    /// the caller.</summary>
    internal void Failed(SocketError error)
    {
        if (_isStarted && ErrorMap.IsTold(error)) _calls.Run(() => owner.TellError(error), static _ => { });
    }

    /// <summary>Broadcasts to all connected sessions, or to those of a group, encoded once.</summary>
    /// <param name="data">Bytes to send.</param>
    /// <param name="hasOwnSending">True if the class of a session overrides SendAsync, which must then be
    /// called.</param>
    /// <param name="group">Group, or null for all sessions.</param>
    /// <returns>False if it must be sent to each session.</returns>
    internal bool Broadcast(ReadOnlySpan<byte> data, bool hasOwnSending, SessionGroup? group = null)
    {
        if (hasOwnSending || _isLimited || _server is not { } server) return false;
        // Then each session's own SendAsync is called, which waits for slow peers.
        if (LooksOverBudget(server, data.Length)) return false;
        group ??= server.Sessions;
        _multicasts.Flush();
        if (group.Broadcast(data) == SendResult.Queued) return true;
        if (Loop.Current is not null) return false;
        long deadline = Environment.TickCount64 + (long)CompatOptions.DrainTimeout.TotalMilliseconds;
        while (Environment.TickCount64 < deadline && group.WaitForRoom(TimeSpan.FromMilliseconds(100)))
        {
            if (group.Broadcast(data) == SendResult.Queued) return true;
        }

        return false;
    }

    private bool LooksOverBudget(Server server, int length)
    {
        int sessions = server.SessionCount;
        long sent = Interlocked.Add(ref _unlooked, (long)length * sessions);
        if (sent < Math.Max(LeastLook, sessions * 1024L) && !IsOverBudget) return false;
        Interlocked.Exchange(ref _unlooked, 0);
        long pending = server.BytesPending;
        IsOverBudget = pending > Link.MostPending || SendBudget.IsOver(pending);
        return IsOverBudget;
    }

    /// <summary>Sends to each session by its own SendAsync, where <see cref="Broadcast"/> is not possible.</summary>
    internal void ToEach<TKey, TSession, TSend>(ReadOnlySpan<byte> data, ConcurrentDictionary<TKey, TSession> sessions)
        where TKey : notnull
        where TSession : class
        where TSend : IEachSend<TSession>
    {
        Interlocked.Increment(ref _asking);
        try
        {
            Multicasting.Run<TKey, TSession, TSend>(_multicasts, data, sessions, Volatile.Read(ref _listVersion));
        }
        finally
        {
            Interlocked.Decrement(ref _asking);
        }
    }
}
