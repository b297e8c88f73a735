using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Text;
using NetCoreServer;
using Whimbrel.Compat.Tests.Http;

namespace Whimbrel.Compat.Tests.Connections;

// The tests of CostTests for the other families of NetCoreServer's classes.
public sealed class FamilyCostTests : IDisposable
{
    private const int Size = 1000;

    private readonly string _path = Path.Combine(Path.GetTempPath(), $"whimbrel-compat-{Guid.NewGuid():n}.sock");

    public void Dispose() => File.Delete(_path);

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_message_over_TLS_allocates_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using SslEchoServer server = new();
        Assert.True(server.Start());
        using Socket socket = Cost.Connect(server.Chosen);
        using SslStream stream = new(new NetworkStream(socket), leaveInnerStreamOpen: false, SslTests.Own);
        stream.AuthenticateAsClient("localhost");
        byte[] message = new byte[Size], answer = new byte[Size];
        Assert.InRange(
            Cost.Of(() =>
            {
                stream.Write(message);
                stream.ReadExactly(answer);
            }),
            0,
            1);
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_message_over_a_Unix_socket_allocates_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using UdsEchoServer server = new(_path);
        Assert.True(server.Start());
        using Socket socket = ConnectPath();
        byte[] message = new byte[Size], answer = new byte[Size];
        Assert.InRange(Exchange(socket, message, answer), 0, 1);
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_datagram_allocates_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using UdpEchoServer server = new();
        Assert.True(server.Start());
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp)
        {
            ReceiveTimeout = (int)Log.Patience.TotalMilliseconds
        };
        socket.Connect(server.Endpoint);
        byte[] message = new byte[Size], answer = new byte[Size];
        Assert.InRange(Exchange(socket, message, answer), 0, 1);
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_message_of_a_WebSocket_allocates_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using WsEchoServer server = new();
        Assert.True(server.Start());
        using Socket socket = Upgrade(server.Chosen);
        byte[] message = Frame(), answer = new byte[Size + 4];
        Assert.InRange(Exchange(socket, message, answer), 0, 1);
    }

    [Fact]
    public void An_idle_connection_of_a_Unix_socket_costs_less_than_four_KiB()
    {
        using UdsEchoServer server = new(_path);
        Assert.True(server.Start());
        byte[] message = new byte[100];
        Assert.InRange(Cost.OfIdleConnection(ConnectPath, socket => Once(socket, message, message)), 0, 4096);
    }

    private static double Exchange(Socket socket, byte[] message, byte[] answer) =>
        Cost.Of(() => Once(socket, message, answer));

    private static void Once(Socket socket, byte[] message, byte[] answer)
    {
        socket.Send(message);
        Cost.Read(socket, answer);
    }

    private Socket ConnectPath()
    {
        Socket socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
        {
            ReceiveTimeout = (int)Log.Patience.TotalMilliseconds
        };
        socket.Connect(new UnixDomainSocketEndPoint(_path));
        return socket;
    }

    private static Socket Upgrade(int port)
    {
        Socket socket = Cost.Connect(port);
        socket.Send(Encoding.ASCII.GetBytes(WebSocketConnectionTests.Asking));
        WebHost.Read(socket, "\r\n\r\n");
        return socket;
    }

    // A binary message of zeros with a zero mask.
    private static byte[] Frame() => [0x82, 0x80 | 126, Size >> 8, Size & 0xff, .. new byte[4 + Size]];

    private static int PortOf(EndPoint endPoint) => ((IPEndPoint)endPoint).Port;

    private sealed class SslEchoServer()
        : SslServer(new SslContext(SslProtocols.Tls13, SslTests.Certificate), IPAddress.Loopback, 0)
    {
        internal int Chosen => PortOf(Endpoint);

        protected override SslSession CreateSession() => new SslEchoSession(this);
    }

    private sealed class SslEchoSession(SslServer server) : SslSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);
    }

    private sealed class UdsEchoServer(string path) : UdsServer(path)
    {
        protected override UdsSession CreateSession() => new UdsEchoSession(this);
    }

    private sealed class UdsEchoSession(UdsServer server) : UdsSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);
    }

    private sealed class UdpEchoServer() : UdpServer(IPAddress.Loopback, 0)
    {
        protected override void OnStarted() => ReceiveAsync();

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size) =>
            SendAsync(endpoint, buffer, offset, size);

        protected override void OnSent(EndPoint endpoint, long sent) => ReceiveAsync();
    }

    private sealed class WsEchoServer() : WsServer(IPAddress.Loopback, 0)
    {
        internal int Chosen => PortOf(Endpoint);

        protected override TcpSession CreateSession() => new WsEchoSession(this);
    }

    private sealed class WsEchoSession(WsServer server) : WsSession(server)
    {
        public override void OnWsReceived(byte[] buffer, long offset, long size) =>
            SendBinaryAsync(buffer, offset, size);
    }
}
