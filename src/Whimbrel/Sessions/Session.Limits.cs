using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// How long a session waits: for anything, for the peer to send, for the peer to take, and for a phase of its protocol. The limits are looked at now and
/// then (docs/design/0024), so that a byte costs nothing and a phase that begins anew a few stores.
/// </summary>
public abstract partial class Session
{
    private TimeLimits? _limits;

    /// <summary>
    /// As <see cref="ConnectionOptions.IdleTimeout"/>, which it is until it is set; zero is never. Its time begins anew when it is set. Any thread. Ends with the session: the next one
    /// in a hand-over has its own.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Neither zero nor 100 ms up to 7 days.</exception>
    public TimeSpan IdleTimeout
    {
        get => GetTimeout(TimeLimit.Idle);
        set => SetTimeout(TimeLimit.Idle, value, nameof(IdleTimeout));
    }

    /// <summary>As <see cref="ConnectionOptions.ReceiveTimeout"/>, which it is until it is set; zero is never. The rest as <see cref="IdleTimeout"/>.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Neither zero nor 100 ms up to 7 days.</exception>
    public TimeSpan ReceiveTimeout
    {
        get => GetTimeout(TimeLimit.Receive);
        set => SetTimeout(TimeLimit.Receive, value, nameof(ReceiveTimeout));
    }

    /// <summary>As <see cref="ConnectionOptions.SendTimeout"/>, which it is until it is set; zero is never. The rest as <see cref="IdleTimeout"/>.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Neither zero nor 100 ms up to 7 days.</exception>
    public TimeSpan SendTimeout
    {
        get => GetTimeout(TimeLimit.Send);
        set => SetTimeout(TimeLimit.Send, value, nameof(SendTimeout));
    }

    /// <summary>
    /// From now on this phase runs, instead of the one before. When it takes longer than its limit, <see cref="OnTimeout"/> is told, with cause
    /// <see cref="CloseCause.PhaseTimeout"/>; never early, and some 20 ms late. Costs a look at a coarse clock and a few stores, so that each message may
    /// begin one; the first of a session allocates. It runs on in a pause, under back-pressure and after the peer's end; a handshake
    /// (<see cref="UpgradeToTls"/>) has its own deadline, and after it the phase is looked at again. Before OnConnected it is begun and
    /// not looked at. The session's thread only.
    /// </summary>
    /// <param name="phase">Its name, limit and rate.</param>
    protected void BeginPhase(SessionPhase phase)
    {
        ArgumentNullException.ThrowIfNull(phase);
        if (PhaseConnection(nameof(BeginPhase)) is not { } connection) return;
        TimeLimits limits = _limits ?? NewLimits();
        // Behind the clock that timers go by, never in front of it.
        long nowMs = Loop.Engine.CoarseMs + Engine.CoarseLagMs;
        limits.Begin(phase, nowMs, connection.BytesReceived, connection.HeldMs);
        if (connection.Strand is not null) Interlocked.MemoryBarrier();
        if (nowMs + phase.LimitMs < limits.NextLookMs) AskForLook(connection, phase.LimitMs);
    }

    /// <summary>No phase runs any more. The session's thread only.</summary>
    protected void EndPhase()
    {
        if (_limits?.Phase is not null && PhaseConnection(nameof(EndPhase)) is not null) _limits.Begin(null, 0, 0, 0);
    }

    /// <summary>
    /// A time limit has passed: of silence (<see cref="IdleTimeout"/>, <see cref="ReceiveTimeout"/>, <see cref="SendTimeout"/>) or of a phase. The default
    /// ends the connection for this reason: by a close, so that what is queued still leaves, and for a peer that takes nothing by an abort.
    /// An override may say something first, or do something else: then a silence begins anew, and the phase is over.
    /// </summary>
    /// <param name="reason">Which, as the reason of an end.</param>
    protected virtual void OnTimeout(CloseReason reason)
    {
        if (reason.Cause == CloseCause.SendTimeout) AbortWith(reason);
        else CloseWith(reason);
    }

    internal void CallTimeout(CloseReason reason) => OnTimeout(reason);

    internal TimeLimits? Limits => _limits;

    /// <summary>Its limits, with what the options say; null when there is none. Loop's thread.</summary>
    internal TimeLimits? LimitsOn(HostShard shard)
    {
        ConnectionOptions options = shard.Options;
        if (_limits is null && !shard.HasTimeouts) return null;
        TimeLimits limits = _limits ?? NewLimits();
        limits.SetDefault(TimeLimit.Idle, Loop.WholeMs(options.IdleTimeout));
        limits.SetDefault(TimeLimit.Receive, Loop.WholeMs(options.ReceiveTimeout));
        limits.SetDefault(TimeLimit.Send, Loop.WholeMs(options.SendTimeout));
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
            TimeLimit.Idle => options.IdleTimeout,
            TimeLimit.Receive => options.ReceiveTimeout,
            _ => options.SendTimeout,
        };
    }

    private void SetTimeout(TimeLimit which, TimeSpan value, string name)
    {
        if (value != TimeSpan.Zero && (value < ConnectionOptions.LeastTimeout || value > ConnectionOptions.MostTimeout)) Throw.OutOfRange(name, value, "zero, or 100 ms up to 7 days");
        TimeLimits limits = _limits ?? NewLimits();
        long ms = Loop.WholeMs(value);
        limits.Set(which, ms);
        if (_connection is { } connection && TimeLimits.FirstLookMs(connection.Loop.Engine.CoarseMs, ms) < limits.NextLookMs) AskForLook(connection, 0);
    }

    private void AskForLook(Connection connection, long inMs)
    {
        if (connection.Loop.IsCurrent) connection.LookIn(_generation, inMs);
        else connection.Loop.PostControl(static (_, c, _, g) => ((Connection)c!).LookIn((uint)g, 0), connection, null, _generation);
    }

    /// <summary>Null when the connection has ended under a callback on the pool.</summary>
    private Connection? PhaseConnection(string member)
    {
        if (_connection is not { } connection)
        {
            if (_loop is null) Throw.State("The session has no connection yet.");
            return null;
        }

        StrandHere(connection, member);
        return connection;
    }
}
