using System;
using System.Text;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Examples;

/// A chat: each line is sent to all sessions.
internal static class TcpChatServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 1111;
        Console.WriteLine($"TCP server port: {port}");
        Asio.Run(service =>
        {
            var server = new ChatServer(service, port); // plain
            // tls: var server = new ChatServer(service, Contexts.OfServer(), port);
            Keyboard.Serve(server.Start, server.Restart, server.Stop, line => server.Multicast("(admin) " + line));
        });
    }

    private class ChatServer : TcpServer
    {
        public ChatServer(Service service, int port) : base(service, port, InternetProtocol.IPv4) { } // plain
        // tls: public ChatServer(Service service, SslContext context, int port) : base(service, context, port, InternetProtocol.IPv4) { }

        protected override TcpSession CreateSession() { return new ChatSession(this); }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Chat TCP server caught an error with code {error} and category '{category}': {message}");
        }
    }

    private class ChatSession : TcpSession
    {
        public ChatSession(TcpServer server) : base(server) { }

        protected override void OnConnected()
        {
            Console.WriteLine($"Chat TCP session with Id {Id} connected!");
        // tls: }
        // tls:
        // tls: protected override void OnHandshaked()
        // tls: {
        // tls:     Console.WriteLine($"Chat SSL session with Id {Id} handshaked!");
            SendAsync("Hello from TCP chat! Please send a message or '!' to disconnect the client!");
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Chat TCP session with Id {Id} disconnected!");
        }

        protected override void OnReceived(byte[] buffer, long size)
        {
            string message = Encoding.UTF8.GetString(buffer, 0, (int)size);
            Console.WriteLine("Incoming: " + message);
            Server.Multicast(message);
            if (message == "!") DisconnectAsync();
        }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Chat TCP session caught an error with code {error} and category '{category}': {message}");
        }
    }
}
