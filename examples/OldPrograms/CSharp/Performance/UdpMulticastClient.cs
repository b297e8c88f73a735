using System.Collections.Generic;
using System.Threading;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Members of one group on one port, which count received datagrams.
internal static class UdpMulticastClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 3333, 0, 32, "239.255.0.1", hasThreads: true);
        Asio.Run(_benchmark.Threads, service =>
        {
            var clients = new List<MulticastClient>();
            for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(service, "0.0.0.0", _benchmark.Address, _benchmark.Port));
            _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected);
        });
    }

    private class MulticastClient : UdpClient
    {
        private readonly string Multicast;

        public MulticastClient(Service service, string listen, string multicast, int port) : base(service, listen, port)
        {
            Multicast = multicast;
            SetupMulticast(true);
        }

        protected override void OnConnected()
        {
            JoinMulticastGroup(Multicast);
            ReceiveAsync();
        }

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
        {
            _benchmark.Count(size);
            ReceiveAsync();
        }

        protected override void OnError(int error, string category, string message)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
