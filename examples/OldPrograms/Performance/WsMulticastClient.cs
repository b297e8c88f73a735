using System;
using System.Collections.Generic;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Counts received data.
internal static class WsMulticastClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 8080, 0, 32);
        var clients = new List<MulticastClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new MulticastClient(/*tls: Certificates.OfClient(), */_benchmark.Address, _benchmark.Port));
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.Upgraded, c => c.CloseAsync(1000), c => c.IsConnected);
    }

    private class MulticastClient : WsClient
    {
        public volatile bool Upgraded;

        public MulticastClient(/*tls: SslContext context, */string address, int port) : base(/*tls: context, */address, port) { }

        public override void OnWsConnecting(HttpRequest request)
        {
            request.SetBegin("GET", "/");
            request.SetHeader("Host", "localhost");
            request.SetHeader("Origin", "http://localhost");
            request.SetHeader("Upgrade", "websocket");
            request.SetHeader("Connection", "Upgrade");
            request.SetHeader("Sec-WebSocket-Key", Convert.ToBase64String(WsNonce));
            request.SetHeader("Sec-WebSocket-Version", "13");
        }

        public override void OnWsConnected(HttpResponse response) { Upgraded = true; }

        public override void OnWsReceived(byte[] buffer, long offset, long size) { _benchmark.Count(size); }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
