using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using Whimbrel.Compat.Tests.Http;

namespace Whimbrel.Compat.Tests.Connections;

// Memory cost of a message and of an idle connection of NetCoreServer's classes.
public sealed class CostTests
{
    private const int Clients = 5;

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_message_allocates_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using EchoServer server = new();
        Assert.True(server.Start());
        Assert.InRange(Cost.OfMessage(server.Chosen, 1000), 0, 1);
    }

    // Sent messages and an empty queue are reported.
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_message_reported_as_sent_allocates_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using EchoServer server = new() { IsTold = true };
        Assert.True(server.Start());
        Assert.InRange(Cost.Settled(() => Cost.OfMessage(server.Chosen, 1000)), 0, 1);
        // Two echoes may be reported as one.
        Log.Until(() => server.Told.Sent > 7000 && server.Told.Empty > 1000, "the callbacks of the echoes");
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void An_idle_connection_costs_less_than_four_KiB(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using EchoServer server = new();
        Assert.True(server.Start());
        Assert.InRange(Cost.OfIdleConnection(server.Chosen), 0, 4096);
    }

    [Fact]
    public void N15_a_multicast_allocates_nothing_however_many_there_are()
    {
        using EchoServer server = new();
        Assert.True(server.Start());
        byte[] message = new byte[1000];
        Assert.InRange(OfMulticast(server.Chosen, static _ => { }, () => server.ConnectedSessions,
            () => Assert.True(server.Multicast(message)), message.Length), 0, 1);
    }

    // Its frame is built once, and one broadcast sends it to all.
    [Fact]
    public void A_multicast_to_WebSockets_allocates_nothing_however_many_there_are()
    {
        using WsHost host = new();
        byte[] message = new byte[1000];
        Assert.InRange(OfMulticast(host.PortNumber, Upgrade, () => host.OpenSockets.Count,
            () => Assert.True(host.MulticastBinary(message)), message.Length + 4), 0, 1);
        Assert.True(host.Restart());
        Assert.Equal(0, host.OpenSockets.Count);
    }

    private static double OfMulticast(int port, Action<Socket> begin, Func<long> count, Action multicast, int bytes)
    {
        Socket[] sockets = [.. Enumerable.Range(0, Clients).Select(_ => Cost.Connect(port))];
        try
        {
            foreach (Socket socket in sockets) begin(socket);
            Log.Until(() => count() == Clients, "all members");
            byte[] target = new byte[bytes];
            return Cost.Of(() =>
            {
                multicast();
                foreach (Socket socket in sockets) Cost.Read(socket, target);
            });
        }
        finally
        {
            foreach (Socket socket in sockets) socket.Dispose();
        }
    }

    private static void Upgrade(Socket socket)
    {
        socket.Send(Encoding.ASCII.GetBytes(WebSocketConnectionTests.Asking));
        WebHost.Read(socket, "\r\n\r\n");
    }

    private sealed class EchoServer() : TcpServer(IPAddress.Loopback, 0)
    {
        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        internal bool IsTold { get; init; }

        internal (int Sent, int Empty) Told { get; set; }

        protected override TcpSession CreateSession() => IsTold ? new ToldSession(this) : new EchoSession(this);
    }

    private sealed class ToldSession(EchoServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);

        protected override void OnSent(long sent, long pending) =>
            server.Told = (server.Told.Sent + 1, server.Told.Empty);

        protected override void OnEmpty() => server.Told = (server.Told.Sent, server.Told.Empty + 1);
    }

    private sealed class EchoSession(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);
    }
}
