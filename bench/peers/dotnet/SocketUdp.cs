using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// Datagrams on <see cref="Socket"/> with <see cref="SocketAddress"/>: one receive and one send at a time, nothing
/// allocated for either.
/// </summary>
internal static class SocketUdp
{
    // All servers of the comparison use this size.
    public const int SocketBuffer = 1024 * 1024;
    private const int LargestDatagram = 65536;

    /// <summary>Sends back what it receives.</summary>
    public static async Task EchoAsync(int port, Action<IPEndPoint> tell)
    {
        using var socket = Bind(port);
        tell((IPEndPoint)socket.LocalEndPoint!);
        var buffer = GC.AllocateUninitializedArray<byte>(LargestDatagram, pinned: true);
        var peer = new SocketAddress(AddressFamily.InterNetwork);
        while (true)
        {
            var received = await socket.ReceiveFromAsync(buffer.AsMemory(), SocketFlags.None, peer);
            await socket.SendToAsync(buffer.AsMemory(0, received), SocketFlags.None, peer);
        }
    }

    /// <summary>
    /// Sends numbered messages to the group that belongs to its port, as many as the client gives credit for.
    /// </summary>
    public static async Task MulticastAsync(int port, Action<IPEndPoint> tell)
    {
        using var socket = Bind(port);
        var own = (IPEndPoint)socket.LocalEndPoint!;
        socket.SetSocketOption(SocketOptionLevel.IP, SocketOptionName.MulticastInterface,
            IPAddress.Loopback.GetAddressBytes());
        socket.SetSocketOption(SocketOptionLevel.IP, SocketOptionName.MulticastTimeToLive, 1);
        socket.SetSocketOption(SocketOptionLevel.IP, SocketOptionName.MulticastLoopback, 1);
        tell(own);
        var group =
            new IPEndPoint(new IPAddress([239, 255, (byte)(own.Port >> 8), (byte)own.Port]), own.Port).Serialize();
        var credit = GC.AllocateUninitializedArray<byte>(sizeof(ulong), pinned: true);
        var message = GC.AllocateUninitializedArray<byte>(Message.Size, pinned: true);
        var client = new SocketAddress(AddressFamily.InterNetwork);
        for (var sequence = 0ul; ;)
        {
            if (await socket.ReceiveFromAsync(credit.AsMemory(), SocketFlags.None, client) != sizeof(ulong))
            {
                continue;
            }

            for (var left = BinaryPrimitives.ReadUInt64LittleEndian(credit); left > 0; left--)
            {
                Message.Write(message, sequence++);
                await socket.SendToAsync(message.AsMemory(), SocketFlags.None, group);
            }
        }
    }

    private static Socket Bind(int port)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp)
        {
            ReceiveBufferSize = SocketBuffer,
            SendBufferSize = SocketBuffer
        };
        socket.Bind(new IPEndPoint(IPAddress.Loopback, port));
        return socket;
    }
}
