using System.Collections.Generic;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using OldPrograms.Host;
using UdpClient = NetCoreServer.UdpClient;

namespace OldPrograms.Performance;

/// Members of one group on one port, which count received datagrams.
internal static class UdpMulticastClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 3333, 0, 32, "239.255.0.1");
        var clients = new List<MulticastClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient("0.0.0.0", _benchmark.Address, _benchmark.Port));
        _benchmark.Run(clients, c => c.Connect(), c => c.IsConnected, c => c.Disconnect(), c => c.IsConnected);
    }

    private class MulticastClient : UdpClient
    {
        private readonly string Multicast;

        public MulticastClient(string listen, string multicast, int port) : base(listen, port)
        {
            Multicast = multicast;
            SetupMulticast(true);
        }

        protected override void OnConnected()
        {
            JoinMulticastGroup(Multicast);
            ReceiveAsync();
        }

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            _benchmark.Count(size);
            ReceiveAsync();
        }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
