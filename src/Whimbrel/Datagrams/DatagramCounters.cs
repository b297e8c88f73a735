namespace Whimbrel;

/// <summary>
/// What a <see cref="DatagramSocket"/> has done since its start, over all its loops. Each was true a moment ago; they need not belong to
/// the same moment. Every datagram that was given to a send is in exactly one of sent, refused, displaced, failed, abandoned, withheld, or queued.
/// </summary>
/// <param name="DatagramsReceived">Delivered to the handler or to a receive call; truncated ones too.</param>
/// <param name="BytesReceived">Their bytes, as delivered.</param>
/// <param name="DatagramsSent">Taken by the system.</param>
/// <param name="BytesSent">Their bytes.</param>
/// <param name="Queued">Waiting to be sent now.</param>
/// <param name="Truncated">Received longer than the limit or the caller's memory.</param>
/// <param name="Overflowed">Dropped by the system because the socket's receive buffer was full (told with the next datagram). Linux only: elsewhere it is not known, and 0.</param>
/// <param name="Refused">Not taken by a send: the queue was full.</param>
/// <param name="Displaced">Taken, and dropped for newer ones (<see cref="DatagramOverflow.DropOldest"/>).</param>
/// <param name="Failed">Not taken by the system: see OnSendFailed.</param>
/// <param name="Abandoned">Still queued when the socket was closed.</param>
/// <param name="PeerErrors">ICMP errors told by the system: see OnPeerError.</param>
/// <param name="HandlerErrors">Callbacks that threw.</param>
/// <param name="SendCalls">Calls that sent something: how well sends are batched.</param>
/// <param name="ReceiveCalls">Calls that received something.</param>
/// <param name="Withheld">Not sent because it would have been more than <see cref="DatagramOptions.AnswerLimit"/> allows for a peer that is not verified.</param>
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
