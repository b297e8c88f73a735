using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Runtime.ExceptionServices;

namespace Whimbrel.Compat.Links;

/// <summary>Stands between a server object of an old API and its native servers, a new one for each start, because options may change between.</summary>
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
    private int _asking; // multicasts that call each session's SendAsync
    private volatile MulticastBatch _multicasts = new(); // a new one for each start: its loops may be others
    private Task _closing = Task.CompletedTask; // of the port, by the last Stop
    private int _listVersion; // of the owner's list of sessions
    private long _unlooked; // broadcast since the budget was asked

    /// <summary>Not any more when its engine was stopped.</summary>
    internal bool IsStarted => _isStarted && _server is { Engine.IsStarted: true };

    internal bool IsAccepting => _isAccepting;

    internal EndPoint? EndPoint => _server?.EndPoint;

    internal long BytesPending => _server is { } server && _isStarted ? server.BytesPending + _multicasts.Pending : 0;

    internal long BytesSent => _server?.BytesSent ?? 0;

    internal long BytesReceived => _server?.BytesReceived ?? 0;

    /// <summary>Too much is queued, and each send to a session has to ask the budget.</summary>
    internal bool IsOverBudget
    {
        get => _isOverBudget;
        private set => _isOverBudget = value;
    }

    /// <summary>On some thread.</summary>
    internal bool IsMulticasting => Volatile.Read(ref _asking) > 0;

    /// <summary>Multicasts that are collected.</summary>
    internal MulticastBatch Multicasts => _multicasts;

    /// <summary>Each send has to ask for its session's limit.</summary>
    internal bool IsLimited => _isLimited;

    /// <summary>Some session has a limit of its own, which a broadcast would not know.</summary>
    internal void Limited() => _isLimited = true;

    // ------------------------------------------------------------------ start and stop

    /// <param name="makeOptions">The options as they are now; given the address to listen at.</param>
    internal bool Start(Func<ServerOptions> makeOptions)
    {
        lock (_gate)
        {
            if (IsStarted || _isStarting) return false;
            _isStarting = true;
            _isStarted = false; // also when only its engine was stopped
        }

        Server? server = null;
        try
        {
            server = new ServerBridge(makeOptions(), this);
            // First, because the original binds before it calls OnStarting: where that fails, OnStarting is not called.
            Task? late = Listen(server);
            _server = server;
            _multicasts = new MulticastBatch();
            TellStarting(server);
            _isStarted = _isAccepting = true;
            owner.Tell(ServerEvent.Started);
            if (_isStarted) Accept(server, late);
            return true;
        }
        catch (NetworkException e) when (!_isStarted)
        {
            throw ErrorMap.ToException(e);
        }
        catch (InvalidOperationException) when (!_isStarted && server is { IsAccepting: false })
        {
            return true; // OnStarted, or another thread meanwhile, stopped it
        }
        finally
        {
            _isStarting = false;
        }
    }

    /// <returns>
    /// Null: it listens. Otherwise it listens when a loop is free. A callback on that loop may be waiting for a lock that
    /// the caller of Start holds, so Start does not wait for it.
    /// </returns>
    private Task? Listen(Server server)
    {
        if (server.Options.Scheduling != Scheduling.Inline || Loop.Current is not null)
        {
            server.Start(Timeout.InfiniteTimeSpan);
            return null;
        }

        bool isClosed = _closing.IsCompleted;
        Task listening = ListenAsync(server);
        if (!isClosed || !Wait.For(Task.WhenAny(listening), LoopMs)) return listening;
        Wait.For(new ValueTask(listening)); // it has ended: throws what failed
        return null;
    }

    private async Task ListenAsync(Server server)
    {
        await _closing.ConfigureAwait(false);
        await server.StartAsync().ConfigureAwait(false);
    }

    private void Accept(Server server, Task? late)
    {
        if (late is null && server.Options.Scheduling != Scheduling.Inline)
        {
            Wait.For(server.StartAcceptingAsync());
            return;
        }

        Task accepting = AcceptAsync(server, late);
        Wait.For(accepting, late is null ? LoopMs : 0);
    }

    private async Task AcceptAsync(Server server, Task? late)
    {
        SocketError error;
        try
        {
            if (late is not null) await late.ConfigureAwait(false);
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
            // Otherwise the port stays taken after an OnStarting that throws.
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
            // A Start that follows needs the port. Only where callbacks run on the loops may these wait for the caller.
            bool isOnLoops = server.Options.Scheduling == Scheduling.Inline;
            int mostMs = isOnLoops ? LoopMs : (int)CompatOptions.DrainTimeout.TotalMilliseconds;
            _closing = CloseAsync(server);
            if (Loop.Current is null) Wait.For(_closing, mostMs);
            Task stopped = server.StopAsync(CompatOptions.DrainTimeout).AsTask();
            if (Loop.Current is null) AwaitStop(server, stopped);
        }

        owner.Tell(ServerEvent.Stopped);
        return true;
    }

    private static async Task CloseAsync(Server server)
    {
        try
        {
            await server.StopAcceptingAsync().ConfigureAwait(false);
        }
        catch (NetworkException)
        {
            // Its engine has stopped, which closes the port.
        }
    }

    // At most for the drain timeout, and only while connections end or bytes leave: a callback that runs may be waiting
    // for a lock that the caller holds.
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

    /// <summary>The user's class, in messages.</summary>
    internal string OwnerName => owner.GetType().Name;

    /// <summary>Checks what the user's code has made.</summary>
    internal static T Require<T>(T? session, ILinkedServer server)
        where T : class =>
        session ?? throw new InvalidOperationException(
            $"{server.GetType().Name}.CreateSession returned null. Return a new session of this server.");

    internal Link Create()
    {
        Link link = owner.Create();
        Interlocked.Increment(ref _listVersion);
        if (link.Owner.SendLimit > 0) _isLimited = true;
        return link;
    }

    /// <summary>The session is no longer one of the server's, whatever its callbacks did.</summary>
    internal void Forget(Link link)
    {
        owner.Forget(link.Owner);
        Interlocked.Increment(ref _listVersion);
    }

    internal void Tell(LinkEvent what, Link link)
    {
        // Of each message, perhaps, and no server is told: what the call below captures would be allocated all the same.
        if (what != LinkEvent.Empty) TellInOrder(what, link);
    }

    private void TellInOrder(LinkEvent what, Link link)
    {
        _calls.Run(() => owner.Tell(what, link.Owner), e => link.Rethrow(ExceptionDispatchInfo.Capture(e)));
    }

    /// <summary>Something failed that is no session's. Where callbacks run; what the user's code throws is the caller's.</summary>
    internal void Failed(SocketError error)
    {
        if (_isStarted && ErrorMap.IsTold(error)) _calls.Run(() => owner.TellError(error), static _ => { });
    }

    /// <summary>To all that are connected, or to those of a group, encoded once.</summary>
    /// <param name="data">The bytes.</param>
    /// <param name="hasOwnSending">The class of some session overrides SendAsync, which must then be called.</param>
    /// <param name="group">Null: all.</param>
    /// <returns>False: it must be sent to one after the other.</returns>
    internal bool Broadcast(ReadOnlySpan<byte> data, bool hasOwnSending, SessionGroup? group = null)
    {
        if (hasOwnSending || _isLimited || _server is not { } server) return false;
        // Each by its own SendAsync then, which waits for those that are behind.
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

    /// <summary>To all by their own SendAsync, where <see cref="Broadcast"/> does not do.</summary>
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
