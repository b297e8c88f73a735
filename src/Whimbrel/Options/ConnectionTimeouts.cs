namespace Whimbrel;

/// <summary>
/// Time limits of each connection of a server or client. Immutable; part of <see cref="ServerOptions.Timeouts"/> and
/// <see cref="ClientOptions.Timeouts"/>.
/// </summary>
public class ConnectionTimeouts
{
    internal static readonly TimeSpan Least = TimeSpan.FromMilliseconds(100);
    internal static readonly TimeSpan Most = TimeSpan.FromDays(7);

    /// <summary>
    /// Maximum time that a closing connection may make no progress, without the peer accepting a byte, before it is
    /// reset. 10 ms to 1 hour; default 5 s.
    /// </summary>
    public TimeSpan Drain { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Maximum total duration of a close, also if the peer accepts bytes all the time; then the connection is reset.
    /// <see cref="Drain"/> to 7 days. Default zero: ten times <see cref="Drain"/>, at least one minute.
    /// </summary>
    public TimeSpan DrainTotal { get; init; }

    internal TimeSpan DrainTotalOrDefault => DrainTotal > TimeSpan.Zero ? DrainTotal
        : Drain > TimeSpan.FromSeconds(6) ? Drain * 10
        : TimeSpan.FromMinutes(1);

    /// <summary>
    /// Time over which a stop of a server spreads the calls of <see cref="Session"/>.OnServerStopping, so that clients
    /// do not all reconnect at the same moment: the oldest session first, the last one at the end. The deadline of the
    /// stop shortens it, so that the last session has <see cref="Drain"/> left, or half of the deadline. 0 to 1 hour;
    /// default zero, all at once. Without effect for clients.
    /// </summary>
    public TimeSpan DrainWindow { get; init; }

    /// <summary>
    /// Time without any byte received or sent after which a connection is closed with cause
    /// <see cref="CloseCause.IdleTimeout"/>: never earlier, and at most a quarter later. Includes pauses. 100 ms to 7
    /// days; default zero, never.
    /// </summary>
    public TimeSpan Idle { get; init; }

    /// <summary>
    /// Time without received bytes after which a connection is closed with cause
    /// <see cref="CloseCause.ReceiveTimeout"/>: never earlier, and at most a quarter later. Runs only while the
    /// connection is read and has nothing to send. It does not run in a pause, under back-pressure, while callbacks on
    /// the pool have not consumed received data, or after the peer's end of stream, and starts again after those. For
    /// protocols with regular messages of the peer. A session that knows when data must arrive sets its own
    /// (<see cref="Session.ReceiveTimeout"/>). 100 ms to 7 days; default zero, never.
    /// </summary>
    public TimeSpan Receive { get; init; }

    /// <summary>
    /// Time during which the peer accepts no byte of pending data, after which a connection is aborted with cause
    /// <see cref="CloseCause.SendTimeout"/>: never earlier, and at most a quarter later. Does not run during a
    /// handshake or after a close, which have their own limits. 100 ms to 7 days; default zero, never: then
    /// <see cref="ConnectionLimits.SendBytes"/> ends connections with slow peers, and the kernel those with lost peers.
    /// </summary>
    public TimeSpan Send { get; init; }

    internal virtual void Check(OptionErrors errors)
    {
        errors.Range("Timeouts.Drain", Drain, TimeSpan.FromMilliseconds(10), TimeSpan.FromHours(1));
        errors.RangeOrZero("Timeouts.DrainTotal", DrainTotal, Drain, TimeSpan.FromDays(7));
        errors.Range("Timeouts.DrainWindow", DrainWindow, TimeSpan.Zero, TimeSpan.FromHours(1));
        errors.RangeOrZero("Timeouts.Idle", Idle, Least, Most);
        errors.RangeOrZero("Timeouts.Receive", Receive, Least, Most);
        errors.RangeOrZero("Timeouts.Send", Send, Least, Most);
    }
}
