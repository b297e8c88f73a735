using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;

namespace Whimbrel.Testing;

/// <summary>Listeners and pending connections of one memory engine, by address. Single-threaded.</summary>
internal sealed class MemoryNetwork(MemoryFaults faults, Random random)
{
    private readonly Dictionary<EndPoint, List<MemoryListening>> _listening = [];
    private readonly HashSet<EndPoint> _blackHoles = [];
    private readonly Dictionary<EndPoint, int> _failing = [];
    private int _nextPort = 50_000;
    private int _nextSocket = 1;

    internal MemoryFaults Faults { get; } = faults;

    /// <summary>Listens at an address. Returns null if it is in use.</summary>
    internal MemoryListening? Listen(EndPoint endPoint, int backlog, PortSharing sharing = PortSharing.None)
    {
        if (endPoint is IPEndPoint { Port: 0 } ip) endPoint = new IPEndPoint(ip.Address, _nextPort++);
        MemoryListening listening = new(endPoint, backlog, sharing != PortSharing.None);
        if (!_listening.TryGetValue(endPoint, out List<MemoryListening>? there)) _listening.Add(endPoint, [listening]);
        else if (sharing == PortSharing.Joins && there[0].IsShared) there.Add(listening);
        else return null;
        return listening;
    }

    internal void StopListening(MemoryListening listening)
    {
        List<MemoryListening> there = _listening[listening.EndPoint];
        there.Remove(listening);
        if (there.Count == 0) _listening.Remove(listening.EndPoint);
        foreach (MemorySocket socket in listening.Waiting) socket.Close(reset: true);
        listening.Waiting.Clear();
    }

    internal void AddBlackHole(EndPoint endPoint) => _blackHoles.Add(endPoint);

    /// <summary>Makes connects to an address fail at once with an error number.</summary>
    internal void AddFailing(EndPoint endPoint, int error) => _failing[endPoint] = error;

    internal bool IsFailing(EndPoint endPoint, out int error) => _failing.TryGetValue(endPoint, out error);

    internal bool IsBlackHole(EndPoint endPoint) => _blackHoles.Contains(endPoint);

    /// <summary>
    /// Returns a connected socket, with its other end waiting to be accepted; null if there is no listener or its
    /// backlog is full.
    /// </summary>
    internal MemorySocket? Connect(EndPoint target, EndPoint? local)
    {
        if (Find(target) is not { } listening || listening.Waiting.Count >= listening.Backlog) return null;
        local ??= target switch
        {
            IPEndPoint ip => new IPEndPoint(ip.Address, _nextPort++),
            MemoryEndPoint => new MemoryEndPoint($"peer-{_nextSocket}"),
            _ => null, // a Unix peer has no name
        };
        (MemorySocket connecting, MemorySocket accepted) = MemorySocket.Pair(_nextSocket, Faults.WireBytes,
            local, target);
        _nextSocket += 2;
        listening.Waiting.Enqueue(accepted);
        return connecting;
    }

    private MemoryListening? Find(EndPoint target)
    {
        if (AnyAt(target) is { } exact) return exact;
        if (target is not IPEndPoint ip) return null;
        // A wildcard listener accepts at every address of its family; the IPv6 one also for IPv4 (dual stack).
        if (ip.AddressFamily == AddressFamily.InterNetwork
            && AnyAt(new IPEndPoint(IPAddress.Any, ip.Port)) is { } wildcard)
            return wildcard;
        return AnyAt(new IPEndPoint(IPAddress.IPv6Any, ip.Port));
    }

    /// <summary>Returns one of the listeners that share the address, by the seed.</summary>
    private MemoryListening? AnyAt(EndPoint endPoint)
    {
        if (!_listening.TryGetValue(endPoint, out List<MemoryListening>? there)) return null;
        return there.Count == 1 ? there[0] : there[random.Next(there.Count)];
    }
}
