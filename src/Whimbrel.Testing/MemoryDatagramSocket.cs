using System.Net;

namespace Whimbrel.Testing;

/// <summary>A bound datagram socket of the memory network: what has arrived and what is on its way. Single-threaded.</summary>
internal sealed class MemoryDatagramSocket(int id, EndPoint endPoint, bool isShared, bool isReused)
{
    internal int Id { get; } = id;

    internal EndPoint EndPoint { get; } = endPoint;

    /// <summary>By SO_REUSEPORT: others may have the same address, and each datagram goes to one of them.</summary>
    internal bool IsShared { get; } = isShared;

    /// <summary>By SO_REUSEADDR: others may have the same address, and datagrams to a group go to all of them.</summary>
    internal bool IsReused { get; } = isReused;

    /// <summary>Takes from here only; nobody: from anybody.</summary>
    internal DatagramPeer Remote { get; init; }

    internal bool IsBroadcaster { get; init; }

    internal bool HearsErrors { get; init; }

    internal bool HasLoopback { get; init; }

    internal bool TakesAllGroups { get; init; }

    internal int Interface { get; init; }

    internal DatagramSteering Steering { get; init; }

    internal List<(MulticastGroup Group, int Interface)> Groups { get; } = [];

    /// <summary>Arrived, oldest first.</summary>
    internal List<(byte[] Data, DatagramPeer From)> Waiting { get; } = [];

    /// <summary>On their way, with the moment of their arrival.</summary>
    internal List<(long DueMs, byte[] Data, DatagramPeer From)> OnTheWay { get; } = [];

    /// <summary>ICMP errors that nobody read yet.</summary>
    internal Queue<(DatagramPeer Peer, int Error, int Length)> Errors { get; } = new();

    internal long WaitingBytes { get; set; }

    /// <summary>Had no room here, ever.</summary>
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
