namespace Whimbrel;

/// <summary>Event that ended a pipe between two sessions (<c>Session.PipeTo</c>).</summary>
public enum PipeEnd
{
    /// <summary>The source's peer has finished: the target has accepted all its data, and the FIN follows.</summary>
    Finished,

    /// <summary>The source session has ended, or handed over.</summary>
    SourceEnded,

    /// <summary>The target session has ended, or handed over: unread data was not sent.</summary>
    TargetEnded,

    /// <summary>The token was cancelled. Both sessions continue.</summary>
    Cancelled,
}

/// <summary>Result of a pipe between two sessions.</summary>
/// <param name="Bytes">Number of bytes that the target has accepted.</param>
/// <param name="End">Event that ended the pipe.</param>
/// <param name="Reason">Reason why that session ended. Cause None if no session ended, or if a target on the pool had
/// ended and its last callback is still to come.</param>
public readonly record struct PipeResult(long Bytes, PipeEnd End, CloseReason Reason);
