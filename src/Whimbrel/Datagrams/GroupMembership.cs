using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>Membership of one socket in a multicast group, as the kernel counts it. A value.</summary>
/// <param name="Group">Address of the group.</param>
/// <param name="Source">The only accepted sender; null for any.</param>
/// <param name="Interface">Number of the interface; 0: chosen by the system's routes.</param>
// Safe: the request is on the stack, for the length of the call.
internal readonly record struct GroupMembership(IPAddress Group, IPAddress? Source, int Interface)
{
    /// <summary>Joins or leaves a group. Returns 0 or an error number.</summary>
    internal unsafe int Change(RawSocket socket, bool joins)
    {
        if (!KernelProbe.IsLinux) return ChangeByName((Socket)socket.Handle!, joins);
        bool hasSource = Source is not null;
        byte* request = stackalloc byte[DatagramAbi.GroupSourceRequestBytes];
        new Span<byte>(request, DatagramAbi.GroupSourceRequestBytes).Clear();
        *(uint*)request = (uint)Interface;
        AddressCodec.Encode(new IPEndPoint(Group, 0), request + 8);
        if (hasSource) AddressCodec.Encode(new IPEndPoint(Source!, 0), request + 8 + DatagramAbi.StorageBytes);
        int level = Group.AddressFamily == AddressFamily.InterNetworkV6 ? SocketAbi.IPPROTO_IPV6 : SocketAbi.IPPROTO_IP;
        int name = (hasSource, joins) switch
        {
            (false, true) => DatagramAbi.MCAST_JOIN_GROUP,
            (false, false) => DatagramAbi.MCAST_LEAVE_GROUP,
            (true, true) => DatagramAbi.MCAST_JOIN_SOURCE_GROUP,
            (true, false) => DatagramAbi.MCAST_LEAVE_SOURCE_GROUP,
        };
        return SocketOptions.SetRaw(socket, level, name, new ReadOnlySpan<byte>(request,
            hasSource ? DatagramAbi.GroupSourceRequestBytes : DatagramAbi.GroupRequestBytes));
    }

    private int ChangeByName(Socket socket, bool joins)
    {
        // The layout of a source request differs between systems, and .NET has no API for it.
        if (Source is not null) return Errno.EOPNOTSUPP;
        SocketOptionName name = joins ? SocketOptionName.AddMembership : SocketOptionName.DropMembership;
        try
        {
            if (Group.AddressFamily == AddressFamily.InterNetworkV6)
                socket.SetSocketOption(SocketOptionLevel.IPv6, name, new IPv6MulticastOption(Group, Interface));
            else socket.SetSocketOption(SocketOptionLevel.IP, name,
                Interface > 0 ? new MulticastOption(Group, Interface) : new MulticastOption(Group));
            return 0;
        }
        catch (SocketException e)
        {
            return ErrorText.ErrnoOf(e.SocketErrorCode);
        }
    }
}
