using System.Collections.Generic;
using System.IO;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Counts received data.
internal static class UdsMulticastClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 0, 0, 32, path: Path.Combine(Path.GetTempPath(), "multicast.sock"));
        var clients = new List<MulticastClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(_benchmark.Path));
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected);
    }

    private class MulticastClient : UdsClient
    {
        public MulticastClient(string path) : base(path) { }

        protected override void OnReceived(byte[] buffer, long offset, long size) { _benchmark.Count(size); }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
