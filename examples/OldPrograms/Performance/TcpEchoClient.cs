using System.Collections.Generic;
// uds: using System.IO;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;
using TcpClient = NetCoreServer.TcpClient; // plain

namespace OldPrograms.Performance;

/// Keeps a window of messages in flight on each connection.
internal static class TcpEchoClient
{
    private static Benchmark _benchmark;
    private static byte[] _message;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 1111, 1000, 32); // ip
        // uds: _benchmark = new Benchmark(args, 0, 1000, 32, path: Path.Combine(Path.GetTempPath(), "echo.sock"));
        _message = new byte[_benchmark.Size];
        var clients = new List<EchoClient>();
        // tls: var context = Certificates.OfClient();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(_benchmark.Address, _benchmark.Port) { OptionNoDelay = true }); // plain
        // tls: for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(context, _benchmark.Address, _benchmark.Port) { OptionNoDelay = true });
        // uds: for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(_benchmark.Path));
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected); // tcp
        // tls: _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsHandshaked, c => c.DisconnectAsync(), c => c.IsConnected);
    }

    private class EchoClient : TcpClient
    {
        private long _sent;
        private long _received;

        public EchoClient(string address, int port) : base(address, port) { } // plain
        // tls: public EchoClient(SslContext context, string address, int port) : base(context, address, port) { }
        // uds: public EchoClient(string path) : base(path) { }

        protected override void OnConnected() // tcp
        // tls: protected override void OnHandshaked()
        {
            for (int i = 0; i < _benchmark.Messages; i++) SendMessage();
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            _benchmark.Count(size);
            _received += size;
            while (_received >= _sent - (long)(_benchmark.Messages - 1) * _benchmark.Size) SendMessage();
        }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }

        private void SendMessage()
        {
            _sent += _message.Length;
            SendAsync(_message, 0, _message.Length);
        }
    }
}
