using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Bench.Peers;

/// <summary>One async loop per connection on <see cref="Socket"/>: the shortest correct echo server in .NET.</summary>
internal static class SocketAsyncEcho
{
    // Holds a whole window of W1. Allocated uninitialized, so that an idle connection only occupies the pages it has
    // touched.
    public const int BufferSize = 32 * 1024;
    public const int Backlog = 4096;

    public static Socket Listen(int port)
    {
        var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, port));
        listener.Listen(Backlog);
        return listener;
    }

    public static async Task RunAsync(int port, Action<IPEndPoint> tell)
    {
        using var listener = Listen(port);
        tell((IPEndPoint)listener.LocalEndPoint!);
        while (true)
        {
            // Not awaited: the loop owns its socket and ends by itself.
            _ = EchoAsync(await listener.AcceptAsync());
        }
    }

    private static async Task EchoAsync(Socket socket)
    {
        using (socket)
        {
            socket.NoDelay = true;
            var buffer = GC.AllocateUninitializedArray<byte>(BufferSize, pinned: true);
            try
            {
                while (true)
                {
                    // the overload for arrays allocates a Task per call
                    var received = await socket.ReceiveAsync(buffer.AsMemory());
                    if (received == 0)
                    {
                        return;
                    }

                    for (var sent = 0; sent < received;)
                    {
                        sent += await socket.SendAsync(buffer.AsMemory(sent, received - sent));
                    }
                }
            }
            catch (SocketException)
            {
                // Reset by the client, or closed while data was being sent: the connection has ended.
            }
        }
    }
}
