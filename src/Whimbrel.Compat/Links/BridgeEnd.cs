using System.Diagnostics;
using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>
/// Reports what happens to a native session to its link, one callback at a time. The thread that runs a callback
/// is inside. A thread that disconnects takes the end when no thread is inside: then it reports the end itself, and
/// nothing more is reported. Otherwise the thread inside reports the end when its callback has returned.
/// </summary>
internal sealed class BridgeEnd
{
    private const int Idle = 0, Inside = 1, InsideLast = 2, Taken = 3, Over = 4;
    private const int GraceMs = 5;

    private readonly ServerLink? _server;
    private int _state;
    private int _thread; // that is inside
    private Session? _last; // the session that ends after the callback, with InsideLast
    private Link? _link;
    private bool _isTls;

    /// <summary>Of a client.</summary>
    internal BridgeEnd(Link link) => _link = link;

    /// <summary>Of a server: the link comes with the first callback, because the user's code that makes it may block.</summary>
    internal BridgeEnd(ServerLink server) => _server = server;

    /// <summary>The user's session overrides what only a <see cref="TellingBridge"/> is told. A client's bridge was made accordingly.</summary>
    internal bool WantsTelling => _server is not null && _link is { Owner: var owner } && (owner.WantsSent || owner.WantsEmpty);

    /// <summary>The user's class, in messages.</summary>
    internal string OwnerName => _link?.Owner.GetType().Name ?? $"a session of {_server?.OwnerName}";

    /// <summary>This thread runs a callback of the connection.</summary>
    internal bool IsInsideHere =>
        Volatile.Read(ref _state) is Inside or InsideLast && _thread == Environment.CurrentManagedThreadId;

    /// <summary>Called by a thread that disconnects.</summary>
    /// <param name="session">The session that ends.</param>
    /// <returns>True: the caller reports the end. False: the thread inside does, or the end was taken before.</returns>
    internal bool TryTakeEnd(Session session)
    {
        // A callback that is about to return is waited for: most callers expect that OnDisconnected was called when
        // Disconnect returns.
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

    /// <summary>What waited for calls of Receive is reported from now on.</summary>
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

    /// <summary>Also when there never was a connection.</summary>
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

    /// <summary>Where the user's code has not made a session, the server is told.</summary>
    internal void Threw()
    {
        // Over: the last callback has thrown itself, or the one that it followed.
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

    /// <summary>One callback of the connection, on this thread, until it is disposed.</summary>
    private readonly ref struct Callback : IDisposable
    {
        private readonly BridgeEnd _end;
        private readonly Link? _before;

        internal Callback(BridgeEnd end)
        {
            _end = end;
            MayRun = end.TryEnter(out _before);
        }

        /// <summary>False: the end was taken, and nothing more is reported.</summary>
        internal bool MayRun { get; }

        public void Dispose()
        {
            if (MayRun) _end.Leave(_before);
        }
    }
}
