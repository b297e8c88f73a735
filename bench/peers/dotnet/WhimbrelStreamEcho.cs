using System.IO.Pipelines;
using System.Net;
using Whimbrel;

namespace Whimbrel.Bench.Peers;

/// <summary>Whimbrel in pull mode: an async loop over a stream or a pipe per connection, on the connection's
/// loop.</summary>
internal static class WhimbrelStreamEcho
{
    public static async Task RunAsync(EngineKind kind, int port, bool pipe, Action<IPEndPoint> tell)
    {
        var engine = new Engine(new EngineOptions { Kind = kind, Loops = 1 });
        var options = new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, port) };
        var server = new Server(options, pipe ? ConnectionPipe.Serve(EchoAsync) : ConnectionStream.Serve(EchoAsync));
        await server.StartAsync();
        tell((IPEndPoint)server.EndPoint!);
        await Task.Delay(Timeout.Infinite);
    }

    private static async Task EchoAsync(ConnectionStream peer, CancellationToken stop)
    {
        var buffer = GC.AllocateUninitializedArray<byte>(SocketAsyncEcho.BufferSize);
        int received;
        while ((received = await peer.ReadAsync(buffer, stop)) > 0)
        {
            await peer.WriteAsync(buffer.AsMemory(0, received), stop);
        }
    }

    private static async Task EchoAsync(ConnectionPipe peer, CancellationToken stop)
    {
        while (true)
        {
            var result = await peer.Input.ReadAsync(stop);
            foreach (var part in result.Buffer)
            {
                await peer.Output.WriteAsync(part, stop);
            }

            peer.Input.AdvanceTo(result.Buffer.End);
            if (result.IsCompleted)
            {
                return;
            }
        }
    }
}
