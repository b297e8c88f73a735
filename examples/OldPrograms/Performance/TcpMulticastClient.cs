using System.Collections.Generic;
// uds: using System.IO;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;
using TcpClient = NetCoreServer.TcpClient; // plain

namespace OldPrograms.Performance;

/// Counts received data.
internal static class TcpMulticastClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 1111, 0, 32); // ip
        // uds: _benchmark = new Benchmark(args, 0, 0, 32, path: Path.Combine(Path.GetTempPath(), "multicast.sock"));
        var clients = new List<MulticastClient>();
        // tls: var context = Certificates.OfClient();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(_benchmark.Address, _benchmark.Port)); // plain
        // tls: for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(context, _benchmark.Address, _benchmark.Port));
        // uds: for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(_benchmark.Path));
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected); // tcp
        // tls: _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsHandshaked, c => c.DisconnectAsync(), c => c.IsConnected);
    }

    private class MulticastClient : TcpClient
    {
        public MulticastClient(string address, int port) : base(address, port) { } // plain
        // tls: public MulticastClient(SslContext context, string address, int port) : base(context, address, port) { }
        // uds: public MulticastClient(string path) : base(path) { }

        protected override void OnReceived(byte[] buffer, long offset, long size) { _benchmark.Count(size); }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
