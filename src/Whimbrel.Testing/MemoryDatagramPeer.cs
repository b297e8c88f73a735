using System.Net;

namespace Whimbrel.Testing;

/// <summary>A raw datagram socket on the memory network, for tests: what a foreign program would be. Made by <see cref="MemoryEngine.OpenDatagrams"/>.</summary>
public sealed class MemoryDatagramPeer
{
    private readonly MemoryDatagrams _network;
    private readonly MemoryDatagramSocket _socket;

    internal MemoryDatagramPeer(MemoryDatagrams network, MemoryDatagramSocket socket)
    {
        _network = network;
        _socket = socket;
    }

    /// <summary>Where it is bound.</summary>
    public EndPoint EndPoint => _socket.EndPoint;

    /// <summary>What has arrived and was not taken.</summary>
    public int Available => _network.IsReadable(_socket) ? _socket.Waiting.Count : 0;

    /// <summary>Sends one datagram.</summary>
    /// <param name="data">Its bytes.</param>
    /// <param name="to">Who it is for.</param>
    /// <exception cref="IOException">The network refused it; the message has the error number.</exception>
    public void Send(ReadOnlySpan<byte> data, EndPoint to)
    {
        DatagramPeer target = new(to);
        Check(_network.Send(_socket, MemoryDatagrams.SenderOf(_socket.EndPoint, target), data, target));
    }

    /// <summary>Sends one datagram with a forged sender.</summary>
    /// <param name="data">Its bytes.</param>
    /// <param name="to">Who it is for.</param>
    /// <param name="from">Who it claims to be from.</param>
    public void SendAs(ReadOnlySpan<byte> data, EndPoint to, DatagramPeer from) => Check(_network.Send(null, from, data, new DatagramPeer(to)));

    /// <summary>Takes the oldest datagram that has arrived; null when there is none.</summary>
    /// <param name="from">Who sent it.</param>
    public byte[]? TryReceive(out DatagramPeer from)
    {
        from = default;
        if (!_network.IsReadable(_socket)) return null;
        (byte[] data, from) = MemoryDatagrams.Take(_socket);
        return data;
    }

    /// <summary>Becomes a member of a group, from any source on any interface.</summary>
    /// <param name="group">The group.</param>
    public void Join(IPAddress group) => _socket.Groups.Add((new MulticastGroup(group), 0));

    /// <summary>Gives the address back; what comes later is refused.</summary>
    public void Close()
    {
        if (!_socket.IsClosed) _network.Remove(_socket);
    }

    private static void Check(int error)
    {
        if (error != 0) throw new IOException($"The memory network refused a datagram with error {error}.");
    }
}
