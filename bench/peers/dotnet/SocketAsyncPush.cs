using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Bench.Peers;

/// <summary>One async loop per client on <see cref="Socket"/>, sending straight out of the shared log.</summary>
internal static class SocketAsyncPush
{
    public static async Task RunAsync(int port, Action<IPEndPoint> tell)
    {
        var log = new PushLog();
        using var listener = SocketAsyncEcho.Listen(port);
        tell((IPEndPoint)listener.LocalEndPoint!);
        while (true)
        {
            // Not awaited: the loop owns its socket and ends by itself.
            _ = PushAsync(await listener.AcceptAsync(), log);
        }
    }

    private static async Task PushAsync(Socket socket, PushLog log)
    {
        using (socket)
        {
            socket.NoDelay = true;
            try
            {
                await log.ServeAsync(async bytes =>
                {
                    for (var sent = 0; sent < bytes.Length;)
                    {
                        sent += await socket.SendAsync(bytes[sent..]);
                    }

                    return true;
                });
            }
            catch (SocketException)
            {
                // The client has disconnected, which is the normal end of a push.
            }
        }
    }
}
