namespace Whimbrel;

/// <summary>Why a call has no answer.</summary>
public enum CallFailure
{
    /// <summary>The connection ended after the request had been given to it. The peer may have handled it, or not.</summary>
    ConnectionLost,

    /// <summary>There is no connection, and none comes: the request was not sent.</summary>
    NotSent,

    /// <summary>So many calls wait already: the request was not sent (<see cref="CallOptions.WaitingLimit"/>).</summary>
    Full,

    /// <summary>The answer did not come in time.</summary>
    Timeout,
}

/// <summary>A call of a <see cref="CallClient"/> has no answer.</summary>
public sealed class CallException : IOException
{
    /// <summary>Makes an exception of a failure.</summary>
    /// <param name="failure">Why there is no answer.</param>
    /// <param name="mayHaveBeenHandled">The request was given to a connection.</param>
    /// <param name="message">One sentence.</param>
    public CallException(CallFailure failure, bool mayHaveBeenHandled, string message)
        : base(message)
    {
        Failure = failure;
        MayHaveBeenHandled = mayHaveBeenHandled;
    }

    /// <summary>Why there is no answer.</summary>
    public CallFailure Failure { get; }

    /// <summary>
    /// False: nothing of the request has gone to the peer, and it may be called again. True: it was given to a connection, so that the peer may have handled it; who calls
    /// again must know that this does no harm.
    /// </summary>
    public bool MayHaveBeenHandled { get; }
}
