using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Testing;

/// <summary>The names of one memory engine: who listens where, and the connections on their way. Single-threaded.</summary>
internal sealed class MemoryNetwork(MemoryFaults faults)
{
    private readonly Dictionary<EndPoint, MemoryListening> _listening = [];
    private readonly HashSet<EndPoint> _blackHoles = [];
    private readonly HashSet<EndPoint> _unreachable = [];
    private int _nextPort = 50_000;
    private int _nextSocket = 1;

    internal MemoryFaults Faults { get; } = faults;

    /// <summary>Null when the name is taken.</summary>
    internal MemoryListening? Listen(EndPoint endPoint, int backlog)
    {
        if (endPoint is IPEndPoint { Port: 0 } ip) endPoint = new IPEndPoint(ip.Address, _nextPort++);
        if (_listening.ContainsKey(endPoint)) return null;
        MemoryListening listening = new(endPoint, backlog);
        _listening.Add(endPoint, listening);
        return listening;
    }

    internal void StopListening(MemoryListening listening)
    {
        _listening.Remove(listening.EndPoint);
        foreach (MemorySocket socket in listening.Waiting) socket.Close(reset: true);
        listening.Waiting.Clear();
    }

    internal void AddBlackHole(EndPoint endPoint) => _blackHoles.Add(endPoint);

    internal void AddUnreachable(EndPoint endPoint) => _unreachable.Add(endPoint);

    internal bool IsUnreachable(EndPoint endPoint) => _unreachable.Contains(endPoint);

    internal bool IsBlackHole(EndPoint endPoint) => _blackHoles.Contains(endPoint);

    /// <summary>A connected socket whose other end waits to be accepted; null when nobody listens there.</summary>
    internal MemorySocket? Dial(EndPoint target, EndPoint? local)
    {
        if (Find(target) is not { } listening || listening.Waiting.Count >= listening.Backlog) return null;
        local ??= target switch
        {
            IPEndPoint ip => new IPEndPoint(ip.Address, _nextPort++),
            MemoryEndPoint => new MemoryEndPoint($"peer-{_nextSocket}"),
            _ => null, // a Unix peer has no name
        };
        (MemorySocket dialling, MemorySocket accepted) = MemorySocket.Pair(_nextSocket, Faults.WireBytes, local, target);
        _nextSocket += 2;
        listening.Waiting.Enqueue(accepted);
        return dialling;
    }

    private MemoryListening? Find(EndPoint target)
    {
        if (_listening.TryGetValue(target, out MemoryListening? exact)) return exact;
        if (target is not IPEndPoint ip) return null;
        // A wildcard listener answers at every address of its family; the IPv6 one also for IPv4 (dual stack).
        if (ip.AddressFamily == AddressFamily.InterNetwork && _listening.TryGetValue(new IPEndPoint(IPAddress.Any, ip.Port), out exact)) return exact;
        return _listening.GetValueOrDefault(new IPEndPoint(IPAddress.IPv6Any, ip.Port));
    }
}
