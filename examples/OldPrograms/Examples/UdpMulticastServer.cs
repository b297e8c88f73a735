using System;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Examples;

/// Sends typed lines to a group.
internal static class UdpMulticastServer
{
    private static void Main(string[] args)
    {
        string address = args.Length > 0 ? args[0] : "239.255.0.1";
        int port = args.Length > 1 ? int.Parse(args[1]) : 3334;
        Console.WriteLine($"UDP multicast address: {address}");
        Console.WriteLine($"UDP multicast port: {port}");
        Console.WriteLine();
        var server = new MulticastServer(IPAddress.Any, 0);
        Keyboard.Serve(() => server.Start(address, port), server.Restart, server.Stop, line => server.Multicast("(admin) " + line));
    }

    private class MulticastServer : UdpServer
    {
        public MulticastServer(IPAddress address, int port) : base(address, port) { }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Multicast UDP server caught an error with code {error}");
        }
    }
}
