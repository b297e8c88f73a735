namespace Whimbrel;

/// <summary>Result of a send or a broadcast. A message is queued completely or not at all.</summary>
public enum SendResult
{
    /// <summary>All bytes were queued; they are sent in order unless the connection ends first.</summary>
    Queued,

    /// <summary>
    /// Nothing was queued: the send queue is at its limit, or the engine has reached the limit for cross-thread sends
    /// (<see cref="EngineOptions.MailboxLimitBytes"/>). For a broadcast: a loop has no space, so no member receives it.
    /// Try again later, or await <c>SendAsync</c> or <c>BroadcastAsync</c>.
    /// </summary>
    Full,

    /// <summary>Nothing was queued: the connection is closing or closed, permanently.</summary>
    Closed,

    /// <summary>
    /// Nothing was queued: the session's own <c>OnSending</c> returned false, or a datagram would have exceeded
    /// <c>DatagramOptions.AnswerLimit</c>. Later sends are checked again.
    /// </summary>
    Refused,
}
