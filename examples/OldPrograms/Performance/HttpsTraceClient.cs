using System.Collections.Generic;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Keeps some TRACE requests pending on each connection, and counts responses.
internal static class HttpsTraceClient
{
    private static Benchmark _benchmark;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 8080, 1, 32);
        var clients = new List<TraceClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new TraceClient(Certificates.OfClient(), _benchmark.Address, _benchmark.Port));
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected && c.IsHandshaked, c => c.DisconnectAsync(), c => c.IsConnected);
    }

    private class TraceClient : HttpsClient
    {
        public TraceClient(SslContext context, string address, int port) : base(context, address, port)
        {
            Request.SetBegin("TRACE", "/");
            Request.SetBody();
        }

        private void SendMessage() { SendRequestAsync(); }

        protected override void OnHandshaked()
        {
            for (int i = 0; i < _benchmark.Messages; i++) SendMessage();
        }

        protected override void OnReceivedResponse(HttpResponse response)
        {
            if (response.Status == 200) Interlocked.Increment(ref _benchmark.TotalMessages);
            else Interlocked.Increment(ref _benchmark.TotalErrors);
            _benchmark.Count(response.Cache.Size);
            SendMessage();
        }

        protected override void OnReceivedResponseError(HttpResponse response, string error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }
    }
}
