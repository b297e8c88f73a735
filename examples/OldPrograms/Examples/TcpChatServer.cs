using System;
// uds: using System.IO;
using System.Net; // ip
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A chat: each line is sent to all sessions.
internal static class TcpChatServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 1111; // ip
        Console.WriteLine($"TCP server port: {port}"); // ip
        // uds: string path = args.Length > 0 ? args[0] : Path.Combine(Path.GetTempPath(), "chat.sock");
        // uds: Console.WriteLine($"UDS server path: {path}");
        Console.WriteLine();
        var server = new ChatServer(IPAddress.Any, port); // plain
        // tls: var server = new ChatServer(Certificates.OfServer(), IPAddress.Any, port);
        // uds: var server = new ChatServer(path);
        Keyboard.Serve(server.Start, server.Restart, server.Stop, line => server.Multicast("(admin) " + line));
    }

    private class ChatServer : TcpServer
    {
        public ChatServer(IPAddress address, int port) : base(address, port) { } // plain
        // tls: public ChatServer(SslContext context, IPAddress address, int port) : base(context, address, port) { }
        // uds: public ChatServer(string path) : base(path) { }

        protected override TcpSession CreateSession() { return new ChatSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat TCP server caught an error with code {error}");
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

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            string message = Encoding.UTF8.GetString(buffer, (int)offset, (int)size);
            Console.WriteLine("Incoming: " + message);
            Server.Multicast(message);
            if (message == "!") Disconnect();
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat TCP session caught an error with code {error}");
        }
    }
}
