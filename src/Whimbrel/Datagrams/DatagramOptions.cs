using System.Net;
using System.Net.Sockets;

namespace Whimbrel;

/// <summary>What a <see cref="DatagramSocket"/> needs to know. Plain data, copied and validated once, at start.</summary>
public sealed class DatagramOptions
{
    private IReadOnlyList<MulticastGroup> _groups = [];

    /// <summary>Longest datagram that IPv4 can carry: what <see cref="DatagramSocket"/> takes at most.</summary>
    public const int MaxDatagramBytes = 65_507;

    /// <summary>The engine whose loops serve it. Null (the default) is <see cref="Whimbrel.Engine.Default"/>, which is shared and never disposed.</summary>
    public Engine? Engine { get; init; }

    /// <summary>Where to receive: an <see cref="IPEndPoint"/> (port 0 takes a free one) or a Unix path. Null: a free port of any address, in the family of <see cref="RemoteEndPoint"/>.</summary>
    public EndPoint? EndPoint { get; init; }

    /// <summary>Makes it a connected socket: it sends there without naming a peer, receives from there only, and the system reports ICMP errors of that peer. Null (the default): not connected.</summary>
    public EndPoint? RemoteEndPoint { get; init; }

    /// <summary>Loops that share the port by SO_REUSEPORT, each with a socket and a handler of its own. 1 (the default) up to 256, at most the engine's; 0 takes all of the engine. More than 1: Linux, IP, not connected.</summary>
    public int Loops { get; init; } = 1;

    /// <summary>Which of several loops a datagram goes to. Default <see cref="DatagramSteering.ByPeer"/>.</summary>
    public DatagramSteering Steering { get; init; }

    // ------------------------------------------------------------------ limits

    /// <summary>Most bytes that wait in the send queue of one loop. 64 KiB up to 1 GiB; default 4 MiB.</summary>
    public int SendLimitBytes { get; init; } = 4 * 1024 * 1024;

    /// <summary>Most datagrams that wait in the send queue of one loop. 1 up to 1,000,000; default 65,536.</summary>
    public int SendLimitDatagrams { get; init; } = 65_536;

    /// <summary>What happens when the send queue is at a limit. Default <see cref="DatagramOverflow.DropNewest"/>.</summary>
    public DatagramOverflow Overflow { get; init; }

    /// <summary>Longest datagram that is delivered whole; a longer one is told by OnTruncated, with its true length. 1 up to 65,535 (the default) bytes.</summary>
    public int ReceiveLimitBytes { get; init; } = 65_535;

    /// <summary>Pull style only: bytes of datagrams that wait to be fetched; beyond it they wait in the system's buffer, which drops when it is full. 64 KiB up to 1 GiB; default 1 MiB.</summary>
    public int UnreadLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>How long a stop tries to send what is queued. Zero up to an hour; default 5 s.</summary>
    public TimeSpan DrainTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Against forged senders: a peer that has not proved its address (<see cref="DatagramHandler.Verify"/>) is sent at most so many times the
    /// datagrams and the bytes that came from it; 1 is never more than received. A send beyond gives <see cref="SendResult.Refused"/>. Groups are
    /// not limited. 0 (the default) up to 100; 0 is no limit. Needs a handler, and no RemoteEndPoint.
    /// </summary>
    public int AnswerLimit { get; init; }

    // ------------------------------------------------------------------ the socket

    /// <summary>
    /// Makes the sockets: called for each loop with the address that will be bound, it gives a new datagram socket of that family, neither bound
    /// nor connected, with options of its own. The options here are set on it as on any other. The object is
    /// <see cref="DatagramSocket.Socket"/> afterwards, and disposed at the stop. On a loop's thread, must not block. What it throws, and a
    /// socket that cannot be used, fails the start with category <see cref="ErrorCategory.User"/>. Not called by the memory engine. Null
    /// (the default): the library makes them.
    /// </summary>
    public Func<EndPoint, Socket>? CreateSocket { get; init; }

