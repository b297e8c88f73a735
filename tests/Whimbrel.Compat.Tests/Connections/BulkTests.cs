using System.Net;
using System.Net.Sockets;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Connections;

// Large amounts: with callbacks on the loop, data is received directly into the buffer that the handler sees, and
// reported as before.
public sealed class BulkTests
{
    private const int Total = 16 * 1024 * 1024;

    [Theory]
    [InlineData(EngineKind.Epoll, Scheduling.Inline)]
    [InlineData(EngineKind.Epoll, Scheduling.ThreadPool)]
    [InlineData(EngineKind.Uring, Scheduling.Inline)]
    [InlineData(EngineKind.Portable, Scheduling.Inline)]
    public async Task Large_amounts_arrive_whole_and_in_order_in_a_growing_array(EngineKind kind, Scheduling callbacks)
    {
        await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 1 });
        CompatOptions.Engine = engine;
        try
        {
            using Setting setting = new(callbacks);
            using EchoServer server = new(limit: 0);
            Assert.True(server.Start());
            using Socket socket = Cost.Connect(server.Chosen);
            byte[] all = new byte[Total], back = new byte[Total];
            new Random(1).NextBytes(all);
            Task sending = Task.Run(() =>
            {
                Random sizes = new(2);
                for (int at = 0; at < Total;)
                {
                    int count = Math.Min(Total - at, sizes.Next(4) == 0 ? sizes.Next(1, 300) : sizes.Next(1, 300_000));
                    socket.Send(all, at, count, SocketFlags.None);
                    at += count;
                }
            });
            Cost.Read(socket, back);
            await sending;
            Assert.True(all.AsSpan().SequenceEqual(back));
            Echo session = server.Session!;
            Assert.Equal((Total, 0), (session.Bytes, session.Odd));
            Assert.True(session.Largest > 16 * 1024, $"at most {session.Largest} at a time");
        }
        finally
        {
            CompatOptions.Engine = null;
        }
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_peer_that_fills_the_largest_array_is_disconnected_with_an_error(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using EchoServer server = new(limit: 40_000);
        Assert.True(server.Start());
        using Socket socket = Cost.Connect(server.Chosen);
        byte[] some = new byte[1_000_000];
        // First pieces of exactly the buffer's size, so that they are received directly.
        for (int i = 1; i <= 20; i++)
        {
            socket.Send(some, 0, 20_000, SocketFlags.None);
            Log.Until(() => server.Session is { } session && session.Bytes == i * 20_000, "each of them");
        }

        try
        {
            while (true) socket.Send(some);
        }
        catch (SocketException)
        {
            // The peer reset the connection.
        }

        Log.Until(() => server.Session is { IsOver: true }, "the end");
        Assert.Equal(SocketError.NoBufferSpaceAvailable, server.Session!.Error);
        Assert.InRange(server.Session.Largest, 16 * 1024, 40_000);
    }

    private sealed class EchoServer(int limit) : TcpServer(IPAddress.Loopback, 0)
    {
        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        internal Echo? Session { get; private set; }

        protected override TcpSession CreateSession() =>
            Session = new Echo(this, limit == 0) { OptionReceiveBufferLimit = limit };
    }

    private sealed class Echo(TcpServer server, bool answers) : TcpSession(server)
    {
        internal long Bytes { get; private set; }

        internal long Largest { get; private set; }

        internal int Odd { get; private set; }

        internal SocketError Error { get; private set; }

        internal bool IsOver { get; private set; }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            Bytes += size;
            Largest = Math.Max(Largest, size);
            if (offset != 0 || size > buffer.Length) Odd++;
            if (answers && !SendAsync(buffer, offset, size)) Odd++;
        }

        protected override void OnError(SocketError error) => Error = error;

        protected override void OnDisconnected() => IsOver = true;
    }
}
