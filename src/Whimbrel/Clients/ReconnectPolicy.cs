namespace Whimbrel;

/// <summary>
/// Policy for automatic reconnects of a <see cref="Client"/> after a connect has failed or a connection has ended.
/// Plain data. The delay begins at <see cref="InitialDelay"/>, is multiplied by <see cref="Factor"/> for each attempt,
/// and is limited by <see cref="MaxDelay"/>. The wait is a random part of the delay, from zero to all ("full jitter"),
/// so that clients that lost the same server do not all return at once. A connection that lived for
/// <see cref="ResetAfter"/> resets the count; a shorter one counts as another failure.
/// </summary>
public sealed class ReconnectPolicy
{
    /// <summary>Maximum wait before the first attempt. 1 ms to 1 hour; default 0.5 s.</summary>
    public TimeSpan InitialDelay { get; init; } = TimeSpan.FromSeconds(0.5);

    /// <summary>Maximum wait before any attempt. <see cref="InitialDelay"/> to 1 day; default 30 s.</summary>
    public TimeSpan MaxDelay { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Factor of the delay for each further attempt. 1 to 100; default 2.</summary>
    public double Factor { get; init; } = 2;

    /// <summary>Whether to wait for a random part of the delay instead of all of it. Default true.</summary>
    public bool Jitter { get; init; } = true;

    /// <summary>Maximum number of attempts. 1 or more; default null, no limit.</summary>
    public int? MaxAttempts { get; init; }

    /// <summary>
    /// Maximum time since the first failure at which an attempt may begin. 1 ms or more; default null, no limit.
    /// </summary>
    public TimeSpan? MaxElapsed { get; init; }

    /// <summary>
    /// Lifetime after which a connection resets the policy: the next failure starts with <see cref="InitialDelay"/> and
    /// attempt 1. Zero to 1 day; default 10 s.
    /// </summary>
    public TimeSpan ResetAfter { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// Whether to retry the first connect of <c>ConnectAsync</c>. That call then completes with the first connection,
    /// or fails when the policy gives up. Default true. If false, the policy starts with the first connection.
    /// </summary>
    public bool RetryFirstConnect { get; init; } = true;

    /// <summary>
    /// Function that returns whether to stop after an end with this reason. Runs on the loop. Default null:
    /// <see cref="IsFinal"/>. The policy always stops after <see cref="Client.DisconnectAsync"/>, a cancelled
    /// <c>ConnectAsync</c>, and the end of the engine.
    /// </summary>
    public Func<CloseReason, bool>? StopWhen { get; init; }

    /// <summary>Default of <see cref="StopWhen"/>: returns true for ends that this side requested.</summary>
    /// <param name="reason">Reason why the last connection or connect ended.</param>
    public static bool IsFinal(CloseReason reason) =>
        reason.Cause is CloseCause.LocalClose or CloseCause.LocalAbort or CloseCause.Cancelled
            or CloseCause.EngineStopped;

    internal void Validate(OptionErrors errors)
    {
        TimeSpan least = TimeSpan.FromMilliseconds(1);
        errors.Range("Reconnect.InitialDelay", InitialDelay, least, TimeSpan.FromHours(1));
        errors.Range("Reconnect.MaxDelay", MaxDelay, InitialDelay, TimeSpan.FromDays(1));
        errors.Range("Reconnect.ResetAfter", ResetAfter, TimeSpan.Zero, TimeSpan.FromDays(1));
        if (!(Factor >= 1 && Factor <= 100)) errors.Add($"Reconnect.Factor = {Factor}, allowed 1 to 100");
        if (MaxAttempts is { } attempts) errors.Range("Reconnect.MaxAttempts", attempts, 1, int.MaxValue);
        if (MaxElapsed is { } elapsed) errors.Range("Reconnect.MaxElapsed", elapsed, least, TimeSpan.MaxValue);
    }

    /// <summary>
    /// Returns the time before an attempt. <paramref name="attempt"/> counts from 1; <paramref name="random"/> is from
    /// 0 to 1.
    /// </summary>
    internal TimeSpan DelayBefore(int attempt, double random)
    {
        // In floating point, because the power overflows to infinity, which Min then limits.
        double most = Math.Min(MaxDelay.TotalMilliseconds,
            InitialDelay.TotalMilliseconds * Math.Pow(Factor, attempt - 1));
        return TimeSpan.FromMilliseconds(Jitter ? most * random : most);
    }
}
