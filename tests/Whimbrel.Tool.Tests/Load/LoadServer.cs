using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Threading.Channels;

namespace Whimbrel.Tool.Tests;

// A server for a load that uses nothing of Whimbrel, so that its delays and mistakes are known.
internal sealed class LoadServer : IAsyncDisposable
{
    private readonly CancellationTokenSource _stop = new();
    private readonly Socket _listener = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly Task _accepting;

    private LoadServer(Func<Socket, CancellationToken, Task> serve)
    {
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen(512);
        _accepting = Task.Run(() => AcceptAsync(serve));
    }

    public string Address => _listener.LocalEndPoint!.ToString()!;

    public static LoadServer Start(Func<Socket, CancellationToken, Task> serve) => new(serve);

    // Answers each piece by what the function makes of it.
    public static LoadServer Answering(Func<byte[], byte[]> answer) => Start(async (socket, stop) =>
    {
        await foreach (byte[] piece in PiecesAsync(socket, stop)) await socket.SendAsync(answer(piece), stop);
    });

    // Echoes each piece after the delay; the delays of two pieces overlap.
    public static LoadServer Delaying(TimeSpan delay) => Start(async (socket, stop) =>
    {
        Channel<(byte[] Piece, long At)> pending = Channel.CreateUnbounded<(byte[], long)>();
        Task writing = Task.Run(async () =>
        {
            await foreach ((byte[] piece, long at) in pending.Reader.ReadAllAsync(stop))
            {
                TimeSpan left = delay - Stopwatch.GetElapsedTime(at);
                // tidy: waits because the delay of the server is what is measured
                if (left > TimeSpan.Zero) await Task.Delay(left, stop);
                await socket.SendAsync(piece, stop);
            }
        }, stop);
        await foreach (byte[] piece in PiecesAsync(socket, stop))
            pending.Writer.TryWrite((piece, Stopwatch.GetTimestamp()));
        pending.Writer.Complete();
        await writing;
    });

    // Echoes at once in the first half of each period, and at the end of the period in the second.
    public static LoadServer StallingHalfOf(TimeSpan period)
    {
        long start = Stopwatch.GetTimestamp();
        return Start(async (socket, stop) =>
        {
            await foreach (byte[] piece in PiecesAsync(socket, stop))
            {
                TimeSpan at = TimeSpan.FromTicks(Stopwatch.GetElapsedTime(start).Ticks % period.Ticks);
                // tidy: waits because the pause of the server is what is measured
                if (at > period / 2) await Task.Delay(period - at, stop);
                await socket.SendAsync(piece, stop);
            }
        });
    }

    public static async IAsyncEnumerable<byte[]> PiecesAsync(Socket socket,
        [System.Runtime.CompilerServices.EnumeratorCancellation] CancellationToken stop)
    {
        byte[] buffer = new byte[64 * 1024];
        while (true)
        {
            int count = await socket.ReceiveAsync(buffer, stop);
            if (count == 0) yield break;
            yield return buffer[..count];
        }
    }

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync();
        _listener.Dispose();
        await _accepting;
        _stop.Dispose();
    }

    private async Task AcceptAsync(Func<Socket, CancellationToken, Task> serve)
    {
        List<Task> connections = [];
        try
        {
            while (true)
            {
                Socket socket = await _listener.AcceptAsync(_stop.Token);
                socket.NoDelay = true;
                connections.Add(Task.Run(() => ServeAsync(serve, socket)));
            }
        }
        catch (Exception e) when (e is OperationCanceledException or ObjectDisposedException or SocketException)
        {
            await Task.WhenAll(connections);
        }
    }

    private async Task ServeAsync(Func<Socket, CancellationToken, Task> serve, Socket socket)
    {
        using (socket)
        {
            try
            {
                await serve(socket, _stop.Token);
            }
            catch (Exception e) when (e is OperationCanceledException or SocketException or ObjectDisposedException)
            {
                // The driver has left, or the test is over.
            }
        }
    }
}
