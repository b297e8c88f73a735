namespace Whimbrel.Clusters;

/// <summary>Outcome of joining or resuming.</summary>
public enum ResumeOutcome
{
    /// <summary>All messages since the position were sent, and the session is a member.</summary>
    Recovered,

    /// <summary>Recovery is impossible: messages after the position are no longer kept.</summary>
    Trimmed,

    /// <summary>Recovery is impossible: the position belongs to a stream that no longer exists.</summary>
    Replaced,

    /// <summary>
    /// The broker is away or has not answered within 5 s, the node has left, or too many sessions resume at once. Try
    /// again.
    /// </summary>
    Unavailable,

    /// <summary>The session has ended or left meanwhile.</summary>
    Ended,

    /// <summary>
    /// The connected broker keeps no history; <see cref="ResumeResult.Reason"/> has the reason. Retries do not help.
    /// </summary>
    NotSupported,
}
