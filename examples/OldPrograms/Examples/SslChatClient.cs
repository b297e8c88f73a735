using System;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A client of the chat. When the server disconnects, it reconnects.
internal static class SslChatClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "127.0.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 2222;
        Console.WriteLine($"SSL server address: {address}");
        Console.WriteLine($"SSL server port: {port}");
        Console.WriteLine();
        var client = new ChatClient(Certificates.OfClient(), address, port);
        Lines.Read(() => client.DisconnectAsync(), line => client.SendAsync(line), () => client.ConnectAsync(), client.DisconnectAndStop);
    }

    private class ChatClient : SslClient
    {
        private bool _stop;

        public ChatClient(SslContext context, string address, int port) : base(context, address, port) { }

        public void DisconnectAndStop()
        {
            _stop = true;
            DisconnectAsync();
            while (IsConnected) Thread.Yield();
        }

        protected override void OnConnected()
        {
            Console.WriteLine($"Chat SSL client connected a new session with Id {Id}");
        }

        protected override void OnHandshaked()
        {
            Console.WriteLine($"Chat SSL client handshaked a new session with Id {Id}");
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Chat SSL client disconnected a session with Id {Id}");
            Thread.Sleep(1000);
            if (!_stop) ConnectAsync();
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat SSL client caught an error with code {error}");
        }
    }
}
