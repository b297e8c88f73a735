namespace Whimbrel;

/// <summary>
/// Counters of a <see cref="DatagramSocket"/> since its start, over all its loops. They may be slightly outdated, and
/// need not belong to the same moment. Every datagram passed to a send is in exactly one of sent, refused, displaced,
/// failed, abandoned, withheld, or queued.
/// </summary>
/// <param name="DatagramsReceived">Number of datagrams delivered to the handler or a receive call, including truncated
/// ones.</param>
/// <param name="BytesReceived">Number of bytes of these datagrams, as delivered.</param>
/// <param name="DatagramsSent">Number of datagrams accepted by the kernel.</param>
/// <param name="BytesSent">Number of bytes of these datagrams.</param>
/// <param name="Queued">Number of datagrams waiting to be sent.</param>
/// <param name="Truncated">Number of received datagrams longer than the limit or the caller's memory.</param>
/// <param name="Overflowed">Number of datagrams dropped by the kernel because the socket's receive buffer was full
/// (reported with the next datagram). Linux only; 0 elsewhere.</param>
/// <param name="Refused">Number of datagrams rejected by a send because the queue was full.</param>
/// <param name="Displaced">Number of queued datagrams dropped for newer ones
/// (<see cref="DatagramOverflow.DropOldest"/>).</param>
/// <param name="Failed">Number of datagrams rejected by the kernel: see OnSendFailed.</param>
/// <param name="Abandoned">Number of datagrams still queued when the socket was closed.</param>
/// <param name="PeerErrors">Number of ICMP errors reported by the kernel: see OnPeerError.</param>
/// <param name="HandlerErrors">Number of exceptions of callbacks.</param>
/// <param name="SendCalls">Number of calls that sent something; shows how well sends are batched.</param>
/// <param name="ReceiveCalls">Number of calls that received something.</param>
/// <param name="Withheld">Number of datagrams not sent because of <see cref="DatagramOptions.AnswerLimit"/> for an
/// unverified peer.</param>
public readonly record struct DatagramCounters(
    long DatagramsReceived,
    long BytesReceived,
    long DatagramsSent,
    long BytesSent,
    long Queued,
    long Truncated,
    long Overflowed,
    long Refused,
    long Displaced,
    long Failed,
    long Abandoned,
    long PeerErrors,
    long HandlerErrors,
    long SendCalls,
    long ReceiveCalls,
    long Withheld);