    /// <summary>For an IPv6 wildcard address: also IPv4. Default true.</summary>
    public bool DualMode { get; init; } = true;

    /// <summary>SO_REUSEADDR: others with the same option may bind the same port; of a multicast group each gets a copy, of anything else the last one gets all. Default false.</summary>
    public bool ReuseAddress { get; init; }

    /// <summary>SO_REUSEPORT: other processes of the same user may share the port; the system spreads datagrams among them. Default false. Linux.</summary>
    public bool ReusePort { get; init; }

    /// <summary>SO_RCVBUF in bytes; 0 (the default) leaves it to the system. Linux doubles it and cuts it to net.core.rmem_max without an error.</summary>
    public int ReceiveBufferBytes { get; init; }

    /// <summary>SO_SNDBUF in bytes; 0 (the default) leaves it to the system. Linux doubles it and cuts it to net.core.wmem_max without an error.</summary>
    public int SendBufferBytes { get; init; }

    /// <summary>UDP_SEGMENT: queued datagrams of one size to one peer leave in one call. Default true; where the system cannot, each leaves by itself, and so they do to a group with <see cref="MulticastLoopback"/>, where it does not pay. Linux.</summary>
    public bool Segmentation { get; init; } = true;

    /// <summary>UDP_GRO: datagrams of one size from one peer arrive in one call, and are delivered one by one. Default true; without effect where the system cannot. Linux.</summary>
    public bool Coalescing { get; init; } = true;

    /// <summary>What to do with a datagram larger than the path takes. Default <see cref="PathMtuRule.System"/>.</summary>
    public PathMtuRule PathMtu { get; init; }

    /// <summary>Ask the system for the ICMP errors of datagrams that were sent (IP_RECVERR), told by OnPeerError. Default true. Linux; elsewhere, only connected sockets learn of them.</summary>
    public bool ReportPeerErrors { get; init; } = true;

    /// <summary>SO_BROADCAST: may send to broadcast addresses. Default false: such sends fail.</summary>
    public bool Broadcast { get; init; }

    /// <summary>IP_TOS and IPV6_TCLASS: the byte that marks packets for routers, as DSCP x 4. Multiples of 4 up to 252; 0 (the default) leaves it alone. Linux.</summary>
    public int TypeOfService { get; init; }

    /// <summary>SO_BINDTODEVICE: use this network device only, by name, as "eth0". Null (the default): any. Linux.</summary>
    public string? BindToDevice { get; init; }

    // ------------------------------------------------------------------ multicast

    /// <summary>Groups that are joined before the start has ended; when one cannot be, the start fails. Default none. See <see cref="DatagramSocket.JoinAsync(MulticastGroup)"/>.</summary>
    public IReadOnlyList<MulticastGroup> Groups
    {
        get => _groups;
        init => _groups = value;
    }

    /// <summary>Where datagrams to groups leave: an interface's name, number, or one of its addresses. Null (the default) leaves it to the system's routes.</summary>
    public string? MulticastInterface { get; init; }

    /// <summary>How many routers a datagram to a group may pass: IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS. 0 (this machine; Linux lets it out all the same when no member is on it) up to 255; default 1, this network.</summary>
    public int MulticastHops { get; init; } = 1;

    /// <summary>Members on this machine get what is sent to a group, this socket too if it is one. Default false.</summary>
    public bool MulticastLoopback { get; init; }

    /// <summary>IP_MULTICAST_ALL: also receive groups that other sockets of this machine have joined. Default false. Linux; elsewhere always false.</summary>
    public bool AllGroups { get; init; }

    /// <summary>The options as they are now: later changes of a list do not count.</summary>
    internal DatagramOptions Clone()
    {
        DatagramOptions copy = (DatagramOptions)MemberwiseClone();
        if (_groups is not null) copy._groups = [.. _groups];
        return copy;
    }
}
