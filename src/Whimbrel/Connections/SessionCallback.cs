namespace Whimbrel.Connections;

/// <summary>
/// A callback of sessions as data: how it is called, and what goes with it, written once for connections that call it themselves and for
/// strands, where its turn comes later. A new one is the override in Session, an entry here, and a <c>Tell</c> where it is due.
/// </summary>
/// <remarks>
/// Both drivers do the same: call it, fenced; tell the host (<see cref="Behind"/>); send what it sent; hand over, if it asked for that. What
/// receiving calls, with bytes and back-pressure around it, is not of this kind (<c>Offer</c> of either).
/// </remarks>
internal sealed class SessionCallback(string name, Action<Session, object?> call)
{
    private static int s_bits;

    internal static readonly SessionCallback Connecting = new("OnConnecting", static (session, _) => session.CallConnecting())
    {
        IsDue = static (_, _) => true,
        Behind = static (host, session, _, isOver) =>
        {
            if (!isOver) host.SessionBegan(session);
        },
        // With what the callback asked for: its Close is in the data lane, and the control lane is quicker.
        Returned = static (strand, _) => strand.GoOn(static (connection, hasEnded) => connection.StrandConnecting(hasEnded)),
    };

    internal static readonly SessionCallback Handshaking = new("OnTlsHandshakeStarting", static (session, _) => session.CallTlsHandshakeStarting())
    {
        Returned = static (strand, _) => strand.GoOn(static (connection, hasEnded) => connection.StrandHandshaking(hasEnded)),
    };

    /// <summary>With the TlsInfo.</summary>
    internal static readonly SessionCallback Handshaked = new("OnTlsHandshakeCompleted", static (session, _) => session.CallTlsHandshakeCompleted())
    {
        Returned = static (strand, info) => strand.HandshakedReturned((TlsInfo)info!),
    };

    internal static readonly SessionCallback Connected = new("OnConnected", static (session, _) => session.CallConnected())
    {
        IsDue = static (_, _) => true,
        // Before a hand-over that it asked for: the host must not hear of the next session first.
        Behind = static (host, session, _, _) => host.SessionConnected(session),
    };

    /// <summary>Of who took over: to the host it is the connection that it knows.</summary>
    internal static readonly SessionCallback ConnectedByHandOver = new("OnConnected", static (session, _) => session.CallConnected())
    {
        IsDue = static (_, _) => true,
        Behind = static (host, session, _, _) => host.SessionTookOver(session),
    };

    internal static readonly SessionCallback PeerFinished = new("OnEndOfStream", static (session, _) => session.CallEndOfStream())
    {
        Returned = static (strand, _) => strand.GoOn(static (connection, _) => connection.StrandFinished()),
    };

    internal static readonly SessionCallback Sent = new("OnSent", static (session, _) => session.CallSent());

    /// <summary>What was sent meanwhile, above the mark, is drained later, and told then.</summary>
    internal static readonly SessionCallback Drained = new("OnDrained", static (session, _) => session.CallDrained())
    {
        Bit = 1 << s_bits++,
        IsDue = static (strand, _) => !strand.IsEnded && strand.Session.PendingBytes <= strand.Session.LowWaterMarkBytes,
    };

    internal static readonly SessionCallback ServerStopping = new("OnServerStopping", static (session, _) => session.CallServerStopping());

    /// <summary>With the reason on the pool, where the connection may have ended altogether.</summary>
    internal static readonly SessionCallback Disconnecting = new("OnDisconnecting", static (session, reason) => session.CallDisconnecting(ReasonOf(session, reason)))
    {
        IsDue = static (_, _) => true,
        Behind = static (host, session, reason, _) => host.SessionDisconnecting(session, ReasonOf(session, reason)),
        Returned = static (strand, _) => strand.SaidDisconnecting = true,
    };

    /// <summary>With the timer, which waits for one firing at a time.</summary>
    internal static readonly SessionCallback Timer = new("OnTimer", static (session, timer) => session.CallTimer((LoopTimer)timer!))
    {
        IsDue = static (strand, of) =>
        {
            LoopTimer timer = (LoopTimer)of!;
            bool isDue = timer.IsQueued;
            timer.IsQueued = false;
            return isDue && !strand.IsEnded && !strand.IsSwitching && !timer.IsCancelled;
        },
    };

    private static readonly SessionCallback s_idleTimeout = Timeout();
    private static readonly SessionCallback s_receiveTimeout = Timeout();
    private static readonly SessionCallback s_sendTimeout = Timeout();
    private static readonly SessionCallback s_phaseTimeout = Timeout();

    internal string Name { get; } = name;

    internal Action<Session, object?> Call { get; } = call;

    /// <summary>On the pool it waits once, however often it is told meanwhile: its bit there. 0: each time is another one.</summary>
    internal int Bit { get; private init; }

    /// <summary>On the pool, when its turn has come. Null: unless the session has ended the connection.</summary>
    internal Func<Strand, object?, bool>? IsDue { get; init; }

    /// <summary>What the host hears when it has returned, thrown or not; the last argument says that the connection is ending.</summary>
    internal Action<ConnectionHost, Session, object?, bool>? Behind { get; init; }

    /// <summary>On the pool, also when it was not due any more. On the loop whoever told it goes on.</summary>
    internal Action<Strand, object?>? Returned { get; init; }

    /// <summary>With a <see cref="PassedLimit"/>. One for each limit: while a callback blocks, a silence passes again and again, and is told once.</summary>
    internal static SessionCallback TimeoutOf(CloseCause cause) => cause switch
    {
        CloseCause.IdleTimeout => s_idleTimeout,
        CloseCause.ReceiveTimeout => s_receiveTimeout,
        CloseCause.SendTimeout => s_sendTimeout,
        _ => s_phaseTimeout,
    };

    private static SessionCallback Timeout() => new("OnTimeout", static (session, passed) => session.CallTimeout(((PassedLimit)passed!).Reason))
    {
        Bit = 1 << s_bits++,
        // That of a phase is told unless its session has moved on by then.
        IsDue = static (strand, of) =>
        {
            PassedLimit passed = (PassedLimit)of!;
            if (strand.IsEnded || strand.IsSwitching || !ReferenceEquals(strand.Session.Limits, passed.Limits)) return false;
            return passed.Reason.Cause != CloseCause.PhaseTimeout || !passed.Limits.HasMovedOn;
        },
    };

    private static CloseReason ReasonOf(Session session, object? reason) => reason as CloseReason? ?? session.Connection!.Reason;
}

/// <summary>A time limit that has passed, and as what it ends the connection.</summary>
internal sealed record PassedLimit(TimeLimits Limits, CloseReason Reason);
