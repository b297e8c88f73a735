using System;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Proto;

/// Responds to requests with length and hash of their text, rejects empty ones, sends a notify first. Typed lines are
/// notifies to all.
internal static class ProtoServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 && int.TryParse(args[0], out int given) ? given : new Options(args).Number("port", 4444);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine();
        var server = new SimpleServer(IPAddress.Any, port);
        Keyboard.Serve(server.Start, server.Restart, server.Stop, line => server.Multicast(new Message { Type = Message.Notify, Text = "(admin) " + line }.Write()));
    }

    private class SimpleServer : TcpServer
    {
        public SimpleServer(IPAddress address, int port) : base(address, port) { }

        protected override TcpSession CreateSession() { return new SimpleSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Protocol server caught an error with code {error}");
        }
    }

    private class SimpleSession : TcpSession
    {
        private readonly MessageReader _reader = new MessageReader();

        public SimpleSession(TcpServer server) : base(server) { }

        protected override void OnConnected()
        {
            Console.WriteLine($"Protocol session with Id {Id} connected from {Socket.RemoteEndPoint}");
            SendAsync(new Message { Type = Message.Notify, Text = "Hello from protocol server! Please send a message or '!' to disconnect the client!" }.Write());
        }

        protected override void OnDisconnected()
        {
            Console.WriteLine($"Protocol session with Id {Id} disconnected!");
        }

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            try
            {
                _reader.Receive(buffer, offset, size, Answer);
            }
            catch (FormatException e)
            {
                Console.WriteLine($"Protocol session with Id {Id}: {e.Message}");
                Disconnect();
            }
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Protocol session caught an error with code {error}");
        }

        private void Answer(Message request)
        {
            if (request.Type == Message.Disconnect) Disconnect();
            else if (request.Type != Message.Request || request.Text.Length == 0) SendAsync(new Message { Type = Message.Reject, Id = request.Id, Text = "Request message is empty!" }.Write());
            else SendAsync(new Message { Type = Message.Response, Id = request.Id, Length = (uint)request.Text.Length, Hash = Message.HashOf(request.Text) }.Write());
        }
    }
}
