using System.Net;
using System.Net.Sockets;
using Whimbrel.Datagrams;

namespace Whimbrel;

/// <summary>Options of a <see cref="DatagramSocket"/>. Plain data, copied and validated once, at start.</summary>
public sealed class DatagramOptions
{
    private IReadOnlyList<MulticastGroup> _groups = [];

    /// <summary>Maximum length of a datagram, as IPv4 can carry it.</summary>
    public const int MaxDatagramBytes = DatagramQueue.MaxDatagramBytes;

    /// <summary>
    /// The engine of the socket's loops. Default null: <see cref="Whimbrel.Engine.Default"/>, which is shared and never
    /// disposed.
    /// </summary>
    public Engine? Engine { get; init; }

    /// <summary>
    /// Address to bind: an <see cref="IPEndPoint"/> (port 0 takes a free one) or a Unix path. Null: a free port of any
    /// address, in the family of <see cref="RemoteEndPoint"/>.
    /// </summary>
    public EndPoint? EndPoint { get; init; }

    /// <summary>
    /// Peer of a connected socket. It sends there by default, receives from there only, and the kernel reports ICMP
    /// errors of that peer. Default null: not connected.
    /// </summary>
    public EndPoint? RemoteEndPoint { get; init; }

    /// <summary>
    /// Replaces the process without losing a datagram: the start takes the sockets of the old process at this address,
    /// and a new process takes those of this one. The same object as for the servers of the process. From the moment at
    /// which a new process is ready, this socket only sends. Default null.
    /// </summary>
    public ProcessUpgrade? Upgrade { get; init; }

    /// <summary>
    /// Number of loops that share the port with SO_REUSEPORT, each with its own socket and handler. 1 to 256, at most
    /// the engine's; 0 takes all loops of the engine. Default 1. More than 1: Linux, IP, not connected.
    /// </summary>
    public int Loops { get; init; } = 1;

    /// <summary>Distribution of datagrams over several loops. Default <see cref="DatagramSteering.ByPeer"/>.</summary>
    public DatagramSteering Steering { get; init; }

    // ------------------------------------------------------------------ limits

    /// <summary>Maximum number of bytes in the send queue of one loop. 64 KiB to 1 GiB; default 4 MiB.</summary>
    public int SendLimitBytes { get; init; } = 4 * 1024 * 1024;

    /// <summary>Maximum number of datagrams in the send queue of one loop. 1 to 1,000,000; default 65,536.</summary>
    public int SendLimitDatagrams { get; init; } = 65_536;

    /// <summary>Policy when the send queue is at a limit. Default <see cref="DatagramOverflow.DropNewest"/>.</summary>
    public DatagramOverflow Overflow { get; init; }

    /// <summary>
    /// Maximum length of a datagram that is delivered completely; OnTruncated is called for longer ones, with their
    /// full length. 1 to 65,535 bytes (the default).
    /// </summary>
    public int ReceiveLimitBytes { get; init; } = 65_535;

    /// <summary>
    /// Without a handler only: maximum number of bytes of datagrams waiting for receive calls. Beyond it they wait in
    /// the kernel's buffer, which drops datagrams when it is full. 64 KiB to 1 GiB; default 1 MiB.
    /// </summary>
    public int UnreadLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>Maximum time that a stop spends sending queued datagrams. Zero to 1 hour; default 5 s.</summary>
    public TimeSpan DrainTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Protection against forged senders: factor by which the datagrams and bytes sent to an unverified peer
    /// (<see cref="DatagramHandler.Verify"/>) may exceed those received from it. A send beyond it returns
    /// <see cref="SendResult.Refused"/>. Does not apply to groups. 0 to 100; default 0, no limit. Needs a handler, and
    /// no RemoteEndPoint.
    /// </summary>
    public int AnswerLimit { get; init; }

    // ------------------------------------------------------------------ the socket

    /// <summary>
    /// Function that creates the sockets. It is called for each loop with the address to bind, and returns a new
    /// datagram socket of that family, neither bound nor connected, with its own options. The options here are also set
    /// on it. The object is then <see cref="DatagramSocket.Socket"/>, and is disposed at the stop. Runs on a loop's
    /// thread; must not block. An exception, or an unusable socket, fails the start with category
    /// <see cref="ErrorCategory.User"/>. Not called by the memory engine. Default null: the library creates the
    /// sockets.
    /// </summary>
    public Func<EndPoint, Socket>? CreateSocket { get; init; }

