using System;
using System.Text;
using CSharpServer;
using OldPrograms.Host;

namespace OldPrograms.CSharp.Examples;

/// A chat: each line is sent to all sessions.
internal static class SslChatServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 2222;
        Console.WriteLine($"SSL server port: {port}");
        Asio.Run(service =>
        {
            var server = new ChatServer(service, Contexts.OfServer(), port);
            Keyboard.Serve(server.Start, server.Restart, server.Stop, line => server.Multicast("(admin) " + line));
        });
    }

    private class ChatServer : SslServer
    {
        public ChatServer(Service service, SslContext context, int port) : base(service, context, port, InternetProtocol.IPv4) { }

        protected override SslSession CreateSession() { return new ChatSession(this); }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Chat SSL server caught an error with code {error} and category '{category}': {message}");
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

        protected override void OnReceived(byte[] buffer, long size)
        {
            string message = Encoding.UTF8.GetString(buffer, 0, (int)size);
            Console.WriteLine("Incoming: " + message);
            Server.Multicast(message);
            if (message == "!") DisconnectAsync();
        }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Chat SSL session caught an error with code {error} and category '{category}': {message}");
        }
    }
}
