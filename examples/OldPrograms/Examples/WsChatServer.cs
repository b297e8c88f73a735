using System;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A chat for browsers and clients: each line is sent to all sessions. The pages of a folder are served at /chat.
internal static class WsChatServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 8080;
        string www = args.Length > 1 ? args[1] : "../../../../../www/ws";
        Console.WriteLine($"WebSocket server port: {port}");
        Console.WriteLine($"WebSocket server static content path: {www}");
        Console.WriteLine();
        var server = new ChatServer(/*tls: Certificates.OfServer(), */IPAddress.Any, port);
        server.AddStaticContent(www, "/chat");
        Keyboard.Serve(server.Start, server.Restart, server.Stop, line => server.MulticastText("(admin) " + line));
    }

    private class ChatServer : WsServer
    {
        public ChatServer(/*tls: SslContext context, */IPAddress address, int port) : base(/*tls: context, */address, port) { }

        protected override TcpSession CreateSession() { return new ChatSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat WebSocket server caught an error with code {error}");
        }
    }

    private class ChatSession : WsSession
    {
        public ChatSession(WsServer server) : base(server) { }

        public override void OnWsConnected(HttpRequest request)
        {
            Console.WriteLine($"Chat WebSocket session with Id {Id} connected!");
            SendTextAsync("Hello from WebSocket chat! Please send a message or '!' to disconnect the client!");
        }

        public override void OnWsDisconnected()
        {
            Console.WriteLine($"Chat WebSocket session with Id {Id} disconnected!");
        }

        public override void OnWsReceived(byte[] buffer, long offset, long size)
        {
            string message = Encoding.UTF8.GetString(buffer, (int)offset, (int)size);
            Console.WriteLine("Incoming: " + message);
            ((WsServer)Server).MulticastText(message);
            if (message == "!") Close(1000);
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat WebSocket session caught an error with code {error}");
        }
    }
}
