namespace Whimbrel;

/// <summary>Reason why a call has no answer.</summary>
public enum CallFailure
{
    /// <summary>
    /// The connection ended after the request was passed to it. The peer may or may not have handled it.
    /// </summary>
    ConnectionLost,

    /// <summary>There is no connection and no pending reconnect: the request was not sent.</summary>
    NotSent,

    /// <summary>
    /// Too many calls were waiting: the request was not sent (<see cref="CallOptions.WaitingLimit"/>).
    /// </summary>
    Full,

    /// <summary>The answer did not arrive in time.</summary>
    Timeout,
}

/// <summary>Exception of a call of a <see cref="CallClient"/> without an answer.</summary>
public sealed class CallException : IOException
{
    /// <summary>Creates an exception for a failure.</summary>
    /// <param name="failure">Reason why there is no answer.</param>
    /// <param name="mayHaveBeenHandled">True if the request was passed to a connection.</param>
    /// <param name="message">Message in one sentence.</param>
    public CallException(CallFailure failure, bool mayHaveBeenHandled, string message)
        : base(message)
    {
        Failure = failure;
        MayHaveBeenHandled = mayHaveBeenHandled;
    }

    /// <summary>Reason why there is no answer.</summary>
    public CallFailure Failure { get; }

    /// <summary>
    /// False if no byte of the request was sent, so that the call may be repeated. True if the request was passed to a
    /// connection, so that the peer may have handled it; repeat such a call only if handling it twice does no harm.
    /// </summary>
    public bool MayHaveBeenHandled { get; }

    /// <summary>
    /// Reason why the connection of the call ended (<see cref="CallFailure.ConnectionLost"/>), or the last one before
    /// it (<see cref="CallFailure.NotSent"/>). <see cref="CloseCause.None"/> if there was none, and for other failures.
    /// </summary>
    public CloseReason CloseReason { get; internal init; }
}