    /// <summary>Whether a socket with an IPv6 wildcard address also uses IPv4. Default true.</summary>
    public bool DualMode { get; init; } = true;

    /// <summary>
    /// SO_REUSEADDR: allows other sockets with the same option to bind the same port. Each receives a copy of multicast
    /// datagrams; all other datagrams go to the last one. Default false.
    /// </summary>
    public bool ReuseAddress { get; init; }

    /// <summary>
    /// SO_REUSEPORT: allows other processes of the same user to share the port; the kernel distributes datagrams among
    /// them. Default false. Linux.
    /// </summary>
    public bool ReusePort { get; init; }

    /// <summary>
    /// SO_RCVBUF in bytes; default 0, chosen by the system. Linux doubles the value and limits it to net.core.rmem_max
    /// without an error.
    /// </summary>
    public int ReceiveBufferBytes { get; init; }

    /// <summary>
    /// SO_SNDBUF in bytes; default 0, chosen by the system. Linux doubles the value and limits it to net.core.wmem_max
    /// without an error.
    /// </summary>
    public int SendBufferBytes { get; init; }

    /// <summary>
    /// UDP_SEGMENT: sends queued datagrams of one size to one peer in one call. Default true. Datagrams are sent one by
    /// one if the system does not support it, and to groups with <see cref="MulticastLoopback"/>, where it is slower.
    /// Linux.
    /// </summary>
    public bool Segmentation { get; init; } = true;

    /// <summary>
    /// UDP_GRO: receives datagrams of one size from one peer in one call, and delivers them one by one. Default true;
    /// no effect if the system does not support it. Linux.
    /// </summary>
    public bool Coalescing { get; init; } = true;

    /// <summary>Treatment of datagrams larger than the path MTU. Default <see cref="PathMtuRule.System"/>.</summary>
    public PathMtuRule PathMtu { get; init; }

    /// <summary>
    /// IP_RECVERR: whether ICMP errors of sent datagrams are passed to OnPeerError. Default true. Linux; elsewhere only
    /// connected sockets receive them.
    /// </summary>
    public bool ReportPeerErrors { get; init; } = true;

    /// <summary>SO_BROADCAST: allows sending to broadcast addresses. Default false: such sends fail.</summary>
    public bool Broadcast { get; init; }

    /// <summary>
    /// IP_TOS and IPV6_TCLASS: traffic class of the packets, as DSCP x 4. Multiples of 4 up to 252; default 0,
    /// unchanged. Linux.
    /// </summary>
    public int TypeOfService { get; init; }

    /// <summary>
    /// SO_BINDTODEVICE: name of the only network device to use, such as "eth0". Default null: any. Linux.
    /// </summary>
    public string? BindToDevice { get; init; }

    // ------------------------------------------------------------------ multicast

    /// <summary>
    /// Groups to join during the start; if one cannot be joined, the start fails. Default none. See
    /// <see cref="DatagramSocket.JoinAsync(MulticastGroup)"/>.
    /// </summary>
    public IReadOnlyList<MulticastGroup> Groups
    {
        get => _groups;
        init => _groups = value;
    }

    /// <summary>
    /// Interface for datagrams to groups: its name, number, or one of its addresses. Default null: chosen by the
    /// system's routes.
    /// </summary>
    public string? MulticastInterface { get; init; }

    /// <summary>
    /// IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS: maximum number of hops of a datagram to a group. 0 to 255; default 1,
    /// this network. 0 is this machine, but Linux still sends it if no member is on this machine.
    /// </summary>
    public int MulticastHops { get; init; } = 1;

    /// <summary>
    /// Whether members on this machine, including this socket, receive datagrams sent to a group. Default false.
    /// </summary>
    public bool MulticastLoopback { get; init; }

    /// <summary>
    /// IP_MULTICAST_ALL: whether the socket also receives from groups that other sockets of this machine have joined.
    /// Default false. Linux; elsewhere always false.
    /// </summary>
    public bool AllGroups { get; init; }

    /// <summary>Returns a copy; later changes of a list have no effect on it.</summary>
    internal DatagramOptions Clone()
    {
        DatagramOptions copy = (DatagramOptions)MemberwiseClone();
        if (_groups is not null) copy._groups = [.. _groups];
        return copy;
    }
}
