using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Bench.Peers;

/// <summary> SocketAsyncEventArgs, two per connection: the lowest level that .NET offers. Operations that complete
/// synchronously are handled in the loop of <see cref="Connection.Pump"/>, not by recursion. </summary>
internal static class SaeaEcho
{
    public static void Run(int port, Action<IPEndPoint> tell)
    {
        using var listener = SocketAsyncEcho.Listen(port);
        using var accept = new SocketAsyncEventArgs();
        accept.Completed += (_, _) =>
        {
            Accepted(accept);
            AcceptAll(listener, accept);
        };
        tell((IPEndPoint)listener.LocalEndPoint!);
        AcceptAll(listener, accept);
        Thread.Sleep(Timeout.Infinite);
    }

    private static void AcceptAll(Socket listener, SocketAsyncEventArgs accept)
    {
        while (!listener.AcceptAsync(accept))
        {
            Accepted(accept);
        }
    }

    private static void Accepted(SocketAsyncEventArgs accept)
    {
        var socket = accept.AcceptSocket;
        accept.AcceptSocket = null;
        if (accept.SocketError == SocketError.Success)
        {
            new Connection(socket!).Start();
        }
    }

    private sealed class Connection : IDisposable
    {
        private readonly Socket _socket;
        private readonly SocketAsyncEventArgs _receive = new();
        private readonly SocketAsyncEventArgs _send = new();

        public Connection(Socket socket)
        {
            _socket = socket;
            _socket.NoDelay = true;
            var buffer = GC.AllocateUninitializedArray<byte>(SocketAsyncEcho.BufferSize, pinned: true);
            _receive.SetBuffer(buffer, 0, buffer.Length);
            _send.SetBuffer(buffer, 0, buffer.Length);
            _receive.Completed += (_, _) => Pump(afterReceive: true);
            _send.Completed += (_, _) => Pump(afterReceive: false);
        }

        public void Start()
        {
            if (!_socket.ReceiveAsync(_receive))
            {
                Pump(afterReceive: true);
            }
        }

        // Receives and sends alternately until one of them is pending; its Completed event continues here.
        private void Pump(bool afterReceive)
        {
            while (true)
            {
                if (afterReceive)
                {
                    if (_receive.SocketError != SocketError.Success || _receive.BytesTransferred == 0)
                    {
                        Dispose();
                        return;
                    }

                    _send.SetBuffer(0, _receive.BytesTransferred);
                    if (_socket.SendAsync(_send))
                    {
                        return;
                    }
                }

                // On a stream socket SendAsync completes only when all bytes are sent.
                if (_send.SocketError != SocketError.Success)
                {
                    Dispose();
                    return;
                }

                if (_socket.ReceiveAsync(_receive))
                {
                    return;
                }

                afterReceive = true;
            }
        }

        public void Dispose()
        {
            _socket.Dispose();
            _receive.Dispose();
            _send.Dispose();
        }
    }
}
