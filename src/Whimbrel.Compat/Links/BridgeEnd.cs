using System.Diagnostics;
using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>
/// Forwards callbacks of a native session to its link, one at a time. A thread that runs a callback is inside. A thread
/// that disconnects claims the end if no thread is inside: it then calls the callbacks of the end itself, and nothing
/// follows. Otherwise the thread inside does so when its callback has returned.
/// </summary>
internal sealed class BridgeEnd
{
    private const int Idle = 0, Inside = 1, InsideLast = 2, Taken = 3, Over = 4;
    private const int GraceMs = 5;

    private readonly ServerLink? _server;
    private int _state;
    private int _thread; // the thread inside
    private Session? _last; // the session that ends after the callback, with InsideLast
    private Link? _link;
    private bool _isTls;

    /// <summary>Creates the end of a client's bridge.</summary>
    internal BridgeEnd(Link link) => _link = link;

    /// <summary>Creates the end of a server's bridge. The link is created by the first callback, because user code
    /// creates it and may block.</summary>
    internal BridgeEnd(ServerLink server) => _server = server;

    /// <summary>True if the user's session overrides a callback that only a <see cref="TellingBridge"/> gets. A
    /// client's bridge was chosen accordingly.</summary>
    internal bool WantsTelling =>
        _server is not null && _link is { Owner: var owner } && (owner.WantsSent || owner.WantsEmpty);

    /// <summary>Name of the user's class, for messages.</summary>
    internal string OwnerName => _link?.Owner.GetType().Name ?? $"a session of {_server?.OwnerName}";

    /// <summary>True if the calling thread runs a callback of the connection.</summary>
    internal bool IsInsideHere =>
        Volatile.Read(ref _state) is Inside or InsideLast && _thread == Environment.CurrentManagedThreadId;

    /// <summary>Called by a thread that disconnects.</summary>
    /// <param name="session">Session that ends.</param>
    /// <returns>True: the caller reports the end. False: the thread inside reports it, or the end was already
    /// claimed.</returns>
    internal bool TryTakeEnd(Session session)
    {
        // A callback that is about to return is waited for, because most callers expect that OnDisconnected was called
        // when Disconnect returns.
        SpinWait spin = default;
        long began = Stopwatch.GetTimestamp();
        while (true)
        {
            int state = Interlocked.CompareExchange(ref _state, Taken, Idle);
            if (state != Inside) return state == Idle;
            if (!IsInsideHere && Stopwatch.GetElapsedTime(began).TotalMilliseconds <= GraceMs)
            {
                spin.SpinOnce();
                continue;
            }

            _last = session;
            if (Interlocked.CompareExchange(ref _state, InsideLast, Inside) == Inside) return false;
        }
    }

    private bool TryEnter(out Link? before)
    {
        before = null;
        if (Interlocked.CompareExchange(ref _state, Inside, Idle) != Idle) return false;
        _thread = Environment.CurrentManagedThreadId;
        before = Link.Enter(_link);
        return true;
    }

    private void Leave(Link? before)
    {
        _thread = 0;
        if (Interlocked.CompareExchange(ref _state, Idle, Inside) == Inside)
        {
            Link.Enter(before);
            return;
        }

        try
        {
            _link!.EndAfterCallback(_last!);
        }
        finally
        {
            Link.Enter(before);
            Volatile.Write(ref _state, Over);
        }
    }

    internal void Connecting(Session session)
    {
        if (_server is null) return;
        using Callback callback = new(this);
        if (!callback.MayRun) return;
        _link = _server.Create();
        _link.Accepted(session);
    }

    internal void Handshaking(Session session)
    {
        using Callback callback = new(this);
        if (!callback.MayRun) return;
        _isTls = true;
        _link!.Up(session, isTls: true);
        _link.Handshaking(session);
    }

    internal void Connected(Session session)
    {
        using Callback callback = new(this);
        if (!callback.MayRun) return;
        if (_isTls) _link!.Handshaked(session);
        else _link!.Up(session, isTls: false);
    }

    internal void Received(Session session, ReadOnlySpan<byte> data)
    {
        using Callback callback = new(this);
        if (callback.MayRun) _link!.Received(session, data);
    }

    /// <summary>Delivers data that waited for calls of Receive, and uses callbacks from now on.</summary>
    internal void StopManual(Session session)
    {
        using Callback callback = new(this);
        if (callback.MayRun) _link!.StopManual(session);
    }

    internal void Sent(long sent, long pending)
    {
        using Callback callback = new(this);
        if (callback.MayRun) _link!.Sent(sent, pending);
    }

    internal void Drained()
    {
        using Callback callback = new(this);
        if (callback.MayRun) _link!.Drained();
    }

    internal void Disconnecting(Session session, CloseReason reason)
    {
        using Callback callback = new(this);
        if (callback.MayRun) _link?.Leaving(session, reason);
    }

    /// <summary>Called for attempts without a connection, too.</summary>
    internal void Disconnected(Session session, CloseReason reason)
    {
        if (reason.Cause == CloseCause.HandedOver || !TryEnter(out Link? before)) return;
        try
        {
            _link?.Down(session, reason);
        }
        finally
        {
            Link.Enter(before);
            Volatile.Write(ref _state, Over);
        }
    }

    /// <summary>Called after an exception in user code. If it created no session, the server reports the
    /// error.</summary>
    internal void Threw()
    {
        // Over: the last callback, or the one before it, has thrown.
        bool isOver = Volatile.Read(ref _state) == Over;
        Link? before = null;
        if (isOver) before = Link.Enter(_link);
        else if (!TryEnter(out before)) return;
        try
        {
            if (_link is { } link) link.Threw();
            else _server?.Failed(SocketError.SocketError);
        }
        finally
        {
            if (isOver) Link.Enter(before);
            else Leave(before);
        }
    }

    /// <summary>Scope of one callback of the connection on this thread.</summary>
    private readonly ref struct Callback : IDisposable
    {
        private readonly BridgeEnd _end;
        private readonly Link? _before;

        internal Callback(BridgeEnd end)
        {
            _end = end;
            MayRun = end.TryEnter(out _before);
        }

        /// <summary>False if the end was claimed: nothing more is reported.</summary>
        internal bool MayRun { get; }

        public void Dispose()
        {
            if (MayRun) _end.Leave(_before);
        }
    }
}
