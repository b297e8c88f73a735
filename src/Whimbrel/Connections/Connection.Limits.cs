using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// The time limits of the session, while it is connected: the timer of the connection's deadlines looks now and then (<see cref="TimeLimits"/>), and the
/// session hears of what has passed. A handshake and the end have deadlines of their own, by the same timer.
/// </summary>
internal sealed partial class Connection
{
    /// <summary>How long it was not read so far. Any thread; about.</summary>
    internal long HeldMs => Volatile.Read(ref _tenancy.HeldMs);

    /// <summary>The timer serves the limits now: no handshake runs, and no end.</summary>
    private bool IsLimited => State == ConnectionState.Open && WasConnected && _tenancy.Tls is not { IsTimed: true };

    /// <summary>Another session took over, or a handshake that had the timer is done. No callback is due here.</summary>
    private void LookInNextTurn()
    {
        if (IsLimited && Session.LimitsOn(Shard) is not null) StartDeadline(TimeSpan.Zero);
    }

    /// <summary>Something was set that is due before the next look. Inside a callback, perhaps.</summary>
    internal void LookIn(uint generation, long ms)
    {
        if (generation != Generation || !IsLimited) return;
        Session.Limits?.LooksAt(Loop.Engine.NowMs + ms);
        StartDeadline(TimeSpan.FromMilliseconds(ms));
    }

    /// <summary>Where OnTimeout may come. Nothing without limits.</summary>
    private void LookAtLimits()
    {
        if (!IsLimited || Session.LimitsOn(Shard) is not { } limits) return;
        bool isTaking = _tenancy.Gate == ReceiveGate.None && Strand is not { IsTaking: true };
        // What is queued and not under way leaves with the next flush: only a send that lasts says something about the peer.
        Traffic traffic = new(_tenancy.BytesReceived, _tenancy.BytesSent, isTaking && _tenancy.Life.Peer == PeerHalf.Open, _tenancy.HeldMs, _tenancy.SendInFlight);
        TimeLimit passed = limits.Look(Loop.Engine.NowMs, traffic);
        if (passed != TimeLimit.None) TellTimeout(limits, ReasonOf(passed, limits));
        // It may have ended, handed over, or begun to shake hands.
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

    /// <summary>The gate is about to be shut, or was just opened.</summary>
    private void CountHeldTime(bool isShut)
    {
        // One at least: whoever was not listened to, however shortly, begins anew.
        if (!isShut) _tenancy.HeldMs += Math.Max(1, Loop.TimeMs - _tenancy.HeldFromMs);
        else _tenancy.HeldFromMs = Loop.TimeMs;
    }
}
