using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Timeouts of a session: idle, receive, send, and phases of its protocol. The loop checks them at intervals
/// (docs/design/0024), so a received byte costs nothing and the start of a phase only a few stores.
/// </summary>
public abstract partial class Session
{
    private TimeLimits? _limits;

    /// <summary>
    /// Idle timeout of this session. <see cref="ConnectionTimeouts.Idle"/> until it is set; zero disables it.
    /// Setting it restarts its time. Any thread. Ends with the session: in a hand-over the next session has its own.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is neither zero nor 100 ms to 7 days.</exception>
    public TimeSpan IdleTimeout
    {
        get => GetTimeout(TimeLimit.Idle);
        set => SetTimeout(TimeLimit.Idle, value, nameof(IdleTimeout));
    }

    /// <summary>
    /// Receive timeout of this session. <see cref="ConnectionTimeouts.Receive"/> until it is set; zero disables
    /// it. Otherwise as <see cref="IdleTimeout"/>.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is neither zero nor 100 ms to 7 days.</exception>
    public TimeSpan ReceiveTimeout
    {
        get => GetTimeout(TimeLimit.Receive);
        set => SetTimeout(TimeLimit.Receive, value, nameof(ReceiveTimeout));
    }

    /// <summary>
    /// Send timeout of this session. <see cref="ConnectionTimeouts.Send"/> until it is set; zero disables it.
    /// Otherwise as <see cref="IdleTimeout"/>.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is neither zero nor 100 ms to 7 days.</exception>
    public TimeSpan SendTimeout
    {
        get => GetTimeout(TimeLimit.Send);
        set => SetTimeout(TimeLimit.Send, value, nameof(SendTimeout));
    }

    /// <summary>
    /// Starts a phase and ends the previous one. If it takes longer than its limit, <see cref="OnTimeout"/> is called
    /// with cause <see cref="CloseCause.PhaseTimeout"/>: never early, and about 20 ms late. Cheap enough for every
    /// message; only the first phase of a session allocates. The time also runs during a pause, under back-pressure and
    /// after the peer's end of stream. A handshake (<see cref="UpgradeToTls"/>) has its own deadline; the phase is
    /// checked again after it. Before OnConnected a phase may be started, but is not checked. The session's thread
    /// only.
    /// </summary>
    /// <param name="phase">Name, limit and minimum rate of the phase.</param>
    protected void BeginPhase(SessionPhase phase)
    {
        ArgumentNullException.ThrowIfNull(phase);
        if (PhaseConnection(nameof(BeginPhase)) is not { } connection) return;
        TimeLimits limits = _limits ?? NewLimits();
        // Rounded up to a time that the coarse clock cannot have passed yet: a phase must never end early.
        long nowMs = Loop.Engine.CoarseMs + Engine.CoarseLagMs;
        limits.Begin(phase, nowMs, connection.BytesReceived, connection.HeldMs);
        if (connection.Pool is not null) Interlocked.MemoryBarrier();
        if (nowMs + phase.LimitMs < limits.NextLookMs) AskForLook(connection, phase.LimitMs);
    }

    /// <summary>Ends the current phase. The session's thread only.</summary>
    protected void EndPhase()
    {
        if (_limits?.Phase is not null && PhaseConnection(nameof(EndPhase)) is not null) _limits.Begin(null, 0, 0, 0);
    }

    /// <summary>
    /// Called when <see cref="IdleTimeout"/>, <see cref="ReceiveTimeout"/>, <see cref="SendTimeout"/> or a phase has
    /// passed. The default ends the connection for this reason: with a close, so that queued data is still sent; for a
    /// send timeout with an abort. An override may send a message first or do something else: the timeout then starts
    /// again, and a phase is over.
    /// </summary>
    /// <param name="reason">Timeout that has passed, as the reason of an end.</param>
    protected virtual void OnTimeout(CloseReason reason)
    {
        if (reason.Cause == CloseCause.SendTimeout) AbortWith(reason);
        else CloseWith(reason);
    }

    internal void CallTimeout(CloseReason reason) => OnTimeout(reason);

    internal TimeLimits? Limits => _limits;

    /// <summary>
    /// Returns the session's timeouts combined with those of the options, or null if there are none. Loop's thread.
    /// </summary>
    internal TimeLimits? LimitsOn(HostShard shard)
    {
        ConnectionOptions options = shard.Options;
        if (_limits is null && !shard.HasTimeouts) return null;
        TimeLimits limits = _limits ?? NewLimits();
        limits.SetDefault(TimeLimit.Idle, Loop.WholeMs(options.CommonTimeouts.Idle));
        limits.SetDefault(TimeLimit.Receive, Loop.WholeMs(options.CommonTimeouts.Receive));
        limits.SetDefault(TimeLimit.Send, Loop.WholeMs(options.CommonTimeouts.Send));
        return limits;
    }

    private TimeLimits NewLimits()
    {
        TimeLimits limits = new();
        return Interlocked.CompareExchange(ref _limits, limits, null) ?? limits;
    }

    private TimeSpan GetTimeout(TimeLimit which)
    {
        if (_limits?.Get(which) is { } ms) return TimeSpan.FromMilliseconds(ms);
        if (_host?.Options is not { } options) return TimeSpan.Zero;
        return which switch
        {
            TimeLimit.Idle => options.CommonTimeouts.Idle,
            TimeLimit.Receive => options.CommonTimeouts.Receive,
            _ => options.CommonTimeouts.Send,
        };
    }

    private void SetTimeout(TimeLimit which, TimeSpan value, string name)
    {
        if (value != TimeSpan.Zero && (value < ConnectionTimeouts.Least || value > ConnectionTimeouts.Most))
            Throw.OutOfRange(name, value, "zero, or 100 ms up to 7 days");
        TimeLimits limits = _limits ?? NewLimits();
        long ms = Loop.WholeMs(value);
        limits.Set(which, ms);
        if (_connection is { } connection
            && TimeLimits.FirstLookMs(connection.Loop.Engine.CoarseMs, ms) < limits.NextLookMs)
            AskForLook(connection, 0);
    }

    private void AskForLook(Connection connection, long inMs)
    {
        if (connection.Loop.IsCurrent) connection.LookIn(_generation, inMs);
        else connection.Loop.PostControl(static (_, c, _, g) => ((Connection)c!).LookIn((uint)g, 0), connection, null,
            _generation);
    }

    /// <summary>Returns null if the connection has ended while a callback runs on the pool.</summary>
    private Connection? PhaseConnection(string member)
    {
        if (_connection is not { } connection)
        {
            if (_loop is null) Throw.State("The session has no connection yet.");
            return null;
        }

        PoolHere(connection, member);
        return connection;
    }
}
