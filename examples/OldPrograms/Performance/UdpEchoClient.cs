using System.Collections.Generic;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using OldPrograms.Host;
using UdpClient = NetCoreServer.UdpClient;

namespace OldPrograms.Performance;

/// Keeps a window of datagrams in flight; a lost one shrinks the window permanently.
internal static class UdpEchoClient
{
    private static Benchmark _benchmark;
    private static byte[] _message;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 3333, 1000, 32);
        _message = new byte[_benchmark.Size];
        var clients = new List<EchoClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(_benchmark.Address, _benchmark.Port));
        _benchmark.Run(clients, c => c.Connect(), c => c.IsConnected, c => c.Disconnect(), c => c.IsConnected);
    }

    private class EchoClient : UdpClient
    {
        public EchoClient(string address, int port) : base(address, port) { }

        protected override void OnConnected()
        {
            ReceiveAsync();
            for (int i = 0; i < _benchmark.Messages; i++) SendMessage();
        }

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            if (size != _benchmark.Size) Interlocked.Increment(ref _benchmark.TotalErrors); // two joined datagrams
            _benchmark.Count(size);
            ThreadPool.QueueUserWorkItem(_ =>
            {
                ReceiveAsync();
                SendMessage();
            });
        }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }

        private void SendMessage() { Send(_message, 0, _message.Length); }
    }
}
