namespace Whimbrel;

/// <summary>What became of a send or a broadcast. A send is taken whole or not at all.</summary>
public enum SendResult
{
    /// <summary>All bytes were taken; they are sent in order unless the connection ends first.</summary>
    Queued,

    /// <summary>Nothing was taken: the send queue or the mailbox of the loop is at its limit. Try later, or await <c>SendAsync</c>.</summary>
    Full,

    /// <summary>Nothing was taken: the connection is closing or closed. It never opens again.</summary>
    Closed,

    /// <summary>Nothing was taken: the session's own <c>OnSending</c> said no, or a datagram would have been more than <see cref="DatagramOptions.AnswerLimit"/> allows. The next send is asked again.</summary>
    Refused,
}
