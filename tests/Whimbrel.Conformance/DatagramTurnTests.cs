using System.Net;
using System.Net.Sockets;
using static Whimbrel.Conformance.LoopTurns;

namespace Whimbrel.Conformance;

/// <summary>How many datagrams one turn of a loop receives, counted on an adopted loop. Real engines.</summary>
public sealed class DatagramTurnTests
{
    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Portable)]
    public void Up_to_64_datagrams_are_received_in_a_turn(EngineKind kind)
    {
        const int Count = 200;
        Transport.Needs(kind);
        Engine engine = new(new EngineOptions { Kind = kind, Loops = 1, AdoptedLoops = 1, BlockedLoopMs = 60_000 });
        Loop loop = engine.GetLoop(0);
        RecordingHandler handler = new();
        DatagramSocket socket = new(new DatagramOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            ReceiveBufferBytes = 1 << 20
        }, () => handler);
        TurnUntilEnd(loop, socket.StartAsync().AsTask());
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        for (int i = 0; i < Count; i++) peer.SendTo(new byte[1], socket.EndPoint!);
        List<int> ofTurns = [];
        int before = 0;
        TurnUntil(loop, () =>
        {
            ofTurns.Add(handler.Count - before);
            before = handler.Count;
            return before == Count;
        });
        Assert.Equal(64, ofTurns.Max());
        TurnUntilEnd(loop, socket.DisposeAsync().AsTask());
        TurnUntilEnd(loop, engine.DisposeAsync().AsTask());
    }
}
