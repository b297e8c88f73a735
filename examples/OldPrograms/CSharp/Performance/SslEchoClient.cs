using System.Collections.Generic;
using System.Threading;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Keeps a window of messages in flight on each connection.
internal static class SslEchoClient
{
    private static Benchmark _benchmark;
    private static byte[] _message;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 2222, 1000, 32, hasThreads: true);
        _message = new byte[_benchmark.Size];
        Asio.Run(_benchmark.Threads, service =>
        {
            var clients = new List<EchoClient>();
            var context = Contexts.OfClient();
            for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(service, context, _benchmark.Address, _benchmark.Port));
            _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsHandshaked, c => c.DisconnectAsync(), c => c.IsConnected);
        });
    }

    private class EchoClient : SslClient
    {
        private long _sent;
        private long _received;

        public EchoClient(Service service, SslContext context, string address, int port) : base(service, context, address, port) { }

        protected override void OnHandshaked()
        {
            for (int i = 0; i < _benchmark.Messages; i++) SendMessage();
        }

        protected override void OnReceived(byte[] buffer, long size)
        {
            _benchmark.Count(size);
            _received += size;
            while (_received >= _sent - (long)(_benchmark.Messages - 1) * _benchmark.Size) SendMessage();
        }

        protected override void OnError(int error, string category, string message)
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
