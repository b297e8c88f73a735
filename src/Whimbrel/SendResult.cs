namespace Whimbrel;

/// <summary>What became of a send or a broadcast. A send is taken whole or not at all.</summary>
public enum SendResult
{
    /// <summary>All bytes were taken; they are sent in order unless the connection ends first.</summary>
    Queued,

    /// <summary>
    /// Nothing was taken: the send queue is at its limit, or the engine has too much of other threads under way
    /// (<see cref="EngineOptions.MailboxLimitBytes"/>); a broadcast: a loop has no room, so that no member gets it. Try later, or await
    /// <c>SendAsync</c> or <c>BroadcastAsync</c>.
    /// </summary>
    Full,

    /// <summary>Nothing was taken: the connection is closing or closed. It never opens again.</summary>
    Closed,

    /// <summary>Nothing was taken: the session's own <c>OnSending</c> said no, or a datagram would have been more than <see cref="DatagramOptions.AnswerLimit"/> allows. The next send is asked again.</summary>
    Refused,
}
