namespace Whimbrel.Connections;

/// <summary>
/// A session callback as data: its call and its consequences, defined once for connections that call it themselves and
/// for strands that queue it. A new callback needs the override in Session, an entry here, and a <c>Tell</c> where it
/// is due.
/// </summary>
/// <remarks>
/// Both drivers do the same: call it in a try block; call the host (<see cref="Behind"/>); send the messages that it
/// queued; hand over if it requested that. Callbacks of receiving, with data and back-pressure, are not of this kind
/// (<c>Offer</c> of either driver).
/// </remarks>
internal sealed class SessionCallback(string name, Action<Session, object?> call)
{
    private static int s_bits;

    internal static readonly SessionCallback Connecting = new("OnConnecting",
        static (session, _) => session.CallConnecting())
    {
        IsDue = static (_, _) => true,
        Behind = static (host, session, _, isOver) =>
        {
            if (!isOver) host.SessionBegan(session);
        },
        // Posted in the data lane with the requests of the callback: its Close is there, and the control lane would be
        // faster.
        Returned =
            static (pool, _) => pool.OnLoop(static (connection, hasEnded) => connection.StrandConnecting(hasEnded)),
    };

    internal static readonly SessionCallback Handshaking = new("OnTlsHandshakeStarting",
        static (session, _) => session.CallTlsHandshakeStarting())
    {
        Returned =
            static (pool, _) => pool.OnLoop(static (connection, hasEnded) => connection.StrandHandshaking(hasEnded)),
    };

    /// <summary>Argument: the TlsInfo.</summary>
    internal static readonly SessionCallback Handshaked = new("OnTlsHandshakeCompleted",
        static (session, _) => session.CallTlsHandshakeCompleted())
    {
        Returned = static (pool, info) => pool.HandshakedReturned((TlsInfo)info!),
    };

    internal static readonly SessionCallback Connected = new("OnConnected",
        static (session, _) => session.CallConnected())
    {
        IsDue = static (_, _) => true,
        // Before a hand-over that it requested, because the host must not be notified of the next session first.
        Behind = static (host, session, _, _) => host.SessionConnected(session),
    };

    /// <summary>For a session that took over: the host already knows the connection.</summary>
    internal static readonly SessionCallback ConnectedByHandOver = new("OnConnected",
        static (session, _) => session.CallConnected())
    {
        IsDue = static (_, _) => true,
        Behind = static (host, session, _, _) => host.SessionTookOver(session),
    };

    internal static readonly SessionCallback PeerFinished = new("OnEndOfStream",
        static (session, _) => session.CallEndOfStream())
    {
        Returned = static (pool, _) => pool.OnLoop(static (connection, _) => connection.StrandFinished()),
    };

    internal static readonly SessionCallback Sent = new("OnSent", static (session, _) => session.CallSent());

    /// <summary>
    /// If sends since then exceed the low-water mark again, OnDrained is called after the next drain.
    /// </summary>
    internal static readonly SessionCallback Drained = new("OnDrained", static (session, _) => session.CallDrained())
    {
        Bit = 1 << s_bits++,
        IsDue = static (pool, _) => !pool.IsEnded
            && pool.Session.PendingBytes <= pool.Session.LowWaterMarkBytes,
    };

    internal static readonly SessionCallback ServerStopping = new("OnServerStopping",
        static (session, _) => session.CallServerStopping());

    /// <summary>Argument: the reason, on the pool, where the connection may already have ended.</summary>
    internal static readonly SessionCallback Disconnecting = new("OnDisconnecting",
        static (session, reason) => session.CallDisconnecting(ReasonOf(session, reason)))
    {
        IsDue = static (_, _) => true,
        Behind = static (host, session, reason, _) => host.SessionDisconnecting(session, ReasonOf(session, reason)),
        Returned = static (pool, _) => pool.SaidDisconnecting = true,
    };

    /// <summary>Argument: the timer, of which one firing is queued at a time.</summary>
    internal static readonly SessionCallback Timer = new("OnTimer",
        static (session, timer) => session.CallTimer((LoopTimer)timer!))
    {
        IsDue = static (pool, of) =>
        {
            LoopTimer timer = (LoopTimer)of!;
            bool isDue = timer.IsQueued;
            timer.IsQueued = false;
            return isDue && !pool.IsEnded && !pool.IsSwitching && !timer.IsCancelled;
        },
    };

    private static readonly SessionCallback s_idleTimeout = Timeout();
    private static readonly SessionCallback s_receiveTimeout = Timeout();
    private static readonly SessionCallback s_sendTimeout = Timeout();
    private static readonly SessionCallback s_phaseTimeout = Timeout();

    internal string Name { get; } = name;

    internal Action<Session, object?> Call { get; } = call;

    /// <summary>
    /// Bit of a callback that is queued only once on the pool until it has run. 0: each call is queued.
    /// </summary>
    internal int Bit { get; private init; }

    /// <summary>
    /// On the pool: decides whether the callback still runs when it is dequeued. Null: unless the session has ended the
    /// connection.
    /// </summary>
    internal Func<PoolSession, object?, bool>? IsDue { get; init; }

    /// <summary>
    /// Calls the host after the callback has returned or thrown; the last argument is true if the connection is ending.
    /// </summary>
    internal Action<ConnectionHost, Session, object?, bool>? Behind { get; init; }

    /// <summary>
    /// On the pool: called after the callback, or instead of it if it was no longer due. On the loop the calling code
    /// continues by itself.
    /// </summary>
    internal Action<PoolSession, object?>? Returned { get; init; }

    /// <summary>
    /// Returns the OnTimeout callback; argument: a <see cref="PassedLimit"/>. One for each limit: while a callback
    /// blocks, a limit may pass repeatedly and is reported once.
    /// </summary>
    internal static SessionCallback TimeoutOf(CloseCause cause) => cause switch
    {
        CloseCause.IdleTimeout => s_idleTimeout,
        CloseCause.ReceiveTimeout => s_receiveTimeout,
        CloseCause.SendTimeout => s_sendTimeout,
        _ => s_phaseTimeout,
    };

    private static SessionCallback Timeout() => new("OnTimeout",
        static (session, passed) => session.CallTimeout(((PassedLimit)passed!).Reason))
    {
        Bit = 1 << s_bits++,
        // A phase timeout is reported unless the session has entered another phase by then.
        IsDue = static (pool, of) =>
        {
            PassedLimit passed = (PassedLimit)of!;
            if (pool.IsEnded || pool.IsSwitching || !ReferenceEquals(pool.Session.Limits, passed.Limits))
                return false;
            return passed.Reason.Cause != CloseCause.PhaseTimeout || !passed.Limits.HasMovedOn;
        },
    };

    private static CloseReason ReasonOf(Session session, object? reason) =>
        reason as CloseReason? ?? session.Connection!.Reason;
}

/// <summary>A time limit that has passed, with the close reason.</summary>
internal sealed record PassedLimit(TimeLimits Limits, CloseReason Reason);
