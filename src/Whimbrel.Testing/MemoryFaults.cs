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

    /// <summary>Bytes that a connection holds in each direction between sender and receiver. Default 64 KiB.</summary>
    public int WireBytes { get; init; } = 64 * 1024;
}
