using System.Net;
using Whimbrel.Datagrams;

namespace Whimbrel.Testing;

/// <summary>
/// A raw datagram socket on the memory network, which stands for a foreign program. Created by
/// <see cref="MemoryEngine.OpenDatagrams"/>.
/// </summary>
public sealed class MemoryDatagramPeer
{
    private readonly MemoryDatagrams _network;
    private readonly MemoryDatagramSocket _socket;

    internal MemoryDatagramPeer(MemoryDatagrams network, MemoryDatagramSocket socket)
    {
        _network = network;
        _socket = socket;
    }

    /// <summary>Address to which the socket is bound.</summary>
    public EndPoint EndPoint => _socket.EndPoint;

    /// <summary>Number of datagrams that have arrived and were not received.</summary>
    public int Available => _network.IsReadable(_socket) ? _socket.Waiting.Count : 0;

    /// <summary>Sends one datagram.</summary>
    /// <param name="data">Bytes of the datagram.</param>
    /// <param name="to">Address of the receiver.</param>
    /// <exception cref="IOException">The network rejected the datagram; the message has the error number.</exception>
    public void Send(ReadOnlySpan<byte> data, EndPoint to)
    {
        DatagramPeer target = new(to);
        Check(_network.Send(_socket, MemoryDatagrams.SenderOf(_socket.EndPoint, target), data, target));
    }

    /// <summary>Sends one datagram with a forged sender.</summary>
    /// <param name="data">Bytes of the datagram.</param>
    /// <param name="to">Address of the receiver.</param>
    /// <param name="from">Forged address of the sender.</param>
    public void SendAs(ReadOnlySpan<byte> data, EndPoint to, DatagramPeer from) =>
        Check(_network.Send(null, from, data, new DatagramPeer(to)));

    /// <summary>Receives the oldest datagram that has arrived, or returns null if there is none.</summary>
    /// <param name="from">Address of the sender.</param>
    public byte[]? TryReceive(out DatagramPeer from)
    {
        from = default;
        if (!_network.IsReadable(_socket)) return null;
        (byte[] data, from) = MemoryDatagrams.Take(_socket);
        return data;
    }

    /// <summary>Joins a multicast group, for any source on any interface.</summary>
    /// <param name="group">The group.</param>
    public void Join(IPAddress group) => _socket.Groups.Add(new GroupMembership(group, Source: null, Interface: 0));

    /// <summary>Closes the socket and releases its address. Later datagrams are rejected.</summary>
    public void Close()
    {
        if (!_socket.IsClosed) _network.Remove(_socket);
    }

    private static void Check(int error)
    {
        if (error != 0) throw new IOException($"The memory network refused a datagram with error {error}.");
    }
}
