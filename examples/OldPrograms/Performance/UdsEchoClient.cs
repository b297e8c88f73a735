using System.Collections.Generic;
using System.IO;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Keeps a window of messages in flight on each connection.
internal static class UdsEchoClient
{
    private static Benchmark _benchmark;
    private static byte[] _message;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 0, 1000, 32, path: Path.Combine(Path.GetTempPath(), "echo.sock"));
        _message = new byte[_benchmark.Size];
        var clients = new List<EchoClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(_benchmark.Path));
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected);
    }

    private class EchoClient : UdsClient
    {
        private long _sent;
        private long _received;

        public EchoClient(string path) : base(path) { }

        protected override void OnConnected()
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
