namespace Whimbrel;

/// <summary>What happens to a datagram when the send queue is at its limit. SendAsync waits for room under either.</summary>
public enum DatagramOverflow
{
    /// <summary>It is not taken: Send gives <see cref="SendResult.Full"/>.</summary>
    DropNewest,

    /// <summary>The oldest that wait make room for it, and are counted as dropped: for values of which only the newest counts.</summary>
    DropOldest,
}
