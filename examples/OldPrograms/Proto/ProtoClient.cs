using System;
using System.Collections.Concurrent;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;
using TcpClient = NetCoreServer.TcpClient;

namespace OldPrograms.Proto;

/// Sends typed lines as requests, and prints the responses.
internal static class ProtoClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "127.0.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 4444;
        Console.WriteLine($"Server address: {address}");
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine();
        var client = new SimpleClient(address, port);
        Console.Write("Client connecting...");
        client.ConnectAsync();
        Console.WriteLine("Done!");
        Console.WriteLine("Press Enter to stop the client or '!' to reconnect the client...");
        while (true)
        {
            string line = Console.ReadLine();
            if (string.IsNullOrEmpty(line)) break;
            if (line == "!")
            {
                Console.Write("Client reconnecting...");
                client.Reconnect();
                Console.WriteLine("Done!");
                continue;
            }

            client.Ask(line);
        }

        Console.Write("Client disconnecting...");
        client.DisconnectAndStop();
        client.Dispose();
        Console.WriteLine("Done!");
    }

    private class SimpleClient : TcpClient
    {
        private readonly MessageReader _reader = new MessageReader();
        private readonly ConcurrentDictionary<Guid, string> _asked = new ConcurrentDictionary<Guid, string>();
        private bool _stop;

        public SimpleClient(string address, int port) : base(address, port) { }

        public void Ask(string text)
        {
            var id = Guid.NewGuid();
            _asked[id] = text;
            if (!SendAsync(new Message { Type = Message.Request, Id = id, Text = text }.Write())) Console.WriteLine("Not connected: the request was not sent");
        }

        public void DisconnectAndStop()
        {
            _stop = true;
            DisconnectAsync();
            while (IsConnected) Thread.Yield();
        }

        public override bool Reconnect()
        {
            _reader.Clear();
            return base.ReconnectAsync();
        }

        protected override void OnConnected()
        {
            Console.WriteLine($"Protocol client connected a new session with Id {Id} to {Socket.RemoteEndPoint}");
            _reader.Clear();
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Protocol client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) ConnectAsync();
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            _reader.Receive(buffer, offset, size, message =>
            {
                if (message.Type == Message.Notify) Console.WriteLine($"Notification: {message.Text}");
                else if (!_asked.TryRemove(message.Id, out string text)) Console.WriteLine("An answer to nothing that was asked");
                else if (message.Type == Message.Reject) Console.WriteLine($"Reject: {message.Text}");
                else Console.WriteLine($"Hash of '{text}' = 0x{message.Hash:X8}");
            });
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Protocol client caught an error with code {error}");
        }

        protected override void Dispose(bool disposingManagedResources)
        {
            _stop = true;
            base.Dispose(disposingManagedResources);
        }
    }
}
