using System.Net;
using Whimbrel.Datagrams;

namespace Whimbrel.Testing;

/// <summary>
/// A bound datagram socket of the memory network: arrived datagrams and those in transit. Single-threaded.
/// </summary>
internal sealed class MemoryDatagramSocket(int id, EndPoint endPoint, bool isShared, bool isReused)
{
    internal int Id { get; } = id;

    internal EndPoint EndPoint { get; } = endPoint;

    /// <summary>SO_REUSEPORT: sockets share an address, and each datagram is delivered to one of them.</summary>
    internal bool IsShared { get; } = isShared;

    /// <summary>
    /// SO_REUSEADDR: sockets share an address, and datagrams to a group are delivered to all of them.
    /// </summary>
    internal bool IsReused { get; } = isReused;

    /// <summary>
    /// The only accepted sender. If it is <see cref="DatagramPeer.IsNone"/>, all senders are accepted.
    /// </summary>
    internal DatagramPeer Remote { get; init; }

    internal bool IsBroadcaster { get; init; }

    internal bool HearsErrors { get; init; }

    internal bool HasLoopback { get; init; }

    internal bool TakesAllGroups { get; init; }

    internal int Interface { get; init; }

    internal DatagramSteering Steering { get; init; }

    internal List<GroupMembership> Groups { get; } = [];

    /// <summary>Arrived datagrams, oldest first.</summary>
    internal List<(byte[] Data, DatagramPeer From)> Waiting { get; } = [];

    /// <summary>Datagrams in transit, with their time of arrival.</summary>
    internal List<(long DueMs, byte[] Data, DatagramPeer From)> OnTheWay { get; } = [];

    /// <summary>Unread ICMP errors.</summary>
    internal Queue<(DatagramPeer Peer, int Error, int Length)> Errors { get; } = new();

    internal long WaitingBytes { get; set; }

    /// <summary>Number of datagrams dropped because the buffer was full.</summary>
    internal uint Dropped { get; set; }

    internal bool IsClosed { get; set; }

    internal long NextArrivalMs
    {
        get
        {
            long due = long.MaxValue;
            foreach ((long dueMs, _, _) in OnTheWay) due = Math.Min(due, dueMs);
            return due;
        }
    }
}
