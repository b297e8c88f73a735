namespace Whimbrel.Testing;

/// <summary>
/// How unkind the memory network is. Chances are per mille of the operations they concern. The default is an honest
/// network: it splits, joins, delays and refuses for a moment, but breaks nothing.
/// </summary>
public sealed record MemoryFaults
{
    /// <summary>A network that does nothing unexpected: whole deliveries, in turn.</summary>
    public static MemoryFaults None { get; } = new() { Split = 0, Delay = 0, WouldBlock = 0, LateClose = 0 };

    /// <summary>A received block is cut at a random place.</summary>
    public int Split { get; init; } = 300;

    /// <summary>Something that is ready is passed over, or taken now and delivered later.</summary>
    public int Delay { get; init; } = 300;

    /// <summary>A send takes a part, or nothing, though there is room.</summary>
    public int WouldBlock { get; init; } = 200;

    /// <summary>Closing a descriptor completes later.</summary>
    public int LateClose { get; init; } = 300;

    /// <summary>A delivery is replaced by a reset.</summary>
    public int Reset { get; init; }

    /// <summary>A send fails with a broken pipe.</summary>
    public int SendError { get; init; }

    /// <summary>An accept fails: out of descriptors, or the peer was gone.</summary>
    public int AcceptError { get; init; }

    /// <summary>A datagram is lost on its way. Unix datagrams are not.</summary>
    public int DatagramLoss { get; init; }

    /// <summary>A datagram arrives twice.</summary>
    public int DatagramDuplicate { get; init; }

    /// <summary>A datagram arrives before others that were sent earlier.</summary>
    public int DatagramReorder { get; init; }

    /// <summary>A datagram takes 1 ms up to <see cref="DatagramDelayMs"/> of virtual time; others may overtake it.</summary>
    public int DatagramDelay { get; init; }

    /// <summary>Longest delay of a datagram, in milliseconds of virtual time. Default 50.</summary>
    public int DatagramDelayMs { get; init; } = 50;

    /// <summary>Longest datagram that the network takes, in bytes; a longer one fails to be sent. Default 65,507.</summary>
    public int DatagramMtuBytes { get; init; } = DatagramOptions.MaxDatagramBytes;

    /// <summary>Receive buffer of a datagram socket, in bytes; each datagram takes 256 beside its own. What has no room is dropped and counted. Default 1 MiB.</summary>
    public int DatagramBufferBytes { get; init; } = 1024 * 1024;

    /// <summary>Bytes that a connection holds in each direction between sender and receiver. Default 64 KiB.</summary>
    public int WireBytes { get; init; } = 64 * 1024;
}
