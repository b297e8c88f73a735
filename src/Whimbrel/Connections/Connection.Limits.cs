using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// Time limits of the session while it is connected. The timer of the connection's deadlines checks them periodically
/// (<see cref="TimeLimits"/>), and the session is called for a limit that has passed. A handshake and the end have
/// deadlines of their own, on the same timer.
/// </summary>
internal sealed partial class Connection
{
    /// <summary>Total time for which the connection was not read. Any thread; approximate.</summary>
    internal long HeldMs => Volatile.Read(ref _tenancy.HeldMs);

    /// <summary>True if the timer serves the limits now: no handshake and no end is in progress.</summary>
    private bool IsLimited => State == ConnectionState.Open && WasConnected && _tenancy.Tls is not { IsTimed: true };

    /// <summary>
    /// Checks the limits in the next turn, after a hand-over or after a handshake that used the timer. Calls nothing.
    /// </summary>
    private void LookInNextTurn()
    {
        if (IsLimited && Session.LimitsOn(Shard) is not null) StartDeadline(TimeSpan.Zero);
    }

    /// <summary>
    /// Checks the limits after this time, because a limit was set that ends before the next check. May be inside a
    /// callback.
    /// </summary>
    internal void LookIn(uint generation, long ms)
    {
        if (generation != Generation || !IsLimited) return;
        Session.Limits?.LooksAt(Loop.Engine.NowMs + ms);
        StartDeadline(TimeSpan.FromMilliseconds(ms));
    }

    /// <summary>Checks the limits, and may call OnTimeout. Does nothing without limits.</summary>
    private void LookAtLimits()
    {
        if (!IsLimited || Session.LimitsOn(Shard) is not { } limits) return;
        bool isTaking = IsReading && Pool is not { IsTaking: true };
        // Queued data without a send in progress leaves with the next flush. Only a send that is in progress for long
        // indicates a slow peer.
        Traffic traffic = new(_tenancy.BytesReceived, Outbound.BytesSent,
            isTaking && _tenancy.Life.Peer == PeerHalf.Open, _tenancy.HeldMs, Outbound.IsSendInFlight);
        TimeLimit passed = limits.Look(Loop.Engine.NowMs, traffic);
        if (passed != TimeLimit.None) TellTimeout(limits, ReasonOf(passed, limits));
        // The callback may have ended the connection, handed it over, or started a handshake.
        if (!IsLimited || !ReferenceEquals(Session.Limits, limits) || limits.NextLookMs == long.MaxValue) return;
        StartDeadline(TimeSpan.FromMilliseconds(Math.Max(0, limits.NextLookMs - Loop.Engine.NowMs)));
    }

    private static CloseReason ReasonOf(TimeLimit passed, TimeLimits limits) => passed switch
    {
        TimeLimit.Idle => new CloseReason(CloseCause.IdleTimeout),
        TimeLimit.Receive => new CloseReason(CloseCause.ReceiveTimeout),
        TimeLimit.Send => new CloseReason(CloseCause.SendTimeout),
        _ => new CloseReason(CloseCause.PhaseTimeout, 0, new TimeoutException(limits.PassedPhase!.TimeoutText)),
    };

    private void TellTimeout(TimeLimits limits, CloseReason reason)
    {
        if (Tell(SessionCallback.TimeoutOf(reason.Cause), new PassedLimit(limits, reason))) AfterCallback();
    }

    /// <summary>Called before the gate is shut and after it was opened.</summary>
    private void CountHeldTime(bool isShut)
    {
        // At least one: a peer that was not read for however short a time gets its full time again.
        if (!isShut) _tenancy.HeldMs += Math.Max(1, Loop.TimeMs - _tenancy.HeldFromMs);
        else _tenancy.HeldFromMs = Loop.TimeMs;
    }
}
