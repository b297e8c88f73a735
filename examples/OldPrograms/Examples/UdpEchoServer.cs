using System;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// Sends each datagram back to its sender.
internal static class UdpEchoServer
{
    private static void Main(string[] args)
    {
        int port = args.Length > 0 ? int.Parse(args[0]) : 3333;
        Console.WriteLine($"UDP server port: {port}");
        Console.WriteLine();
        var server = new EchoServer(IPAddress.Any, port);
        Keyboard.Serve(server.Start, server.Restart, server.Stop);
    }

    private class EchoServer : UdpServer
    {
        public EchoServer(IPAddress address, int port) : base(address, port) { }

        protected override void OnStarted() { ReceiveAsync(); }

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            Console.WriteLine("Incoming: " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
            SendAsync(endpoint, buffer, 0, size);
        }

        protected override void OnSent(EndPoint endpoint, long sent) { ReceiveAsync(); }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Echo UDP server caught an error with code {error}");
        }
    }
}
