using System;
using System.Text;
using System.Threading;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Examples;

/// A client of the chat. When the server disconnects, it reconnects.
internal static class TcpChatClient
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "127.0.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 1111;
        Console.WriteLine($"TCP server address: {address}");
        Console.WriteLine($"TCP server port: {port}");
        Asio.Run(service =>
        {
            var client = new ChatClient(service, address, port); // plain
            // tls: var client = new ChatClient(service, Contexts.OfClient(), address, port);
            Lines.Read(() => client.DisconnectAsync(), line => client.SendAsync(line), () => client.ConnectAsync(), client.DisconnectAndStop);
        });
    }

    private class ChatClient : TcpClient
    {
        private bool _stop;

        public ChatClient(Service service, string address, int port) : base(service, address, port) { } // plain
        // tls: public ChatClient(Service service, SslContext context, string address, int port) : base(service, context, address, port) { }

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

        protected override void OnReceived(byte[] buffer, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, 0, (int)size));
        }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Chat TCP client caught an error with code {error} and category '{category}': {message}");
        }
    }
}
