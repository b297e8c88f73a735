using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>Constants and structures for datagrams, equal on x64 and arm64. Sizes are asserted by a test.</summary>
internal static class DatagramAbi
{
    internal const int SOCK_DGRAM = 2;

    internal const int SO_BROADCAST = 6;
    internal const int SO_RXQ_OVFL = 40;
    internal const int SO_ATTACH_REUSEPORT_CBPF = 51;
    internal const int SO_MEMINFO = 55;

    /// <summary>
    /// Number of 32-bit values of SO_MEMINFO, and index of the count of datagrams dropped by the receive buffer.
    /// </summary>
    internal const int MeminfoCount = 9;
    internal const int MeminfoDrops = 8;

    internal const int IP_MTU_DISCOVER = 10;
    internal const int IP_RECVERR = 11;
    internal const int IP_MULTICAST_IF = 32;
    internal const int IP_MULTICAST_TTL = 33;
    internal const int IP_MULTICAST_LOOP = 34;
    internal const int IP_MULTICAST_ALL = 49;

    internal const int IPV6_MULTICAST_IF = 17;
    internal const int IPV6_MULTICAST_HOPS = 18;
    internal const int IPV6_MULTICAST_LOOP = 19;
    internal const int IPV6_MTU_DISCOVER = 23;
    internal const int IPV6_RECVERR = 25;
    internal const int IPV6_MULTICAST_ALL = 29;

    internal const int MCAST_JOIN_GROUP = 42;
    internal const int MCAST_LEAVE_GROUP = 45;
    internal const int MCAST_JOIN_SOURCE_GROUP = 46;
    internal const int MCAST_LEAVE_SOURCE_GROUP = 47;

    internal const int SOL_UDP = 17;
    internal const int UDP_SEGMENT = 103;
    internal const int UDP_GRO = 104;

    /// <summary>
    /// Maximum number of datagrams in one segmented send (UDP_MAX_SEGMENTS of the oldest kernel that has it).
    /// </summary>
    internal const int MaxSegments = 64;

    internal const int MSG_TRUNC = 0x20;
    internal const int MSG_CTRUNC = 0x8;
    internal const int MSG_ERRQUEUE = 0x2000;

    /// <summary>Origins of an extended error.</summary>
    internal const byte SO_EE_ORIGIN_ICMP = 2;
    internal const byte SO_EE_ORIGIN_ICMP6 = 3;

    /// <summary>struct sockaddr_storage.</summary>
    internal const int StorageBytes = 128;

    /// <summary>struct group_req: interface, padding, group.</summary>
    internal const int GroupRequestBytes = 8 + StorageBytes;

    /// <summary>struct group_source_req: as above, and the source.</summary>
    internal const int GroupSourceRequestBytes = GroupRequestBytes + StorageBytes;
}

/// <summary>struct mmsghdr, 64 bytes on 64-bit machines.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct MultiMessage
{
    internal MessageHeader Header;

    /// <summary>Number of bytes received or sent; with MSG_TRUNC, full length of the datagram.</summary>
    internal uint Length;
    private readonly uint _padding;
}

/// <summary>struct cmsghdr, 16 bytes on 64-bit machines; its data follows. The next one begins at a multiple of
/// 8.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct ControlHeader
{
    internal nuint Length;
    internal int Level;
    internal int Type;
}

/// <summary>struct sock_extended_err, 16 bytes; the address of the reporting node follows.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct ExtendedError
{
    internal uint Number;
    internal byte Origin;
    internal byte Type;
    internal byte Code;
    private readonly byte _padding;

    /// <summary>With EMSGSIZE, the path MTU.</summary>
    internal uint Details;
    internal uint Data;
}
