namespace Whimbrel;

/// <summary>
/// Policy for a datagram when the send queue is at its limit. SendAsync waits for space under either.
/// </summary>
public enum DatagramOverflow
{
    /// <summary>The new datagram is rejected: Send returns <see cref="SendResult.Full"/>.</summary>
    DropNewest,

    /// <summary>
    /// The oldest queued datagrams are dropped and counted: for data of which only the newest is useful.
    /// </summary>
    DropOldest,
}
