namespace Whimbrel.Clusters;

/// <summary>What resuming came to.</summary>
public enum ResumeOutcome
{
    /// <summary>All since the position was sent, and the session is a member.</summary>
    Recovered,

    /// <summary>Cannot recover: what follows the position is not kept any more.</summary>
    Trimmed,

    /// <summary>Cannot recover: the position is of a stream that is not there any more.</summary>
    Replaced,

    /// <summary>Nothing is known: the broker is away, has not answered for 5 s, or too many resume at once. To be tried again.</summary>
    Unavailable,

    /// <summary>The session has ended, or has left meanwhile.</summary>
    Ended,

    /// <summary>The broker that is reached keeps no histories, and <see cref="ResumeResult.Reason"/> says why. Trying again does not help.</summary>
    NotSupported,
}
