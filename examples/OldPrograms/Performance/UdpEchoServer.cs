using System;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Echoes each datagram, and receives the next on a pool thread.
internal static class UdpEchoServer
{
    private static void Main(string[] args)
    {
        int port = new Options(args).Number("port", 3333);
        Console.WriteLine($"Server port: {port}");
        Console.WriteLine();
        var server = new EchoServer(IPAddress.Any, port) { OptionReuseAddress = true };
        Keyboard.Serve(server.Start, server.Restart, server.Stop);
    }

    private class EchoServer : UdpServer
    {
        public EchoServer(IPAddress address, int port) : base(address, port) { }

        protected override void OnStarted() { ReceiveAsync(); }

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            Send(endpoint, buffer, offset, size);
            ThreadPool.QueueUserWorkItem(_ => ReceiveAsync());
        }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }
}
