using System;
using System.Collections.Generic;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Keeps a window of messages in flight on each connection.
internal static class WsEchoClient
{
    private static Benchmark _benchmark;
    private static byte[] _message;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 8080, 1000, 32);
        _message = new byte[_benchmark.Size];
        var clients = new List<EchoClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new EchoClient(/*tls: Certificates.OfClient(), */_benchmark.Address, _benchmark.Port) { OptionNoDelay = true });
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.Upgraded, c => c.CloseAsync(1000), c => c.IsConnected);
    }

    private class EchoClient : WsClient
    {
        private long _sent;
        private long _received;

        public EchoClient(/*tls: SslContext context, */string address, int port) : base(/*tls: context, */address, port) { }

        public volatile bool Upgraded;

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

        public override void OnWsConnected(HttpResponse response)
        {
            Upgraded = true;
            for (int i = 0; i < _benchmark.Messages; i++) SendMessage();
        }

        public override void OnWsReceived(byte[] buffer, long offset, long size)
        {
            _benchmark.Count(size);
            _received += size;
            while (_received >= _sent - (long)(_benchmark.Messages - 1) * _benchmark.Size) SendMessage();
        }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }

        private void SendMessage()
        {
            _sent += _message.Length;
            SendBinaryAsync(_message, 0, _message.Length);
        }
    }
}
