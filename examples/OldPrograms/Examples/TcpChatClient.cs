using System;
// uds: using System.IO;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;
using TcpClient = NetCoreServer.TcpClient; // plain

namespace OldPrograms.Examples;

/// A client of the chat. When the server disconnects, it reconnects.
internal static class TcpChatClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "127.0.0.1"; // ip
        int port = args.Length > 1 ? int.Parse(args[1]) : 1111; // ip
        Console.WriteLine($"TCP server address: {address}"); // ip
        Console.WriteLine($"TCP server port: {port}"); // ip
        // uds: string path = args.Length > 0 ? args[0] : Path.Combine(Path.GetTempPath(), "chat.sock");
        // uds: Console.WriteLine($"UDS server path: {path}");
        Console.WriteLine();
        var client = new ChatClient(address, port); // plain
        // tls: var client = new ChatClient(Certificates.OfClient(), address, port);
        // uds: var client = new ChatClient(path);
        Lines.Read(() => client.DisconnectAsync(), line => client.SendAsync(line), () => client.ConnectAsync(), client.DisconnectAndStop);
    }

    private class ChatClient : TcpClient
    {
        private bool _stop;

        public ChatClient(string address, int port) : base(address, port) { } // plain
        // tls: public ChatClient(SslContext context, string address, int port) : base(context, address, port) { }
        // uds: public ChatClient(string path) : base(path) { }

        public void DisconnectAndStop()
        {
            _stop = true;
            DisconnectAsync();
            while (IsConnected) Thread.Yield();
        }

        protected override void OnConnected()
        {
            Console.WriteLine($"Chat TCP client connected a new session with Id {Id}");
        }

        // tls: protected override void OnHandshaked()
        // tls: {
        // tls:     Console.WriteLine($"Chat SSL client handshaked a new session with Id {Id}");
        // tls: }
        // tls:
        protected override void OnDisconnected()
        {
            Console.WriteLine($"Chat TCP client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) ConnectAsync();
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat TCP client caught an error with code {error}");
        }
    }
}
