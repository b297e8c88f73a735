using System;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A chat: each line is sent to all sessions.
internal static class SslChatServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 2222;
        Console.WriteLine($"SSL server port: {port}");
        Console.WriteLine();
        var server = new ChatServer(Certificates.OfServer(), IPAddress.Any, port);
        Keyboard.Serve(server.Start, server.Restart, server.Stop, line => server.Multicast("(admin) " + line));
    }

    private class ChatServer : SslServer
    {
        public ChatServer(SslContext context, IPAddress address, int port) : base(context, address, port) { }

        protected override SslSession CreateSession() { return new ChatSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat SSL server caught an error with code {error}");
        }
    }

    private class ChatSession : SslSession
    {
        public ChatSession(SslServer server) : base(server) { }

        protected override void OnConnected()
        {
            Console.WriteLine($"Chat SSL session with Id {Id} connected!");
        }

        protected override void OnHandshaked()
        {
            Console.WriteLine($"Chat SSL session with Id {Id} handshaked!");
            SendAsync("Hello from SSL chat! Please send a message or '!' to disconnect the client!");
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Chat SSL session with Id {Id} disconnected!");
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            string message = Encoding.UTF8.GetString(buffer, (int)offset, (int)size);
            Console.WriteLine("Incoming: " + message);
            Server.Multicast(message);
            if (message == "!") Disconnect();
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat SSL session caught an error with code {error}");
        }
    }
}
