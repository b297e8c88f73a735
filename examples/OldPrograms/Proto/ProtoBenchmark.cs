using System;
using System.Collections.Generic;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;
using TcpClient = NetCoreServer.TcpClient;

namespace OldPrograms.Proto;

/// The performance client of the protocol: a window of requests with 32 letters on each connection.
internal static class ProtoBenchmark
{
    private static Benchmark _benchmark;
    private static string _text;

    private static void Main(string[] args)
    {
        _benchmark = new Benchmark(args, 4444, 1000, 32);
        _text = new string('x', _benchmark.Size);
        var clients = new List<AskingClient>();
        for (int i = 0; i < _benchmark.Clients; i++) clients.Add(new AskingClient(_benchmark.Address, _benchmark.Port) { OptionNoDelay = true });
        _benchmark.Run(clients, c => c.ConnectAsync(), c => c.IsConnected, c => c.DisconnectAsync(), c => c.IsConnected);
    }

    private class AskingClient : TcpClient
    {
        private readonly MessageReader _reader = new MessageReader();

        public AskingClient(string address, int port) : base(address, port) { }

        protected override void OnConnected()
        {
            for (int i = 0; i < _benchmark.Messages; i++) SendMessage();
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            _reader.Receive(buffer, offset, size, message =>
            {
                if (message.Type == Message.Notify) return;
                if (message.Type != Message.Response) Interlocked.Increment(ref _benchmark.TotalErrors);
                Interlocked.Increment(ref _benchmark.TotalMessages);
                _benchmark.Count(_benchmark.Size);
                SendMessage();
            });
        }

        protected override void OnError(SocketError error)
        {
            Interlocked.Increment(ref _benchmark.TotalErrors);
        }

        private void SendMessage() { SendAsync(new Message { Type = Message.Request, Id = Guid.NewGuid(), Text = _text }.Write()); }
    }
}
