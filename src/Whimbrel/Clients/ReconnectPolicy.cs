namespace Whimbrel;

/// <summary>
/// When a <see cref="Client"/> dials again by itself after a dial has failed or a connection has ended. Plain data. The time
/// before an attempt is a random part, from nothing up to all, of a delay that begins at <see cref="InitialDelay"/>, grows by
/// <see cref="Factor"/> with each attempt and stays at <see cref="MaxDelay"/> ("full jitter": clients that lost the same
/// server do not come back all at once). A connection that lived for <see cref="ResetAfter"/> starts the count anew; a
/// shorter one counts as one more failure.
/// </summary>
public sealed class ReconnectPolicy
{
    /// <summary>Longest time before the first attempt. 1 ms up to an hour; default 0.5 s.</summary>
    public TimeSpan InitialDelay { get; init; } = TimeSpan.FromSeconds(0.5);

    /// <summary>Longest time before any attempt. <see cref="InitialDelay"/> up to a day; default 30 s.</summary>
    public TimeSpan MaxDelay { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>What the delay is multiplied by for each further attempt. 1 up to 100; default 2.</summary>
    public double Factor { get; init; } = 2;

    /// <summary>Wait a random part of the delay; without it, the delay itself. Default true.</summary>
    public bool Jitter { get; init; } = true;

    /// <summary>Attempts before it gives up. 1 or more; null (the default) is no limit.</summary>
    public int? MaxAttempts { get; init; }

    /// <summary>It gives up rather than begin an attempt later than this after the trouble began. 1 ms or more; null (the default) is no limit.</summary>
    public TimeSpan? MaxElapsed { get; init; }

    /// <summary>A connection that lived so long ends the trouble: the next failure begins with <see cref="InitialDelay"/> and attempt 1. Zero up to a day; default 10 s.</summary>
    public TimeSpan ResetAfter { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// Also try again when the dial of <c>ConnectAsync</c> fails; that call then completes with the first connection, or fails
    /// when the policy gives up. Default true. Without it the policy begins with the first connection.
    /// </summary>
    public bool RetryFirstConnect { get; init; } = true;

    /// <summary>
    /// Given the reason of the last end, says whether that was the last attempt. Runs on the loop. Null (the default) is
    /// <see cref="IsFinal"/>. An end that <see cref="Client.DisconnectAsync"/> or a cancelled <c>ConnectAsync</c> asked for, and
    /// one by the end of the engine, are last whatever it says.
    /// </summary>
    public Func<CloseReason, bool>? StopWhen { get; init; }

    /// <summary>The default of <see cref="StopWhen"/>: ends that this side asked for are final, all others are not.</summary>
    /// <param name="reason">Why the last connection or dial ended.</param>
    public static bool IsFinal(CloseReason reason) =>
        reason.Cause is CloseCause.LocalClose or CloseCause.LocalAbort or CloseCause.Cancelled or CloseCause.EngineStopped;

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

    /// <summary>The time before an attempt. <paramref name="attempt"/> counts from 1; <paramref name="random"/> is from 0 up to 1.</summary>
    internal TimeSpan DelayBefore(int attempt, double random)
    {
        // In floating point: the power overflows to infinity, which the limit cuts.
        double most = Math.Min(MaxDelay.TotalMilliseconds, InitialDelay.TotalMilliseconds * Math.Pow(Factor, attempt - 1));
        return TimeSpan.FromMilliseconds(Jitter ? most * random : most);
    }
}
