using System.Buffers.Binary;
using System.Net;
using Whimbrel;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// Sends numbered messages to the group that belongs to its port, as many as the client gives credit for.
/// </summary>
internal sealed class WhimbrelMulticast : DatagramHandler
{
    private readonly byte[] _message = new byte[Message.Size];
    private DatagramPeer _group;
    private ulong _sequence;

    public static async Task RunAsync(EngineKind kind, int port, bool segmentation, Action<IPEndPoint> tell)
    {
        var engine = new Engine(new EngineOptions { Kind = kind, Loops = 1 });
        var socket = new DatagramSocket(
            new DatagramOptions
            {
                Engine = engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, port),
                MulticastInterface = "127.0.0.1",
                MulticastLoopback = true,
                Segmentation = segmentation,
                ReceiveBufferBytes = SocketUdp.SocketBuffer,
                SendBufferBytes = SocketUdp.SocketBuffer,
            },
            static () => new WhimbrelMulticast());
        await socket.StartAsync();
        tell((IPEndPoint)socket.EndPoint!);
        await Task.Delay(Timeout.Infinite);
    }

    protected override void OnStarted()
    {
        var port = ((IPEndPoint)Socket.EndPoint!).Port;
        _group = new DatagramPeer(new IPAddress([239, 255, (byte)(port >> 8), (byte)port]), port);
    }

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        if (datagram.Length != sizeof(ulong))
        {
            return;
        }

        for (var left = BinaryPrimitives.ReadUInt64LittleEndian(datagram); left > 0; left--)
        {
            Message.Write(_message, _sequence++);
            Send(_message, _group);
        }
    }
}
