namespace Whimbrel.Testing;

/// <summary>
/// Faults of the memory network. Probabilities are per mille of the operations concerned. The default network splits,
/// joins, delays and temporarily rejects, but loses nothing.
/// </summary>
public sealed record MemoryFaults
{
    /// <summary>A network without faults: complete deliveries, in order.</summary>
    public static MemoryFaults None { get; } = new() { Split = 0, Delay = 0, WouldBlock = 0, LateClose = 0 };

    /// <summary>Probability that a received block is split at a random position. Default 300.</summary>
    public int Split { get; init; } = 300;

    /// <summary>
    /// Probability that a ready operation is skipped, or that data is taken now and delivered later. Default 300.
    /// </summary>
    public int Delay { get; init; } = 300;

    /// <summary>Probability that a send takes a part or nothing, although there is room. Default 200.</summary>
    public int WouldBlock { get; init; } = 200;

    /// <summary>Probability that closing a descriptor completes later. Default 300.</summary>
    public int LateClose { get; init; } = 300;

    /// <summary>Probability that a delivery is replaced by a reset. Default 0.</summary>
    public int Reset { get; init; }

    /// <summary>Probability that a send fails with a broken pipe. Default 0.</summary>
    public int SendError { get; init; }

    /// <summary>
    /// Probability that an accept fails: out of descriptors, or the peer has disconnected. Default 0.
    /// </summary>
    public int AcceptError { get; init; }

    /// <summary>Probability that a datagram is lost, except for Unix datagrams. Default 0.</summary>
    public int DatagramLoss { get; init; }

    /// <summary>Probability that a datagram arrives twice. Default 0.</summary>
    public int DatagramDuplicate { get; init; }

    /// <summary>Probability that a datagram overtakes earlier ones. Default 0.</summary>
    public int DatagramReorder { get; init; }

    /// <summary>
    /// Probability that a datagram is delayed by 1 ms up to <see cref="DatagramDelayMs"/>; others may overtake it.
    /// Default 0.
    /// </summary>
    public int DatagramDelay { get; init; }

    /// <summary>Maximum delay of a datagram, in milliseconds of virtual time. Default 50.</summary>
    public int DatagramDelayMs { get; init; } = 50;

    /// <summary>Maximum length of a datagram, in bytes; sending a longer one fails. Default 65,507.</summary>
    public int DatagramMtuBytes { get; init; } = DatagramOptions.MaxDatagramBytes;

    /// <summary>
    /// Receive buffer of a datagram socket, in bytes; each datagram takes 256 bytes in addition to its own. Datagrams
    /// without room are dropped and counted. Default 1 MiB.
    /// </summary>
    public int DatagramBufferBytes { get; init; } = 1024 * 1024;

    /// <summary>Capacity of a connection in each direction, in bytes. Default 64 KiB.</summary>
    public int WireBytes { get; init; } = 64 * 1024;
}
