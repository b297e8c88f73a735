using System.Collections.Generic;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Counts received data.
internal static class SslMulticastClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 2222, 0, 32);
        var clients = new List<MulticastClient>();
        var context = Certificates.OfClient();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(context, _benchmark.Address, _benchmark.Port));
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsHandshaked, c => c.DisconnectAsync(), c => c.IsConnected);
    }

    private class MulticastClient : SslClient
    {
        public MulticastClient(SslContext context, string address, int port) : base(context, address, port) { }

        protected override void OnReceived(byte[] buffer, long offset, long size) { _benchmark.Count(size); }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
