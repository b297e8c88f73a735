namespace Whimbrel.Clusters;

/// <summary>Result of joining or resuming.</summary>
/// <param name="Outcome">Outcome. The session is a member only with <see cref="ResumeOutcome.Recovered"/>.</param>
/// <param name="Count">Number of messages sent to the session.</param>
/// <param name="Position">Position after these messages. A member receives the messages after it.</param>
public readonly record struct ResumeResult(ResumeOutcome Outcome, int Count, GroupPosition Position)
{
    /// <summary>
    /// Reason as text for operators, with <see cref="ResumeOutcome.Unavailable"/> and
    /// <see cref="ResumeOutcome.NotSupported"/>; otherwise null.
    /// </summary>
    public string? Reason { get; init; }

    /// <summary>Whether <see cref="Outcome"/> is <see cref="ResumeOutcome.Recovered"/>.</summary>
    public bool IsRecovered => Outcome == ResumeOutcome.Recovered;
}
