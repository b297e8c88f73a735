using System;
using System.IO;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Echoes received data.
internal static class UdsEchoServer
{
    private static void Main(string[] args)
    {
        string path = new Options(args).Text("path", Path.Combine(Path.GetTempPath(), "echo.sock"));
        Console.WriteLine($"Server path: {path}");
        Console.WriteLine();
        var server = new EchoServer(path);
        Keyboard.Serve(server.Start, server.Restart, server.Stop);
    }

    private class EchoServer : UdsServer
    {
        public EchoServer(string path) : base(path) { }

        protected override UdsSession CreateSession() { return new EchoSession(this); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }

    private class EchoSession : UdsSession
    {
        public EchoSession(UdsServer server) : base(server) { }

        protected override void OnReceived(byte[] buffer, long offset, long size) { SendAsync(buffer, offset, size); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Session caught an error with code {error}");
        }
    }
}
