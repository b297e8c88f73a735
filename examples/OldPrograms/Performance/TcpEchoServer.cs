using System;
// uds: using System.IO;
using System.Net; // ip
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Echoes received data.
internal static class TcpEchoServer
{
    private static void Main(string[] args)
    {
        int port = new Options(args).Number("port", 1111); // ip
        Console.WriteLine($"Server port: {port}"); // ip
        // uds: string path = new Options(args).Text("path", Path.Combine(Path.GetTempPath(), "echo.sock"));
        // uds: Console.WriteLine($"Server path: {path}");
        Console.WriteLine();
        var server = new EchoServer(IPAddress.Any, port) { OptionNoDelay = true, OptionReuseAddress = true }; // plain
        // tls: var server = new EchoServer(Certificates.OfServer(), IPAddress.Any, port) { OptionNoDelay = true, OptionReuseAddress = true };
        // uds: var server = new EchoServer(path);
        Keyboard.Serve(server.Start, server.Restart, server.Stop);
    }

    private class EchoServer : TcpServer
    {
        public EchoServer(IPAddress address, int port) : base(address, port) { } // plain
        // tls: public EchoServer(SslContext context, IPAddress address, int port) : base(context, address, port) { }
        // uds: public EchoServer(string path) : base(path) { }

        protected override TcpSession CreateSession() { return new EchoSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }

    private class EchoSession : TcpSession
    {
        public EchoSession(TcpServer server) : base(server) { }

        protected override void OnReceived(byte[] buffer, long offset, long size) { SendAsync(buffer, offset, size); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Session caught an error with code {error}");
        }
    }
}
