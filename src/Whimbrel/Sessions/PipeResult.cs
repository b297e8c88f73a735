namespace Whimbrel;

/// <summary>How a pipe between two sessions ended (<c>Session.PipeTo</c>).</summary>
public enum PipeEnd
{
    /// <summary>The source's peer has finished: all it sent was taken by the target, and its FIN follows.</summary>
    Finished,

    /// <summary>The session that was piped has ended, or handed over.</summary>
    SourceEnded,

    /// <summary>The session that was piped to has ended, or handed over: what was still unread was not sent.</summary>
    TargetEnded,

    /// <summary>By the token. Both sessions go on.</summary>
    Cancelled,
}

/// <summary>The end of a pipe between two sessions.</summary>
/// <param name="Bytes">How many the target has taken.</param>
/// <param name="End">Who ended it.</param>
/// <param name="Reason">Why that session ended; cause None where none did, or where a target on the pool had ended before and its last callback is still to come.</param>
public readonly record struct PipeResult(long Bytes, PipeEnd End, CloseReason Reason);
