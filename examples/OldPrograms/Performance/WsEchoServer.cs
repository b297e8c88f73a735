using System;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Echoes every message.
internal static class WsEchoServer
{
    private static void Main(string[] args)
    {
        int port = new Options(args).Number("port", 8080);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine();
        var server = new EchoServer(/*tls: Certificates.OfServer(), */IPAddress.Any, port) { OptionNoDelay = true, OptionReuseAddress = true };
        Keyboard.Serve(server.Start, server.Restart, server.Stop);
    }

    private class EchoServer : WsServer
    {
        public EchoServer(/*tls: SslContext context, */IPAddress address, int port) : base(/*tls: context, */address, port) { }

        protected override TcpSession CreateSession() { return new EchoSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }

    private class EchoSession : WsSession
    {
        public EchoSession(WsServer server) : base(server) { }

        public override void OnWsReceived(byte[] buffer, long offset, long size)
        {
            SendBinaryAsync(buffer, offset, size);
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Session caught an error with code {error}");
        }
    }
}
