namespace Whimbrel.Clusters;

/// <summary>What resuming came to, and where it stands.</summary>
/// <param name="Outcome">The session is a member with <see cref="ResumeOutcome.Recovered"/> alone.</param>
/// <param name="Count">Messages that were sent to it.</param>
/// <param name="Position">Behind these; what comes to a member comes after it.</param>
public readonly record struct ResumeResult(ResumeOutcome Outcome, int Count, GroupPosition Position)
{
    /// <summary>Why, for people, with <see cref="ResumeOutcome.Unavailable"/> and <see cref="ResumeOutcome.NotSupported"/>; otherwise null.</summary>
    public string? Reason { get; init; }

    /// <summary>All since the position was sent, and the session is a member.</summary>
    public bool IsRecovered => Outcome == ResumeOutcome.Recovered;
}
