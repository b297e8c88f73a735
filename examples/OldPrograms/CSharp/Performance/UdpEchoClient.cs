using System.Collections.Generic;
using System.Threading;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Performance;

/// Keeps a window of datagrams in flight; a lost one shrinks the window permanently.
internal static class UdpEchoClient
{
    private static Benchmark _benchmark;
    private static byte[] _message;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 3333, 1000, 32, hasThreads: true);
        _message = new byte[_benchmark.Size];
        Asio.Run(_benchmark.Threads, service =>
        {
            var clients = new List<EchoClient>();
            for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(service, _benchmark.Address, _benchmark.Port));
            _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected);
        });
    }

    private class EchoClient : UdpClient
    {
        public EchoClient(Service service, string address, int port) : base(service, address, port) { }

        protected override void OnConnected()
        {
            ReceiveAsync();
            for (int i = 0; i < _benchmark.Messages; i++) SendMessage();
        }

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size)
        {
            _benchmark.Count(size);
            ReceiveAsync();
            SendMessage();
        }

        protected override void OnError(int error, string category, string message)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }

        private void SendMessage() { SendAsync(_message, 0, _message.Length); }
    }
}
