using System;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using OldPrograms.Host;

namespace OldPrograms.Performance;

/// Sends a datagram to a group, a given number of times per second.
internal static class UdpMulticastServer
{
    private static void Main(string[] args)
    {
        var options = new Options(args);
        string address = options.Text("address", "239.255.0.1");
        int port = options.Number("port", 3333), rate = options.Number("messages", 1_000_000), size = options.Number("size", 32);
        Console.WriteLine($"Multicast address: {address}");
        Console.WriteLine($"Multicast port: {port}");
        Console.WriteLine($"Messages rate: {rate}");
        Console.WriteLine($"Message size: {size}");
        Console.WriteLine();
        var server = new MulticastServer(IPAddress.Any, 0) { OptionReuseAddress = true };
        byte[] message = new byte[size];
        var ticker = new Ticker(rate, () => server.Multicast(message, 0, message.Length));
        Keyboard.Serve(() => server.Start(address, port) && ticker.Start(), server.Restart, () => ticker.Stop() && server.Stop());
    }

    private class MulticastServer : UdpServer
    {
        public MulticastServer(IPAddress address, int port) : base(address, port) { }

        protected override void OnError(SocketError error)
        {
            Console.WriteLine($"Server caught an error with code {error}");
        }
    }
}
