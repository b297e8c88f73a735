using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tests;

// The connection between a node and its broker, which a test can delay, block and cut. It uses plain sockets, so that
// it cannot contain errors of Whimbrel.
internal sealed class FaultyRelay : IAsyncDisposable
{
    private const int BufferBytes = 16 * 1024; // also of the kernel: blocked data must fill the sender's memory

    private readonly Lock _gate = new();
    private readonly List<Socket> _open = [];
    private readonly CancellationTokenSource _end = new();
    private readonly Socket _listener =
        new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = BufferBytes };
    private readonly IPEndPoint _broker;
    private readonly Task _accepting;
    private TaskCompletionSource? _held;
    private bool _isCut;

    internal FaultyRelay(int port)
    {
        _broker = new IPEndPoint(IPAddress.Loopback, port);
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen();
        _accepting = AcceptAsync();
    }

    internal int Port => ((IPEndPoint)_listener.LocalEndPoint!).Port;

    // Delay of each piece, in both directions.
    internal TimeSpan Delay { get; set; }

    // Reads nothing more, without an error: a broker that is blocked, or a dead connection. New connections are
    // accepted but not read.
    internal void Hold()
    {
        lock (_gate) _held ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    // Aborts all connections, including new ones.
    internal void Cut()
    {
        lock (_gate)
        {
            _isCut = true;
            foreach (Socket socket in _open) socket.Close(timeout: 0);
            _open.Clear();
        }
    }

    internal void Heal()
    {
        lock (_gate)
        {
            _isCut = false;
            _held?.SetResult();
            _held = null;
        }
    }

    public async ValueTask DisposeAsync()
    {
        await _end.CancelAsync();
        Heal();
        Cut();
        await _accepting;
        _listener.Dispose();
        _end.Dispose();
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true) _ = ServeAsync(await _listener.AcceptAsync(_end.Token));
        }
        catch (OperationCanceledException)
        {
            // The relay was disposed.
        }
    }

    private async Task ServeAsync(Socket near)
    {
        using Socket far = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        using Socket mine = near;
        near.NoDelay = true;
        lock (_gate)
        {
            if (_isCut)
            {
                near.Close(timeout: 0);
                return;
            }

            _open.AddRange([near, far]);
        }

        try
        {
            await PassAsync();
            await far.ConnectAsync(_broker);
            await await Task.WhenAny(PumpAsync(near, far), PumpAsync(far, near));
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // When one end closes, the other is closed as well.
        }

        lock (_gate) _open.RemoveAll(s => s == near || s == far);
    }

    private Task PassAsync()
    {
        lock (_gate) return _held?.Task ?? Task.CompletedTask;
    }

    private async Task PumpAsync(Socket from, Socket to)
    {
        byte[] buffer = new byte[BufferBytes];
        while (true)
        {
            await PassAsync();
            int read = await from.ReceiveAsync(buffer.AsMemory());
            if (read == 0) return;
            await PassAsync();
            if (Delay > TimeSpan.Zero) await Task.Delay(Delay); // tidy: waits because a delay is what is tested
            for (int sent = 0; sent < read;) sent += await to.SendAsync(buffer.AsMemory(sent, read - sent));
        }
    }
}
