using System.Collections.Generic;
using System.Threading;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Counts received data.
internal static class TcpMulticastClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 1111, 0, 32, hasThreads: true);
        Asio.Run(_benchmark.Threads, service =>
        {
            var clients = new List<MulticastClient>();
            // tls: var context = Contexts.OfClient();
            for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(service, _benchmark.Address, _benchmark.Port)); // plain
            // tls: for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(service, context, _benchmark.Address, _benchmark.Port));
            _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected); // plain
            // tls: _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsHandshaked, c => c.DisconnectAsync(), c => c.IsConnected);
        });
    }

    private class MulticastClient : TcpClient
    {
        public MulticastClient(Service service, string address, int port) : base(service, address, port) { } // plain
        // tls: public MulticastClient(Service service, SslContext context, string address, int port) : base(service, context, address, port) { }

        protected override void OnReceived(byte[] buffer, long size) { _benchmark.Count(size); }

        protected override void OnError(int error, string category, string message)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
