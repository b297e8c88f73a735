using System.Net;

namespace Whimbrel.Testing;

/// <summary>A raw listener in the memory network, for tests of clients.</summary>
public sealed class MemoryPeerListener
{
    private readonly MemoryNetwork _network;
    private readonly MemoryListening _listening;

    internal MemoryPeerListener(MemoryNetwork network, MemoryListening listening)
    {
        _network = network;
        _listening = listening;
    }

    /// <summary>Listening address, with the real port.</summary>
    public EndPoint EndPoint => _listening.EndPoint;

    /// <summary>Accepts the next pending connection, or returns null.</summary>
    public MemoryPeer? TryAccept() =>
        _listening.Waiting.TryDequeue(out MemorySocket? socket) ? new MemoryPeer(socket) : null;

    /// <summary>Stops listening and resets pending connections.</summary>
    public void Close() => _network.StopListening(_listening);
}
