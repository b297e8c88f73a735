using System;
using System.IO;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// A chat: each line is sent to all sessions.
internal static class UdsChatServer
{
    private static void Main(string[] args)
    {
        string path = args.Length > 0 ? args[0] : Path.Combine(Path.GetTempPath(), "chat.sock");
        Console.WriteLine($"UDS server path: {path}");
        Console.WriteLine();
        var server = new ChatServer(path);
        Keyboard.Serve(server.Start, server.Restart, server.Stop, line => server.Multicast("(admin) " + line));
    }

    private class ChatServer : UdsServer
    {
        public ChatServer(string path) : base(path) { }

        protected override UdsSession CreateSession() { return new ChatSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Chat UDS server caught an error with code {error}");
        }
    }

    private class ChatSession : UdsSession
    {
        public ChatSession(UdsServer server) : base(server) { }

        protected override void OnConnected()
        {
            Console.WriteLine($"Chat UDS session with Id {Id} connected!");
            SendAsync("Hello from UDS chat! Please send a message or '!' to disconnect the client!");
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Chat UDS session with Id {Id} disconnected!");
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
            Console.WriteLine($"Chat UDS session caught an error with code {error}");
        }
    }
}
