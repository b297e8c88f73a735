using System.Net;
using System.Net.Sockets;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// What a message and an idle connection cost in memory. The whole process is counted; tests run one after the other.
public sealed class CSharpCostTests : IDisposable
{
    private const int Warm = 2000, Messages = 2000, Connections = 500;

    private readonly Service _service = new();
    private readonly EchoServer _server;

    public CSharpCostTests()
    {
        _server = new EchoServer(_service);
        Assert.True(_service.Start() && _server.Start());
    }

    public void Dispose()
    {
        _server.Dispose();
        _service.Dispose();
    }

    private Socket Connect()
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = (int)Log.Patience.TotalMilliseconds };
        socket.Connect(IPAddress.Loopback, _server.Port);
        return socket;
    }

    // The user may keep it, so there is one for each message; nothing else.
    [Fact]
    public void A_message_costs_the_array_that_the_user_gets()
    {
        using Socket socket = Connect();
        byte[] message = new byte[1000], answer = new byte[1000];
        Echo(Warm);
        long least = long.MaxValue;
        for (int run = 0; run < 3; run++)
        {
            long before = GC.GetTotalAllocatedBytes(precise: true);
            Echo(Messages);
            least = Math.Min(least, GC.GetTotalAllocatedBytes(precise: true) - before);
        }

        Assert.InRange((double)least / Messages, 1024, 1040); // 1000 bytes and the head of the array, and what the runtime does meanwhile

        void Echo(int times)
        {
            for (int i = 0; i < times; i++)
            {
                socket.Send(message);
                for (int count = 0; count < answer.Length;) count += socket.Receive(answer);
            }
        }
    }

    [Fact]
    public void An_idle_connection_costs_less_than_four_KiB()
    {
        List<Socket> sockets = new(Connections + 100);
        try
        {
            Open(100); // types, and the first blocks of all tables
            long before = GC.GetTotalMemory(forceFullCollection: true);
            Open(Connections);
            long each = (GC.GetTotalMemory(forceFullCollection: true) - before) / Connections;
            Assert.InRange(each, 0, 4096); // with the Socket object of this side
        }
        finally
        {
            foreach (Socket socket in sockets) socket.Dispose();
        }

        void Open(int count)
        {
            byte[] message = new byte[100];
            for (int i = 0; i < count; i++)
            {
                Socket socket = Connect();
                sockets.Add(socket);
                socket.Send(message); // it was in use, and is idle again
                for (int got = 0; got < message.Length;) got += socket.Receive(message);
            }
        }
    }

    private sealed class EchoServer(Service service) : TcpServer(service, "127.0.0.1", 0)
    {
        protected override TcpSession CreateSession() => new EchoSession(this);
    }

    private sealed class EchoSession(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer, 0, size);
    }
}
